"""One worker's part of a run on a hostile network: cut out of the whole, and brought back into it.

The whole is an ordinary HostileState, the mirror. Events happen there; workers only play rounds. A worker has the links with
an own end, numbered in the order that they have in the mirror, and who lives as it was when the mirror last pushed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace

import numpy as np

from equipoise.engine.shards.crossing import Packets
from equipoise.engine.shards.hostile_layout import HOSTILE_LAYOUT
from equipoise.engine.shards.hostile_packets import LONGEST_WINDOW
from equipoise.engine.shards.hostile_round import hostile_round
from equipoise.engine.shards.layout import cut, local_pairs, paste, places
from equipoise.engine.shards.region import Region
from equipoise.engine.shards.restrict import LocalSampler, local_market
from equipoise.errors import InputError
from equipoise.train.arcs import Arcs
from equipoise.train.arrays import AnyArray
from equipoise.train.coupling import CouplingLink
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.mail import Mail
from equipoise.train.hostile.membership import Membership
from equipoise.train.hostile.push_pull import PushPull
from equipoise.train.hostile.state import HostileState
from equipoise.train.hostile.timetable import Timetable
from equipoise.train.hostile.traffic import Roads, Traffic, lay_out
from equipoise.train.links import Pairs
from equipoise.train.network import Network
from equipoise.train.state import part_of

Memory = dict[str, AnyArray]


class HostileShard(HostileState):
    """Own nodes of both halves, their links and mail, ready for their next round. Nothing ever happens here but rounds."""

    def __init__(self, mirror: HostileState, region: Region) -> None:
        _refuse_long_ways(mirror)
        self.region, self.method, self.faults = region, mirror.method, mirror.faults
        self.spent: list[int] = []  # units of own shares in each round since the last push, where shares buy samples
        self.timetable = _empty_timetable(mirror.faults, region)
        self.members = Membership(self.timetable)
        self.relay = self.coupling = self.market = self.allocation = self.learning = None
        pairs = local_pairs(region, mirror.roads.pairs)
        self.roads = self.cpu_roads = _roads(region, mirror.network, pairs)
        self.mail = self.cpu_mail = _emptied(mirror.mail, region)
        if mirror.relay is not None:
            self.cpu_roads = Paved(region, (mirror.relay.arcs,), pairs)
            self.cpu_mail = _emptied(mirror.cpu_mail, region)
        if mirror.allocation is not None and mirror.market is not None:
            self.market = local_market(mirror.market, region)
            self.allocation = ledger = object.__new__(type(mirror.allocation))
            ledger.open(self.market, self.method, self.cpu_mail, mirror.allocation.step)
        if mirror.learning is not None:
            whole, sampler = mirror.learning, LocalSampler(mirror.learning.sampler, region)
            self.learning = learning = object.__new__(PushPull)
            nobody_joins = np.zeros((len(region), whole.model.size))  # here: that happens in the mirror
            learning.open(
                sampler, self.method, self.mail, whole.alpha, whole.cap, whole.kept, whole.directed, nobody_joins
            )
            learning.calm = whole.calm
        if mirror.coupling is not None and self.market is not None:
            self.coupling = CouplingLink(self.market.cost)  # type: ignore[arg-type]
        self.take_up(push(mirror, region))

    def play(self, number: int) -> Generator[Packets, Packets, str | None]:
        """One round of both halves; the name of what diverged here, or None."""
        return hostile_round(self, self.region, number)

    def meet_round(self, number: int) -> Traffic:
        """The links of this round; room is made for pairs that meet for the first time."""
        traffic, links = self.roads.traffic(number), self.roads.links
        if links > len(self.senders):
            for kept in (self.mail, self.allocation, self.learning):
                if kept is not None:
                    kept.grow(links)
            self._know_links()
        return traffic

    def _know_links(self) -> None:
        self.senders, self.receivers = self.roads.pairs.directed()
        self._find_ways()
        there = self.region.own & self.members.alive
        self.peers = self._living_peers()
        self._told, self._heard = np.flatnonzero(there[self.senders]), np.flatnonzero(there[self.receivers])

    def _living_peers(self) -> tuple[int, ...]:
        """Shards that packets may come from: the same at both ends, and none whose nodes are all dead."""
        alive, owner, shard = self.members.alive, self.region.owner, self.region.shard
        if isinstance(self.roads, Unpaved):
            met = owner[alive] if (owner[alive] == shard).any() else owner[:0]
        else:
            both = alive[self.senders] & alive[self.receivers]
            met = owner[self.senders[both]]
        return tuple(int(peer) for peer in np.unique(met) if peer != shard)

    # what others look at

    def audit(self) -> tuple[tuple[int, int, int], tuple[float, int]]:  # type: ignore[override]
        """Of own nodes that live: units in shares, units given that nobody holds as yet (less those received), packets; and
        the farthest outside a box, CPUs, and the largest debt in escrow, units."""
        if self.allocation is None or self.market is None:
            return (0, 0, self.mail.packets), (0.0, 0)
        ledger, market, there = self.allocation, self.market, self.region.own & self.members.alive
        escrow = ledger.escrow[there]
        flying = exact_sum(ledger.sent[self._told]) - exact_sum(ledger.got[self._heard]) + exact_sum(escrow)
        boxed = there & ~ledger.collecting
        x = market.grid.floats(ledger.shares[boxed])
        outside = np.maximum(market.lo[boxed] - x, x - market.hi[boxed])
        debt = -int(ledger.escrow[self.region.own].min())
        return ((exact_sum(ledger.shares[there]), flying, self.mail.packets), (float(outside.max(initial=0.0)), debt))

    def look(self) -> Memory:
        """What a row of history needs: everything, for trackers in flight are sums over all links."""
        return self.memory()

    def bits(self) -> dict[str, int]:
        """They are in the memory, by link."""
        return {}

    def memory(self) -> Memory:
        """All local arrays, under the names of the whole's."""
        found = super().memory()
        if self.learning is not None and self.learning.sampler.spread is not None:
            found["sampler/spread"] = self.learning.sampler.spread
        if self.coupling is not None:
            found["coupling/spent"] = np.array(self.spent, dtype=np.int64)
        if self.cpu_mail is not self.mail:
            found |= {f"cpu_mail/{name}": array for name, array in self.cpu_mail.memory().items()}
            found |= {"ways/hops": self._ways[0], "ways/rounds": self._ways[1]}
        return found

    def take_up(self, memory: Memory) -> None:
        """Go on from here."""
        self.roads.restore(part_of(memory, "links"))
        self.members.restore(part_of(memory, "members"))
        self.mail.restore(part_of(memory, "mail"))
        if self.cpu_mail is not self.mail:
            self.cpu_mail.restore(part_of(memory, "cpu_mail"))
        if self.coupling is not None:
            self.coupling.restore(part_of(memory, "coupling"))
        if self.allocation is not None:
            self.allocation.restore(part_of(memory, "cpu"))
        if self.learning is not None:
            self.learning.restore(part_of(memory, "model"))
            self.learning.sampler.restore(part_of(memory, "sampler"))
            self.learning.sampler.spread = memory.get("sampler/spread")
        self.spent = memory["coupling/spent"].tolist() if "coupling/spent" in memory else []
        self._know_links()
        if "ways/hops" in memory and self.allocation is not None:
            self._ways = memory["ways/hops"], memory["ways/rounds"]
            self.allocation.times = np.maximum(self._ways[0], 1)


