"""A run on a hostile network spread over shards gives the bits of the same run in one process, whatever goes wrong."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from equipoise.engine.shards.hostile_layout import HOSTILE_LAYOUT
from equipoise.engine.shards.hostile_round import hostile_round
from equipoise.engine.shards.hostile_state import HostileShard, merge, push, sums, whole_memory
from equipoise.engine.shards.region import Region, regions
from equipoise.errors import Failure
from equipoise.train import (
    Bursts,
    Coupled,
    Exact,
    Faults,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Partition,
    Problem,
    Quadratic,
    Softmax,
    UniformQuantizer,
)
from equipoise.train.hostile.ledger import scale_code, scale_of
from equipoise.train.hostile.state import HostileState
from equipoise.train.hostile.timetable import Timetable
from refusals import refused

NODES = 12
ROUNDS = 60


class Spread:
    """All shards in one process, in step; packets are handed over as bytes."""

    def __init__(self, mirror: HostileState, shard_of: np.ndarray) -> None:
        self.mirror = mirror
        self.regions: dict[int, Region] = {region.shard: region for region in regions(mirror.network, shard_of)}
        self.bytes: list[dict[tuple[int, int], int]] = []
        self.shards = {
            shard: pickle.loads(pickle.dumps(HostileShard(mirror, region))) for shard, region in self.regions.items()
        }
        self.base = sums(whole_memory(mirror))

    def push(self) -> None:
        for shard, state in self.shards.items():
            state.take_up(push(self.mirror, self.regions[shard]))
        self.base = sums(whole_memory(self.mirror))

    def pull(self, number: int) -> None:
        found = {
            self.regions[shard]: pickle.loads(pickle.dumps(state.memory())) for shard, state in self.shards.items()
        }
        merge(self.mirror, found, self.base, number)

    def play(self, begin: int, end: int) -> None:
        """Rounds begin..end-1; before a round with events the mirror has everything, and meets them."""
        for number in range(begin, end):
            if self.mirror.timetable.at(number):
                self.pull(number)
                self.mirror.meet(number)
                self.push()
            else:
                self.mirror.meet(number)
            self.round(number)
        self.pull(end)

    def round(self, number: int) -> None:
        talks = {shard: hostile_round(state, self.regions[shard], number) for shard, state in self.shards.items()}
        said = {shard: next(talk) for shard, talk in talks.items()}
        assert all(a in said[b] for a, packets in said.items() for b in packets)  # or one would wait for ever
        self.bytes.append({(a, b): len(packet) for a, packets in said.items() for b, packet in packets.items()})
        for shard, talk in talks.items():
            came = {peer: packets[shard] for peer, packets in said.items() if shard in packets}
            with pytest.raises(StopIteration) as ended:
                talk.send(came)
            assert ended.value.value is None

    def kill(self, shard: int) -> None:
        """Its worker is gone, and nobody waits for it."""
        del self.shards[shard]


def embedded(
    problem: Problem, network: Network, method: Method, faults: Faults, rounds: int = ROUNDS, **more
) -> HostileState:
    return HostileState(problem, network, method, faults, rounds=10 * rounds, seed=3, **more)


def advance(state: HostileState, begin: int, end: int) -> None:
    for number in range(begin, end):
        assert state.advance(state.meet(number), number) is None


def shards_of(kind: str, count: int, nodes: int) -> np.ndarray:
    return np.arange(nodes) % count if kind == "dealt" else np.arange(nodes) * count // nodes


def same(one: HostileState, other: HostileState) -> None:
    """Every array of a checkpoint, bit by bit, and what a book looks at."""
    a, b = one.memory(), other.memory()
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
        assert np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes(), f"{name} differs"
    assert one.tallies() == other.tallies() and one.bit_parts() == other.bit_parts()
    assert (one.packets, one.lost, one.in_flight) == (other.packets, other.lost, other.in_flight)
    assert (one.steady == other.steady).all() and one.meters() == other.meters()
    assert one.trouble == other.trouble and one.happened == other.happened


def both_halves(nodes: int = NODES, boxed: bool = True, size: int = 3) -> Problem:
    rng = np.random.default_rng(7)
    shards = [(rng.normal(size=(8, size)), rng.normal(size=8)) for _ in range(nodes)]
    lo, hi = (0.0, 40.0) if boxed else (-np.inf, np.inf)
    cost = Quadratic(rng.uniform(0.5, 3.0, nodes), rng.uniform(10.0, 60.0, nodes), lo=lo, hi=hi)
    return Problem(cost, 25.0 * nodes, LeastSquares(shards, reg=0.1))


def spread_equals_embedded(
    problem: Problem, network: Network, method: Method, faults: Faults, kind: str, count: int, **more
) -> Spread:
    whole = embedded(problem, network, method, faults, **more)
    spread = Spread(embedded(problem, network, method, faults, **more), shards_of(kind, count, network.n))
    half = ROUNDS // 2 + 1
    for begin, end in ((0, half), (half, ROUNDS)):  # a pull on the way changes nothing
        advance(whole, begin, end)
        spread.play(begin, end)
        same(spread.mirror, whole)
    return spread


LOG9, UNIFORM9 = LogQuantizer(), UniformQuantizer(bits=9, largest=200.0)
EVERYTHING = Faults(
    loss=0.15,
    delay=2,
    crash={3: 12},
    leave={5: 20},
    join={7: 25, 3: 40},
    straggle={1: 3, 8: 2},
    partition=Partition(frozenset({0, 1, 2, 9}), 28, 45),
    notice=4,
    seed=5,
)
FAULTS = {
    "loss": Faults(loss=0.2),
    "bursts": Faults(loss=Bursts(enter=0.1, leave=0.4, bad=0.9, good=0.05)),
    "delay": Faults(delay=3),
    "fixed delay": Faults(delay=2, jitter=False, loss=0.1),
    "stragglers": Faults(straggle={0: 2, 7: 5}),
    "everything": EVERYTHING,
}
UNDIRECTED = {
    "static": Network.erdos_renyi(NODES, 0.3, seed=1),
    "switching": Network.erdos_renyi(NODES, 0.3, switching=5, seed=2),
    "fresh": Network.erdos_renyi(NODES, 0.3, switching="fresh", seed=3),
}
SPLITS = [("ranges", 1), ("dealt", 2), ("ranges", 2), ("dealt", 4), ("ranges", 4)]


@pytest.mark.parametrize(("kind", "count"), SPLITS)
@pytest.mark.parametrize("network", UNDIRECTED)
def test_all_faults_at_once_on_any_number_of_shards(network, kind, count):
    """Losses, delays, stragglers, a crash, a leave, joins and a split: shares, models, books and mail, bit by bit."""
    spread_equals_embedded(both_halves(), UNDIRECTED[network], Method(), EVERYTHING, kind, count)


@pytest.mark.parametrize("quantizer", [Exact(), LOG9, UNIFORM9, LogQuantizer(mode="node")], ids=lambda q: f"{q}"[:24])
@pytest.mark.parametrize("faults", FAULTS)
def test_each_fault_with_each_quantiser(faults, quantizer):
    """Codes travel as codes, and floats as floats: receivers rebuild what was said exactly."""
    spread_equals_embedded(both_halves(), UNDIRECTED["static"], Method(quantizer=quantizer), FAULTS[faults], "dealt", 3)


@pytest.mark.parametrize(("kind", "count"), SPLITS)
@pytest.mark.parametrize("switching", [0, 5])
def test_the_push_form_over_one_way_links(switching, kind, count):
    """No boxes, no faults: weights travel with prices."""
    network = Network.erdos_renyi(NODES, 0.4, switching=switching, seed=4, directed=True)
    spread = spread_equals_embedded(both_halves(boxed=False), network, Method(), Faults(), kind, count)
    assert type(spread.mirror.allocation).__name__ == "Pushed"


@pytest.mark.parametrize(("kind", "count"), SPLITS)
@pytest.mark.parametrize("switching", [0, 3])
@pytest.mark.parametrize("faults", ["none", "everything"])
def test_answers_around_one_way_links(switching, faults, kind, count):
    """Boxes or faults: packets about CPU have a mail of their own, with hops counted on the whole network."""
    network = Network.erdos_renyi(NODES, 0.4, switching=switching, seed=4, directed=True)
    given = {"none": Faults(), "everything": EVERYTHING}[faults]
    spread = spread_equals_embedded(both_halves(), network, Method(), given, kind, count)
    assert spread.mirror.relay is not None


@pytest.mark.parametrize("half", ["cpu", "model"])
@pytest.mark.parametrize("directed", [False, True])
def test_one_half_alone(half, directed):
    whole = both_halves()
    problem = Problem(whole.cost, whole.budget) if half == "cpu" else Problem(model=whole.model)
    network = Network.erdos_renyi(NODES, 0.4, seed=4, directed=directed)
    spread_equals_embedded(problem, network, Method(), EVERYTHING, "dealt", 3)


@pytest.mark.parametrize("batch", [2, np.arange(NODES) % 4 + 1])
def test_mini_batches(batch):
    """Rows are drawn by global node; who sleeps draws nothing."""
    spread_equals_embedded(both_halves(), UNDIRECTED["switching"], Method(), EVERYTHING, "dealt", 3, batch=batch)


def test_a_cost_that_moves_with_its_batches():
    """Shares buy samples and samples teach sigma: both halves of the coupling are at home in a shard."""
    rng = np.random.default_rng(2)
    shards = [(rng.normal(size=(size, 3)), rng.integers(0, 3, size)) for size in rng.integers(10, 30, NODES)]
    sizes, speed = [len(y) for _, y in shards], rng.uniform(0.5, 2.0, NODES)
    cost = [Coupled(speed, sizes=sizes, lo=0.5, hi=np.array(sizes) / speed) for _ in range(2)]
    problem = [Problem(c, 5.0 * NODES, Softmax(shards, classes=3)) for c in cost]
    network, method = UNDIRECTED["switching"], Method()
    whole, spread = (
        embedded(problem[0], network, method, EVERYTHING),
        Spread(embedded(problem[1], network, method, EVERYTHING), shards_of("dealt", 3, NODES)),
    )
    advance(whole, 0, ROUNDS)
    spread.play(0, ROUNDS)
    same(spread.mirror, whole)
    assert whole.meters()["cpu_seconds"] > 0


def counted_bits(state: HostileState, shard_of: np.ndarray) -> dict[tuple[int, int], int]:
    """Bits that the protocol has counted over links between each two shards; of a packet that others pass on, once."""
    cpu, learning, links = state.allocation, state.learning, len(state.senders)
    bits = (cpu.amount_bits + cpu.post.bits_sent)[:links] // cpu.times[:links]
    bits += (learning.header_bits + learning.post.bits_sent)[:links]
    if (cpu.times == 1).all():
        assert bits.sum() == state.link_bits().total
    found: dict[tuple[int, int], int] = {}
    for i, j, count in zip(shard_of[state.senders], shard_of[state.receivers], bits, strict=True):
        found[int(i), int(j)] = found.get((int(i), int(j)), 0) + int(count)
    return {pair: count for pair, count in found.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("case", ["undirected", "sleepers", "pushed", "relayed"])
def test_bytes_between_shards_are_the_bits_that_are_counted(case):
    """Where nothing is lost a round's packets to a peer have exactly the counted bits, rounded up to a byte."""
    directed = case in ("pushed", "relayed")
    network = Network.erdos_renyi(NODES, 0.4, seed=4, directed=directed)
    faults = Faults(straggle={0: 2}) if case == "sleepers" else Faults()
    shard_of = shards_of("dealt", 3, NODES)
    spread = Spread(embedded(both_halves(boxed=case != "pushed"), network, Method(), faults), shard_of)
    before: dict[tuple[int, int], int] = {}
    for number in range(20):
        spread.play(number, number + 1)
        after = counted_bits(spread.mirror, shard_of)
        for pair, size in spread.bytes[-1].items():
            assert size == math.ceil((after.get(pair, 0) - before.get(pair, 0)) / 8)
        before = after
    assert min(before.values()) > 0


