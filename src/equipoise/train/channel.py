"""Messages: what each receiver believes of each sender, updated by integer codes, with every bit counted."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from equipoise.kernels import float_bits, kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.links import Round
from equipoise.train.quantize import EXACT, FLOAT_BITS, LOG, Coder, Quantizer, decode_one, encode_one, uniform_coder

# A code beyond the range makes the link's unit this much larger from the next message on; both ends see the code.
ZOOM = 64.0

CLEAR = 2.3  # e-folds: after a silence a message is right to a tenth of what one without it would say
INNOVATION, NODE = 0, 1
ONCE: Ints = np.ones(1, dtype=np.int64)
SATURATED, UNDERFLOWED, NUMBERS = 0, 1, 2


class Wire(NamedTuple):
    """A channel as the kernels see it."""

    coder: Coder
    innovation: bool
    bits: int
    ratio: float
    sharpness: float
    pace: float
    heard: Floats
    unit: Floats
    met: AnyArray
    last: AnyArray
    bits_sent: Ints
    tally: Ints


class Channel:
    """One stream of messages (prices, models, answers), for all links.

    `heard[slot]` is the estimate that receiver and sender share. `parts` splits a message into equal blocks with a scale of
    their own (y and z).
    """

    def __init__(
        self, quantizer: Quantizer, width: int, parts: int, slots: int, ratio: float = 1.0, pace: float = 0.2
    ) -> None:
        self.width, self.parts = width, parts
        self.ratio = ratio  # of a first step of y to z: the scale of models that begin at 0
        self.bits = quantizer.bits
        self.pace = pace  # e-folds per round in which values settle: news after a silence is so much larger than before
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
        self._wire: Wire | None = None

    def grow(self, slots: int) -> None:
        """Room for pairs that have just met."""
        if slots > len(self.met):
            self._wire = None
            room = max(slots, 2 * len(self.met))
            for name in ("heard", "unit", "met", "last", "bits_sent"):
                setattr(self, name, lengthened(getattr(self, name), room))

    @property
    def wire(self) -> Wire:
        """As the kernels see it."""
        if self._wire is None:
            self._wire = Wire(
                self.coder,
                self.behaviour == INNOVATION,
                self.bits,
                self.ratio,
                self.sharpness,
                self.pace,
                self.heard,
                self.unit,
                self.met,
                self.last,
                self.bits_sent,
                self.tally,
            )
        return self._wire

    def exchange(self, values: Floats, round: Round, number: int, repeats: Ints = ONCE, flags: int = 0) -> None:
        """Every sender of this round sends; every receiver updates what it believes.

        `repeats`: how many codes each sender spends on a number, each of what the last one left; 0 is the number itself.
        `flags`: bits that go with every message.
        """
        send(self.wire, values, round.slots, round.senders, repeats, number, flags, 0, len(round.slots), self.tally)

    def repeats(self, degree: AnyArray) -> Ints:
        """Codes per number for hosts of so many neighbours; 0 stands for the number itself.

        A host's rounding error comes back to it once for every neighbour: the more it has, the finer it speaks.
        """
        if self.coder.kind == EXACT:
            return ONCE
        if self.sharpness == 0.0:
            return np.zeros(1, dtype=np.int64)
        times = np.maximum(np.ceil(np.log(degree + 1.0) / self.sharpness), 1).astype(np.int64)
        return np.where(times * self.bits > FLOAT_BITS, 0, times)

    @property
    def plain(self) -> Ints:
        """Codes per number for everybody where e-folds count: coarse codes are said more than once."""
        return ONCE if self.coder.kind == EXACT else self.repeats(np.array([math.e - 1.0]))

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {name: getattr(self, name) for name in ("heard", "unit", "met", "last", "bits_sent", "tally")}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        self._wire = None
        for name, array in memory.items():
            setattr(self, name, array)


def lengthened(array: AnyArray, length: int) -> AnyArray:
    """The same array with zeros appended along its first axis."""
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def send(
    wire: Wire,
    values: Floats,
    slots: Ints,
    senders: Ints,
    repeats: Ints,
    number: int,
    flags: int,
    begin: int,
    end: int,
    tally: Ints,
) -> None:
    """The senders of these slots, begin to end, speak, and their receivers' estimates follow."""
    coder = wire.coder
    if wire.innovation:
        _say_news(
            coder.kind,
            coder.spacing,
            coder.top,
            coder.levels,
            coder.borders,
            coder.shift,
            coder.first_bin,
            coder.bins,
            wire.bits,
            wire.ratio,
            wire.sharpness,
            wire.pace,
            values,
            slots,
            senders,
            repeats,
            number,
            flags,
            begin,
            end,
            wire.heard,
            wire.unit,
            wire.met,
            wire.last,
            wire.bits_sent,
            tally,
        )
    else:
        _say_anew(coder, wire.bits, values, slots, senders, flags, begin, end, wire.heard, wire.bits_sent, tally)
    tally[NUMBERS] += (end - begin) * wire.heard.shape[1]