def _refuse_long_ways(mirror: HostileState) -> None:
    longest = max((mirror.mail, mirror.cpu_mail), key=lambda mail: mail.window)
    if longest.window > LONGEST_WINDOW:
        raise InputError(
            f"packets that may be {longest.longest} rounds on their way cannot name each other in 15 bits between workers: "
            "lower the delay, or run in one process",
            code="delay.bits",
        )


def _emptied(mail: Mail, region: Region) -> Mail:
    """A mail of the same kind for a region's links."""
    mine = Mail(mail.faults, two_way=mail.two_way)
    mine.longest, mine.window, mine.ids = mail.longest, mail.window, region.nodes
    return mine


def _empty_timetable(faults: Faults, region: Region) -> Timetable:
    """No events: only who straggles."""
    place = region.local(np.array(list(faults.straggle), dtype=np.int64))
    here = {int(at): every for at, every in zip(place, faults.straggle.values(), strict=True) if at >= 0}
    return Timetable(Faults(straggle=here), len(region), 1)


class Paved(Roads):
    """The links of a region on a network that repeats, laid out once; degrees are those of the whole graphs."""

    def __init__(self, region: Region, graphs: Iterable[Arcs], pairs: Pairs) -> None:
        self.pairs = pairs
        self._kept = {phase: local_traffic(region, arcs, pairs) for phase, arcs in enumerate(graphs)}

    def traffic(self, number: int) -> Traffic:
        return self._kept[number % len(self._kept)]

    def restore(self, memory: Memory) -> None:
        self.pairs.restore(memory)


class Unpaved(Paved):
    """The same on a network that never repeats: everybody draws every graph."""

    def __init__(self, region: Region, network: Network, pairs: Pairs) -> None:
        self.pairs, self._region, self._network = pairs, region, network
        self._latest: tuple[int, Traffic] | None = None

    def traffic(self, number: int) -> Traffic:
        if self._latest is None or self._latest[0] != number:
            self._latest = number, local_traffic(self._region, self._network.arcs(number), self.pairs)
        return self._latest[1]

    def restore(self, memory: Memory) -> None:
        super().restore(memory)
        self._latest = None


def _roads(region: Region, network: Network, pairs: Pairs) -> Paved:
    """The roads of a region."""
    if network.period is None:
        return Unpaved(region, network, pairs)
    return Paved(region, map(network.arcs, range(network.period)), pairs)