def test_a_lost_packet_is_not_sent():
    """With most packets lost, most bytes never leave; the count of bits is of what was handed to the network."""
    network = Network.erdos_renyi(NODES, 0.4, seed=4)
    shard_of = shards_of("dealt", 2, NODES)
    spread = Spread(embedded(both_halves(), network, Method(), Faults(loss=0.8, seed=1)), shard_of)
    spread.play(0, ROUNDS)
    sent, counted = (
        sum(map(sum, (sizes.values() for sizes in spread.bytes))),
        sum(counted_bits(spread.mirror, shard_of).values()),
    )
    assert 0.1 * counted / 8 < sent < 0.3 * counted / 8


def living(state: HostileState, dead: np.ndarray) -> dict[str, bytes]:
    """Everything that living nodes know, by the layout."""
    alive = ~dead
    ends = {"sender": alive[state.senders], "receiver": alive[state.receivers]}
    found = {}
    for name, array in state.memory().items():
        axis = HOSTILE_LAYOUT.get(name)
        if axis is None or axis.kind not in ("node", "link"):
            continue
        here = alive if axis.kind == "node" else ends[axis.end]
        cut = (slice(None),) * axis.at
        found[name] = array[(*cut, slice(len(here)))][(*cut, here)].tobytes()
    return found


