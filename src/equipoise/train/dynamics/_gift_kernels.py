"""Kernels of gifts: prices and gifts are said, heard, credited, and prices made anew."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import (
    MANTISSA,
    NUMBERS,
    SATURATED,
    UNDERFLOWED,
    first_floor,
    largest_code,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.costs._kernels import Curve
from equipoise.train.dynamics._slots import Slots
from equipoise.train.grid import NO_BOUND
from equipoise.train.limiter import BIGGEST_FLOW
from equipoise.train.quantize import FLOAT_BITS

SUM_BITS = 64  # of a running sum
SCALE_BITS = 16  # of log2(elasticity / degree) in eighths, where it has changed; else one bit says that it has not
PER_OCTAVE = 8
LARGER = 0.7  # rho = theta larger^.7 smaller^.3 of the elasticities per link of both ends: found by trying
CALM = 0.3  # of a change of elasticity that a round follows, at most
CALMER, LESS_CALM = 0.7, 1.01  # times that after a turn, and after no turn: late news cannot swing it up
HYSTERESIS = 0.75  # eighths of an octave by which an elasticity is off before it is told anew
ARRIVED = 1e-3  # of log2: nothing worth following
UNKNOWN = -(1 << 62)  # scale of a neighbour that was not heard yet


class Plan(NamedTuple):
    """Per node: price, D, start + sum z, elasticity as told; per slot: z, rho, both scales it was made from, gift due."""

    price: Floats
    weight: Floats
    level: Floats
    start: Floats
    told: Ints
    z: Floats
    rho: Floats
    pair: Ints
    due: Floats


class Following(NamedTuple):
    """Per node: log2 of its degree and of its elasticity, the elasticity that was arrived at, and how fast it follows."""

    degree: Floats
    elastic: Floats
    settled: Floats
    calm: Floats


class Ledger(NamedTuple):
    """Units. Per node: its share, what waits beside it, its box, whether it still collects its lo; per slot: given over it
    so far, received over the way back, and received - given where its planned flow is 0."""

    shares: Ints
    escrow: Ints
    low: Ints
    high: Ints
    collecting: Bools
    gave: Ints
    got: Ints
    offset: Ints


@kernel
def say(
    slots: Slots,
    plan: Plan,
    ledger: Ledger,
    messages: AnyArray,
    code: tuple[int, int],
    scale: tuple[float, float],
    bits: tuple[Ints, Ints],
    tally: Ints,
) -> bool:
    """Prices and gifts of every node to each neighbour. False when the plan is out of all bounds."""
    mantissa, code_bits = code
    theta, unit = scale
    per_unit, fine = 1.0 / unit, True
    for i in range(len(plan.price)):
        wish, price = 0.0, plan.price[i]
        greeting = theta * 2.0 ** (plan.told[i] / PER_OCTAVE) * price  # over links that are not in the plan yet
        for e in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[e], slots.base[e]
            if t < 0:
                continue
            flow = plan.rho[e] * price - plan.z[e]
            q = flow + plan.rho[e] * price if plan.pair[e] != UNKNOWN else greeting
            tally[NUMBERS] += 1
            if b < 0 or mantissa == MANTISSA:
                messages[t].q = q
                messages[t].floor = 0 if mantissa == MANTISSA else floor_of(q, mantissa)
                bits[0][e] += FLOAT_BITS
            else:
                change, floor = q - messages[b].q, messages[b].floor
                size = quantise(change, floor, mantissa)
                messages[t].q = messages[b].q + value(size, floor, mantissa, change)
                messages[t].floor = moved_floor(floor, size, mantissa)
                tally[SATURATED] += size >= largest_code(mantissa)
                tally[UNDERFLOWED] += size == 0 and change != 0.0
                bits[0][e] += code_bits
            due = flow * per_unit - (ledger.gave[e] - ledger.got[e] + ledger.offset[e])
            plan.due[e] = due
            if due >= 1.0 and slots.where[e] >= 0:
                wish += due
        spare = _spare(ledger, i)
        fine &= wish < (BIGGEST_FLOW if spare == BIGGEST_FLOW else np.inf)
        part = 0.0 if not 0.0 < wish < np.inf else min(1.0, spare / wish)
        given = 0
        for e in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[e], slots.base[e]
            if t < 0:
                continue
            if part > 0.0 and plan.due[e] >= 1.0 and slots.where[e] >= 0:
                amount = min(int(plan.due[e] * part), spare - given)
                ledger.gave[e] += amount
                given += amount
            messages[t].gave, messages[t].scale = ledger.gave[e], plan.told[i]
            same = b >= 0 and messages[b].scale == plan.told[i]
            bits[1][e] += SUM_BITS + 1 + (0 if same else SCALE_BITS)
        first = min(max(ledger.escrow[i], 0), given)  # what waits is given away first
        ledger.escrow[i] -= first
        ledger.shares[i] -= given - first
    return fine


@kernel
def _spare(ledger: Ledger, i: int) -> int:
    """Units that a node can give away."""
    if ledger.collecting[i]:
        return int(max(ledger.escrow[i], 0))
    if ledger.low[i] <= -NO_BOUND:
        return int(BIGGEST_FLOW)
    return int(max(ledger.shares[i] + ledger.escrow[i] - ledger.low[i], 0))


@kernel
def floor_of(q: float, mantissa: int) -> int:
    row = np.empty(1)
    row[0] = q
    return first_floor(row, mantissa)


@kernel
def hear(
    slots: Slots, plan: Plan, ledger: Ledger, messages: AnyArray, theta: float, relax: float, acting: Bools
) -> None:
    """Take in what has arrived: what neighbours think of flows, and what they have given."""
    z, rho = plan.z, plan.rho
    for i in range(len(plan.price)):
        if not acting[i]:
            continue
        weight, level, escrow = 0.0, plan.start[i], ledger.escrow[i]
        for e in range(slots.first[i], slots.first[i + 1]):
            if slots.fresh[e]:
                heard = messages[slots.where[e]]
                escrow += heard.gave - ledger.got[e]
                ledger.got[e] = heard.gave
                pair = (plan.told[i] << 20) + heard.scale
                if plan.pair[e] != UNKNOWN:
                    z[e] += relax * (heard.q - z[e])
                elif slots.acked[e] < 0:
                    continue  # a link is in the plan once both ends have heard each other
                if plan.pair[e] != pair:
                    plan.pair[e] = pair
                    larger, smaller = max(plan.told[i], heard.scale), min(plan.told[i], heard.scale)
                    new = theta * 2.0 ** ((LARGER * larger + (1.0 - LARGER) * smaller) / PER_OCTAVE)
                    z[e] += (new - rho[e]) * plan.price[i]
                    rho[e] = new
            weight += rho[e]
            level += z[e]
        plan.weight[i], plan.level[i], ledger.escrow[i] = weight, level, escrow
        settle(ledger, i)


@kernel
def settle(ledger: Ledger, i: int) -> None:
    """Escrow becomes share as far as the box allows; one that collects waits until it has its lo."""
    escrow = ledger.escrow[i]
    if escrow < 0 and not ledger.collecting[i]:  # what a centre below 0 left behind is a debt, paid from above lo
        paid = min(-escrow, ledger.shares[i] - ledger.low[i]) if ledger.low[i] > -NO_BOUND else -escrow
        ledger.shares[i] -= paid
        ledger.escrow[i] += paid
    elif escrow > 0 and not (ledger.collecting[i] and escrow < ledger.low[i]):
        ledger.collecting[i] = False
        fits = min(escrow, ledger.high[i] - ledger.shares[i])
        ledger.shares[i] += fits
        ledger.escrow[i] -= fits


@kernel
def price(
    plan: Plan, answer: Floats, steep: Floats, curve: Curve, follow: Following, full: float, acting: Bools
) -> bool:
    """Prices anew; elasticities follow the curvature calmly. False when a price is not finite."""
    fine = True
    for i in range(len(answer)):
        if not acting[i]:
            continue
        if plan.weight[i] > 0.0:
            plan.price[i] = (plan.level[i] - answer[i]) / plan.weight[i]
            fine &= np.isfinite(plan.price[i])
        at_bound = answer[i] <= curve.lo[i] or answer[i] >= curve.hi[i]
        aim = (full if at_bound else 1.0) / steep[i]
        if aim == follow.settled[i]:
            continue
        off = math.log2(aim) - follow.elastic[i]
        if abs(off) < ARRIVED:
            follow.settled[i] = aim
            continue
        follow.settled[i] = 0.0
        calm = follow.calm[i]
        calm = -CALMER * calm if calm * off < 0.0 else math.copysign(min(abs(calm) * LESS_CALM, CALM), calm)
        follow.calm[i] = calm
        follow.elastic[i] += abs(calm) * off
        exact = PER_OCTAVE * (follow.elastic[i] - follow.degree[i])
        if abs(exact - plan.told[i]) > HYSTERESIS:
            plan.told[i] = round(exact)
    return fine
