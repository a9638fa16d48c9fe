"""What a user is told after a certificate failed: about the check that failed, and nothing else."""

from __future__ import annotations

import pytest

from equipoise.certificate import Certificate, Check
from equipoise.document import Document
from equipoise.present.train_advice import advice


def document(*failed, status="converged", scores=(), config=None, unmade=()):
    checks = [Check(name, 1.0, 0.0, False, "") for name in failed]
    checks += [Check.not_made(name, "no rows") for name in unmade]
    result = {"status": status, "message": {"mode": "innovation"}, "scores": list(scores)}
    return Document("train", result, Certificate((Check("budget", 0.0, 0.0, True, ""), *checks)), config or {})


def worst(**values):
    return [{"model": "worst centre"} | values]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (document("gap", status="finished"), "--rounds"),
        (document("gap", "baseline", status="finished"), "--rounds"),
        (document("gap"), "residual"),
        (document("baseline", scores=worst(auc=0.8)), "--class-weight balanced"),
        (document("baseline", scores=worst(auc=0.52)), "say little of the label"),
        (document("baseline", scores=worst(r2=-0.1)), "logarithm"),
        (document("box"), "--box price"),
    ],
)
def test_the_advice_is_about_the_check_that_failed(given, words):
    """The first thing to change: more rounds before anything is said of how useful a model is."""
    assert words in advice(given)


def test_nothing_is_advised_where_nothing_helps():
    """Bits miscounted, or too few rows to judge: rounds would not change it; and no weights twice."""
    assert advice(document("bits")) == advice(document(unmade=("baseline",))) == advice(document()) == ""
    weighted = document("baseline", scores=worst(auc=0.8), config={"class_weight": "balanced"})
    assert "--class-weight" not in advice(weighted)
    assert "--class-weight" not in advice(document("baseline", scores=worst(r2=0.0)))
