"""The guardian: a small process beside every limiter that outlives its owner by a moment, to put things back.

It runs the stop-and-continue loop, and when its owner is gone it continues what is stopped and removes the groups that were
made. A second process, its shadow, does the same should the guardian itself be killed. It hears lines on standard input:

    base FOLDER [TAB HOME]       groups of the owner may be in this folder; their processes go back to HOME
    hold NUMBER PID START SHARE  keep this tree to SHARE cores; `again` instead of `hold` after another guardian
    set NUMBER SHARE             another share
    drop NUMBER, usage NUMBER    let go, and say the CPU seconds used; only say them

and answers `drop`, `usage` and `ping` with one line. Light imports only: it starts in some 30 ms.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Mapping

from equipoise.engine.cpu_limit import groups
from equipoise.engine.cpu_limit.process_tree import Facts, Process, alive, cpu_seconds, everyone, facts, newest, resume

SCAN_SECONDS = 0.02  # how often new children are looked for, when anything was born
READ_SECONDS = 0.2  # how often those that were seen before are read again: who ended, and what their children had used
IDLE_SECONDS = 1.0
HANDOVER_SECONDS = 10.0  # how long a shadow stays after its guardian was killed: by then the owner has another
STEP_SECONDS = 0.01  # how often a running tree is looked at
MANY_CORES = 4.0  # a tree that uses more is looked at more often, for it overruns more in a step
LOOK_SECONDS = 0.1  # how often a stopped one is
CAP_SECONDS = 0.1  # the bucket holds this long at the share: what was missed beyond that is not repaid
START_SECONDS = 0.01  # a stopped tree is continued when the bucket holds this long at the share


def main(owner: int, prefix: str) -> None:
    """Serve until the owner has gone or closes the pipe; then put everything back."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTOU, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    Guardian(owner, prefix).run()


class Bucket:
    """One tree of processes, held to a share by stopping and continuing it: a token bucket over its CPU clocks.

    Tokens are CPU seconds: they flow in at `share` a second up to a small cap, and the tree's CPU takes them out.
    """

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


