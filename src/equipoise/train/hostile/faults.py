"""What can go wrong on a network, as a user states it: losses, delays, and events at given rounds.

In config.yaml and options it is text: 7@137 crashes centre 7 before round 137, 0-9@100..400 splits the network.
"""

from __future__ import annotations

import itertools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.train.spec import TrainSpec

LONGEST_DELAY = 60  # rounds
NOTICE = 5  # rounds of silence after which neighbours take a centre, or a link, for gone
Kind = Literal["crash", "leave", "join", "split", "heal", "noticed", "cut"]
When = Mapping[int, int] | Iterable[tuple[int, int]]


@dataclass(frozen=True)
class Bursts:
    """Gilbert-Elliott losses: a link is good or bad; it turns bad with probability `enter` a round and good again with
    `leave`. Packets are lost with probability `bad` while it is bad and `good` while it is good."""

    enter: float
    leave: float
    bad: float = 1.0
    good: float = 0.0

    def __post_init__(self) -> None:
        for name in ("enter", "leave", "bad", "good"):
            _probability(f"Bursts {name}", getattr(self, name), f"bursts.{name}")
        if self.enter > 0 and self.leave == 0:
            raise InputError(
                "Bursts leave is 0: a link that turns bad stays so for ever; give a leave > 0", code="bursts.leave"
            )
        if self.mean == 1:
            raise InputError(
                "Bursts that lose every packet: nothing could be agreed on; give a lower bad or good", code="loss.total"
            )
        for name in ("enter", "leave", "bad", "good"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def mean(self) -> float:
        """Packets lost in the long run."""
        share_bad = self.enter / (self.enter + self.leave) if self.enter else 0.0
        return share_bad * self.bad + (1.0 - share_bad) * self.good


@dataclass(frozen=True)
class Partition:
    """No packet passes between these centres and the others in rounds begin..end-1."""

    nodes: frozenset[int]
    begin: int
    end: int | None = None  # None: it never heals

    def __post_init__(self) -> None:
        given = self.nodes
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InputError(
                f"a partition takes the centres of one side, such as {{0, 1, 2}}, not {given!r}", code="partition.nodes"
            )
        sides = list(given)
        if not all(map(_whole, sides)):
            raise InputError(f"a partition takes whole numbers of centres, not {given!r}", code="partition.nodes")
        object.__setattr__(self, "nodes", frozenset(int(node) for node in sides))
        if not self.nodes:
            raise InputError("a partition names no centre: give those of one side", code="partition.nodes")
        _round("partition", self.begin, "partition.round")
        if self.end is not None and not (isinstance(self.end, numbers.Integral) and self.end > self.begin):
            raise InputError(
                f"a partition from round {self.begin} must heal later, not at round {self.end!r}",
                code="partition.order",
            )


@dataclass(frozen=True)
class Faults:
    """A hostile network. Draws are keyed by (seed, round, link): every engine sees the same losses and delays.

    loss       probability that a packet is lost, for each direction by itself; or Bursts(...)
    delay      rounds a packet takes: 0 to `delay`, drawn for each; with jitter=False exactly `delay`
    crash      centres that die: {node: round} or pairs (node, round); neighbours notice after `notice` rounds of silence
    leave      centres that go in order, handing over what they hold
    join       centres that are absent until this round (or come back after a crash)
    straggle   {node: k}: this centre acts in every k-th round only
    partition  Partition(nodes, begin, end): the network splits in two, and heals
    """

    loss: float | Bursts = 0.0
    delay: int = 0
    jitter: bool = True
    crash: When = ()
    leave: When = ()
    join: When = ()
    straggle: Mapping[int, int] = field(default_factory=dict)
    partition: Iterable[Partition] | Partition = ()
    notice: int = NOTICE
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Bursts):
            _probability("loss", self.loss, "loss.range")
            if self.loss == 1:
                raise InputError("loss 1 loses every packet: nothing could be agreed on; give less", code="loss.total")
        if not _whole(self.delay, 0, LONGEST_DELAY):
            raise InputError(
                f"delay must be a whole number of rounds from 0 to {LONGEST_DELAY}, not {self.delay!r}",
                code="delay.range",
            )
        if not isinstance(self.jitter, bool):
            raise InputError(f"jitter must be True or False, not {self.jitter!r}", code="jitter.type")
        if not _whole(self.notice, 0):
            raise InputError(
                f"notice must be a whole number of rounds, 0 or more, not {self.notice!r}", code="notice.range"
            )
        if not _whole(self.seed, 0, 2**63 - 1):
            raise InputError(f"seed={self.seed!r}: must be a whole number from 0 to 2^63 - 1", code="seed.range")
        for name in ("crash", "leave", "join"):
            object.__setattr__(self, name, _pairs(name, getattr(self, name)))
        if not isinstance(self.straggle, Mapping):
            raise InputError(
                f"straggle takes {{node: k}}, such as {{4: 5}}, not {self.straggle!r}", code="straggle.form"
            )
        for node, every in self.straggle.items():
            if not _whole(node):
                raise InputError(
                    f"straggle: centres are whole numbers, counted from 0, not {node!r}", code="straggle.node"
                )
            if not _whole(every, 1, 2**31 - 1):
                raise InputError(
                    f"straggle: centre {node} answers every {every!r} rounds: give a whole number, 1 or more",
                    code="straggle.range",
                )
        object.__setattr__(self, "straggle", {int(node): int(k) for node, k in sorted(self.straggle.items())})
        for name in ("delay", "notice", "seed"):
            object.__setattr__(self, name, int(getattr(self, name)))
        parts: tuple[Any, ...] = tuple(self.partition) if isinstance(self.partition, Iterable) else (self.partition,)
        if not all(isinstance(part, Partition) for part in parts):
            raise InputError(
                f"partition takes Partition(nodes, begin, end), not {self.partition!r}", code="partition.type"
            )
        parts = tuple(sorted(parts, key=lambda part: part.begin))
        for one, other in itertools.pairwise(parts):
            if one.end is None or one.end > other.begin:
                raise InputError(
                    f"the partitions from rounds {one.begin} and {other.begin} overlap: heal one first",
                    code="partition.overlap",
                )
        object.__setattr__(self, "partition", parts)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """In order of rounds."""
        return self.partition  # type: ignore[return-value]

    @property
    def deeds(self) -> list[tuple[Kind, int, int]]:
        """(kind, node, round) of all that centres do."""
        kinds: tuple[Kind, ...] = ("crash", "leave", "join")
        return [(kind, node, at) for kind in kinds for node, at in getattr(self, kind)]

    @property
    def lossless(self) -> bool:
        """Whether every packet arrives, sooner or later."""
        return finite_loss(self.loss).mean == 0 and not self.partition and not self.crash

    @property
    def age(self) -> float:
        """How many rounds old news is on average when it is used, beyond the one it always takes."""
        return (0.5 if self.jitter else 1.0) * self.delay + self.missed

    @property
    def missed(self) -> float:
        """How many packets in a row are lost on average before one gets through."""
        lost = finite_loss(self.loss).mean
        return lost / max(1.0 - lost, 0.05)

    @property
    def only_delayed(self) -> bool:
        """Whether the one fault is that every packet takes the same number of rounds."""
        return self == Faults(delay=self.delay, jitter=False, notice=self.notice, seed=self.seed) and self.delay > 0

    @property
    def none(self) -> bool:
        """Whether nothing at all goes wrong."""
        return self == Faults(jitter=self.jitter, notice=self.notice, seed=self.seed)


