"""Submissions a second of a service with 8 clients, 100 machines and half load; and whether reads wait for them.

    python benchmarks/serve/submissions.py [--store URL] [--seconds 20] [--clients 8]

A real server in a process of its own, clients in another: each submits, waits for the answer, submits again. The virtual
clock is moved so that what is asked for stays near half of what the machines have. A reader lists jobs, asks for one job
and for the schedule all the while; its times are taken with and without the load. Everything runs on one machine: clients
take part of the CPU they measure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

MACHINES, GPUS, SLOT = 100, 8, 600
CLUSTER = f"machines:\n- {{name: gpu, count: {MACHINES}, capacity: {{gpu: {GPUS}, cpu: 96, memory: 768Gi}}}}\n"


def job(rng: random.Random, name: str) -> dict[str, object]:
    """Most jobs are small and short, some wide and long; half an elastic parameter-server or all-reduce job."""
    workers, hours = rng.choice([1, 1, 1, 2, 2, 4, 8]), min(24.0, rng.lognormvariate(0.3, 1.0))
    worker = {"gpu": 1, "cpu": 4, "memory": "16Gi"}
    value = round(rng.uniform(1, 10) * workers * hours, 3)
    if rng.random() < 0.5:
        return {
            "name": name,
            "worker": worker,
            "workers": workers,
            "duration": f"{max(60, int(hours * 3600))}s",
            "utility": {"kind": "sigmoid", "value": value, "steepness": 0.2, "middle": 60},
        }
    return {
        "name": name,
        "worker": worker,
        "work": max(1000.0, hours * 3600 * workers / 0.02),
        "batch": 64 * workers,
        "time_per_sample": "20ms",
        "gradient": "100MB",
        "requested": workers,
        "most": 2 * workers,
        "utility": {"kind": "sigmoid", "value": value, "steepness": 0.2, "middle": 60},
    }


def gpu_slots(body: dict[str, object]) -> float:
    """GPU-slots a job needs."""
    if "duration" in body:
        return int(body["workers"]) * float(str(body["duration"])[:-1]) / SLOT  # type: ignore[call-overload]
    return float(body["work"]) * 0.02 / SLOT  # type: ignore[arg-type]


class Wire:
    """One kept-alive connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: object = None, key: str = "") -> dict[str, object]:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:200]!r}")
        return json.loads(text)


