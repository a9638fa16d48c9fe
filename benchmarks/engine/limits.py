"""How well a process is held: asked against got for every kind that works here, what it costs, and what kills leave behind.

python benchmarks/engine/limits.py               0.1, 0.3, 0.5, 0.8 over 10 s, free and beside four busy processes (3 min)
python benchmarks/engine/limits.py --quick       the same over 2 s
python benchmarks/engine/limits.py --periods     which period of the quota is exact, for shares of 0.02 to 0.8
python benchmarks/engine/limits.py --many 24     the guardian's own CPU with so many held at once
python benchmarks/engine/limits.py --kills 200   random changes and kills: nothing stopped, no group left
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from equipoise.engine.cpu_limit import available, cgroup1, groups, limiter
from equipoise.engine.cpu_limit.process_tree import cpu_seconds, facts, tree
from equipoise.engine.doctor import SPIN, busy_tree, end, measure, start_python

SHARES = (0.1, 0.3, 0.5, 0.8)
ABOVE = BELOW = 0.03  # cores; what the limiter must keep to
PATIENCE = 5.0  # seconds until all must be clean after a kill


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many busy processes beside."""
    started = [start_python(SPIN + "spin()", subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            end(process)


def table(kinds: list[str], seconds: float, repeats: int) -> bool:
    """Asked and got, in cores; a shortfall counts only where a core was idle, or under a quota."""
    print("kind     beside  asked   got (worst of repeats)    idle  guardian")
    fine = True
    for kind in kinds:
        for count in (0, 4):
            with limiter(kind) as cpu, neighbours(count):
                for share in SHARES:
                    rows = [measure(cpu, share, seconds) for _ in range(repeats)]
                    most, least = max(row.got for row in rows), min(row.got for row in rows)
                    free = statistics.mean(row.idle for row in rows)
                    due = free > 0.1 or kind not in ("stop", "none")
                    verdict = "above!" if most > share + ABOVE else "below!" if due and least < share - BELOW else "ok"
                    fine &= verdict == "ok" or kind == "none"
                    cost = max(row.guardian for row in rows)
                    print(
                        f"{kind:8} {count:6} {share:6.2f}  {least:6.4f} to {most:6.4f}  {verdict:6} {free:7.2f} {cost:9.4f}"
                    )
    return fine


def periods(seconds: float) -> None:
    """The greatest error of a quota of cgroup v1 by its period."""
    for period in (0.1, 0.05, 0.02, 0.01):
        groups.PERIOD = period
        with limiter("cgroup1") as cpu:
            rows = [measure(cpu, share, seconds) for share in (0.02, 0.05, *SHARES)]
        print(f"{1e3 * period:4.0f} ms: " + ", ".join(f"{row.asked:g} got {row.got:.4f}" for row in rows))


def many(kinds: list[str], count: int, seconds: float) -> None:
    """CPU of the guardian, in cores, while it holds `count` busy trees that share the machine equally."""
    share = (os.cpu_count() or 1) / count
    for kind in kinds:
        with limiter(kind) as cpu, contextlib.ExitStack() as stack:
            held = [cpu.hold(stack.enter_context(busy_tree())[0], share) for _ in range(count)]
            guard = getattr(cpu, "guard", None)
            before = cpu_seconds(guard.pid) if guard else 0.0
            time.sleep(seconds)
            cost = ((cpu_seconds(guard.pid) or 0.0) - (before or 0.0)) / seconds if guard else 0.0
            got = [one.usage().share for one in held]
        print(
            f"{kind}: {count} trees of 3 at {share:.3f}: guardian {cost:.4f} cores, got {min(got):.3f} to {max(got):.3f}"
        )


class Owner:
    """An owner in its own process, that holds some busy trees and does as it is told."""

    def __init__(self, kind: str, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--owner", kind, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pids = [int(pid) for pid in self.line().split()]
        self.every = {each for pid in self.pids for each in tree(pid)}
        self.prefix = groups.prefix(self.process.pid)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def say(self, words: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.line()

    def left(self) -> list[str]:
        """What is stopped, and what groups there are."""
        stopped = [f"pid {pid}" for pid in self.every if (now := facts(pid)) is not None and now.state == "T"]
        bases = {base for base in (cgroup1.folder("cpu"), cgroup1.folder("cpuacct")) if base is not None}
        return stopped + [group for base in bases for group in groups.made_by(base, self.prefix)]

    def end(self) -> None:
        for pid in self.every:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def serve_owner(kind: str, count: int) -> None:
    """The owner's side: hold, then obey lines until the end."""
    with contextlib.ExitStack() as stack:
        cpu = stack.enter_context(limiter(kind))
        pids = [stack.enter_context(busy_tree())[0] for _ in range(count)]
        held = [cpu.hold(pid, 0.05) for pid in pids]
        print(*pids, flush=True)
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "set":
                held[int(rest[0])].set(float(rest[1]))
            elif word == "release":
                for one in held:
                    one.release()
            print(cpu.guard.pid, flush=True)  # type: ignore[attr-defined]


def kills(kind: str, count: int, seed: int) -> bool:
    """Random changes and kills; True when nothing stopped and no group was left after any of them."""
    draw = random.Random(seed)
    done: dict[str, int] = {}
    bad: list[str] = []
    owner = Owner(kind, 2)
    for _ in range(count):
        act = draw.choices(
            ("change", "pause", "process", "child", "guardian", "owner", "both", "release"), (8, 2, 2, 2, 3, 3, 2, 1)
        )[0]
        done[act] = done.get(act, 0) + 1
        k = draw.randrange(len(owner.pids))
        guardian = int(owner.say(f"set {k} {draw.uniform(0.02, 0.3)}"))
        time.sleep(draw.uniform(0.0, 0.05))
        if act == "pause":
            owner.say(f"set {k} 0")
        elif act in ("process", "child"):
            victims = tree(owner.pids[k])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victims[0 if act == "process" else -1], signal.SIGKILL)
        elif act in ("guardian", "both"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(guardian, signal.SIGKILL)
            time.sleep(draw.choice((0.0, 0.01, 0.05)))
        if act == "release":
            owner.say("release")
        if act in ("owner", "both"):
            owner.process.kill()
            owner.process.wait()
        if act in ("owner", "both", "release"):
            until = time.monotonic() + PATIENCE
            while (left := owner.left()) and time.monotonic() < until:
                time.sleep(0.02)
            time.sleep(0.1)
            bad += [f"after {act}: {what}" for what in left or owner.left()]
            owner.end()
            owner = Owner(kind, 2)
    owner.process.stdin.close()  # type: ignore[union-attr]
    owner.process.wait()
    bad += owner.left()
    owner.end()
    print(f"{kind}: {count} actions, seed {seed}: {', '.join(f'{n} {act}' for act, n in sorted(done.items()))}")
    print(f"{kind}: left behind: {', '.join(bad) or 'nothing'}", flush=True)
    return not bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--quick", action="store_true", help="2 s for each share")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--periods", action="store_true")
    parser.add_argument("--many", type=int, metavar="COUNT")
    parser.add_argument("--kills", type=int, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--owner", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.owner:
        serve_owner(given.owner[0], int(given.owner[1]))
        return
    here = [one.kind for one in available() if one.works and one.kind != "none"]
    kinds = [given.kind] if given.kind else here
    seconds = 2.0 if given.quick else 10.0
    fine = True
    if given.periods:
        periods(seconds)
    elif given.many:
        many(kinds, given.many, seconds)
    elif given.kills:
        fine = min(kills(kind, given.kills, given.seed) for kind in kinds)  # all of them, whatever the first says
    else:
        fine = table(kinds, seconds, given.repeats)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
