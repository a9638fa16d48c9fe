"""Verdicts follow from findings by rule, and the ledger says so when a finding changes sides."""

import math
import pickle
from dataclasses import replace

import pytest

from equipoise.claims import Claim, Finding, Measured, Scale, at_least, at_most, between, ledger as ledger_module
from equipoise.claims.claim import claim, plain_figure
from equipoise.claims.finding import verdict
from equipoise.claims.ledger import changed, chosen, claims, compare, play
from equipoise.present.figures import Axis, Figure, Mark, Series, bars
from refusals import refused


def found(value, bound, error=None, **more):
    return Finding("something", value, bound, error=error, **more)


@pytest.mark.parametrize(
    ("value", "error", "bound", "holds"),
    [
        (0.0, None, at_most(0.0), True),
        (1e-300, None, at_most(0.0), False),
        (10.0, 1.0, at_least(7.9), True),
        (10.0, 1.0, at_least(8.1), None),
        (10.0, 1.0, at_least(12.1), False),
        (5.0, 0.4, between(4.0, 6.0), True),
        (5.0, 0.6, between(4.0, 6.0), None),
        (math.nan, None, at_most(1.0), False),
        (math.inf, None, at_least(1.0), False),
        (1.0, math.inf, at_least(0.0), None),
    ],
)
def test_a_value_holds_when_it_is_clear_of_its_bound_by_two_standard_errors(value, error, bound, holds):
    """Cases worked out by hand; one sample, or a value that is no number, never holds."""
    assert found(value, bound, error).holds is holds


def test_a_mean_comes_with_its_standard_error():
    """By hand: 1, 2, 3, 4 has mean 2.5 and standard error sqrt(5/3)/2."""
    one = Finding.mean("something", [1, 2, 3, 4], at_least(0))
    assert one.value == 2.5
    assert one.error == pytest.approx(math.sqrt(5 / 3) / 2)
    assert Finding.mean("something", [1.0], at_least(0)).holds is None


def test_a_share_of_few_trials_is_no_certainty():
    """Wilson's interval by hand, z = 2: 10 of 10 reaches down to 10/14; 5 of 10 is even, (1/2 ± sqrt(3.5)/7)."""
    ten = Finding.share("something", [True] * 10, at_least(90))
    assert (ten.value, ten.holds) == (100.0, None)
    assert ten.value - 2 * ten.error == pytest.approx(1000 / 14)
    five = Finding.share("something", [True, False] * 5, at_least(90))
    assert five.error == pytest.approx(50 * math.sqrt(3.5) / 7)


def test_few_samples_must_be_clearer_than_many():
    """Student's t at one-sided 97.7 % by a table: 13.97 standard errors for two samples, 2.43 for eight."""
    assert Finding.mean("something", [1.0, 2.0], at_least(0)).sigmas == pytest.approx(13.97, abs=0.01)
    assert Finding.mean("something", range(8), at_least(0)).sigmas == pytest.approx(2.43, abs=0.01)


GOOD, BAD, UNSURE = (
    found(0, at_most(1), when="good"),
    found(2, at_most(1), when="bad"),
    found(1, at_most(1), 1, when="few"),
)


def ours(finding):
    return replace(finding, about="ours")


@pytest.mark.parametrize(
    ("findings", "word", "on"),
    [
        ([GOOD], "reproduced", ""),
        ([GOOD, GOOD, ours(BAD)], "reproduced", ""),
        ([BAD], "not reproduced", ""),
        ([BAD, ours(GOOD)], "not reproduced", ""),
        ([GOOD, BAD], "depends", "holds: good; not: bad"),
        ([GOOD, UNSURE], "depends", "holds: good; too few samples: few"),
        ([UNSURE], "depends", "too few samples: few"),
        ([ours(GOOD)], "beyond", ""),
        ([ours(BAD)], "not reproduced", ""),
        ([ours(GOOD), ours(BAD)], "depends", "holds: good; not: bad"),
        ([], "not reproduced", ""),
    ],
)
def test_the_verdict_follows_from_the_findings(findings, word, on):
    """The rule in words: all of the paper's hold, none, some; without any of the paper's, the same of ours."""
    assert (verdict(findings).word, verdict(findings).on) == (word, on)


def entry(name, *findings):
    claim = Claim(sentence="s", source="p", measure=lambda scale: Measured("p", findings), name=name, verb="train")
    return claim.as_dict(claim.measure(Scale()))