def _whole(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether it is a whole number between these; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and least <= int(value) <= most


def _probability(name: str, value: object, code: str) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= 1:
        raise InputError(f"{name} must be a probability from 0 to 1, not {value!r}", code=code)


def _round(what: str, value: object, code: str) -> None:
    if not _whole(value, 0):
        raise InputError(f"{what}: the round must be a whole number, 0 or more, not {value!r}", code=code)


def _pairs(name: str, given: When) -> tuple[tuple[int, int], ...]:
    """(node, round), in order of rounds."""
    try:
        pairs = [(node, at) for node, at in (given.items() if isinstance(given, Mapping) else given)]
    except (TypeError, ValueError):
        raise InputError(
            f"{name} takes {{node: round}} or pairs (node, round), not {given!r}", code=f"{name}.form"
        ) from None
    for node, at in pairs:
        if not _whole(node):
            raise InputError(f"{name}: centres are whole numbers, counted from 0, not {node!r}", code=f"{name}.node")
        _round(f"{name} of centre {node}", at, f"{name}.round")
    return tuple(sorted(((int(node), int(at)) for node, at in pairs), key=lambda pair: (pair[1], pair[0])))


def finite_loss(loss: float | Bursts) -> Bursts:
    """Every loss as bursts: an even one has links that are always good."""
    return loss if isinstance(loss, Bursts) else Bursts(enter=0.0, leave=1.0, good=float(loss))


# Faults as text. What makes a network hostile; `fixed_delay` and `notice` only say how.
FAULTS = ("loss", "delay", "crash", "leave", "join", "straggle", "partition")
HOSTILE = ("directed", *FAULTS)
HOW = ("fixed_delay", "notice")
AT_ROUNDS = ("crash", "leave", "join")
BURSTS = "bursts:"
EXAMPLES = {
    "crash": "NODES@ROUND, such as 7@137 or 3,7@137",
    "leave": "NODES@ROUND, such as 3@50 or 0-4@50",
    "join": "NODES@ROUND, such as 9@200 or 8,9@200",
    "straggle": "NODES:ROUNDS, such as 4:5 (in a file: '4:5', in quotes)",
    "partition": "NODES@BEGIN..END, such as 0-9@100..400, or 0-9@100.. which never heals",
}
LOSS = "a probability such as 0.3, or bursts:ENTER,LEAVE[,BAD[,GOOD]] such as bursts:0.05,0.3"
MOST_NODES = 10**6  # of a range: more is a slip


def checked_texts(name: str, value: object) -> list[str]:
    """One fault or several, each checked and kept as it was written."""
    read: dict[str, Callable[[str], object]] = {"straggle": paces, "partition": partition_of}
    given: list[object] = value if isinstance(value, list) else [value]
    found = []
    for text in given:
        if not isinstance(text, str):
            raise InputError(f"expected {EXAMPLES[name]}; not {text!r}", code="fault.form")
        read.get(name, partial(at_rounds, name))(text)
        found.append(text.replace(" ", ""))
    return found


def checked_loss(value: object) -> float | str:
    """A probability stays a number; bursts stay as they were written."""
    if isinstance(value, str) and value.startswith(BURSTS):
        bursts(value)
        return value.replace(" ", "")
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"expected {LOSS}; not {value!r}", code="fault.form") from None
    if not 0 <= number < 1:
        raise InputError(f"expected {LOSS}, below 1; not {number:g}", code="fault.form")
    return number


