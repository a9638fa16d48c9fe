"""Pipelines of runs on own files as ONNX: what skl2onnx takes, what it does not, and the page's way around it."""

from __future__ import annotations

import ast
import re
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from equipoise.train import TrainSpec
from shown import text_of

skl2onnx = pytest.importorskip("skl2onnx", reason="the extra `onnx` is not installed")
onnx_reference = pytest.importorskip("onnx.reference")
types = pytest.importorskip("skl2onnx.common.data_types")

NUMBERS, TEXTS = ["age", "spent"], ["plan", "town"]


def customers(rows, seed, answers):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"age": rng.normal(45, 12, rows).round(1), "spent": rng.lognormal(4, 1, rows).round(2)})
    found["plan"] = rng.choice(["basic", "plus", "trial"], rows)
    found["town"] = rng.choice([f"town {k}" for k in range(20)], rows, p=np.arange(20, 0, -1) / 210)
    score = found.age / 12 + 2.0 * (found.plan == "plus") - (found.town < "town 15") + rng.normal(0, 0.5, rows)
    for name in (*NUMBERS, *TEXTS):
        found.loc[rng.random(rows) < 0.1, name] = None
    return found.assign(answer=pd.qcut(score, len(answers), labels=answers).astype(str))


@pytest.fixture
def pipeline_of(tmp_path):
    """Two files, a short run, and its pipeline."""

    def pipeline_of(answers=("no", "yes"), **options):
        for seed in (1, 2):
            customers(150, seed, answers).to_csv(tmp_path / f"{seed}.csv", index=False)
        spec = TrainSpec(files=[str(tmp_path)], label="answer", rounds=30, **options)
        return spec.build().run().to_sklearn()

    return pipeline_of


@pytest.fixture
def new():
    """Rows with empty cells, and a town that no centre knows."""
    found = customers(80, 3, ["no", "yes"]).drop(columns="answer")
    found.loc[0, "town"] = "Atlantis"
    found.loc[1] = None
    return found


def answers(pipeline, new):
    """Labels and probabilities of the ONNX model, by ONNX's own evaluator; text that is missing goes in as ""."""
    names = pipeline[0].feature_names_in_
    kinds = [types.FloatTensorType if name in NUMBERS else types.StringTensorType for name in names]
    inputs = [(name, kind([None, 1])) for name, kind in zip(names, kinds, strict=True)]
    onnx = skl2onnx.to_onnx(pipeline, initial_types=inputs, options={"zipmap": False})
    filled = new.fillna(dict.fromkeys(TEXTS, ""))
    rows = {name: filled[[name]].to_numpy(np.float32 if name in NUMBERS else object) for name in names}
    return onnx_reference.ReferenceEvaluator(onnx).run(None, rows)


def test_columns_of_numbers_are_converted_whole(pipeline_of, new):
    """Imputer, scaler and model: the labels of scikit-learn's own pipeline, and its probabilities to five digits."""
    pipeline = pipeline_of(drop=TEXTS)
    labels, chances = answers(pipeline, new)
    assert labels.tolist() == pipeline.predict(new).tolist()
    assert chances == pytest.approx(pipeline.predict_proba(new), abs=1e-5)


def test_text_is_not_converted_as_it_is(pipeline_of, new):
    """Both steps of a text column are refused, as docs/your-data.md says; if this fails, the page has become too modest."""
    pipeline = pipeline_of()
    filler, coder = pipeline[0].named_transformers_["text"]
    with pytest.raises(NotImplementedError):
        answers(pipeline, new)
    for step in (filler, coder):
        with pytest.raises(NotImplementedError):
            skl2onnx.to_onnx(step, initial_types=[("text", types.StringTensorType([None, len(TEXTS)]))])


@pytest.mark.parametrize("options", [{}, {"min_count": 1}, {"answers": ("a", "b", "c")}], ids=str)
def test_the_page_has_a_way_around_it(pipeline_of, new, options):
    """docs/your-data.md's `plain`, with rare values and without, with two classes and three: scikit-learn's own answers."""
    blocks = "".join(re.findall(r"```python\n(.*?)```", text_of("docs/your-data.md"), re.S))
    (plain,) = [part for part in ast.parse(blocks).body if getattr(part, "name", "") == "plain"]
    names = {"deepcopy": deepcopy, "np": np, "OneHotEncoder": OneHotEncoder, "make_pipeline": make_pipeline}
    exec(ast.unparse(plain), names)
    pipeline = pipeline_of(**options)
    labels, chances = answers(names["plain"](pipeline), new)
    assert labels.tolist() == pipeline.predict(new).tolist()
    assert chances == pytest.approx(pipeline.predict_proba(new), abs=1e-5)
