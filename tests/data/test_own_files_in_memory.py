"""Rows of own files are encoded once, and the tables that they came from given up."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse

from equipoise.data.own_files import OwnFiles
from equipoise.train import Network
from equipoise.train.exchange.delivery import InMemoryDelivery, tree


def agreed(folder, towns, label, *, files=3):
    """Files with gaps, and with so many towns, which centres have agreed on; one file is dealt to three centres."""
    rng = np.random.default_rng(0)
    paths = []
    for place in range(files):
        rows = 400 + 40 * place
        table = pd.DataFrame({"a": rng.normal(3.0, 2.0, rows), "b": rng.integers(0, 9, rows).astype(float)})
        table.loc[rng.random(rows) < 0.1, "a"] = np.nan
        table["town"] = [f"town {k}" for k in rng.integers(0, towns, rows)]
        table["answer"] = rng.normal(size=rows) if label == "number" else rng.choice(["no", "yes"], rows)
        paths.append(folder / f"{place}.csv")
        table.to_csv(paths[-1], index=False)
    own = OwnFiles.read(paths, label="answer", min_count=1)
    own = own if files > 1 else own.dealt_to(3, "even", 1.0, 0)
    return own.agreed(tree(Network.complete(3)), InMemoryDelivery())


def dense(X):
    return X.toarray() if issparse(X) else X


@pytest.mark.parametrize("files", [3, 1])
@pytest.mark.parametrize(("towns", "label"), [(4, "class"), (60, "class"), (4, "number")])
def test_rows_are_those_of_pandas_and_tables_are_empty_afterwards(tmp_path, towns, label, files):
    """Filled and scaled by pandas, value by value; a column of ones where one is asked for; no column is left."""
    found = agreed(tmp_path, towns, label, files=files)
    ones, schema = label == "number", found.schema
    raw = [pd.read_csv(table.path) for table in found.files.tables]
    rows = [*found.files.train, *found.files.held_out]
    picked = [table.iloc[some] for table, some in zip(raw + raw, rows, strict=True)]
    pooled = pd.concat(picked[:3])
    shards, (X, y) = found.taken(ones=ones)
    features = [features for features, _ in shards]
    answers = [answers for _, answers in shards]
    assert issparse(X) == (towns == 60)
    for table, given, said in zip([*picked[:3], pd.concat(picked[3:])], [*features, X], [*answers, y], strict=True):
        numbers = [table[name].fillna(pooled[name].mean()) for name in "ab"]
        scales = [pooled[name].fillna(pooled[name].mean()) for name in "ab"]
        for k in range(2):
            expected = (numbers[k] - scales[k].mean()) / scales[k].std(ddof=0)
            np.testing.assert_allclose(dense(given)[:, k], expected, rtol=1e-12, atol=1e-12)
        for k, town in enumerate(sorted(pooled["town"].unique())):
            np.testing.assert_array_equal(dense(given)[:, 2 + k], table["town"] == town)
        assert given.shape[1] == schema.width + ones
        assert not ones or (dense(given)[:, -1] == 1.0).all()
        np.testing.assert_array_equal(said, table["answer"] if ones else (table["answer"] == "yes").astype(int))
    assert not any(table.columns for table in found.files.tables)