class Bare:
    """One kept-alive connection that does the least: on a small machine clients take the CPU they want to measure."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def submit(self, request: bytes) -> bytes:
        """The body of the answer, which must be 201."""
        self.socket.sendall(request)
        read = self.socket.recv(65536)
        while (end := read.find(b"\r\n\r\n")) < 0:
            read += self.socket.recv(65536)
        head = read[:end].lower()
        size = int(head[head.index(b"content-length:") + 15 :].split(b"\r\n", 1)[0])
        while len(read) < end + 4 + size:
            read += self.socket.recv(65536)
        if b" 201 " not in head[:20]:
            raise RuntimeError(read[:300])
        return read[end + 4 :]


def request_of(body: dict[str, object], key: str) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def clients(port: int, count: int, seconds: float, seed: int, load: float, out: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    """`count` clients, a thread each; whoever has asked for the last of a slot's work at this load moves the clock."""
    times: list[list[float]] = [[] for _ in range(count)]
    states: dict[str, int] = {}
    asked, lock = [0.0], threading.Lock()
    per_slot = load * MACHINES * GPUS
    most = int(1000 * seconds / count)  # requests that one client could send
    made = [
        [job(random.Random(seed * 10**6 + c * 10**4 + k), f"job {c}-{k}") for k in range(most)] for c in range(count)
    ]
    ready = [
        [(request_of(body, f"{seed}-{c}-{k}"), gpu_slots(body)) for k, body in enumerate(made[c])] for c in range(count)
    ]
    until = time.perf_counter() + seconds

    def one(c: int) -> None:
        wire, bare = Wire(port), Bare(port)
        for request, amount in ready[c]:
            began = time.perf_counter()
            if began >= until:
                return
            answer = bare.submit(request)
            times[c].append(time.perf_counter() - began)
            state = answer.split(b'"state":"', 1)[1].split(b'"', 1)[0].decode()
            with lock:
                states[state] = states.get(state, 0) + 1
                asked[0] += amount
                advance, asked[0] = divmod(asked[0], per_slot)
            if advance:
                wire.ask("POST", "/v1/clock", {"advance": int(advance)})

    threads = [threading.Thread(target=one, args=(c,)) for c in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out.put((sorted(t for own in times for t in own), time.perf_counter() - began, states))


def reads(port: int, seconds: float) -> dict[str, list[float]]:
    """A list, a job, the schedule and the status, over and over, with a pause: a dashboard."""
    wire, times = Wire(port), {"jobs": [], "job": [], "schedule": [], "status": []}  # type: ignore[var-annotated]
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        listed = wire.ask("GET", "/v1/jobs?limit=50")["jobs"]
        paths = {"jobs": "/v1/jobs?limit=50", "schedule": "/v1/schedule", "status": "/v1/status"}
        if listed:
            paths["job"] = f"/v1/jobs/{listed[0]['id']}"  # type: ignore[index]
        for name, path in paths.items():
            began = time.perf_counter()
            wire.ask("GET", path)
            times[name].append(time.perf_counter() - began)
            time.sleep(0.05)
    return {name: sorted(found) for name, found in times.items()}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def serve(folder: Path, store: str, *more: str) -> tuple[subprocess.Popen[bytes], int]:
    """A server of its own process, once it answers."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "equipoise",
        "serve",
        "--store",
        store,
        "--cluster",
        str(folder / "cluster.yaml"),
        "--clock",
        "virtual",
        "--slot",
        f"{SLOT}s",
        "--horizon",
        "288",
        "--port",
        str(port),
        "--rate",
        "0",
        "--log-level",
        "warning",
        *more,
    ]
    server = subprocess.Popen(command, cwd=folder)
    until = time.monotonic() + 300
    while True:
        try:
            Wire(port).ask("GET", "/health")
            return server, port
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the server did not start") from None
            time.sleep(0.1)


def commit_times(port: int) -> str:
    """How many transactions there were, and how long they took, from the server's own metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    found = {
        k: float(v)
        for k, _, v in (line.rpartition(" ") for line in lines if line.startswith("equipoise_commit_seconds"))
    }
    count, total = found["equipoise_commit_seconds_count"], found["equipoise_commit_seconds_sum"]
    slow = count - found['equipoise_commit_seconds_bucket{le="0.02"}']
    return f"{count:,.0f} in all, mean {1000 * total / count:.2f} ms, {slow:,.0f} over 20 ms"


def at(times: list[float], percent: float) -> float:
    return 1000 * times[min(len(times) - 1, int(len(times) * percent / 100))] if times else float("nan")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--store", default="", help="default: SQLite in a temporary folder")
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--load", type=float, default=0.5, help="of the machines' GPUs")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, port = serve(folder, chosen.store or "sqlite:///bench.db")
        try:
            spawn = multiprocessing.get_context("spawn")
            out = spawn.Queue()
            warm = spawn.Process(target=clients, args=(port, chosen.clients, 5.0, 1, chosen.load, out))
            warm.start()
            out.get()
            warm.join()
            idle = reads(port, 4.0)
            process = psutil.Process(server.pid)
            before = process.cpu_times()
            load = spawn.Process(target=clients, args=(port, chosen.clients, chosen.seconds, 2, chosen.load, out))
            load.start()
            time.sleep(0.5)
            busy = reads(port, chosen.seconds - 2)
            times, took, states = out.get()
            load.join()
            after = process.cpu_times()
            status = Wire(port).ask("GET", "/v1/status")
            commits = commit_times(port)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
        about = f"{os.cpu_count()} cores, {MACHINES} machines, {chosen.clients} clients"
        print(f"{about}, store {status['store']}, load {chosen.load:g}")
        print(f"submissions: {len(times) / took:,.0f} a second over {took:.0f} s; {states}")
        print("answer: " + ", ".join(f"p{p:g} {at(times, p):.1f} ms" for p in (50, 90, 99, 99.9)))
        spent = after.user + after.system - before.user - before.system
        print(f"server CPU: {1000 * spent / len(times):.2f} ms a submission, reads included; {spent / took:.2f} cores")
        print(f"transactions: {commits}")
        for name in busy:
            p50, p99 = (f"p{p} {at(idle[name], p):5.1f} ms idle, {at(busy[name], p):5.1f} loaded" for p in (50, 99))
            print(f"read {name:9} {p50}; {p99} ({len(busy[name])} reads)")


if __name__ == "__main__":
    main()