@pytest.mark.parametrize("network", [*UNDIRECTED, "one-way"])
@pytest.mark.parametrize("pulled", [True, False])
def test_a_shard_that_vanishes_is_a_crash_of_its_nodes(network, pulled):
    """Survivors go on as in a run whose faults said so from the start, though what the dead knew is never asked for."""
    shard_of, gone, crash, notice = shards_of("dealt", 4, NODES), 2, 23, 4
    dead = np.flatnonzero(shard_of == gone)
    problem, method = both_halves(), Method()
    graph = UNDIRECTED.get(network) or Network.erdos_renyi(NODES, 0.5, switching=3, seed=4, directed=True)
    loss = Faults(loss=0.2, delay=1, notice=notice)
    whole = embedded(problem, graph, method, replace(loss, crash={int(node): crash for node in dead}))
    spread = Spread(embedded(problem, graph, method, loss), shard_of)
    spread.play(0, 11) if pulled else None
    for number in range(11 if pulled else 0, crash):
        spread.mirror.meet(number)
        spread.round(number)
    spread.kill(gone)
    spread.mirror.add_crash([int(node) for node in dead], crash)
    spread.play(crash, ROUNDS)
    advance(whole, 0, ROUNDS)
    is_dead = np.isin(np.arange(NODES), dead)
    mine, theirs = living(spread.mirror, is_dead), living(whole, is_dead)
    assert [name for name in mine if mine[name] != theirs[name]] == []
    assert spread.mirror.in_flight == whole.in_flight and spread.mirror.happened == whole.happened
    assert spread.mirror.trouble == whole.trouble and spread.mirror.last_event == whole.last_event


