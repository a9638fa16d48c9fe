"""What happens in which round, who lives and who is known to, and what events do to links and to the CPU of the dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from equipoise.errors import InputError
from equipoise.kernels import Bools, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.faults import Faults, Kind

if TYPE_CHECKING:
    from equipoise.train.dynamics.gifts import Gifts
    from equipoise.train.exchange.lossy import Lossy


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


class Succession:
    """Carries out events, one by one: members, links, ledgers and models follow."""

    def __init__(
        self,
        members: Membership,
        exchanges: Sequence[Lossy],
        allocation: Gifts | None,
        timetable: Timetable,
        budget: int,
        directed: bool,
    ) -> None:
        """`exchanges`: that of links as they are, and perhaps another one for the CPU half."""
        self.members, self.exchanges, self.allocation = members, exchanges, allocation
        self.timetable, self.budget, self.directed = timetable, budget, directed
        self.epoch = 0  # grows whenever the survivors' optimum changes
        self.happened: list[Event] = []
        self.trouble: list[str] = []
        self._cramped: int | None = None  # round since which the survivors' boxes are too small
        self._used = self._ever_used()
        self._rewire()
        self._look_for_trouble(0)

    def happen(self, event: Event) -> None:
        members = self.members
        if event.kind in ("crash", "leave", "noticed") and not members.known[list(event.nodes)].all():
            members.arriving = [node for node in members.arriving if node not in event.nodes]
            return  # it waited to join, and is gone before it was in
        nodes = np.array(event.nodes, dtype=np.int64)
        self.happened.append(event)
        if event.kind == "split":
            members.side[nodes] = True
            for exchange in self.exchanges:
                table = exchange.table
                exchange.drop(members.side[table.senders] != members.side[table.receivers])
        elif event.kind == "cut":
            members.cut = True
        elif event.kind == "heal":
            members.side[:] = False
            members.cut = False
        elif event.kind == "crash":
            members.alive[nodes] = False
            for exchange in self.exchanges:
                exchange.drop(np.isin(exchange.table.senders, nodes) | np.isin(exchange.table.receivers, nodes))
        elif event.kind == "noticed":
            members.known[nodes] = False
            members.waiting += nodes.tolist()
        elif event.kind == "leave":
            members.alive[nodes] = members.known[nodes] = False
            met = self._partners(nodes) & members.alive
            if (met & (members.side != members.side[nodes[0]])).any():
                members.waiting += nodes.tolist()  # it cannot settle with the other side before the network heals
            else:
                self._rewire()
                self._bequeath(nodes, np.flatnonzero(met))
        elif event.kind == "join":
            members.arriving += nodes.tolist()
        self._rewire()
        if event.kind in ("noticed", "heal"):
            self._hand_on()
        if event.kind in ("noticed", "heal", "join"):
            self._let_in()
        self.epoch += event.kind not in ("split", "crash")
        self._look_for_trouble(event.round)

    def _rewire(self) -> None:
        """Links leave the plans of both ends, or start anew, as members know of each other."""
        for exchange in self.exchanges:
            exchange.reach(self.members)
            kept = self.members.open(exchange.table.senders, exchange.table.receivers)
            closed, opened = exchange.kept & ~kept, kept & ~exchange.kept
            exchange.kept = kept
            if closed.any() or opened.any():
                exchange.forget(closed | opened)
                for half in exchange.halves:
                    half.shut(closed)
                    half.reopen(opened)

    def _hand_on(self) -> None:
        """CPU of the dead goes to a guardian, once every centre that had dealings with them can be asked."""
        members = self.members
        gone = np.array(members.waiting, dtype=np.int64)
        if self.allocation is None or not len(gone):
            members.waiting.clear()
            return
        partners = self._partners(gone)
        unsure = partners & members.known & ~members.alive
        apart = members.split and len(np.unique(members.side[partners & members.alive])) > 1
        if unsure.any() or apart:
            return
        members.waiting.clear()
        self._bequeath(gone, np.flatnonzero(partners & members.alive)[:1])

    def _let_in(self) -> None:
        """Those who join come in; one that comes back waits until what it held before was claimed."""
        members = self.members
        nodes = np.array([node for node in members.arriving if node not in members.waiting], dtype=np.int64)
        members.arriving = [node for node in members.arriving if node in members.waiting]
        if len(nodes):
            members.alive[nodes] = members.known[nodes] = True
            for exchange in self.exchanges:
                for half in exchange.halves:
                    half.enter(nodes)
            self._rewire()

    def _bequeath(self, gone: Ints, heirs: Ints) -> None:
        if self.allocation is not None:
            heirs = heirs if len(heirs) else np.flatnonzero(self.members.alive)[:1]
            self.allocation.close(gone, heirs, self.members.alive)

    def _partners(self, gone: Ints) -> Bools:
        """Who may have had dealings with these."""
        met = np.zeros(self.timetable.n, dtype=np.bool_)
        for exchange in self.exchanges:
            met[exchange.table.receivers[np.isin(exchange.table.senders, gone)]] = True
        met[gone] = False
        return met

    def _look_for_trouble(self, number: int) -> None:
        """What keeps the survivors from their optimum from now on, by name."""
        self.trouble = []
        members = self.members
        if members.split:
            self.trouble.append("the network is split")
        unnoticed = np.flatnonzero(members.known & ~members.alive)
        if len(unnoticed):
            self.trouble.append(f"the loss of centre {', '.join(map(str, unnoticed))} is not noticed yet")
        if members.arriving:
            self.trouble.append(f"centre {', '.join(map(str, members.arriving))} waits to join")
        if members.waiting:
            named = ", ".join(map(str, members.waiting))
            self.trouble.append(f"the CPU of centre {named} cannot be claimed: centres it dealt with cannot be asked")
        if self.allocation is not None:
            self._look_at_boxes(self.allocation, number)
        if any(exchange.too_far for exchange in self.exchanges):
            self.trouble.append("the way back of a one-way link has become too long: its CPU cannot be given")
        pieces = self._pieces()
        if pieces > 1:
            self.trouble.append(f"the survivors are in {pieces} pieces: no link joins them")

    def _look_at_boxes(self, allocation: Gifts, number: int) -> None:
        """Whether those who are there can hold the budget, and whether it is enough for them."""
        market, members = allocation.market, self.members
        unit, room = market.grid.unit, exact_sum(market.high[members.known])
        if room < self.budget:
            self._cramped = number if self._cramped is None else self._cramped
            self.trouble.append(
                f"infeasible since round {self._cramped}: the survivors' boxes hold {room * unit:g} of "
                f"{self.budget * unit:g} CPUs; {(self.budget - room) * unit:g} stay in escrow"
            )
        elif self._cramped is not None:
            self._cramped = None
            allocation.reprice(self.exchanges[-1].kept)  # prices had risen and risen
        least = exact_sum(market.low[members.known & members.alive])
        if least > self.budget:
            raise InputError(
                f"round {number}: the centres' lo add up to {least * unit:g}, more than the budget of "
                f"{self.budget * unit:g} CPUs: lower lo, or let fewer join",
                code="budget.low",
            )

    def _ever_used(self) -> Bools:
        """Links that some graph has when their sender acts; both ways, where links carry both ways."""
        table = self.exchanges[0].table
        period = len(table.turns)
        every = np.ones(table.n, dtype=np.int64)
        for node, rounds in self.timetable.faults.straggle.items():
            every[node] = rounds
        often = np.gcd(period, every[table.senders])
        used = np.zeros(len(table), dtype=np.bool_)
        for phase, turn in enumerate(table.turns):
            used |= turn & (phase % often == 0)
        return used if self.directed else np.asarray(used & used[table.back])

    def _pieces(self) -> int:
        """Into how many the survivors fall for good; 1 where nobody knows, for graphs never repeat."""
        known, table = self.members.known, self.exchanges[0].table
        if not table.turns:
            return 1
        kept = known[table.senders] & known[table.receivers] & self._used
        ends = table.senders[kept], table.receivers[kept]
        graph = coo_array((np.ones(len(ends[0])), ends), shape=(table.n, table.n))
        _, piece = connected_components(graph, directed=self.directed, connection="strong")
        return len(np.unique(piece[known]))

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept = {f"kept{k}": exchange.kept for k, exchange in enumerate(self.exchanges)}
        return kept | {"cramped": np.array(-1 if self._cramped is None else self._cramped)}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for k, exchange in enumerate(self.exchanges):
            exchange.kept = memory[f"kept{k}"].copy()
        cramped = int(memory["cramped"])
        self._cramped = None if cramped < 0 else cramped

    def take_up(self, number: int) -> None:
        """After all else was restored: what happened before this round has happened."""
        for exchange in self.exchanges:
            exchange.reach(self.members)
        self.happened = [event for event in self.timetable.events if event.round < number]
        self._look_for_trouble(number)
