"""One shard of an ordinary run: its halves, cut out of the whole run's state, and the round they play."""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from typing import Any

import numpy as np

from equipoise.engine.shards.averaging import average_round
from equipoise.engine.shards.crossing import Crossing, Packets, crossing_of
from equipoise.engine.shards.flows import flow_round, mix_round
from equipoise.engine.shards.layout import LAYOUT, Places, cut, local_pairs, places
from equipoise.engine.shards.region import LocalNetwork, Region
from equipoise.engine.shards.restrict import LocalSampler, local_market
from equipoise.engine.shards.trading import TradingPart
from equipoise.kernels import kernel
from equipoise.train.allocate import Allocation
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.average import Averaging
from equipoise.train.channel import Channel
from equipoise.train.coupling import CouplingLink
from equipoise.train.learn import Learning
from equipoise.train.links import Links, Neighbours, Round
from equipoise.train.state import State, part_of
from equipoise.train.trade import Trading

Memory = dict[str, AnyArray]


@kernel
def _audit(shares: Ints, own: AnyArray, unit: float, lo: Floats, hi: Floats) -> tuple[int, float]:
    """Sum of own shares, and the farthest outside a box."""
    total, outside = 0, 0.0
    for i in range(len(shares)):
        if own[i]:
            total += shares[i]
            outside = max(outside, lo[i] - shares[i] * unit, shares[i] * unit - hi[i])
    return total, outside