def bursts(text: str) -> Bursts:
    """bursts:ENTER,LEAVE[,BAD[,GOOD]]."""
    parts = text.removeprefix(BURSTS).split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise InputError(f"expected {LOSS}; not {text!r}", code="fault.form") from None
    if not 2 <= len(numbers) <= 4:
        raise InputError(f"expected {LOSS}; {text!r} has {len(numbers)} of 2 to 4 numbers", code="fault.form")
    return Bursts(*numbers)


def nodes(name: str, text: str, whole: str) -> list[int]:
    """3,7 or 0-9 or 0-4,8."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise InputError(f"expected {EXAMPLES[name]}; not {whole!r}", code="fault.form")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > MOST_NODES:
            raise InputError(
                f"{whole!r} has the centres {first}-{last}: write the smaller number first", code="fault.nodes"
            )
        found += range(first, last + 1)
    twice = sorted({node for node in found if found.count(node) > 1}) if len(found) < 1000 else []
    if twice:
        raise InputError(f"{whole!r} names centre {twice[0]} twice: name it once", code="fault.nodes")
    return found


def at_rounds(name: str, text: str) -> list[tuple[int, int]]:
    """(node, round) for each centre of NODES@ROUND."""
    who, at, when = text.partition("@")
    if not at or not re.fullmatch(r"\s*\d+\s*", when):
        raise InputError(f"expected {EXAMPLES[name]}; not {text!r}", code="fault.form")
    return [(node, int(when)) for node in nodes(name, who, text)]


def paces(text: str) -> dict[int, int]:
    """{node: k} of NODES:K."""
    who, colon, often = text.partition(":")
    if not colon or not re.fullmatch(r"\s*\d+\s*", often) or int(often) < 1:
        raise InputError(f"expected {EXAMPLES['straggle']}; not {text!r}", code="fault.form")
    return dict.fromkeys(nodes("straggle", who, text), int(often))


def partition_of(text: str) -> Partition:
    """A Partition of NODES@BEGIN..[END]."""
    match = re.fullmatch(r"([^@]*)@\s*(\d+)\s*\.\.\s*(\d*)\s*", text)
    if match is None:
        raise InputError(f"expected {EXAMPLES['partition']}; not {text!r}", code="fault.form")
    end = int(match[3]) if match[3] else None
    return Partition(frozenset(nodes("partition", match[1], text)), int(match[2]), end)


def faults_of(spec: TrainSpec) -> Faults | None:
    """What `solve` takes, or None where packets arrive at once and nobody goes."""
    if not any(getattr(spec, name) for name in FAULTS):
        return None
    slow: dict[int, int] = {}
    for text in spec.straggle:
        for node, every in paces(text).items():
            if slow.setdefault(node, every) != every:
                raise InputError(
                    f"--straggle gives centre {node} two paces, {slow[node]} and {every}: give one", code="fault.twice"
                )
    happenings = {name: [pair for text in getattr(spec, name) for pair in at_rounds(name, text)] for name in AT_ROUNDS}
    return Faults(
        loss=bursts(spec.loss) if isinstance(spec.loss, str) else spec.loss,
        delay=spec.delay,
        jitter=not spec.fixed_delay,
        straggle=slow,
        partition=[partition_of(text) for text in spec.partition],
        notice=spec.notice,
        seed=spec.seed,
        **happenings,
    )
