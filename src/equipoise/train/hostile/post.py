"""Numbers in packets that may be lost: codes of the change since a packet that is known to have arrived.

Sender and receiver both remember the numbers of the last packets; a packet names the one it builds on. What is built on is
always one that the receiver has acknowledged, so estimates cannot part, whatever is lost; where none is recent enough the
numbers themselves are sent.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.kernels import float_bits, kernel
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.channel import NUMBERS, SATURATED, UNDERFLOWED, lengthened
from equipoise.train.hostile.mail import Mail
from equipoise.train.hostile.traffic import Traffic, widened
from equipoise.train.quantize import EXACT, FLOAT_BITS, LOG, Quantizer


class Post:
    """A stream of numbers over all links: `of_nodes` numbers that a node says to everybody, `of_links` to each one.

    `held[link]` is what the receiver believes now.
    """

    def __init__(self, quantizer: Quantizer, of_nodes: int, of_links: int, window: int) -> None:
        self.of_nodes, self.width, self.window = of_nodes, of_nodes + of_links, window
        self.coder, self.bits = quantizer.coder(), quantizer.bits
        self.innovation = quantizer.mode == "innovation"
        self.held = np.empty((0, self.width))
        self.said = np.empty((window, 0, self.width))  # in each of the last packets
        self.unit = np.empty((window, 0, 2))  # scale of the codes that build on it: of both parts
        self.bits_sent = np.empty(0, dtype=np.int64)
        self.tally = np.zeros(3, dtype=np.int64)

    KEPT = ("held", "said", "unit", "bits_sent")

    def grow(self, links: int) -> None:
        """Room for pairs that have just met."""
        old = len(self.held)
        if links > old:
            room = links if not old else max(links, 2 * old)
            for name in ("held", "bits_sent"):
                setattr(self, name, lengthened(getattr(self, name), room))
            for name in ("said", "unit"):
                setattr(self, name, widened(getattr(self, name), room))

    def say(
        self, traffic: Traffic, number: int, going: AnyArray, mail: Mail, own: Floats, each: Floats, times: Ints
    ) -> None:
        """Put numbers into the packets of this round: `own` per node, `each` per link; each bit passes `times` links.

        To be called before mail.post.
        """
        coder = self.coder
        order, link, senders, _ = traffic.by_link
        _say(
            senders,
            link,
            going[order],
            times,
            number,
            mail.acked,
            mail.number,
            own,
            each,
            coder.kind,
            coder.spacing,
            coder.top,
            coder.levels,
            coder.borders,
            coder.shift,
            coder.first_bin,
            coder.bins,
            self.innovation,
            self.bits,
            self.said,
            self.unit,
            self.bits_sent,
            self.tally,
        )

    def hear(self, mail: Mail) -> None:
        """Take the numbers of the newest packets. To be called after mail.post."""
        _hear(mail.fresh, mail.latest, self.said, self.held)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        return {name: getattr(self, name) for name in (*self.KEPT, "tally")}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        for name, array in memory.items():
            setattr(self, name, array)


@kernel
def _say(
    senders: Ints,
    link: Ints,
    going: AnyArray,
    times: Ints,
    number: int,
    acked: Ints,
    numbers: Ints,
    own: Floats,
    each: Floats,
    kind: int,
    spacing: float,
    top: int,
    levels: Floats,
    borders: Floats,
    shift: int,
    first_bin: int,
    bins: AnyArray,
    innovation: bool,
    bits: int,
    said: Floats,
    unit: Floats,
    bits_sent: Ints,
    tally: Ints,
) -> None:
    """Codes of the difference to an acknowledged packet, or the numbers themselves."""
    window, width, a = said.shape[0], said.shape[2], own.shape[1]
    slot = number % window
    sent = saturated = underflowed = 0
    for e in range(len(link)):
        if not going[e]:
            continue
        i, way = senders[e], link[e]
        sent += width
        base = acked[way]
        known = base >= 0 and number - base < window and numbers[base % window, way] == base
        fits = known and kind != EXACT
        if fits:
            built = base % window
            for part in range(2):
                begin, end = (0, a) if part == 0 else (a, width)
                plain = part == 0 and not innovation  # node-wise codes of what a node says to everybody
                scale = 1.0 if not innovation else unit[built, way, part]
                per_unit = 1.0 / scale
                for c in range(begin, end):
                    value = own[i, c] if c < a else each[way, c - a]
                    ground = 0.0 if plain else said[built, way, c]
                    news = (value - ground) * per_unit
                    size = abs(news)
                    if kind == LOG:  # encode_one, written out
                        place = (float_bits(size) >> shift) - first_bin
                        code = 0 if place < 0 else (int(bins[place]) if place < len(bins) else top + 1)
                        code += size >= borders[code + 1]
                    else:
                        position = np.floor(size / spacing + 0.5)
                        code = int(position) if position <= top else top + 1
                    if code > top:
                        saturated += 1
                        fits = False
                        break
                    underflowed += (code == 0) & (news != 0.0)
                    level = levels[code] if kind == LOG else code * spacing
                    said[slot, way, c] = ground + scale * math.copysign(level, news)
                unit[slot, way, part] = scale
                if not fits:
                    break
        if fits:
            bits_sent[way] += bits * width * times[way]
            continue
        bits_sent[way] += FLOAT_BITS * width * times[way]
        for part in range(2):
            begin, end = (0, a) if part == 0 else (a, width)
            largest = 0.0
            for c in range(begin, end):
                value = own[i, c] if c < a else each[way, c - a]
                said[slot, way, c] = value
                news = value - said[base % window, way, c] if known else value
                largest = max(largest, abs(news))
            unit[slot, way, part] = largest if 0.0 < largest < np.inf else 1.0
    tally[NUMBERS] += sent
    tally[SATURATED] += saturated
    tally[UNDERFLOWED] += underflowed


@kernel
def _hear(fresh: AnyArray, latest: Ints, said: Floats, held: Floats) -> None:
    window, width = said.shape[0], said.shape[2]
    for way in range(len(fresh)):
        if fresh[way]:
            slot = latest[way] % window
            for c in range(width):
                held[way, c] = said[slot, way, c]
