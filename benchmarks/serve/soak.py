"""50,000 jobs through a service on a virtual clock: does memory stay flat, and are decisions as fast at the end?

    python benchmarks/serve/soak.py [--jobs 50000] [--load 0.5]

A real server; one client with a few connections keeps the clock in step with the work asked for. Every tenth of the way
the server's memory, the CPU it took for a submission and the median answer are printed, then how the last two tenths
compare with the second and third (the first warms up). At the end the log is verified.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from submissions import GPUS, MACHINES, Wire, at, gpu_slots, job, serve

CONNECTIONS, PARTS = 4, 10


def feed(port: int, first: int, count: int, load: float, seed: int) -> list[float]:
    """Submit jobs first..first+count-1 and move the clock as their work is asked for."""
    times: list[float] = []
    asked, lock, numbers = [0.0], threading.Lock(), iter(range(first, first + count))

    def one() -> None:
        wire = Wire(port)
        while True:
            with lock:
                k = next(numbers, None)
            if k is None:
                return
            body = job(random.Random(seed * 10**7 + k), f"job {k}")
            began = time.perf_counter()
            wire.ask("POST", "/v1/jobs", body, f"{seed}-{k}")
            took = time.perf_counter() - began
            with lock:
                times.append(took)
                asked[0] += gpu_slots(body)
                advance, asked[0] = divmod(asked[0], load * MACHINES * GPUS)
            if advance:
                wire.ask("POST", "/v1/clock", {"advance": int(advance)})

    threads = [threading.Thread(target=one) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=50_000)
    options.add_argument("--load", type=float, default=0.5)
    chosen = options.parse_args()
    rows: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, port = serve(folder, "sqlite:///soak.db")
        try:
            process, part = psutil.Process(server.pid), chosen.jobs // PARTS
            for k in range(PARTS):
                before = process.cpu_times()
                times = feed(port, k * part, part, chosen.load, 1)
                after = process.cpu_times()
                cpu = 1000 * (after.user + after.system - before.user - before.system) / part
                rows.append((process.memory_info().rss / 2**20, cpu, at(times, 50)))
                status = Wire(port).ask("GET", "/v1/status")
                far = f"slot {status['now']}, {status['jobs']}"
                tail = f"answer p50 {rows[-1][2]:5.1f} p99 {at(times, 99):6.1f} ms, {far}"
                print(
                    f"{(k + 1) * part:7,} jobs: {rows[-1][0]:6.0f} MiB, {cpu:5.2f} ms CPU a submission, {tail}",
                    flush=True,
                )
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        early, late = rows[1:3], rows[-2:]
        for name, column, digits in (("memory", 0, 0), ("CPU a submission", 1, 2)):
            a, b = (sum(row[column] for row in part) / len(part) for part in (early, late))
            print(f"{name}: {a:.{digits}f} early, {b:.{digits}f} late: x {b / a:.2f}")
        began = time.perf_counter()
        verified = subprocess.run(
            [sys.executable, "-m", "equipoise", "serve", "--verify-log", "--store", "sqlite:///soak.db"], cwd=folder
        )
        size = (folder / "soak.db").stat().st_size / 2**20
        print(
            f"verify-log: exit {verified.returncode} in {time.perf_counter() - began:.0f} s; the store is {size:.0f} MiB"
        )


if __name__ == "__main__":
    main()
