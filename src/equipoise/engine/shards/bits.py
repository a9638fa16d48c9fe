"""Numbers of any width side by side in a buffer of bytes, lowest bit first: what a message really weighs."""

from __future__ import annotations

import numpy as np

from equipoise.kernels import bits_float, float_bits, kernel
from equipoise.train.arrays import AnyArray, Ints


@kernel
def put(buffer: AnyArray, cursor: int, value: int, count: int) -> int:
    """Append the low `count` bits of a value; the buffer is zero from the cursor on. Returns the new cursor."""
    left, rest = count, np.uint64(value)
    while left > 0:
        place, used = cursor >> 3, cursor & 7
        taken = min(8 - used, left)
        part = rest & np.uint64((1 << taken) - 1)
        buffer[place] |= np.uint8(part << np.uint64(used))
        rest = rest >> np.uint64(taken)
        cursor += taken
        left -= taken
    return cursor


@kernel
def get(buffer: AnyArray, cursor: int, count: int) -> int:
    """The `count` bits at the cursor, as the low bits of an integer; the caller moves its cursor on."""
    value, done = np.uint64(0), 0
    while done < count:
        place, used = cursor >> 3, cursor & 7
        taken = min(8 - used, count - done)
        part = (np.uint64(buffer[place]) >> np.uint64(used)) & np.uint64((1 << taken) - 1)
        value |= part << np.uint64(done)
        cursor += taken
        done += taken
    return np.int64(value)  # type: ignore[return-value]


@kernel
def put_float(buffer: AnyArray, cursor: int, value: float) -> int:
    """Append a float as it is: 64 bits."""
    return put(buffer, cursor, float_bits(value), 64)


@kernel
def get_float(buffer: AnyArray, cursor: int) -> float:
    """The float at the cursor."""
    return bits_float(get(buffer, cursor, 64))  # type: ignore[no-any-return]


@kernel
def copy_bits(source: AnyArray, begins: Ints, ends: Ints, chosen: Ints, buffer: AnyArray, cursor: int) -> int:
    """Append these stretches of another buffer, one after the other."""
    for k in chosen:
        at = begins[k]
        while at < ends[k]:
            count = min(56, ends[k] - at)
            cursor = put(buffer, cursor, get(source, at, count), count)
            at += count
    return cursor
