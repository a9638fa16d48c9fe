"""Messages: what each receiver believes of each sender, updated by integer codes, with every bit counted."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.compiled import kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.links import Round
from equipoise.train.quantize import EXACT, FLOAT_BITS, Coder, Quantizer, decode_one, encode_one, uniform_coder

# A code beyond the range makes the link's unit this much larger from the next message on; both ends see the code.
ZOOM = 64.0

CLEAR = 2.3  # e-folds: after a silence a message is right to a tenth of what one without it would say
INNOVATION, NODE = 0, 1
ONCE: Ints = np.ones(1, dtype=np.int64)
SATURATED, UNDERFLOWED, NUMBERS = 0, 1, 2


class Channel:
    """One stream of messages (prices, or models and trackers), for all links.

    `heard[slot]` is the estimate that receiver and sender share. `parts` splits a message into equal blocks with a scale of
    their own (y and z).
    """

    def __init__(
        self, quantizer: Quantizer, width: int, parts: int, slots: int, ratio: float = 1.0, pace: float = 0.2
    ) -> None:
        self.width, self.parts = width, parts
        self.ratio = ratio  # of a first step of y to z: the scale of models that begin at 0
        self.bits = quantizer.bits
        self.pace = pace  # e-folds a round in which values settle: news after a silence is so much larger than before
        self.coder = quantizer.coder()
        # Edge mode quantises differences where the flow is made (allocate, learn): its messages pass as they are.
        self.edge_coder = self.coder if quantizer.mode == "edge" else None
        if quantizer.mode == "edge":
            self.coder = uniform_coder(EXACT, 1.0, 0)
        self.behaviour = INNOVATION if quantizer.mode == "innovation" else NODE
        self.heard = np.zeros((slots, width))
        self.unit = np.ones((slots, parts))
        self.met = np.zeros(slots, dtype=np.bool_)
        self.last = np.full(slots, -1, dtype=np.int32)  # round of the last message
        # What a code leaves of its news, in e-folds: after a silence news is large and takes more of them.
        error = math.expm1(quantizer.rho / 2)
        self.sharpness = -math.log(max(error, 1e-9)) if error < 0.9 else 0.0
        self.bits_sent = np.zeros(
            slots, dtype=np.int64
        )  # per slot: on a static network every link of a node carries them
        self.tally = np.zeros(3, dtype=np.int64)  # numbers saturated, underflowed, sent

    def grow(self, slots: int) -> None:
        """Room for pairs that have just met."""
        if slots > len(self.met):
            room = max(slots, 2 * len(self.met))
            for name in ("heard", "unit", "met", "last", "bits_sent"):
                setattr(self, name, lengthened(getattr(self, name), room))

    def exchange(self, values: Floats, round: Round, number: int, repeats: Ints = ONCE) -> None:
        """Every sender of this round sends; every receiver updates what it believes.

        `repeats`: how many codes each sender spends on a number, each of what the last one left; 0 is the number itself.
        """
        _exchange(
            self.coder, self.behaviour, self.bits, self.ratio, values, round.slots, round.senders, repeats,
            self.sharpness, self.pace, number, self.heard, self.unit, self.met, self.last, self.bits_sent, self.tally,
        )  # fmt: skip

    def repeats(self, degree: Ints) -> Ints:
        """Codes a number for hosts of so many neighbours; 0 stands for the number itself.

        A host's rounding error comes back to it once for every neighbour: the more it has, the finer it speaks.
        """
        if self.coder.kind == EXACT:
            return ONCE
        if self.sharpness == 0.0:
            return np.zeros(1, dtype=np.int64)
        times = np.maximum(np.ceil(np.log(degree + 1.0) / self.sharpness), 1).astype(np.int64)
        return np.where(times * self.bits > FLOAT_BITS, 0, times)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {name: getattr(self, name) for name in ("heard", "unit", "met", "last", "bits_sent", "tally")}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name, array in memory.items():
            setattr(self, name, array)


def lengthened(array: AnyArray, length: int) -> AnyArray:
    """The same array with zeros appended along its first axis."""
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _exchange(
    coder: Coder,
    behaviour: int,
    bits: int,
    ratio: float,
    values: Floats,
    slots: Ints,
    senders: Ints,
    repeats: Ints,
    sharpness: float,
    pace: float,
    number: int,
    heard: Floats,
    unit: Floats,
    met: AnyArray,
    last: AnyArray,
    bits_sent: Ints,
    tally: Ints,
) -> None:
    width, parts = heard.shape[1], unit.shape[1]
    block = width // parts
    saturated = underflowed = 0
    for k in range(len(slots)):
        slot, sender = slots[k], senders[k]
        if coder.kind == EXACT:
            heard[slot] = values[sender]
            bits_sent[slot] += bits * width
            continue
        times = repeats[sender] if len(repeats) > 1 else repeats[0]
        if last[slot] < number - 1 and times > 0:
            times = max(times, math.ceil((CLEAR + pace * (number - last[slot])) / sharpness)) if sharpness > 0.0 else 0
            times = times if times * bits <= FLOAT_BITS else 0
        last[slot] = number
        if behaviour == INNOVATION and met[slot] and times == 0:
            heard[slot] = values[sender]
            bits_sent[slot] += FLOAT_BITS * width
            continue
        if behaviour == INNOVATION and not met[slot]:
            # First contact: the value itself as a float; its size becomes the link's unit.
            met[slot] = True
            bits_sent[slot] += FLOAT_BITS * width
            for part in range(parts):
                largest = 0.0
                for c in range(part * block, (part + 1) * block):
                    heard[slot, c] = values[sender, c]
                    largest = max(largest, abs(values[sender, c]))
                unit[slot, part] = largest if largest < np.inf else 1.0
            if unit[slot, 0] == 0.0:  # models that begin at 0 will move in steps of ratio (x tracker, if that is told too)
                unit[slot, 0] = ratio * (unit[slot, parts - 1] if parts > 1 else 1.0) or 1.0
            if unit[slot, parts - 1] == 0.0:
                unit[slot, parts - 1] = 1.0
            continue
        bits_sent[slot] += bits * width * times
        for spoken in range(times * parts):
            part = spoken % parts
            scale = unit[slot, part] if behaviour == INNOVATION else 1.0
            beyond = False
            for c in range(part * block, (part + 1) * block):
                believed = heard[slot, c] if behaviour == INNOVATION else 0.0
                news = (values[sender, c] - believed) / scale
                code = encode_one(coder, news)
                if code == 0:
                    underflowed += news != 0.0
                elif abs(code) >= coder.top:  # the receiver sees only the top code: both ends zoom on it
                    saturated += abs(code) > coder.top
                    beyond = True
                    code = coder.top if code > 0 else -coder.top
                heard[slot, c] = believed + scale * decode_one(coder, code)
            if beyond and behaviour == INNOVATION:
                unit[slot, part] *= ZOOM
    tally[SATURATED] += saturated
    tally[UNDERFLOWED] += underflowed
    tally[NUMBERS] += len(slots) * width


@kernel
def quantise_counted(coder: Coder, value: float, tally: Ints) -> float:
    """q(value) for edge mode, counting what leaves the range."""
    code = encode_one(coder, value)
    tally[UNDERFLOWED] += code == 0 and value != 0.0
    tally[SATURATED] += abs(code) > coder.top
    return decode_one(coder, min(max(code, -coder.top), coder.top))


class Tally(NamedTuple):
    """How often the quantiser's range was left: numbers sent, clipped at the top, lost below the smallest level."""

    sent: int
    saturated: int
    underflowed: int
