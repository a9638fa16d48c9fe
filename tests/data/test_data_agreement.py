"""What centres agree on, against the same found from all rows in one place; and what they say to each other."""

from __future__ import annotations

import json
import queue
import re
import threading
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from equipoise.data.agreement import Disagreement, Terms, agree
from equipoise.data.exact_sums import ExactSum
from equipoise.data.schema import Schema
from equipoise.data.table import read_tables
from equipoise.train import Network
from equipoise.train.exchange.delivery import InMemoryDelivery, tree

NETWORKS = {
    "path": Network.path,
    "star": Network.star,
    "ring": Network.ring,
    "directed ring": lambda n: Network.ring(n, directed=True),
}


def frame(rng, rows, centre):
    """Numbers on scales of their own, a text column with rare values, one that some centres lack, two of three classes."""
    found = pd.DataFrame(
        {
            "age": rng.normal(40, 10, rows).round(3),
            "income": 10.0 ** rng.uniform(-3, 9, rows),
            "town": rng.choice(["Ulm", "Köln", "Rom"], rows, p=[0.6, 0.3, 0.1]),
            "note": None if centre % 3 == 1 else rng.choice(["a", "b"], rows),
            "answer": rng.choice(["no", "yes", "maybe"][: 1 + centre % 3], rows),
        }
    )
    found.loc[rng.random(rows) < 0.2, "age"] = np.nan
    found.loc[rng.random(rows) < 0.2, "town"] = None
    found.loc[0, "town"] = f"hamlet-{centre}"
    return found


def frames(centres, seed=0):
    """One for each centre, of very different sizes."""
    rng = np.random.default_rng(seed)
    return [frame(rng, 12 + 17 * (centre % 4), centre) for centre in range(centres)]


@pytest.fixture
def tables(tmp_path):
    """Writes frames as files and reads them as tables."""

    def tables(frames, label="answer", **options):
        paths = [tmp_path / f"{number}.csv" for number in range(len(frames))]
        for path, frame in zip(paths, frames, strict=True):
            frame.to_csv(path, index=False)
        return read_tables(paths, label=label, **options)

    return tables


class Kept(InMemoryDelivery):
    """Keeps every message."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def deliver(self, sent):
        self.messages += sent.items()
        return super().deliver(sent)


def agreed(tables, network, terms, delivery=None):
    """The schema, the same at every centre."""
    rows = {centre: np.arange(table.rows) for centre, table in enumerate(tables)}
    schemas, _ = agree(dict(enumerate(tables)), rows, tree(network), delivery or InMemoryDelivery(), terms)
    assert all(schema == schemas[0] for schema in schemas.values())
    assert len(schemas) == len(tables)
    return schemas[0]


def root(square):
    """The nearest float, by way of 60 digits."""
    digits = Context(prec=60)
    return float(digits.sqrt(digits.divide(Decimal(square.numerator), Decimal(square.denominator))))


def moments(values):
    """Mean and deviation as they are rounded once."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(mean), root(sum((value - mean) ** 2 for value in exact) / len(exact))


def expected(frames, min_count, label="answer"):
    """The same schema in plain words, from pooled rows: pandas finds the columns, Counter counts, fractions add up."""
    pooled = pd.concat(frames, ignore_index=True)
    found = {"rows": len(pooled), "classes": sorted(Counter(pooled[label]).items())}
    for name in pooled.columns.drop(label):
        present = pooled[name].dropna()
        if pd.api.types.is_numeric_dtype(present):
            fill = moments(present)[0]
            found[name] = (fill, *moments(pooled[name].fillna(fill)))
        else:
            named, rest = Counter(), 0
            for one in frames:
                for value, count in Counter(one[name].dropna()).items():
                    if count >= min_count:
                        named[value] += count
                    else:
                        rest += count
            found[name] = sorted(named.items()), rest, len(pooled) - len(present)
    return found


def in_words(schema):
    """A schema in the same plain words."""
    found = {"rows": schema.rows, "classes": [*zip(schema.classes, schema.class_counts, strict=True)]}
    found |= {c.name: (c.fill, c.mean, c.deviation) for c in schema.numbers}
    return found | {c.name: ([*c.counts.items()], c.other, c.missing) for c in schema.texts}


@pytest.mark.parametrize("min_count", [1, 2, 10])
def test_the_schema_is_that_of_the_pooled_rows(tables, min_count):
    """Classes, counts, named values, means and deviations to the last bit; with a larger min_count, by that rule in each
    file."""
    given = frames(7)
    schema = agreed(tables(given), Network.path(7), Terms("answer", min_count=min_count))
    assert in_words(schema) == expected(given, min_count)
    assert [c.name for c in schema.numbers] == ["age", "income"]
    assert [c.name for c in schema.texts] == ["town", "note"]


