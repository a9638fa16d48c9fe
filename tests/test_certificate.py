"""A certificate passes only when every check that applies was made and passed."""

import pytest

from equipoise.certificate import Certificate, Check

GOOD = Check.at_most("budget", 0.0, 0.0, "sum of shares")
BAD = Check.at_most("gap", 2.0, 1.0, "distance to the optimum")


def test_all_passed():
    """One good check is a good certificate; none at all is not."""
    assert Certificate((GOOD,)).passed
    assert not Certificate(()).passed


@pytest.mark.parametrize("other", [BAD, Check.not_made("gap", "no solver"), Check.at_most("x", float("nan"), 1.0, "")])
def test_one_that_failed_or_was_not_made_fails_it(other):
    """A check that could not be made never passes by default, and neither does NaN."""
    assert not Certificate((GOOD, other)).passed
    assert other.passed is not True


def test_checks_are_found_by_name_and_plain_as_json():
    """The shape of result.json."""
    certificate = Certificate((GOOD, BAD))
    assert certificate["gap"] is BAD
    assert "budget" in certificate
    with pytest.raises(KeyError, match="has budget, gap"):
        certificate["speed"]
    assert certificate.as_dict() == {
        "passed": False,
        "checks": [
            {"name": "budget", "value": 0.0, "limit": 0.0, "passed": True, "meaning": "sum of shares"},
            {"name": "gap", "value": 2.0, "limit": 1.0, "passed": False, "meaning": "distance to the optimum"},
        ],
    }


def test_a_certificate_is_short_in_a_prompt_and_a_table_in_a_notebook():
    """Whether it passed and what did not; no dump of every sentence."""
    found = Certificate((Check("sum", 1.0, 2.0, True, "of shares"), Check("gap", 3.0, 2.0, False, "a < b")))
    assert repr(found) == "<Certificate: failed, 2 checks; not passed: gap>"
    assert "<td>gap</td><td>3</td><td>2</td><td>FAILED</td><td>a &lt; b</td>" in found._repr_html_()