def local_traffic(region: Region, arcs: Arcs, pairs: Pairs) -> Traffic:
    """The links of one graph that have an own end."""
    return replace(lay_out(region.arcs(arcs), pairs), degree=arcs.out_degree[region.nodes])


# between the mirror and its workers


def push(mirror: HostileState, region: Region) -> Memory:
    """The mirror's memory as the worker of this region holds it; counts begin at 0."""
    local = local_pairs(region, mirror.roads.pairs)
    where = places(region, local, mirror.roads.pairs, per_link=True)
    memory = {name: cut(array, HOSTILE_LAYOUT[name], where) for name, array in whole_memory(mirror).items()}
    memory |= {f"links/{name}": array for name, array in local.memory().items()}
    if mirror.relay is not None:
        hops, rounds = mirror._ways
        memory |= {"ways/hops": hops[where.links], "ways/rounds": rounds[:, where.links]}
    return memory


def whole_memory(mirror: HostileState) -> Memory:
    """The mirror's own arrays by name, to be read and written into; not its numbering of pairs, nor what it alone knows."""
    alone = ("links/", "timetable/")
    found = {name: array for name, array in HostileState.memory(mirror).items() if not name.startswith(alone)}
    sampler = None if mirror.learning is None else mirror.learning.sampler
    if sampler is not None and sampler.batch is not None:
        found["sampler/spread"] = np.full(len(sampler.batch), np.nan) if sampler.spread is None else sampler.spread
    return found


def sums(memory: Memory) -> Memory:
    """Counts: those of the mirror when it pushes are where the workers' begin."""
    counted = [name for name, axis in HOSTILE_LAYOUT.items() if axis.kind == "sum"]
    return {name: memory[name].copy() for name in (*counted, *SECONDS) if name in memory}


SECONDS = (
    "coupling/cpu_seconds",
    "coupling/spent",
)  # before the last push, and what has bought more since, round by round


def with_counts(base: Memory, gone: Memory) -> Memory:
    """The mirror's counts and those of a worker that is gone, as it last told them."""
    found = dict(base)
    for name, count in gone.items():
        if name == "coupling/spent":
            before = base.get(name, count[:0])
            rounds = max(len(before), len(count))
            found[name] = np.sum([np.pad(part, (0, rounds - len(part))) for part in (before, count)], axis=0)
        elif name not in SECONDS:
            found[name] = base[name] + count
    return found


def merge(mirror: HostileState, found: dict[Region, Memory], base: Memory, number: int) -> None:
    """Bring what workers remember after `number` rounds into the mirror, which then is as if it had played them itself.

    `base` has the counts (and CPU-seconds) of the last push. Where graphs never repeat, the mirror must have met every round
    up to here. A worker that is gone is left out: what its nodes knew stays as it was.
    """
    memory = whole_memory(mirror)
    for name in base.keys() & memory.keys():
        memory[name][...] = base[name]
    for region, told in found.items():
        local = Pairs(len(region))
        local.restore(part_of(told, "links"))
        where = places(region, local, mirror.roads.pairs, per_link=True)
        for name, array in memory.items():
            axis = HOSTILE_LAYOUT[name]
            if axis.kind == "sum":
                array += told[name]
            elif name.startswith("members/"):
                continue
            elif axis.kind != "same":
                part = told[name]
                if axis.kind == "link":  # a worker may have room for more
                    part = part[(slice(None),) * axis.at + (slice(len(where.links)),)]
                paste(array, part, axis, where)
    _adopt(mirror, memory, list(found.values()), base, number)


def _adopt(mirror: HostileState, memory: Memory, told: list[Memory], base: Memory, number: int) -> None:
    """Numbers that are no arrays, and what follows from arrays."""
    mirror.mail.restore(part_of(memory, "mail"))
    if mirror.cpu_mail is not mirror.mail:
        mirror.cpu_mail.restore(part_of(memory, "cpu_mail"))
    if mirror.learning is not None:
        sampler = mirror.learning.sampler
        sampler.restore(part_of(memory, "sampler") | {"last": told[0]["sampler/last"]})
        if sampler.batch is not None:
            sampler.spread = memory["sampler/spread"]
            sampler.batch = memory["sampler/batch"].copy()
    if mirror.coupling is not None and mirror.market is not None:
        seconds, cost, unit = float(memory["coupling/cpu_seconds"]), mirror.coupling.cost, mirror.market.grid.unit
        spent = np.sum([part["coupling/spent"] for part in told], axis=0)
        by_dead = base.get("coupling/spent", spent[:0])
        spent[: len(by_dead)] += by_dead[: len(spent)]
        for units in spent:
            seconds += cost.tau * float(units * unit)
        mirror.coupling.restore(part_of(memory, "coupling") | {"cpu_seconds": np.array(seconds)})
    if number > 0:
        mirror.steady = mirror.timetable.acting(number - 1, mirror.members.alive)