class Shard:
    """Own nodes of both halves, ready for their next round."""

    def __init__(self, state: State, region: Region) -> None:
        self.region, self._own = region, region.own
        self.network: Any = LocalNetwork(region, state.network)
        self.links = Links(self.network)
        self.allocation: Trading | Allocation | None = None
        self.learning: Averaging | Learning | None = None
        self.coupling: CouplingLink | None = None
        self._crossings: dict[int, tuple[Round, Crossing]] = {}
        self.links.restore(local_pairs(region, state.links.numbering).memory())
        if state.allocation is not None:
            self.allocation = _cut_allocation(state, region)
        if state.learning is not None:
            self.learning = copy(state.learning)
            self.learning.sampler = LocalSampler(state.learning.sampler, region)
            self.learning.model = self.learning.sampler.model
            for name in ("channel", "meetings"):
                if hasattr(self.learning, name):
                    setattr(self.learning, name, _fresh(getattr(self.learning, name)))
            if isinstance(self.learning, Averaging):
                m = self.learning.model.size
                self.learning.heard, self.learning.means = np.zeros((len(region), m)), np.zeros((len(region), m))
        if state.coupling is not None and self.allocation is not None:
            self.coupling = copy(state.coupling)
            cost: Any = self.allocation.market.cost
            self.coupling.cost = cost
        self.take_up(cut_memory(state, self.places(state)))

    def places(self, state: State) -> Places:
        """Where this shard's arrays are in the whole's."""
        return places(self.region, self.links.numbering, state.links.numbering, state.links.per_link)

    # rounds

    def play(self, number: int) -> Generator[Packets, Packets, str | None]:
        """One round of both halves, phase by phase; the name of what diverged here, or None."""
        round, crossing = self._meet(number)
        shares = self.shares
        if self.coupling is not None and self.learning is not None and shares is not None:
            self.coupling.before(shares, self.learning.sampler, number)
        fine: list[bool] = yield from side_by_side(
            [self._cpu_round(round, crossing, number), self._model_round(round, crossing, number)]
        )
        if self.coupling is not None and self.learning is not None:
            self.coupling.after(self.learning.sampler)
        return None if all(fine) else "models" if fine[0] else "shares"

    def _cpu_round(self, round: Round, crossing: Crossing, number: int) -> Generator[Packets, Packets, bool]:
        if isinstance(self.allocation, Trading):
            return self._trading.advance(round, crossing, number)
        return _idle() if self.allocation is None else flow_round(self.allocation, round, crossing, number)

    def _model_round(self, round: Round, crossing: Crossing, number: int) -> Generator[Packets, Packets, bool]:
        if isinstance(self.learning, Averaging):
            return average_round(self.learning, round, crossing, number)
        return _idle() if self.learning is None else mix_round(self.learning, round, crossing, number)

    def _meet(self, number: int) -> tuple[Round, Crossing]:
        """The links of this round, and what of them crosses."""
        round = self.links.round(number)
        if self.links.per_link:
            if self.allocation is not None:
                self.allocation.grow(self.links.pairs, self.links.slots)
            if self.learning is not None:
                self.learning.grow(self.links.slots)
        key = 0 if self.network.period is None else number % self.network.period
        known = self._crossings.get(key)
        if known is None or known[0] is not round:
            only_own(round, self.region)
            known = self._crossings[key] = round, crossing_of(self.region, round)
        return known

    # what others look at

    @property
    def shares(self) -> AnyArray | None:
        """CPUs of every local node; ghosts' are rubbish."""
        if self.allocation is None:
            return None
        return self.allocation.market.grid.floats(self.allocation.shares)

    def audit(self) -> tuple[int, float]:
        """Units that own nodes hold, and how far one is outside its box, CPUs."""
        if self.allocation is None:
            return 0, 0.0
        market = self.allocation.market
        units, outside = _audit(self.allocation.shares, self._own, market.grid.unit, market.lo, market.hi)
        return int(units), float(outside)

    def look(self) -> Memory:
        """What changes every round and is small enough to be looked at often: own rows only."""
        own = self.region.own
        seen: Memory = {}
        if self.allocation is not None:
            seen["cpu/shares"] = self.allocation.shares[own]
        if self.learning is not None:
            seen["model/yz"] = self.learning.yz[own]
            sampler = self.learning.sampler
            seen["sampler/samples"] = np.array(sampler.samples)
            if sampler.batch is not None and sampler.spread is not None:
                seen |= {"sampler/batch": sampler.batch[own], "sampler/spread": sampler.spread[own]}
        if self.coupling is not None:
            kept = self.coupling.memory()
            seen |= {f"coupling/{name}": kept[name][own] for name in ("sum", "weight", "peak", "sigma")}
        return seen

    def bits(self) -> dict[str, int]:
        """Bits that own nodes have sent so far, by stream."""
        senders, _ = self.links.numbering.directed()
        mine = self.region.own[senders] if self.links.per_link else self.region.own
        times = 1 if self.links.per_link else self.network.topology(0).degree[mine]
        found: dict[str, int] = {}
        for part, half in (("cpu", self.allocation), ("model", self.learning)):
            for name, channel in _channels(half).items():
                found[f"{part}/{name}"] = int((channel.bits_sent[: len(mine)][mine] * times).sum())
        if self.allocation is not None:
            found["cpu/amounts"] = int(self.allocation.amount_bits[: len(senders)][self.region.own[senders]].sum())
        return found

    def memory(self) -> Memory:
        """All local arrays, under the names of the whole's; and the numbering of pairs."""
        parts: dict[str, Any] = {"links": self.links.memory()}
        if self.allocation is not None:
            parts["cpu"] = self.allocation.memory()
        if self.learning is not None:
            parts["model"] = self.learning.memory()
            sampler = self.learning.sampler
            parts["sampler"] = {"samples": np.array(sampler.samples)}
            if sampler.batch is not None and sampler.spread is not None:
                parts["sampler"] |= {"batch": sampler.batch, "spread": sampler.spread}
        if self.coupling is not None:
            parts["coupling"] = self.coupling.memory()
        return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def take_up(self, memory: Memory) -> None:
        """Go on from here."""
        if "links/keys" in memory:
            self.links.restore(part_of(memory, "links"))
            self._crossings.clear()
        if self.allocation is not None:
            self.allocation.restore(part_of(memory, "cpu"))
        if self.learning is not None:
            self.learning.restore(part_of(memory, "model"))
            sampler = self.learning.sampler
            sampler.samples = int(memory["sampler/samples"])
            if "sampler/batch" in memory:
                sampler.batch, sampler.spread = memory["sampler/batch"], memory["sampler/spread"]
        if self.coupling is not None:
            self.coupling.restore(part_of(memory, "coupling") | {"cpu_seconds": np.array(0.0)})
        if isinstance(self.allocation, Trading):
            self._trading = TradingPart(self.allocation, self.region)


