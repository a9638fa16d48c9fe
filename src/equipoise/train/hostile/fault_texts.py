"""Faults as config.yaml and options write them: 7@137 crashes centre 7 before round 137, 0-9@100..400 splits the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.train.hostile.faults import Bursts, Faults, Partition

if TYPE_CHECKING:
    from equipoise.train.spec import TrainSpec

# What makes a network hostile; `fixed_delay` and `notice` only say how.
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


def checked(name: str, value: object) -> list[str]:
    """One fault or several, each checked and kept as it was written."""
    given: list[object] = value if isinstance(value, list) else [value]
    found = []
    for text in given:
        if not isinstance(text, str):
            raise InputError(f"expected {EXAMPLES[name]}; not {text!r}", code="fault.form")
        if name in AT_ROUNDS:
            at_rounds(name, text)
        elif name == "straggle":
            paces(text)
        else:
            partition_of(text)
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
