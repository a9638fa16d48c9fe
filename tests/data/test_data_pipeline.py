"""A schema as scikit-learn's own transformers: the same features, to the last bit, from frames of any dtype."""

from __future__ import annotations

import io

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse

from equipoise.data.own_files import OwnFiles
from equipoise.data.pipeline import to_columns
from equipoise.data.table import read_tables
from equipoise.train import Network
from equipoise.train.exchange.delivery import InMemoryDelivery, tree

NUMBERS, TEXTS = ["age", "income"], ["town", "shop", "code"]


def frame(rows, seed, towns=4):
    """Messy: missing numbers and text, values that look like numbers, like the name of the rest, or rare."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": rng.normal(40, 10, rows),
            "town": rng.choice([f"town {k}" for k in range(towns)], rows),
            "income": 10.0 ** rng.uniform(-3, 9, rows),
            "shop": rng.choice(["(other)", "((other))", "b c", "é"], rows, p=[0.4, 0.4, 0.19, 0.01]),
            "code": rng.choice(["007", "7", "seven"], rows),
            "answer": rng.choice(["no", "yes"], rows),
        }
    )
    for name in (*NUMBERS, *TEXTS):
        found.loc[rng.random(rows) < 0.15, name] = np.nan
    return found


@pytest.fixture
def schema_of(tmp_path):
    """What two files agree on."""

    def schema_of(first, second, **options):
        for name, one in (("a.csv", first), ("b.csv", second)):
            one.to_csv(tmp_path / name, index=False)
        own = OwnFiles.read([tmp_path / "a.csv", tmp_path / "b.csv"], label="answer", text=["code"], **options)
        return own.agreed(tree(Network.path(2)), InMemoryDelivery()).schema

    return schema_of


@pytest.fixture
def new_rows(tmp_path):
    """Rows nobody has seen: as a table, and as pandas reads them with the kinds of training."""
    new = frame(60, 9)
    new.loc[0, "town"] = "nowhere"
    new.loc[1, "code"] = "eight"
    new.loc[2, [*NUMBERS, *TEXTS]] = np.nan
    path = tmp_path / "new.csv"
    new.to_csv(path, index=False)

    def read(schema):
        return read_tables([path], kinds=schema.kinds)[0], pd.read_csv(path, dtype=dict.fromkeys(TEXTS, "str"))

    return read


def dense(features):
    return features.toarray() if issparse(features) else np.asarray(features)


def as_object(frame, missing):
    """Text columns of dtype object with this for missing."""
    found = frame.astype(dict.fromkeys(TEXTS, object))
    found[TEXTS] = found[TEXTS].where(frame[TEXTS].notna(), missing)
    return found


FORMS = {
    "str": lambda frame: frame,
    "object with nan": lambda frame: as_object(frame, np.nan),
    "object with None": lambda frame: as_object(frame, None),
    "string with NA": lambda frame: frame.astype(dict.fromkeys(TEXTS, "string")),
    "category": lambda frame: frame.astype(dict.fromkeys(TEXTS, "category")),
    "Float64 with NA": lambda frame: frame.astype(dict.fromkeys(NUMBERS, "Float64")),
    "other order, more columns": lambda frame: frame.assign(more=1.0, text="x")[[*frame.columns[::-1], "more", "text"]],
    "no label": lambda frame: frame.drop(columns="answer"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("min_count", [1, 10])
def test_the_pipeline_gives_what_the_schema_gives(schema_of, new_rows, form, min_count):
    """Unseen values, missing ones, other orders: every feature of every row is the same float."""
    schema = schema_of(frame(80, 1), frame(130, 2), min_count=min_count)
    table, rows = new_rows(schema)
    before = FORMS[form](rows)
    given = before.copy()
    found = to_columns(schema).transform(given)
    assert np.array_equal(dense(found), dense(schema.encode(table)))
    pd.testing.assert_frame_equal(given, before)


@pytest.mark.parametrize("towns", [3, 500], ids=["dense", "sparse"])
def test_many_values_make_it_sparse(schema_of, new_rows, towns):
    """500 towns: both sides keep rows sparse, and say the same; with three, both are dense."""
    schema = schema_of(frame(900, 1, towns), frame(900, 2, towns), min_count=1)
    table, rows = new_rows(schema)
    ours, theirs = schema.encode(table), to_columns(schema).transform(rows)
    assert issparse(ours) == issparse(theirs) == (towns > 3)
    assert np.array_equal(dense(theirs), dense(ours))
    assert theirs.shape == (60, schema.width) == (60, len(schema.features))


def test_features_have_names_of_their_own(schema_of):
    """Also where a value is called as the rest is."""
    features = schema_of(frame(80, 1), frame(130, 2)).features
    assert len(set(features)) == len(features)
    assert {"shop=(other)", "shop=((other))", "shop=(((other)))"} <= {*features}


def test_only_numbers_and_only_text(schema_of, new_rows):
    """A schema with one kind of columns has a pipeline too."""
    for columns in (NUMBERS, TEXTS):
        kept = [*columns, "answer"] + ["code"] * (columns == NUMBERS)
        schema = schema_of(frame(80, 1)[kept], frame(130, 2)[kept], drop=["code"] if columns == NUMBERS else [])
        table, rows = new_rows(schema)
        assert np.array_equal(dense(to_columns(schema).transform(rows)), dense(schema.encode(table)))


def test_attributes_are_those_that_were_agreed(schema_of):
    """What a scikit-learn user looks up: statistics_, mean_, scale_, var_, categories."""
    schema = schema_of(frame(80, 1), frame(130, 2))
    parts = to_columns(schema).named_transformers_
    imputer, scaler = (step for _, step in parts["numbers"].steps)
    assert imputer.statistics_.tolist() == [c.fill for c in schema.numbers]
    assert scaler.mean_.tolist() == [c.mean for c in schema.numbers]
    assert scaler.scale_.tolist() == [c.scale for c in schema.numbers]
    assert scaler.n_samples_seen_ == schema.rows
    encoder = parts["text"].named_steps["onehotencoder"]
    named = [
        {*values} - {*(rare if rare is not None else [])}
        for values, rare in zip(encoder.categories_, encoder.infrequent_categories_, strict=True)
    ]
    assert named == [{*c.categories} for c in schema.texts]


def test_it_survives_joblib(schema_of, new_rows):
    """Dumped and loaded, it gives the same."""
    schema = schema_of(frame(80, 1), frame(130, 2))
    _, rows = new_rows(schema)
    file, made = io.BytesIO(), to_columns(schema)
    joblib.dump(made, file)
    file.seek(0)
    assert np.array_equal(dense(joblib.load(file).transform(rows)), dense(made.transform(rows)))


def test_scikit_learn_fitted_on_pooled_rows_gives_nearly_the_same(schema_of, new_rows):
    """Its own ColumnTransformer, min_count 1: the same columns, numbers within 1e-12 of its scale."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    first, second = frame(80, 1), frame(130, 2)
    schema = schema_of(first, second, min_count=1, held_out=0.0)
    table, rows = new_rows(schema)
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    theirs = ColumnTransformer(
        [("numbers", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS), ("text", text, TEXTS)],
        sparse_threshold=0,
    )
    theirs.fit(pd.concat([first, second]))
    np.testing.assert_allclose(dense(schema.encode(table)), theirs.transform(rows), rtol=1e-12, atol=1e-12)


def test_text_of_digits_may_come_as_numbers(tmp_path):
    """Postcodes that pandas reads as whole numbers, or as floats beside an empty cell, are what the files have."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        made = pd.DataFrame({"code": rng.choice(["10115", "50667", "80331"], 100), "x": rng.random(100)})
        made["answer"] = rng.choice(["no", "yes"], 100)
        made.to_csv(tmp_path / f"{name}.csv", index=False)
    own = OwnFiles.read([tmp_path / "a.csv", tmp_path / "b.csv"], label="answer", text=["code"])
    schema = own.agreed(tree(Network.path(2)), InMemoryDelivery()).schema
    columns = to_columns(schema)
    expected = dense(schema.encode(own.tables[0]))
    whole = pd.read_csv(tmp_path / "a.csv")
    assert whole["code"].dtype == np.int64
    for kind in (np.int64, np.float64, "str", object):
        assert np.array_equal(dense(columns.transform(whole.astype({"code": kind}))), expected)
    whole["code"] = whole["code"].astype(float)
    whole.loc[0, "code"] = np.nan
    assert np.array_equal(dense(columns.transform(whole))[1:], expected[1:])