def test_scikit_learn_finds_the_same_means_and_deviations(tables):
    """SimpleImputer and StandardScaler on the pooled rows, which round as they add, come within 1e-12."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    given = frames(6)
    pooled = pd.concat(given)[["age", "income"]]
    imputer = SimpleImputer().fit(pooled)
    scaler = StandardScaler().fit(imputer.transform(pooled))
    numbers = agreed(tables(given), Network.star(6), Terms("answer")).numbers
    assert [c.fill for c in numbers] == pytest.approx(imputer.statistics_, rel=1e-12)
    assert [c.mean for c in numbers] == pytest.approx(scaler.mean_, rel=1e-12)
    assert [c.scale for c in numbers] == pytest.approx(scaler.scale_, rel=1e-12)


@pytest.mark.parametrize(("kind", "centres"), [(k, n) for k in NETWORKS for n in range(3 if "ring" in k else 1, 9)])
def test_the_network_and_the_order_of_centres_are_of_no_account(tables, kind, centres):
    """1 to 8 centres in two orders on four networks: the schema of the pooled rows, and of all centres alike."""
    given = frames(centres, seed=centres)
    network, terms = NETWORKS[kind](centres), Terms("answer", min_count=3)
    schema = agreed(tables(given), network, terms)
    assert in_words(schema) == expected(given, 3)
    assert agreed(tables(given[::-1]), network, terms) == schema


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_exact_sums_make_order_irrelevant_for_any_numbers(tmp_path_factory, seed, centres):
    """Columns whose sums floats would round differently in every order."""
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("files")
    paths = []
    for centre in range(centres):
        rows = int(rng.integers(2, 9))
        values = rng.normal(size=rows) * 10.0 ** rng.integers(-300, 300, size=rows)
        paths.append(folder / f"{centre}.csv")
        pd.DataFrame({"x": values, "y": np.arange(rows) % 2}).to_csv(paths[-1], index=False)
    found = [
        agreed(read_tables(order, label="y"), Network.path(centres), Terms("y"))
        for order in (paths, paths[::-1], rng.permutation(np.array(paths)).tolist())
    ]
    assert found[0] == found[1] == found[2]
    assert Schema.from_text(found[0].text()) == found[0]


def test_bits_are_eight_for_each_byte_that_is_delivered(tables):
    """Link by link, over links that are there, and no others."""
    network, delivery = Network.ring(5, directed=True), Kept()
    agreed(tables(frames(5)), network, Terms("answer"), delivery)
    by_hand = Counter()
    for link, message in delivery.messages:
        by_hand[link] += 8 * len(message)
    bits = delivery.bits
    assert (
        dict(zip(zip(bits.senders.tolist(), bits.receivers.tolist(), strict=True), bits.bits, strict=True)) == by_hand
    )
    assert bits.total == sum(by_hand.values())
    assert set(by_hand) <= {(k, (k + 1) % 5) for k in range(5)}


class Posts:
    """Blocking mail between threads. What is sent is with the receiver later; a sender that asks for nothing gets nothing,
    and one that only asks waits for one message."""

    def __init__(self, owners):
        self.owners, self.boxes = owners, [queue.Queue() for _ in set(owners.values())]

    def of(self, process):
        return Post(self, process)


class Post:
    def __init__(self, posts, process):
        self.posts, self.process = posts, process

    def deliver(self, sent):
        for link, message in sent.items():
            self.posts.boxes[self.posts.owners[link[1]]].put((link, message))
        return {} if sent else dict([self.posts.boxes[self.process].get(timeout=30)])


def in_processes(tables, network, terms, owners):
    """Each process knows its own centres' tables and places, and a post; what each returns or raises."""
    places, posts, found = tree(network), Posts(owners), {}

    def live(process):
        own = {centre: table for centre, table in enumerate(tables) if owners[centre] == process}
        rows = {centre: np.arange(table.rows) for centre, table in own.items()}
        try:
            found[process] = agree(own, rows, {centre: places[centre] for centre in own}, posts.of(process), terms)[0]
        except Exception as error:
            found[process] = error

    threads = [threading.Thread(target=live, args=(process,), daemon=True) for process in set(owners.values())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a centre waits for ever"
    return found


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("centres_each", [1, 2])
def test_centres_in_processes_of_their_own_agree_alike(tables, kind, centres_each):
    """One or two centres a thread, whose deliver blocks: nothing but messages is between them, and none waits for ever."""
    given = tables(frames(5))
    network, terms = NETWORKS[kind](5), Terms("answer", min_count=3)
    owners = {centre: centre // centres_each for centre in range(5)}
    found = in_processes(given, network, terms, owners)
    here = agreed(given, network, terms)
    assert {centre for schemas in found.values() for centre in schemas} == set(range(5))
    assert all(schema == here for schemas in found.values() for schema in schemas.values())


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("centres_each", [1, 2])
def test_all_processes_hear_why_their_files_do_not_fit(tables, kind, centres_each):
    """Other columns in one file: every process raises the same, and none is left waiting for words that never come."""
    given = frames(5)
    given[4] = given[4].rename(columns={"age": "years"})
    owners = {centre: centre // centres_each for centre in range(5)}
    found = in_processes(tables(given), NETWORKS[kind](5), Terms("answer"), owners)
    assert len(found) == len(set(owners.values()))
    for error in found.values():
        assert isinstance(error, Disagreement)
        assert [(centre, column) for centre, column, *_ in error.differences] == [(4, "age"), (4, "years")]


def test_neither_rows_nor_rare_values_are_in_any_message(tables):
    """No value of fewer than min_count rows of a centre, no line of a file, no number of a cell in digits or as a sum."""
    given, delivery = frames(6, seed=4), Kept()
    agreed(tables(given), Network.star(6), Terms("answer", min_count=10), delivery)
    said = b"\n".join(message for _, message in delivery.messages).decode()
    for one in given:
        for value, count in Counter(one["town"].dropna()).items():
            often = any(Counter(other["town"])[value] >= 10 for other in given)
            assert (json.dumps(value, ensure_ascii=False) in said) == often, (value, count)
        for line in one.to_csv(index=False).splitlines()[1:]:
            assert line not in said
        for value in (*one["age"].dropna(), *one["income"]):
            assert not re.search(rf"(?<!\d){re.escape(repr(float(value)))}(?!\d)", said)
            assert json.dumps(ExactSum.of(np.array([value])).packed(), separators=(",", ":")) not in said
    assert "hamlet" not in said
    assert "Ulm" in said


STRUCTURE = {"columns", "files", "order", "rows", "numbers", "texts", "label", "number", "empty"}


def strings(content):
    """All strings in a JSON value, keys too."""
    if isinstance(content, dict):
        return {*content} | {text for value in content.values() for text in strings(value)}
    if isinstance(content, list):
        return {text for value in content for text in strings(value)}
    return {content} if isinstance(content, str) else set()


def test_with_numbers_only_no_text_of_anybody_is_sent(tables):
    """Strings are fixed words, fingerprints and class numbers: no letter of a column's name or of a value."""
    given = [one.drop(columns=["town", "note"]).assign(answer=np.arange(len(one)) % 3) for one in frames(4)]
    delivery = Kept()
    schema = agreed(tables(given), Network.path(4), Terms("answer", numbers_only=True, min_count=10), delivery)
    for _, message in delivery.messages:
        for text in strings(json.loads(message)) - STRUCTURE:
            assert re.fullmatch(r"[0-9a-f]{16}|[0-9a-f]{64}|-?\d+(\.\d+)?", text), text
    assert in_words(schema) == expected(given, 10)  # and yet every centre knows its columns by name


def test_numbers_only_refuses_text_by_the_centres_that_have_it(tables):
    """A label of text, and columns of text; an empty column is neither."""
    given = frames(2)
    with pytest.raises(Disagreement) as caught:
        agreed(tables(given), Network.path(2), Terms("answer", numbers_only=True))
    assert {(centre, code) for centre, _, _, code in caught.value.differences} == {
        (0, "table.numbers_only"),
        (1, "table.numbers_only"),
    }
    assert len(caught.value.differences) == 2 + 2 + 1  # town and answer at both; note only where it is not empty


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda one: one.assign(age="old"), "table.kinds"),
        (lambda one: one.drop(columns="income"), "table.columns"),
        (lambda one: one.assign(answer=np.arange(len(one)) % 2), "table.kinds"),
        (lambda one: None, "table.twice"),
    ],
    ids=["text", "column", "label", "twice"],
)
def test_files_that_do_not_fit_are_named(tables, change, code):
    """Text where others have numbers, a missing column, numbers as classes where others have names, the same file twice."""
    given = frames(4)
    changed = change(given[2])
    given[2] = given[0] if changed is None else changed
    with pytest.raises(Disagreement) as caught:
        agreed(tables(given), Network.path(4), Terms("answer"))
    assert {found[3] for found in caught.value.differences} == {code}
    assert caught.value.code == code


