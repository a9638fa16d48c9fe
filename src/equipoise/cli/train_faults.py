"""Faults as the command line writes them: 7@137 crashes centre 7 before round 137, 0-9@100..400 splits the network."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.cli.train_config import TrainConfig

# What makes a network hostile; `fixed_delay` and `notice` only say how.
FAULTS = ("loss", "delay", "crash", "leave", "join", "straggle", "partition")
HOSTILE = ("directed", *FAULTS)
HOW = ("fixed_delay", "notice")
DEEDS = ("crash", "leave", "join")
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


def texts(name: str, value: Any) -> list[str]:
    """One fault or several, each checked and kept as it was written."""
    given = value if isinstance(value, list) else [value]
    for text in given:
        if not isinstance(text, str):
            raise InputError(f"expected {EXAMPLES[name]}; not {text!r}")
        if name in DEEDS:
            deeds(name, text)
        elif name == "straggle":
            slowness(text)
        else:
            split_of(text)
    return [text.replace(" ", "") for text in given]


def loss(value: Any) -> float | str:
    """A probability stays a number; bursts stay as they were written."""
    if isinstance(value, str) and value.startswith(BURSTS):
        bursts(value)
        return value.replace(" ", "")
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"expected {LOSS}; not {value!r}") from None
    if not 0 <= number < 1:
        raise InputError(f"expected {LOSS}, below 1; not {number:g}")
    return number


def bursts(text: str) -> Any:
    """bursts:ENTER,LEAVE[,BAD[,GOOD]]."""
    from equipoise.train.hostile.faults import Bursts

    parts = text.removeprefix(BURSTS).split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise InputError(f"expected {LOSS}; not {text!r}") from None
    if not 2 <= len(numbers) <= 4:
        raise InputError(f"expected {LOSS}; {text!r} has {len(numbers)} of 2 to 4 numbers")
    return Bursts(*numbers)


def nodes(name: str, text: str, whole: str) -> list[int]:
    """3,7 or 0-9 or 0-4,8."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise InputError(f"expected {EXAMPLES[name]}; not {whole!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > MOST_NODES:
            raise InputError(f"{whole!r} has the centres {first}-{last}: write the smaller number first")
        found += range(first, last + 1)
    twice = sorted({node for node in found if found.count(node) > 1}) if len(found) < 1000 else []
    if twice:
        raise InputError(f"{whole!r} names centre {twice[0]} twice: name it once")
    return found


def deeds(name: str, text: str) -> list[tuple[int, int]]:
    """(node, round) for each centre of NODES@ROUND."""
    who, at, when = text.partition("@")
    if not at or not re.fullmatch(r"\s*\d+\s*", when):
        raise InputError(f"expected {EXAMPLES[name]}; not {text!r}")
    return [(node, int(when)) for node in nodes(name, who, text)]


def slowness(text: str) -> dict[int, int]:
    """{node: k} of NODES:K."""
    who, colon, often = text.partition(":")
    if not colon or not re.fullmatch(r"\s*\d+\s*", often) or int(often) < 1:
        raise InputError(f"expected {EXAMPLES['straggle']}; not {text!r}")
    return dict.fromkeys(nodes("straggle", who, text), int(often))


def split_of(text: str) -> Any:
    """A Partition of NODES@BEGIN..[END]."""
    from equipoise.train.hostile.faults import Partition

    match = re.fullmatch(r"([^@]*)@\s*(\d+)\s*\.\.\s*(\d*)\s*", text)
    if match is None:
        raise InputError(f"expected {EXAMPLES['partition']}; not {text!r}")
    end = int(match[3]) if match[3] else None
    return Partition(frozenset(nodes("partition", match[1], text)), int(match[2]), end)


def is_hostile(config: TrainConfig) -> bool:
    """Whether anything is asked for that an ordinary run does not have."""
    return any(getattr(config, name) for name in HOSTILE)


def faults_of(config: TrainConfig) -> Any:
    """What `solve` takes, or None where packets arrive at once and nobody goes."""
    if not any(getattr(config, name) for name in FAULTS):
        return None
    from equipoise.train.hostile.faults import Faults

    slow: dict[int, int] = {}
    for text in config.straggle:
        for node, every in slowness(text).items():
            if slow.setdefault(node, every) != every:
                raise InputError(f"--straggle gives centre {node} two paces, {slow[node]} and {every}: give one")
    happenings = {name: [pair for text in getattr(config, name) for pair in deeds(name, text)] for name in DEEDS}
    return Faults(
        loss=bursts(config.loss) if isinstance(config.loss, str) else config.loss,
        delay=config.delay,
        jitter=not config.fixed_delay,
        straggle=slow,
        partition=[split_of(text) for text in config.partition],
        notice=config.notice,
        seed=config.seed,
        **happenings,
    )


def flag(name: str) -> str:
    """crash as --crash."""
    return "--" + name.replace("_", "-")


def refuse_faults(config: TrainConfig, command: str, way_out: str = "") -> None:
    """For what cannot be done on a hostile network: names every fault that was asked for."""
    asked = [flag(name) for name in HOSTILE if getattr(config, name)]
    if asked:
        raise InputError(_refusal(command, asked) + way_out)


def _refusal(command: str, asked: list[str]) -> str:
    return f"{command} knows no hostile networks: drop {', '.join(asked)}"


def refusing_faults(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the names of all faults, hidden, so that it can refuse them by name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        hidden = [_hidden(fault) for fault in (*HOSTILE, *HOW)]

        def run(**given: Any) -> None:
            asked = [flag(p.name) for p in hidden if given.pop(p.name)]
            if asked:
                raise InputError(_refusal(name, asked))
            command(**given)

        run.__doc__ = command.__doc__
        run.__signature__ = inspect.Signature([*own, *hidden])  # type: ignore[attr-defined]
        return run

    return decorate


def _hidden(name: str) -> inspect.Parameter:
    import typer

    kind = bool if name in ("directed", "fixed_delay") else list[str] if name in EXAMPLES else str
    option = Annotated[kind | None, typer.Option(flag(name), hidden=True)]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
