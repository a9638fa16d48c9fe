"""Packets of a hostile network as bytes: sequence numbers, ledgers, and the codes of prices and models (docs/train.md, 5).

A packet has the bits that the protocol counts and no others:

    16        its number, the round in which it was sent
    1 + 15    whether numbers are sent themselves, and how many rounds ago the packet that it builds on was (0: none)
    16        how many rounds ago the newest packet received was sent (0: none, or out of reach)
    ...       whatever else the half counts: running sums and a scale, or a weight
    bits      for every number a sign and a size; or 64, the float

Its unit and the round in which it is due are the same at both ends without a word.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.engine.shards.bits import get, get_float, put, put_float
from equipoise.kernels import float_bits, kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.hostile.mail import NEVER, SEQUENCE_BITS
from equipoise.train.quantize import EXACT, FLOAT_BITS, LOG, Coder, encode_one

NUMBER_BITS = SEQUENCE_BITS // 3
THEMSELVES = 1 << (NUMBER_BITS - 1)  # the mark of numbers that are sent themselves
LONGEST_WINDOW = THEMSELVES  # rounds: what a packet builds on must be nameable
OUT_OF_STEP = -1  # instead of a cursor: a packet of another round


@kernel
def write_packets(
    chosen: Ints,
    senders: Ints,
    link: Ints,
    number: int,
    acked: Ints,
    numbers: Ints,
    ack: Ints,
    own: Floats,
    each: Floats,
    coder: Coder,
    innovation: bool,
    bits: int,
    said: Floats,
    unit: Floats,
    extra: Ints,
    widths: Ints,
    buffer: AnyArray,
    cursor: int,
) -> int:
    """Append the packets of these entries, which `Post.say` has spoken in this round; the cursor behind them.

    `extra` has a row for every packet, its columns in `widths` bits.
    """
    window, width, a = said.shape[0], said.shape[2], own.shape[1]
    slot, mark, reach = number % window, 1 << (bits - 1), (1 << NUMBER_BITS) - 1
    codes = np.empty(width, dtype=np.int64)
    for k in range(len(chosen)):
        i, way = senders[chosen[k]], link[chosen[k]]
        base = acked[way]
        known = base >= 0 and number - base < window and numbers[base % window, way] == base
        fits = known and coder.kind != EXACT
        for c in range(width):
            if not fits:
                break
            part = 0 if c < a else 1
            ground = 0.0 if part == 0 and not innovation else said[base % window, way, c]
            value = own[i, c] if c < a else each[way, c - a]
            news = (value - ground) * (1.0 / (unit[base % window, way, part] if innovation else 1.0))
            size = abs(encode_one(coder, news))
            fits = size <= coder.top
            codes[c] = size | mark if float_bits(news) < 0 else size
        seen = ack[slot, way]
        age = number - seen if seen != NEVER and number - seen <= reach else 0
        builds = number - base if known else 0
        cursor = put(buffer, cursor, number & reach, NUMBER_BITS)
        cursor = put(buffer, cursor, builds if fits else builds | THEMSELVES, NUMBER_BITS)
        cursor = put(buffer, cursor, age, NUMBER_BITS)
        for c in range(len(widths)):
            cursor = put(buffer, cursor, extra[k, c], widths[c])
        for c in range(width):
            cursor = put(buffer, cursor, codes[c], bits) if fits else put_float(buffer, cursor, said[slot, way, c])
    return cursor


@kernel
def read_packets(
    chosen: Ints,
    link: Ints,
    number: int,
    ack: Ints,
    a: int,
    coder: Coder,
    innovation: bool,
    bits: int,
    said: Floats,
    unit: Floats,
    extra: Ints,
    widths: Ints,
    buffer: AnyArray,
    cursor: int,
) -> int:
    """Take the packets of these entries as their senders wrote them: what was said, its unit, and the rest into `extra`."""
    window, width = said.shape[0], said.shape[2]
    slot, mark, reach = number % window, 1 << (bits - 1), (1 << NUMBER_BITS) - 1
    for k in range(len(chosen)):
        way = link[chosen[k]]
        told = get(buffer, cursor, NUMBER_BITS)
        builds = get(buffer, cursor + NUMBER_BITS, NUMBER_BITS)
        age = get(buffer, cursor + 2 * NUMBER_BITS, NUMBER_BITS)
        cursor += SEQUENCE_BITS
        if told != number & reach:
            return OUT_OF_STEP
        ack[slot, way] = number - age if age > 0 else NEVER
        for c in range(len(widths)):
            extra[k, c] = get(buffer, cursor, widths[c])
            cursor += widths[c]
        fits, back = builds & THEMSELVES == 0, builds & (THEMSELVES - 1)
        built = (number - back) % window
        for part in range(2):
            begin, end = (0, a) if part == 0 else (a, width)
            plain = part == 0 and not innovation
            scale = 1.0 if not innovation or not fits else unit[built, way, part]
            largest = 0.0
            for c in range(begin, end):
                if fits:
                    code = get(buffer, cursor, bits)
                    cursor += bits
                    size = code & (mark - 1)
                    level = coder.levels[size] if coder.kind == LOG else size * coder.spacing
                    ground = 0.0 if plain else said[built, way, c]
                    said[slot, way, c] = ground + scale * math.copysign(level, -1.0 if code & mark else 1.0)
                else:
                    value = get_float(buffer, cursor)
                    cursor += FLOAT_BITS
                    news = value - said[built, way, c] if back > 0 else value
                    said[slot, way, c] = value
                    largest = max(largest, abs(news))
            if not fits:
                scale = largest if 0.0 < largest < np.inf else 1.0
            unit[slot, way, part] = scale
    return cursor
