"""What events do to a run: which links close and open, who inherits from the dead, and what keeps survivors apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from equipoise.errors import InputError
from equipoise.kernels import Bools, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.dynamics.gifts import Gifts
from equipoise.train.exchange.lossy import Lossy
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.membership import Event, Membership, Timetable


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
