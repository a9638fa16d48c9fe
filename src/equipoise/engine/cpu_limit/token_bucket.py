"""One tree of processes, held to a share by stopping and continuing it: a token bucket over its CPU clocks."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping

from equipoise.engine.cpu_limit.process_tree import Facts, Process, cpu_seconds

STEP_SECONDS = 0.01  # how often a running tree is looked at
MANY_CORES = 4.0  # a tree that uses more is looked at more often, for it overruns more in a step
LOOK_SECONDS = 0.1  # how often a stopped one is
CAP_SECONDS = 0.1  # the bucket holds this long at the share: what was missed beyond that is not repaid
START_SECONDS = 0.01  # a stopped tree is continued when the bucket holds this long at the share


class Bucket:
    """Tokens are CPU seconds: they flow in at `share` a second up to a small cap, and the tree's CPU takes them out."""

    def __init__(self, pid: int, start: int, share: float, again: bool = False) -> None:
        self.again = again  # another guardian held it before and may have left it stopped
        self.root, self.root_start, self.share = pid, start, share
        self.members: dict[int, Process] = {}
        self.clock: dict[int, float] = {}  # CPU seconds of each member at the last look
        self.children: dict[int, float] = {}  # what each member's collected children had used at the last scan
        self.seen = 0.0  # CPU used by members since the hold
        self.collected, self.ended = 0.0, 0.0  # by children as their parents tell it; by members that ended, as seen
        self.used = self.charged = 0.0  # CPU seconds since the hold; those that were taken out of the bucket
        self.tokens, self.stopped = 0.0, False
        self.rate = 0.0  # cores it used when it last ran
        self.then = self.due = time.monotonic()
        self.found_once = False

    def set(self, share: float) -> None:
        """A new share from now on; what is owed stays owed, what was saved stays within the new cap."""
        now = time.monotonic()
        self.refill(now)
        self.share, self.due = share, now
        self.tokens = min(self.tokens, self.cap())

    def refill(self, now: float) -> None:
        self.tokens = min(self.tokens + self.share * (now - self.then), self.cap())
        self.then = now

    def cap(self) -> float:
        return self.share * CAP_SECONDS

    def count(self) -> None:
        """Bring `used` up to now."""
        for pid, last in self.clock.items():
            now = cpu_seconds(pid)
            if now is not None and now > last:
                self.seen += now - last
                self.clock[pid] = now
        self.used = max(self.used, self.seen + max(0.0, self.collected - self.ended))

    def step(self, now: float) -> None:
        """Refill, take out what was used, and stop or continue."""
        wall = now - self.then
        self.refill(now)
        self.count()
        used, self.charged = self.used - self.charged, self.used
        if not self.stopped and wall > 0:
            self.rate = used / wall
        self.tokens -= used
        if self.share <= 0 or self.tokens < 0:
            if not self.stopped or used > 0:
                self.send(signal.SIGSTOP)
            self.stopped = True
        elif self.stopped and self.tokens >= self.share * START_SECONDS:
            self.send(signal.SIGCONT)
            self.stopped = False
        if not self.stopped:
            self.due = now + max(STEP_SECONDS * min(1.0, MANY_CORES / max(self.rate, 1.0)), 0.001)
        elif self.share <= 0:
            self.due = now + LOOK_SECONDS
        else:
            self.due = now + min(max(START_SECONDS - self.tokens / self.share, 0.001), LOOK_SECONDS)

    def send(self, number: int) -> None:
        """To every member, parents first, so that none sees its child stop and starts another."""
        for process in self.members.values():
            process.signal(number)

    def release(self) -> None:
        """Continue everything and let go."""
        self.count()
        self.send(signal.SIGCONT)  # only members were ever stopped
        for process in self.members.values():
            process.close()
        self.members, self.clock = {}, {}

    @staticmethod
    def find(buckets: Iterable[Bucket], now: Mapping[int, Facts]) -> None:
        """Look once through all processes for all buckets: members that ended leave, children that were born join."""
        children: dict[int, list[int]] = {}
        for pid, fact in now.items():
            children.setdefault(fact.parent, []).append(pid)
        held = {bucket.root: bucket for bucket in buckets}
        for bucket in held.values():
            for pid, process in list(bucket.members.items()):
                if pid not in now or now[pid].start != process.start:
                    bucket.leave(pid)
            root = now.get(bucket.root)
            front = list(bucket.members)
            if bucket.root not in bucket.members and root is not None and root.start == bucket.root_start:
                bucket.join(bucket.root, root.start, root.children_seconds)
                front.append(bucket.root)
            while front:
                for child in children.get(front.pop(), ()):
                    if child not in bucket.members and child not in held:
                        bucket.join(child, now[child].start, now[child].children_seconds)
                        front.append(child)
            for pid in bucket.members:
                if pid in now:
                    told = now[pid].children_seconds
                    bucket.collected += told - bucket.children[pid]
                    bucket.children[pid] = told
            bucket.found_once, bucket.again = True, False

    def join(self, pid: int, start: int, children_seconds: float) -> None:
        """A process that was there at the hold counts from now; one born later counts from its birth."""
        process = Process(pid, start)
        self.members[pid] = process
        late = self.found_once
        self.clock[pid] = 0.0 if late else (cpu_seconds(pid) or 0.0)
        self.children[pid] = 0.0 if late else children_seconds
        if self.stopped or self.again:
            process.signal(signal.SIGSTOP if self.stopped else signal.SIGCONT)

    def leave(self, pid: int) -> None:
        """It ended. Its parent is told its whole CPU: what was seen of it must not count twice."""
        self.members.pop(pid).close()
        self.ended += self.clock.pop(pid) + self.children.pop(pid)
