"""A round of the paper's own form on one shard: CPU flows along edges, models and trackers mix along them (the twins of
train.allocate.Allocation.advance and train.learn.Learning.advance)."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from equipoise.engine.shards.crossing import Crossing, Packets, talk
from equipoise.engine.shards.limiting import limited, wide_boxes
from equipoise.kernels import kernel
from equipoise.train.allocate import Allocation, apply, refill, wish
from equipoise.train.arrays import Floats, Ints
from equipoise.train.average import track
from equipoise.train.channel import ONCE, quantise_counted
from equipoise.train.learn import Learning, mix
from equipoise.train.limiter import BIGGEST_FLOW, FLAG_BITS
from equipoise.train.links import Round
from equipoise.train.quantize import Coder


def flow_round(cpu: Allocation, round: Round, crossing: Crossing, number: int) -> Generator[Packets, Packets, bool]:
    """Prices are exchanged, CPU flows; both ends of an edge compute the same flow. False when one no longer fits here."""
    market, grid, method = cpu.market, cpu.market.grid, cpu.method
    ghosts = np.flatnonzero(~crossing.own)
    cpu.shares[ghosts], cpu.excess[ghosts] = 0, 0.0
    inside = np.where(crossing.own, grid.floats(cpu.shares), np.clip(0.0, market.lo, market.hi))
    with np.errstate(all="ignore"):
        cpu.prices[:, 0] = market.price(inside, method) + cpu.excess
    bounded = method.limits_boxes and market.boxed
    if len(cpu.late):
        cpu.wait(number)
    yield from talk(cpu.channel, cpu.prices, crossing, ONCE, number, FLAG_BITS if bounded else 0)
    wanted = np.zeros(len(round.pair), dtype=np.int64)
    weights, edge_coder = round.weights(method.cpu_weights, cpu.curvature), cpu.channel.edge_coder
    if edge_coder is not None:  # an edge between shards is counted by its tail's
        strange = ~crossing.own[round.topology.tails]
        _uncount(cpu.channel.heard, round.tail_slot[strange], round.head_slot[strange], edge_coder, cpu.channel.tally)
    largest = wish(
        cpu.channel.heard,
        round.tail_slot,
        round.head_slot,
        round.pair,
        weights,
        cpu.step,
        method.momentum,
        number,
        grid.unit,
        edge_coder is not None,
        edge_coder or cpu.channel.coder,
        cpu.flow,
        cpu.difference,
        cpu.age,
        cpu.seen,
        cpu.shares,
        bounded,
        2.0**61 / max(1, round.topology.all_edges),
        cpu.channel.tally,
        wanted,
    )
    tails, heads = round.topology.tails, round.topology.heads
    if not bounded:
        apply(wanted, wanted, tails, heads, cpu.shares)
        return bool(largest <= BIGGEST_FLOW)
    wide = wide_boxes(market.low, market.high, ghosts)
    moved = yield from limited(
        lambda: wanted, round, crossing, cpu.shares, *wide, False, cpu.channel.bits_sent, cpu.amount_bits
    )
    wished = apply(wanted if moved is None else moved, wanted, tails, heads, cpu.shares)
    if method.box == "price":
        gap = grid.floats(wished - cpu.shares)  # desired net inflow - actual
        refill(cpu.excess, gap, market.stiffness, cpu.shares, market.low, market.high, grid.unit)
    return bool(largest <= BIGGEST_FLOW)


@kernel
def _uncount(heard: Floats, tail_slot: Ints, head_slot: Ints, coder: Coder, tally: Ints) -> None:
    """Take off what the other shard counts too."""
    twice = np.zeros(3, dtype=np.int64)
    for e in range(len(tail_slot)):
        quantise_counted(coder, heard[tail_slot[e], 0] - heard[head_slot[e], 0], twice)
    for k in range(3):
        tally[k] -= twice[k]


def mix_round(learning: Learning, round: Round, crossing: Crossing, number: int) -> Generator[Packets, Packets, bool]:
    """Models and trackers mix, models descend, trackers follow the gradients. False when a number has run away here."""
    yield from talk(learning.channel, learning.yz, crossing, ONCE, number)
    near, weights = round.neighbours, round.entry_weights(learning.method.model_weights)
    edge_coder = learning.channel.edge_coder
    before = learning.trackers.copy()
    mix(
        learning.channel.heard,
        near,
        weights,
        learning.step,
        edge_coder is not None,
        edge_coder or learning.channel.coder,
        learning.channel.tally,
        learning.yz,
    )
    learning.models[:] -= learning.step * learning.alpha * learning.method.faded(number) * before
    fine = bool(np.abs(learning.yz).max() <= learning.calm)
    with np.errstate(all="ignore"):
        gradient = learning.sampler.at(learning.models, number + 1)
    return bool(track(gradient, learning.gradient, learning.yz)) and fine