def test_a_packet_of_another_round_is_refused():
    """Shards that fall out of step say so, and do not go on with the wrong numbers."""
    network = Network.ring(NODES)
    spread = Spread(embedded(both_halves(), network, Method(), Faults(loss=0.1)), shards_of("ranges", 2, NODES))
    first, other = (hostile_round(spread.shards[k], spread.regions[k], number) for k, number in ((0, 4), (1, 5)))
    said = next(first)
    next(other)
    with pytest.raises(Failure, match="round 5: shard 0 sent"):
        other.send({0: said[1]})


def kinds(timetable: Timetable) -> list[tuple[int, str, int]]:
    return [(event.round, event.kind, event.nodes[0]) for event in timetable.events]


def test_an_unforeseen_crash_in_a_timetable():
    """What the dead were to do later is struck out; whoever was dead already is not killed twice."""
    faults = Faults(crash={0: 8, 1: 30}, leave={2: 40}, join={3: 50, 1: 60}, notice=5)
    table = Timetable(faults, 6, 100)
    table.add_crash([0, 1, 2, 3], 10)
    assert kinds(table) == [
        (8, "crash", 0),
        (10, "crash", 1),
        (10, "crash", 2),
        (13, "noticed", 0),
        (15, "noticed", 1),
        (15, "noticed", 2),
    ]
    assert table.last == 15
    table.add_crash([4], 97)  # the run ends before that is noticed
    assert kinds(table)[-1] == (97, "crash", 4) and table.last == 97


@pytest.mark.parametrize(
    ("nodes", "at", "refusal"),
    [
        ([9], 3, ("schedule.node", "centre 9")),
        ([1], 200, ("schedule.round", "0..99")),
        ([0, 1, 2, 3], 5, ("schedule.empty",)),
    ],
)
def test_a_crash_that_cannot_be(nodes, at, refusal):
    with refused(*refusal):
        Timetable(Faults(), 4, 100).add_crash(nodes, at)


def test_packets_that_are_too_long_on_their_way():
    """Fifteen bits name what a packet builds on: longer windows are refused before anything starts."""
    mirror = embedded(both_halves(), Network.ring(NODES), Method(), Faults(delay=2))
    mirror.mail.window = 2**16
    with refused("delay.bits", 15):
        HostileShard(mirror, regions(mirror.network, shards_of("dealt", 2, NODES))[0])


@pytest.mark.parametrize("value", [1.0, 1.0000001, 0.1, 3e300, 7e-300, 2.0**0.125, 1023.9])
def test_a_scale_is_told_in_sixteen_bits(value):
    """Rounded up to an eighth of an octave, and the same when it is told again."""
    code = scale_code(value)
    assert 0 <= code < 2**16
    assert value <= scale_of(code) < value * 2.0**0.125 * (1 + 1e-12)
    assert scale_code(scale_of(code)) == code
