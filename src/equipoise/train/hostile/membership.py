"""What happens in which round; and who lives, who is known to live, and which links are in the books, as it unfolds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.hostile.faults import Faults, Kind


class Membership:
    """Three views of the centres: `alive` in truth, `known` to their neighbours, and the side of a split each is on."""

    def __init__(self, timetable: Timetable) -> None:
        n = timetable.n
        self.alive = timetable.first.copy()
        self.known = timetable.first.copy()
        self.side = np.zeros(n, dtype=np.bool_)
        self.cut = False  # the split is noticed: its links are out of the books
        self.arriving: list[int] = []  # who would join, and cannot as yet
        self.waiting: list[int] = []  # noticed dead whose CPU nobody could claim as yet

    KEPT = ("alive", "known", "side")

    @property
    def split(self) -> bool:
        return bool(self.side.any())

    def passes(self, senders: Ints, receivers: Ints) -> AnyArray:
        """Whether a packet over each link can arrive at all."""
        return np.asarray(self.alive[senders] & self.alive[receivers] & (self.side[senders] == self.side[receivers]))

    def open(self, senders: Ints, receivers: Ints) -> AnyArray:
        """Whether each link is in the books of both its ends."""
        both = self.known[senders] & self.known[receivers]
        return np.asarray(both & (self.side[senders] == self.side[receivers]) if self.cut else both)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        own = {name: getattr(self, name) for name in self.KEPT}
        lists = {name: np.array(getattr(self, name), dtype=np.int64) for name in ("waiting", "arriving")}
        return own | lists | {"cut": np.array(self.cut)}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name in self.KEPT:
            setattr(self, name, memory[name])
        self.cut = bool(memory["cut"])
        self.waiting, self.arriving = ([int(node) for node in memory[name]] for name in ("waiting", "arriving"))


ORDER = {"heal": 0, "join": 1, "leave": 2, "crash": 3, "noticed": 4, "split": 5, "cut": 6}


@dataclass(frozen=True)
class Event:
    """Something that happens before a round is played."""

    round: int
    kind: Kind
    nodes: tuple[int, ...]

    def __str__(self) -> str:
        named = ", ".join(map(str, self.nodes[:6])) + (", ..." if len(self.nodes) > 6 else "")
        many = len(self.nodes) > 1
        centres = f"centres {named}" if many else f"centre {named}"
        text = {
            "crash": f"{centres} crash{'' if many else 'es'}",
            "leave": f"{centres} leave{'' if many else 's'}",
            "join": f"{centres} join{'' if many else 's'}",
            "split": f"the network splits: {centres} on one side",
            "heal": "the network heals",
            "noticed": f"the loss of {centres} is noticed",
            "cut": "the split is noticed: each side goes on by itself",
        }[self.kind]
        return f"round {self.round}: {text}"


class Timetable:
    """All events of a run of `rounds` rounds on n centres, checked."""

    def __init__(self, faults: Faults, n: int, rounds: int) -> None:
        self.faults, self.n, self.rounds = faults, n, rounds
        self.first = np.ones(n, dtype=np.bool_)  # present in round 0
        events: list[Event] = []
        deeds: list[tuple[int, int, Kind, int]] = []  # round, order, kind, node
        for kind, node, at in faults.deeds:
            _known(kind, node, n)
            _within(kind, node, at, rounds)
            deeds.append((at, ORDER[kind], kind, node))
        deeds.sort()
        for node in {node for *_, node in deeds}:
            earliest = next(kind for _, _, kind, who in deeds if who == node)
            self.first[node] = earliest != "join"
        for node in faults.straggle:
            _known("straggle", node, n)
        alive = self.first.copy()
        if not alive.any():
            raise InputError("no centre is there in round 0: at least one must not wait to join", code="schedule.empty")
        for at, _, kind, node in deeds:
            if (kind == "join") == alive[node]:
                state = "already there" if alive[node] else "not there any more"
                raise InputError(f"round {at}: centre {node} cannot {kind}, it is {state}", code="schedule.absent")
            alive[node] = kind == "join"
            if not alive.any():
                raise InputError(
                    f"round {at}: no centre is left: the schedule ends every one; keep at least one",
                    code="schedule.empty",
                )
            events.append(Event(at, kind, (node,)))
            if kind == "crash":
                events.append(Event(at + int(faults.notice), "noticed", (node,)))
        _refuse_quick_returns(deeds, int(faults.notice))
        for part in faults.partitions:
            for node in part.nodes:
                _known("partition", node, n)
            if len(part.nodes) == n:
                raise InputError(
                    f"the partition from round {part.begin} has all {n} centres on one side: leave some out",
                    code="partition.nodes",
                )
            _within("partition", min(part.nodes), part.begin, rounds)
            events.append(Event(part.begin, "split", tuple(sorted(part.nodes))))
            noticed = part.begin + int(faults.notice)
            if part.end is None or part.end > noticed:
                events.append(Event(noticed, "cut", tuple(sorted(part.nodes))))
            if part.end is not None and part.end < rounds:
                events.append(Event(part.end, "heal", tuple(sorted(part.nodes))))
        self._set(events)

    def _set(self, events: list[Event]) -> None:
        """Those that the run lives to see, in order."""
        seen = [event for event in events if event.round < self.rounds]
        self.events = sorted(seen, key=lambda e: (e.round, ORDER[e.kind], e.nodes))
        self._by_round: dict[int, list[Event]] = {}
        for event in self.events:
            self._by_round.setdefault(event.round, []).append(event)
        self.last = max((e.round for e in self.events), default=-1)

    def at(self, number: int) -> list[Event]:
        """Events before this round."""
        return self._by_round.get(number, [])

    def acting(self, number: int, alive: AnyArray) -> AnyArray:
        """Who acts in this round: everybody who lives, stragglers now and then."""
        acting = alive.copy()
        for node, every in self.faults.straggle.items():
            if number % every:
                acting[node] = False
        return acting


def _known(kind: str, node: int, n: int) -> None:
    if not 0 <= node < n:
        raise InputError(f"{kind} names centre {node}, which is unknown: there are 0..{n - 1}", code="schedule.node")


def _within(kind: str, node: int, at: int, rounds: int) -> None:
    if at >= rounds:
        raise InputError(
            f"{kind} of centre {node} at round {at} is outside 0..{rounds - 1}: the run ends before",
            code="schedule.round",
        )


def _refuse_quick_returns(deeds: list[tuple[int, int, Kind, int]], notice: int) -> None:
    """A centre may come back once its death was noticed."""
    died: dict[int, int] = {}
    for at, _, kind, node in deeds:
        if kind == "crash":
            died[node] = at
        if kind == "join" and node in died and at <= died[node] + notice:
            raise InputError(
                f"centre {node} joins in round {at}, before its crash in round {died[node]} is noticed "
                f"({notice} rounds later): join after round {died[node] + notice}, or lower notice",
                code="schedule.notice",
            )
    same = Counter((at, node) for at, _, _, node in deeds)
    twice = [key for key, count in same.items() if count > 1]
    if twice:
        raise InputError(f"round {twice[0][0]}: centre {twice[0][1]} has two events; give them different rounds")