def cut_memory(state: State, where: Places) -> Memory:
    """A region's part of everything a run remembers."""
    kept = state.memory()
    sampler = None if state.learning is None else state.learning.sampler
    if sampler is not None and sampler.spread is not None and sampler.batch is not None:
        kept |= {"sampler/spread": sampler.spread, "sampler/batch": sampler.batch}
    return {name: cut(array, LAYOUT[name], where) for name, array in kept.items() if name in LAYOUT}


def _cut_allocation(state: State, region: Region) -> Trading | Allocation:
    whole, at = state.allocation, region.nodes
    assert whole is not None
    mine = copy(whole)
    mine.market, nodes = local_market(whole.market, region), len(region)
    mine.channel = _fresh(whole.channel)
    if isinstance(mine, Trading):
        assert isinstance(whole, Trading)
        mine.markets = _fresh(whole.markets)
        kind, *arrays = whole.curve
        mine.curve = type(whole.curve)(kind, *(array[at] for array in arrays))
        mine.cleared, mine.level = np.zeros((nodes, 1)), np.zeros(nodes)
        mine.desk = np.zeros((nodes, whole.desk.shape[1]))
        mine.factor_bits = np.zeros(nodes, dtype=np.int64)
    else:
        mine.curvature, mine.prices = mine.curvature[at], np.zeros((nodes, 1))
        mine.limiter_bits = np.zeros(nodes, dtype=np.int64)
    return mine


def _fresh(channel: Channel) -> Channel:
    """The same channel, to be filled."""
    mine = copy(channel)
    mine._wire = None
    return mine


def _channels(half: Any) -> dict[str, Channel]:
    return {name: getattr(half, name) for name in ("channel", "markets", "meetings") if hasattr(half, name)}


def only_own(round: Round, region: Region) -> None:
    """Neighbours' own neighbours are unknown here: their lists are empty, so that nobody works on them."""
    near = Round.neighbours.func(round)  # type: ignore[attr-defined]
    whose = np.repeat(np.arange(len(region)), np.diff(near.first))
    kept = region.own[whose]
    first = np.concatenate([[0], np.cumsum(np.bincount(whose[kept], minlength=len(region)))]).astype(np.int64)
    entries = [array[kept] for array in (near.node, near.edge, near.back, near.heard, near.told, near.link)]
    round.__dict__["neighbours"] = Neighbours(first, *entries)


def _idle() -> Generator[Packets, Packets, bool]:
    """A half that a problem does not have."""
    return True
    yield {}


def side_by_side(halves: list[Generator[Packets, Packets, bool]]) -> Generator[Packets, Packets, list[bool]]:
    """Both halves phase by phase, their messages in one packet each: the length of the first's, and both."""
    results: list[bool] = [True] * len(halves)
    waiting: list[Packets | None] = [_begin(half, results, k) for k, half in enumerate(halves)]
    while any(packets is not None for packets in waiting):
        peers = next(packets for packets in waiting if packets is not None)
        came = yield {peer: joined([None if p is None else p[peer] for p in waiting]) for peer in peers}
        split = {peer: parted(packet, [p is not None for p in waiting]) for peer, packet in came.items()}
        for k, half in enumerate(halves):
            if waiting[k] is not None:
                waiting[k] = _go_on(half, {peer: parts[k] for peer, parts in split.items()}, results, k)
    return results


def _begin(half: Generator[Packets, Packets, bool], results: list[bool], k: int) -> Packets | None:
    try:
        return next(half)
    except StopIteration as end:
        results[k] = end.value
        return None


def _go_on(half: Generator[Packets, Packets, bool], came: Packets, results: list[bool], k: int) -> Packets | None:
    try:
        return half.send(came)
    except StopIteration as end:
        results[k] = end.value
        return None


LENGTH = 4  # bytes that say how long the first half's part of a packet is, where both halves speak


def joined(parts: list[bytes | None]) -> bytes:
    spoken = [part for part in parts if part is not None]
    if len(spoken) == 1:
        return spoken[0]
    return len(spoken[0]).to_bytes(LENGTH, "little") + spoken[0] + spoken[1]


def parted(packet: bytes, speaks: list[bool]) -> list[bytes]:
    if sum(speaks) < len(speaks):
        return [packet if who else b"" for who in speaks]
    end = LENGTH + int.from_bytes(packet[:LENGTH], "little")
    return [packet[LENGTH:end], packet[end:]]