def test_a_finding_on_another_side_than_recorded_fails_the_certificate(monkeypatch):
    """Recorded as holding, now not: named, counted, and the certificate fails; unchanged, it passes."""
    monkeypatch.setattr(ledger_module, "recorded", lambda quick: {"a": entry("a", GOOD), "b": entry("b", BAD)})
    same, fine = compare([entry("a", GOOD), entry("b", BAD)], quick=True)
    assert fine.passed and [one["changed"] for one in same] == [[], []]
    turned, certificate = compare([entry("a", found(2, at_most(1), when="good")), entry("b", BAD)], quick=True)
    assert not certificate.passed and certificate["recorded"].value == 1
    assert turned[0]["changed"] == ["paper: something (good) ≤ 1: does not hold; recorded: holds"]
    assert turned[0]["verdict"] == "not reproduced"


def test_a_finding_that_is_gone_is_a_change(monkeypatch):
    """Leaving out what no longer holds does not help."""
    assert changed(entry("a", GOOD), entry("a", GOOD, BAD)) == [
        "paper: something (bad) ≤ 1: was not measured; recorded: does not hold"
    ]


def test_a_claim_without_findings_or_recording_does_not_pass(monkeypatch):
    """Nothing passes by default."""
    monkeypatch.setattr(ledger_module, "recorded", lambda quick: {"a": entry("a")})
    assert not compare([entry("a")], quick=True)[1].passed
    unknown = compare([entry("new", GOOD)], quick=True)[1]
    assert unknown["known"].passed is None and unknown["recorded"].passed and not unknown.passed


def test_a_claim_that_cannot_be_measured_fails_alone(monkeypatch):
    """Its error is told, it has no finding, the certificate fails; the other claim has its verdict."""
    broken = replace(claims()["sector-bound"], measure=lambda scale: 1 / 0)
    monkeypatch.setitem(claims(), "sector-bound", broken)
    one, other = play([broken, claims()["normalisation-bug"]], Scale(quick=True), workers=1)
    assert one["protocol"] == "not measured: ZeroDivisionError: division by zero" and not one["findings"]
    assert other["findings"] and not compare([one, other], quick=True)[1].passed


def test_a_name_that_is_nearly_right_is_suggested():
    """A verb names all of its claims; a wrong name says which was meant."""
    assert {claim.verb for claim in chosen(["share"])} == {"share"}
    with refused("unknown", "sector-bound"):
        chosen(["sector-bund"])


def test_figures_become_plain_data():
    """What is not finite is null, kinds are told apart, six digits are kept."""
    curve = [Series("c", [1, 2], [math.nan, 1 / 3])]
    plain = plain_figure(Figure("t", Axis("x"), Axis("y"), curve, [Mark("x", 1.0, "here")]))
    assert plain["series"][0]["y"] == [None, 0.333333] and plain["series"][0]["kind"] == "curve"
    assert plain_figure(Figure("t", Axis("x"), Axis("y"), [bars("b", [1])]))["series"][0]["kind"] == "bars"
    assert plain["marks"] == [{"axis": "x", "value": 1.0, "name": "here"}]


REQUIRED = {
    "train": "feasible-at-all-times directed-links log-quantisation sector-bound tracker-start alpha-bound alpha-sweep "
    "eigenvalue-crossing lyapunov-decrease switching-networks svm-in-continuous-time linear-regression "
    "mnist-log-against-uniform rho-against-bits density-against-communication fifty-percent-better anytime-termination",
    "share": "published-run table-at-60-tasks starvation latency-column panels-over-load light-load "
    "network-utilisation-converges "
    "uara-reduces-energy normalisation-bug estimation-fragility robustness-against-efficiency remedies "
    "six-against-three",
    "place": "utility-as-machines-grow utility-as-jobs-grow training-time rounding-success-rate g-delta "
    "approximation-in-practice value-of-locality prices-from-history idle-cluster-ties",
}


def test_every_claim_that_must_be_there_is_there():
    """And each says what is claimed and where it stands."""
    for verb, names in REQUIRED.items():
        assert {claim.name for claim in claims().values() if claim.verb == verb} >= set(names.split())
    for one in claims().values():
        assert one.sentence.endswith(".") and one.source, one.name


@pytest.mark.parametrize("sentence", ["", " \n", None])
def test_a_claim_without_a_sentence_is_refused(sentence):
    with refused("claim.sentence", "sentence"):
        claim(sentence, source="a paper")


def test_every_claim_can_be_pickled():
    """With its name and its verb."""
    for one in claims().values():
        assert pickle.loads(pickle.dumps(one)) == one


def test_what_comes_out_does_not_depend_on_the_workers():
    """Two processes and none: the same entries, to the bit."""
    wanted = chosen(["sector-bound", "rounding-success-rate", "normalisation-bug"])
    assert play(wanted, Scale(quick=True), workers=1) == play(wanted, Scale(quick=True), workers=2)