class Guardian:
    """What one owner holds, and the loop over it."""

    def __init__(self, owner: int, prefix: str) -> None:
        self.owner, self.prefix = owner, prefix
        self.watch = pidfd(owner)
        self.bases: list[str] = []
        self.buckets: dict[int, Bucket] = {}
        self.unread = b""
        self.born, self.scanned = b"", 0.0
        self.known: dict[int, Facts] = {}
        self.read = self.checked = 0.0
        self.shadow, self.to_shadow = 0, -1
        self.told: set[str] = set()
        self.leaving = False
        signal.signal(signal.SIGTERM, self._leave)

    def _leave(self, *_: object) -> None:
        self.leaving = True

    def run(self) -> None:
        """The loop: hear, look for children, let each bucket stop or continue its tree."""
        self.start_shadow()
        heard = [0] if self.watch is None else [0, self.watch]
        while not self.leaving and os.getppid() == self.owner:
            now = time.monotonic()
            due = min((bucket.due for bucket in self.buckets.values()), default=now + IDLE_SECONDS)
            ready = select.select(heard, [], [], max(0.0, min(due - now, IDLE_SECONDS)))[0]
            if self.watch in ready or (0 in ready and not self.hear()):
                break
            if self.look():
                self.tell_shadow()
            now = time.monotonic()
            for bucket in self.buckets.values():
                if bucket.due <= now:
                    bucket.step(now)
        os.set_blocking(0, False)
        while self.hear():  # what the owner wrote before it went
            pass
        for bucket in self.buckets.values():
            bucket.release()
        clean(self.bases, self.prefix)

    def hear(self) -> bool:
        """Read what the owner wrote; False at its end."""
        try:
            data = os.read(0, 65536)
        except OSError:
            return False
        *lines, self.unread = (self.unread + data).split(b"\n")
        answers = [self.obey(line.decode(errors="surrogateescape")) for line in lines]
        self.tell_shadow()  # before the owner may rely on it
        with contextlib.suppress(OSError):
            os.write(1, "".join(f"{answer}\n" for answer in answers if answer is not None).encode())
        return bool(data)

    def obey(self, line: str) -> str | None:
        """One line of the owner's, and what to answer."""
        word, _, rest = line.partition(" ")
        if word == "base":
            self.bases.append(rest)
        elif word in ("hold", "again"):
            number, pid, start, share = rest.split()
            if int(number) not in self.buckets:
                self.buckets[int(number)] = Bucket(int(pid), int(start), float(share), word == "again")
                self.born, self.scanned, self.read = b"", 0.0, 0.0
        elif word == "set":
            number, share = rest.split()
            if int(number) in self.buckets:
                self.buckets[int(number)].set(float(share))
        elif word in ("drop", "usage"):
            bucket = self.buckets.get(int(rest))
            if bucket is None:
                return "0.0"
            if word == "drop":
                bucket.release()
                del self.buckets[int(rest)]
            else:
                bucket.count()
            return repr(bucket.used)
        elif word == "ping":
            return "here"
        return None

    def look(self) -> bool:
        """Find children born since the last look. Nothing is read while no process was born on the machine."""
        now = time.monotonic()
        if now - self.checked > IDLE_SECONDS:
            self.checked = now
            if os.waitpid(self.shadow, os.WNOHANG)[0]:
                os.close(self.to_shadow)
                self.start_shadow()
                self.tell_shadow()
        if not self.buckets or now - self.scanned < SCAN_SECONDS:
            return False
        self.scanned = now
        last = newest()
        if last == self.born:
            return False
        self.born = last
        if now - self.read >= READ_SECONDS:
            self.read, self.known = now, {}
        here = {pid: self.known.get(pid) or facts(pid) for pid in everyone()}
        self.known = {pid: fact for pid, fact in here.items() if fact is not None}
        Bucket.find(self.buckets.values(), self.known)
        return True

    def start_shadow(self) -> None:
        """Fork the shadow; it shares no pipe of the owner's."""
        read, write = os.pipe()
        self.shadow = os.fork()
        if self.shadow == 0:
            os.close(write)
            for used in (0, 1):
                os.close(used)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            shadow(read, self.owner, self.watch, self.prefix)
            os._exit(0)
        os.close(read)
        os.set_blocking(write, False)
        self.to_shadow = write
        self.told = set()

    def tell_shadow(self) -> None:
        """Which processes may be stopped, and where groups may be, whenever that changes."""
        now = {f"stop {p.pid} {p.start}" for bucket in self.buckets.values() for p in bucket.members.values()}
        now |= {f"base {base}" for base in self.bases}
        if now == self.told:
            return
        try:
            for line in now ^ self.told:  # one by one: the pipe takes a short line whole or not at all
                sign = "+" if line in now else "-"
                os.write(self.to_shadow, f"{sign}{line}\n".encode(errors="surrogateescape"))
                self.told ^= {line}
        except BlockingIOError:
            pass
        except OSError:
            os.close(self.to_shadow)
            with contextlib.suppress(OSError):
                os.waitpid(self.shadow, 0)
            self.start_shadow()
            self.tell_shadow()


def shadow(pipe: int, owner: int, watch: int | None, prefix: str) -> None:
    """Wait for the guardian's end; then continue what it may have stopped, and clean up if the owner goes as well."""
    known: set[str] = set()
    unread = b""
    while data := os.read(pipe, 65536):
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            text = line.decode(errors="surrogateescape")
            (known.add if text[0] == "+" else known.discard)(text[1:])
    stopped = [Process(*map(int, entry.split()[1:])) for entry in known if entry.startswith("stop ")]
    for process in stopped:
        process.signal(signal.SIGCONT)
    for process in stopped:
        if alive(process.pid, process.start):
            resume(process.pid)  # its children that were stopped at birth and not told yet
    until = time.monotonic() + HANDOVER_SECONDS
    bases = [entry[5:] for entry in known if entry.startswith("base ")]
    while bases and time.monotonic() < until:
        if watch is not None:
            gone = bool(select.select([watch], [], [], HANDOVER_SECONDS)[0])
        else:
            time.sleep(0.1)
            gone = facts(owner) is None
        if gone:
            clean(bases, prefix)
            return


def clean(bases: list[str], prefix: str) -> None:
    """Remove every group of this owner."""
    for line in bases:
        base, _, home = line.partition("\t")
        for group in groups.made_by(base, prefix):
            groups.remove(group, home)


def pidfd(pid: int) -> int | None:
    """A handle that becomes readable when the process ends, whoever else holds its pipes."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
