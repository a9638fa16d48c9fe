"""A channel over the wire: what `train.channel.send` does in one process, in two halves that meet only through bits.

Both ends know how many codes a message has: that follows from who speaks, when it last did, and whether it ever did. So a
message is its codes and nothing else, each a sign and a size in `bits` bits, or floats at first contact.
"""

from __future__ import annotations

import math

from equipoise.engine.shards.bits import get, get_float, put, put_float
from equipoise.kernels import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import CLEAR, NUMBERS, SATURATED, UNDERFLOWED, ZOOM, Channel, Wire, introduce
from equipoise.train.quantize import EXACT, FLOAT_BITS, LOG, decode_one, encode_one


def most_bits(channel: Channel, messages: int) -> int:
    """Room for so many messages: no message is longer than its numbers themselves."""
    return messages * channel.width * FLOAT_BITS


@kernel
def codes_a_number(wire: Wire, slot: int, usual: int, number: int) -> int:
    """How many codes each number of this message has; 0 is the number itself."""
    if not wire.innovation:
        return 0 if wire.coder.kind == EXACT else 1
    silence = number - wire.last[slot]
    times = usual
    if not wire.met[slot]:
        times = 0
    elif silence > 1 and times > 0:
        more = math.ceil((CLEAR + wire.pace * silence) / wire.sharpness) if wire.sharpness > 0.0 else 0
        times = max(times, more) if more > 0 else 0
    return 0 if times * wire.bits > FLOAT_BITS else times


@kernel
def speak(
    wire: Wire,
    values: Floats,
    slots: Ints,
    senders: Ints,
    repeats: Ints,
    number: int,
    flags: int,
    buffer: AnyArray,
    begins: Ints,
    ends: Ints,
) -> None:
    """The senders of these slots speak into the buffer, message k from bit begins[k] to ends[k]; their own estimates of
    what the receivers believe follow."""
    coder, width, parts, cursor = wire.coder, wire.heard.shape[1], wire.unit.shape[1], 0
    block, mark = width // parts, 1 << (wire.bits - 1)
    for k in range(len(slots)):
        slot, sender = slots[k], senders[k]
        times = codes_a_number(wire, slot, repeats[sender] if len(repeats) > 1 else repeats[0], number)
        begins[k] = cursor
        if times == 0:
            for c in range(width):
                cursor = put_float(buffer, cursor, values[sender, c])
        elif not wire.innovation:
            for c in range(width):
                code = encode_one(coder, values[sender, c])
                wire.tally[UNDERFLOWED] += code == 0 and values[sender, c] != 0.0
                wire.tally[SATURATED] += abs(code) > coder.top
                size = min(abs(code), coder.top)
                cursor = put(buffer, cursor, size | mark if code < 0 else size, wire.bits)
        else:
            believed, unit = wire.heard[slot].copy(), wire.unit[slot].copy()
            for spoken in range(times * parts):
                part = spoken % parts
                per_unit, beyond = 1.0 / unit[part], False
                for c in range(part * block, (part + 1) * block):
                    news = (values[sender, c] - believed[c]) * per_unit
                    size = abs(encode_one(coder, news))
                    wire.tally[SATURATED] += size > coder.top
                    wire.tally[UNDERFLOWED] += size == 0 and news != 0.0
                    size = min(size, coder.top)
                    beyond |= size == coder.top
                    negative = math.copysign(1.0, news) < 0.0
                    cursor = put(buffer, cursor, size | mark if negative else size, wire.bits)
                    believed[c] += _meant(wire, size, negative, unit[part])
                if beyond:
                    unit[part] *= ZOOM
        ends[k] = cursor
        hear_one(wire, slot, times, number, buffer, begins[k])
        # Edge mode counts codes of differences, which no real channel can send: its numbers travel whole.
        wire.bits_sent[slot] += (cursor - begins[k] if wire.innovation else wire.bits * width) + flags
    wire.tally[NUMBERS] += len(slots) * width


@kernel
def _meant(wire: Wire, size: int, negative: bool, scale: float) -> float:
    """The change that a code stands for."""
    level = wire.coder.levels[size] if wire.coder.kind == LOG else size * wire.coder.spacing
    return scale * (-level if negative else level)


@kernel
def hear(wire: Wire, slots: Ints, senders: Ints, repeats: Ints, number: int, buffer: AnyArray, cursor: int) -> int:
    """Messages of these slots are heard one after the other; the cursor behind the last."""
    for k in range(len(slots)):
        usual = repeats[senders[k]] if len(repeats) > 1 else repeats[0]
        times = codes_a_number(wire, slots[k], usual, number)
        cursor = hear_one(wire, slots[k], times, number, buffer, cursor)
    return cursor


@kernel
def hear_one(wire: Wire, slot: int, times: int, number: int, buffer: AnyArray, cursor: int) -> int:
    """One message changes what is believed of its sender."""
    coder, width, parts = wire.coder, wire.heard.shape[1], wire.unit.shape[1]
    block, mark = width // parts, 1 << (wire.bits - 1)
    if wire.innovation:
        wire.last[slot] = number
    if times == 0:
        for c in range(width):
            wire.heard[slot, c] = get_float(buffer, cursor)
            cursor += FLOAT_BITS
        if wire.innovation and not wire.met[slot]:
            wire.met[slot] = True
            introduce(wire.heard, slot, slot, block, wire.ratio, wire.unit)
        return cursor
    if not wire.innovation:
        for c in range(width):
            code = get(buffer, cursor, wire.bits)
            size = code & (mark - 1)
            wire.heard[slot, c] = decode_one(coder, -size if code & mark else size)
            cursor += wire.bits
        return cursor
    for spoken in range(times * parts):
        part = spoken % parts
        scale, beyond = wire.unit[slot, part], False
        for c in range(part * block, (part + 1) * block):
            code = get(buffer, cursor, wire.bits)
            size = code & (mark - 1)
            beyond |= size == coder.top
            wire.heard[slot, c] += _meant(wire, size, (code & mark) != 0, scale)
            cursor += wire.bits
        if beyond:
            wire.unit[slot, part] *= ZOOM
    return cursor
