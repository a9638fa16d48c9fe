"""A schema as fitted scikit-learn transformers: numbers filled and scaled, text one-hot, as they were agreed."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.data.schema import Schema, TextColumn
from equipoise.errors import InputError


def to_columns(schema: Schema) -> Any:
    """A fitted ColumnTransformer that gives what `Schema.encode` gives, from a frame with these columns by name.

    It is fitted on a small frame that has each named value often enough; then the numbers that were agreed take the place of
    those of the small frame.
    """
    try:
        import pandas
    except ImportError:
        raise InputError(
            "a pipeline finds its columns by name, which needs pandas: pip install pandas", code="library.missing"
        ) from None
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    parts, numbers, texts = [], [c.name for c in schema.numbers], [c.name for c in schema.texts]
    if numbers:
        parts.append(("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers))
    if texts:
        # None or 1 would be read as a part of the rows, or group nothing: the same as no rule.
        encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=max(schema.min_count, 2))
        # pandas.NA stands for all that pandas takes as missing; nan would let None pass as a value.
        imputer = SimpleImputer(missing_values=pandas.NA, strategy="most_frequent")
        # A frame may hold text of digits, such as postcodes, as numbers: 10115, or 10115.0 beside an empty cell.
        whole = FunctionTransformer(pandas.DataFrame.convert_dtypes, feature_names_out="one-to-one")
        written = FunctionTransformer(
            pandas.DataFrame.astype, kw_args={"dtype": "string"}, feature_names_out="one-to-one"
        )
        steps = [whole, written] if any(_digits(column) for column in schema.texts) else []
        parts.append(("text", make_pipeline(*steps, imputer, encoder), texts))
    made = ColumnTransformer(parts)
    made.fit(pandas.DataFrame(_small(schema)))
    if numbers:
        imputer, scaler = (step for _, step in made.named_transformers_["numbers"].steps)
        imputer.statistics_ = np.array([c.fill for c in schema.numbers])
        scaler.mean_ = np.array([c.mean for c in schema.numbers])
        scaler.var_ = np.array([c.filled.variance for c in schema.numbers])
        scaler.scale_ = np.array([c.scale for c in schema.numbers])
        scaler.n_samples_seen_ = np.int64(schema.rows)
    if texts:
        filler = made.named_transformers_["text"].named_steps["simpleimputer"]
        filler.statistics_ = np.array([c.fill for c in schema.texts], dtype=object)
    made.sparse_output_ = sparse(schema)
    return made


def _digits(column: TextColumn) -> bool:
    """Whether some value is written as a whole number is."""
    return any(value.lstrip("+-").isdigit() for value in column.counts)


def _small(schema: Schema) -> dict[str, Any]:
    """Each named value of a text column as often as makes it frequent, and once what stands for the others."""
    often = max(schema.min_count, 2)
    columns: dict[str, Any] = {}
    for text in schema.texts:
        values = [value for value in text.categories for _ in range(often)]
        columns[text.name] = [*values, *[text.rest] * (text.other > 0)]
    rows = max([2, *map(len, columns.values())])
    for text in schema.texts:
        columns[text.name] = np.array(
            columns[text.name] + [text.categories[0]] * (rows - len(columns[text.name])), dtype=object
        )
    return {c.name: np.arange(float(rows)) for c in schema.numbers} | columns


def sparse(schema: Schema) -> bool:
    """Whether most cells are 0, by ColumnTransformer's own rule."""
    return bool(schema.texts) and len(schema.numbers) + len(schema.texts) < 0.3 * schema.width