@kernel
def _say_anew(
    coder: Coder,
    bits: int,
    values: Floats,
    slots: Ints,
    senders: Ints,
    flags: int,
    begin: int,
    end: int,
    heard: Floats,
    bits_sent: Ints,
    tally: Ints,
) -> None:
    """Without memory: the values themselves, or their codes."""
    width = heard.shape[1]
    for k in range(begin, end):
        slot, sender = slots[k], senders[k]
        bits_sent[slot] += bits * width + flags
        for c in range(width):
            value = values[sender, c]
            heard[slot, c] = value if coder.kind == EXACT else quantise_counted(coder, value, tally)


@kernel
def _say_news(
    kind: int,
    spacing: float,
    top: int,
    levels: Floats,
    borders: Floats,
    shift: int,
    first_bin: int,
    bins: AnyArray,
    bits: int,
    ratio: float,
    sharpness: float,
    pace: float,
    values: Floats,
    slots: Ints,
    senders: Ints,
    repeats: Ints,
    number: int,
    flags: int,
    begin: int,
    end: int,
    heard: Floats,
    unit: Floats,
    met: AnyArray,
    last: AnyArray,
    bits_sent: Ints,
    tally: Ints,
) -> None:
    """Codes of the difference to what is believed; the values themselves at first contact, and where that is shorter.

    Arrays come one by one: this loop runs for every number that is ever sent, and tuples of arrays would slow it.
    """
    width, parts = heard.shape[1], unit.shape[1]
    block = width // parts
    saturated = underflowed = 0
    for k in range(begin, end):
        slot, sender = slots[k], senders[k]
        times = repeats[sender] if len(repeats) > 1 else repeats[0]
        silence = number - last[slot]
        last[slot] = number
        if not met[slot]:
            times = 0
        elif silence > 1 and times > 0:
            more = math.ceil((CLEAR + pace * silence) / sharpness) if sharpness > 0.0 else 0
            times = max(times, more) if more > 0 else 0
        if times == 0 or times * bits > FLOAT_BITS:
            bits_sent[slot] += FLOAT_BITS * width + flags
            for c in range(width):
                heard[slot, c] = values[sender, c]
            if not met[slot]:
                met[slot] = True
                introduce(values, sender, slot, block, ratio, unit)
            continue
        bits_sent[slot] += bits * width * times + flags
        for spoken in range(times * parts):
            part = spoken % parts
            scale, beyond = unit[slot, part], False
            per_unit = 1.0 / scale
            for c in range(part * block, (part + 1) * block):
                news = (values[sender, c] - heard[slot, c]) * per_unit
                size = abs(news)
                if kind == LOG:  # encode_one, written out
                    place = (float_bits(size) >> shift) - first_bin
                    code = 0 if place < 0 else (int(bins[place]) if place < len(bins) else top + 1)
                    code += size >= borders[code + 1]
                else:
                    position = np.floor(size / spacing + 0.5)
                    code = int(position) if position <= top else top + 1
                if code >= top:  # the receiver sees only the top code: both ends make their unit larger
                    saturated += code > top
                    beyond = True
                    code = top
                underflowed += (code == 0) & (news != 0.0)
                level = levels[code] if kind == LOG else code * spacing
                heard[slot, c] += scale * math.copysign(level, news)
            if beyond:
                unit[slot, part] *= ZOOM
    tally[SATURATED] += saturated
    tally[UNDERFLOWED] += underflowed


@kernel
def introduce(values: Floats, sender: int, slot: int, block: int, ratio: float, unit: Floats) -> None:
    """First contact: the size of each block becomes its unit."""
    parts = unit.shape[1]
    for part in range(parts):
        largest = 0.0
        for c in range(part * block, (part + 1) * block):
            largest = max(largest, abs(values[sender, c]))
        unit[slot, part] = largest if largest < np.inf else 1.0
    if unit[slot, 0] == 0.0:  # models that begin at 0 will move in steps of ratio (x tracker, if that is told too)
        unit[slot, 0] = ratio * (unit[slot, parts - 1] if parts > 1 else 1.0) or 1.0
    if unit[slot, parts - 1] == 0.0:
        unit[slot, parts - 1] = 1.0


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