def test_a_class_without_a_training_row_keeps_its_place(tables):
    """The dictionary has every class of every file; only rows that are trained on are counted."""
    given = tables(frames(3))
    rows = {0: np.arange(12), 1: np.arange(29), 2: np.flatnonzero(given[2].columns["answer"].values != 0)}
    schemas, _ = agree(dict(enumerate(given)), rows, tree(Network.path(3)), InMemoryDelivery(), Terms("answer"))
    assert schemas[0].classes == ("maybe", "no", "yes")
    assert schemas[0].class_counts[0] == 0
    assert schemas[0].rows == sum(map(len, rows.values())) == sum(schemas[0].class_counts)


def test_whole_numbers_are_classes_unless_there_are_many(tables):
    """Up to 20 different ones over all files; three files with ten each are a quantity, of which no value is a class."""
    for most, classes in ((20, 20), (30, 0)):
        given = [
            pd.DataFrame({"x": np.arange(20.0), "y": [*range(first, first + 10)] * 2}) for first in range(0, most, 10)
        ]
        schema = agreed(tables(given, label="y"), Network.path(len(given)), Terms("y"))
        assert len(schema.classes) == classes


def test_columns_that_say_nothing_are_left_out(tables):
    """Empty in all files, or without a value that may be named."""
    given = [one.assign(nothing=None, rare=[f"{k}-{n}" for n in range(len(one))]) for k, one in enumerate(frames(3))]
    schema = agreed(tables(given), Network.path(3), Terms("answer"))
    assert set(schema.left_out) == {"nothing", "rare"}
    assert not {"nothing", "rare"} & set(schema.kinds)
