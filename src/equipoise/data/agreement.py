"""How centres agree on a schema without showing each other a row: counts, exact sums and names go up a tree and come back.

A centre is a generator, as the dynamics of `train` are: it yields what it sends to whom and from whom it waits for words,
and goes on with what it heard. `agree` plays the centres that live in this process; whatever can `deliver` moves the bytes.

First all announce their columns, and differences are refused. Then they add up. Each centre adds its own numbers to those
of the centres below it, so what its neighbour sees are sums; names of rare values stay at home.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import numpy as np

from equipoise.data.exact_sums import ExactSum
from equipoise.data.schema import ClassName, NumberColumn, Schema, TextColumn, class_codes, class_names
from equipoise.data.table import Column, Table
from equipoise.errors import InputError
from equipoise.kernels import Ints

Task = Literal["auto", "classification", "regression"]
MIN_COUNT = 10  # rows of a centre that must have a value before the centre names it to others
MOST_CLASSES = 20  # with task="auto", more different whole numbers than this are a quantity, not classes
Message = dict[str, Any]
Link = tuple[int, int]  # sender, receiver
Steps = Generator[tuple[dict[int, bytes], set[int]], dict[int, bytes], Schema]


class Delivery(Protocol):
    """Moves bytes over links between centres: each message arrives, once, as it was sent, and is counted."""

    def deliver(self, sent: Mapping[Link, bytes]) -> Mapping[Link, bytes]:
        """Send these; what has arrived for centres of this process, one message of a link at a time, in order. With nothing
        to send it waits until something has."""


@dataclass(frozen=True)
class Terms:
    """What all centres must want alike."""

    label: str
    task: Task = "auto"
    min_count: int = MIN_COUNT
    numbers_only: bool = False
    shared: bool = False  # whether centres may have the same file: rows of one that are dealt out

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise InputError(f"min_count is {self.min_count}; expected 1 or more rows", code="min_count.range")


@dataclass(frozen=True)
class Place:
    """A centre in the tree: who is above it (None at the top), and who below."""

    above: int | None
    below: tuple[int, ...]
    children: tuple[int, ...]  # who hears from it on the way down; the same as `below` where links go both ways
    upper: int | None  # from whom it hears on the way down


@dataclass
class Left:
    """What one centre told of its own rows, before anything was added to it."""

    announced: Message = field(default_factory=dict)
    told: Message = field(default_factory=dict)


class Disagreement(InputError):
    """Centres whose files cannot be used together. `differences` are (centre, column, what, code)."""

    def __init__(self, differences: Sequence[tuple[int, str, str, str]]) -> None:
        words = "; ".join(f"centre {centre}: {what}" for centre, _, what, _ in differences)
        super().__init__(words, code=differences[0][3])
        self.differences = tuple(differences)


def agree(
    tables: Mapping[int, Table], rows: Mapping[int, Ints], places: Mapping[int, Place], delivery: Delivery, terms: Terms
) -> tuple[dict[int, Schema], dict[int, Left]]:
    """The schema as each centre of this process ends up with it, and what it told of its own rows.

    Parameters
    ----------
    tables
        Of each centre that lives here.
    rows
        Which of its rows count: those it trains on.
    places
        Where each of them stands in the tree.
    delivery
        Moves the bytes.
    terms
        The label column and the rules, the same at all centres.
    """
    left = {centre: Left() for centre in tables}
    steps = {
        centre: _centre(centre, tables[centre], rows[centre], places[centre], terms, left[centre]) for centre in tables
    }
    schemas: dict[int, Schema] = {}
    heard: dict[int, dict[int, bytes]] = {centre: {} for centre in tables}
    waits: dict[int, set[int]] = {}
    outbox: dict[Link, bytes] = {}
    refused: list[Disagreement] = []

    def go_on(centre: int, words: dict[int, bytes] | None) -> None:
        try:
            sent, waits[centre] = next(steps[centre]) if words is None else steps[centre].send(words)
            outbox.update({(centre, to): message for to, message in sent.items()})
        except StopIteration as ended:
            schemas[centre] = ended.value
            waits.pop(centre, None)
        except Disagreement as found:  # every centre finds the same, once it has heard of it
            refused.append(found)
            waits.pop(centre, None)

    for centre in tables:
        go_on(centre, None)
    while waits:
        ready = [centre for centre, of in waits.items() if of <= heard[centre].keys()]
        for centre in ready:
            go_on(centre, {other: heard[centre].pop(other) for other in waits[centre]})
        if outbox or not ready:
            sent, outbox = outbox, {}
            for (sender, receiver), message in delivery.deliver(sent).items():
                heard[receiver][sender] = message
    if refused:
        raise refused[0]
    return schemas, left


def _centre(centre: int, table: Table, rows: Ints, place: Place, terms: Terms, left: Left) -> Steps:
    """One centre: announce, compare, add up, and read the schema from the sums of all."""
    left.announced = announcement(centre, table, terms)
    announced = yield from _gathered(left.announced, _announced_together, place)
    found = differences(announced, terms)
    if found:
        raise Disagreement(found)
    kinds = agreed_kinds(announced)
    left.told = facts(table, rows, kinds, terms)
    told = yield from _gathered(left.told, _added, place)
    return _schema(told, table, kinds, terms)


def _gathered(
    own: Message, together: Any, place: Place
) -> Generator[tuple[dict[int, bytes], set[int]], dict[int, bytes], Message]:
    """Own words and those from below go up; what comes down holds the words of all."""
    total = own
    if place.below:
        heard = yield {}, set(place.below)
        for centre in sorted(heard):
            total = together(total, _read(heard[centre]))
    if place.above is not None:
        assert place.upper is not None
        heard = yield {place.above: _written(total)}, {place.upper}
        total = _read(heard[place.upper])
    if place.children:
        yield {child: _written(total) for child in place.children}, set()
    return total


def _written(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _read(message: bytes) -> Message:
    return cast(Message, json.loads(message))


# first: which columns


def key_of(name: str, terms: Terms) -> str:
    """What a column is called in messages: its name, or with numbers only a fingerprint of it."""
    return hashlib.sha256(name.encode()).hexdigest()[:16] if terms.numbers_only else name


def announcement(centre: int, table: Table, terms: Terms) -> Message:
    """Columns with their kinds, whether all values of one differ, and the fingerprint of the file."""
    columns = {key_of(column.name, terms): [column.kind, column.different] for column in table.columns.values()}
    if terms.label in table.columns:
        label = table.columns[terms.label]
        columns[key_of(terms.label, terms)] = [label.kind, holds_classes(label, terms.task)]
    files = {} if terms.shared else {table.digest: [centre]}
    return {"columns": [[columns, [centre]]], "files": files, "order": [*columns]}


def holds_classes(label: Column, task: Task) -> bool:
    """Whether its values are classes, as far as one file shows: as it was told, or text, or few different whole numbers."""
    if task != "auto" or label.kind == "text":
        return task != "regression"
    values = np.unique(label.values)
    return len(values) <= MOST_CLASSES and bool(np.all(values == np.floor(values)))


def together(announced: Sequence[Message]) -> Message:
    """What several centres announced."""
    return functools.reduce(_announced_together, announced)


def _announced_together(one: Message, other: Message) -> Message:
    """Centres with the same columns are one entry."""
    columns = [[kinds, list(centres)] for kinds, centres in one["columns"]]
    for kinds, centres in other["columns"]:
        same = next((entry for entry in columns if entry[0] == kinds), None)
        if same is None:
            columns.append([kinds, centres])
        else:
            same[1] = sorted([*same[1], *centres])
    files = {digest: list(centres) for digest, centres in one["files"].items()}
    for digest, centres in other["files"].items():
        files[digest] = sorted([*files.get(digest, []), *centres])
    first = min((one, other), key=lambda message: min(min(centres) for _, centres in message["columns"]))
    return {"columns": columns, "files": files, "order": first["order"]}


def differences(
    announced: Message, terms: Terms, called: Mapping[int, str] | None = None
) -> list[tuple[int, str, str, str]]:
    """Why files cannot be used together: (centre, column, what, code), the centres in order; `called` is what others know
    them by, if not by number."""
    found: list[tuple[int, str, str, str]] = []
    groups = sorted(announced["columns"], key=lambda entry: min(entry[1]))
    names = Counter({key: sum(len(centres) for kinds, centres in groups if key in kinds) for key in _keys(groups)})
    everybody, label = sum(len(centres) for _, centres in groups), key_of(terms.label, terms)
    for kinds, centres in groups:
        for key, count in names.items():
            for centre in centres:
                if key in kinds and count <= everybody / 2:
                    found.append((centre, key, _alone(key, count, everybody, terms), "table.columns"))
                elif key not in kinds and count > everybody / 2:
                    found.append((centre, key, _lacking(key, count, everybody, terms), "table.columns"))
    for key in names:
        texts = [c for kinds, centres in groups if kinds.get(key, [""])[0] == "text" for c in centres]
        numbers = [c for kinds, centres in groups if kinds.get(key, [""])[0] == "number" for c in centres]
        if texts and numbers:
            what = f"column {key!r} holds text, where {_named(numbers, called)} numbers; correct the cells"
            what += "" if key == label else f", or take it as text everywhere with --text {key}"
            found += [(centre, key, what, "table.kinds") for centre in texts]
        if texts and key == label and terms.task == "regression":
            what = f"column {key!r} holds text, and a number is to be predicted; name another label, or another model"
            found += [(centre, key, what, "table.kinds") for centre in texts]
        if texts and terms.numbers_only:
            way = "make it numbers" if key == label else "leave it out with --drop"
            what = f"column {key!r} holds text, and with --numbers-only no text is sent; {way}"
            found += [(centre, key, what, "table.numbers_only") for centre in texts]
    for centres in announced["files"].values():
        if len(centres) > 1:
            what = f"the same content as {_named(centres[:1], called, '')}, byte for byte; leave one out"
            found += [(centre, "", what, "table.twice") for centre in centres[1:]]
    return sorted(found, key=lambda difference: difference[0])


def _keys(groups: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(key for kinds, _ in groups for key in kinds))


def _alone(key: str, count: int, everybody: int, terms: Terms) -> str:
    return (
        f"column {key!r}, which {everybody - count} of {everybody} centres lack; rename it, or leave it out with --drop"
    )


def _lacking(key: str, count: int, everybody: int, terms: Terms) -> str:
    way = "add it" if key == key_of(terms.label, terms) else "add it (cells may be empty), or leave it out with --drop"
    return f"no column {key!r}, which {count} of {everybody} centres have; {way}"


def _named(centres: Sequence[int], called: Mapping[int, str] | None, verb: str = " has") -> str:
    """The first of these centres."""
    first = f"centre {centres[0]}" if called is None else called[centres[0]]
    return f"{first} and {len(centres) - 1} more{verb and ' have'}" if len(centres) > 1 else f"{first}{verb}"


def agreed_kinds(announced: Message) -> dict[str, list[Any]]:
    """By key, in the order of the first centre: the kind, and whether values differ everywhere (of the label: whether they
    are few everywhere)."""
    found: dict[str, list[Any]] = {}
    for key in announced["order"]:
        told = [kinds[key] for kinds, _ in announced["columns"]]
        kind = next((kind for kind, _ in told if kind != "empty"), "empty")
        found[key] = [kind, all(flag for _, flag in told)]
    return found


# then: counts and sums


def facts(table: Table, rows: Ints, kinds: Mapping[str, Sequence[Any]], terms: Terms) -> Message:
    """What a centre tells of these rows: how many, exact sums of numbers, how often each value occurs that it may name."""
    numbers, texts, label = {}, {}, {}
    for column in table.columns.values():
        key = key_of(column.name, terms)
        if column.name == terms.label:
            label = _label_facts(column, rows, few=_classifies(kinds[key], terms))
        elif kinds[key][0] == "number":
            values = column.values[rows]
            numbers[key] = ExactSum.of(values[~np.isnan(values)]).packed()
        elif kinds[key][0] == "text":
            texts[key] = _text_facts(column, rows, terms.min_count)
    return {"rows": len(rows), "numbers": numbers, "texts": texts, "label": label}


def _classifies(kind: Sequence[Any], terms: Terms) -> bool:
    return terms.task != "regression" and (kind[0] == "text" or bool(kind[1]))


def _label_facts(column: Column, rows: Ints, *, few: bool) -> Message:
    if not few:
        return {}
    counts = np.bincount(class_codes(column)[rows], minlength=len(class_names(column)))
    return {json.dumps(name): int(count) for name, count in zip(class_names(column), counts, strict=True)}


def _text_facts(column: Column, rows: Ints, min_count: int) -> list[Any]:
    """Counts of values that may be named, and how many rows have others, or none."""
    if column.kind == "empty":
        return [{}, 0, len(rows)]
    codes = column.values[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.levels)).tolist()
    named = {level: count for level, count in zip(column.levels, counts, strict=True) if count >= min_count}
    return [named, sum(counts) - sum(named.values()), int((codes < 0).sum())]


def _added(one: Message, other: Message) -> Message:
    """Sums of both; exact, so that the order of centres is of no account."""
    numbers = {
        key: (ExactSum.unpacked(packed) + ExactSum.unpacked(other["numbers"][key])).packed()
        for key, packed in one["numbers"].items()
    }
    texts = {
        key: [
            dict(Counter(named) + Counter(other["texts"][key][0])),
            rest + other["texts"][key][1],
            empty + other["texts"][key][2],
        ]
        for key, (named, rest, empty) in one["texts"].items()
    }
    label: Counter[str] = Counter(one["label"])
    label.update(other["label"])  # unlike +, keeps a class that no training row has
    return {"rows": one["rows"] + other["rows"], "numbers": numbers, "texts": texts, "label": dict(label)}


def _schema(told: Message, table: Table, kinds: Mapping[str, Sequence[Any]], terms: Terms) -> Schema:
    """From the sums of all; the names of columns are the centre's own."""
    names = {key_of(name, terms): name for name in table.columns}
    numbers, texts, left_out = [], [], []
    for key, (kind, _) in kinds.items():
        name = names[key]
        if name == terms.label:
            continue
        if kind == "number":
            sums = ExactSum.unpacked(told["numbers"][key])
            if sums.count:
                numbers.append(NumberColumn.of(name, sums, told["rows"]))
                continue
        elif kind == "text" and told["texts"][key][0]:
            named, other, missing = told["texts"][key]
            texts.append(TextColumn(name, {value: named[value] for value in sorted(named)}, other, missing))
            continue
        left_out.append(name)
    classes = _classes(told["label"], kinds[key_of(terms.label, terms)], terms)
    return Schema(
        terms.label,
        told["rows"],
        tuple(numbers),
        tuple(texts),
        tuple(name for name, _ in classes),
        tuple(count for _, count in classes),
        terms.min_count,
        tuple(left_out),
    )


def _classes(told: Mapping[str, int], kind: Sequence[Any], terms: Terms) -> list[tuple[ClassName, int]]:
    """Names in order, with their counts; none for regression."""
    found = sorted((json.loads(name), count) for name, count in told.items())
    if terms.task == "auto" and kind[0] == "number" and len(found) > MOST_CLASSES:
        return []
    return found
