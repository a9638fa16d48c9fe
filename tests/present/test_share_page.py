"""The page of a comparison: what is drawn is what the rows and the traces say, and odd comparisons make a page too."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from equipoise.document import Document, look_of
from equipoise.present import report
from equipoise.present.figures import CONTRAST, SHAPES, Look, contrast, looks as looks_of
from equipoise.present.share import ORACLE
from equipoise.share import Curve, Decision, Task, View, Workload, equal, policies
from equipoise.share.published import PUBLISHED_TABLE
from equipoise.share.sweep import Sweep, Timeline, sweep
from equipoise.share.task import COMPUTING, DELAYED, SENDING
from equipoise.share.view import name_of

COLUMNS = ("success", "energy", "efficiency", "network", "idle_while_work", "latency")
PLAYERS = (policies.DescribedUniform(), policies.DescribedUARALARA(), policies.Uniform(), policies.SRTF())


class Frugal:
    """Sends as it should, and gives every task that can compute one sample per step."""

    def decide(self, view: View) -> Decision:
        return Decision(equal(view.sending, view.data_left, view.bandwidth), np.where(view.computing, 1.0, 0.0))


class Idle:
    """Does nothing, so nothing is ever done."""

    label = "Idle"

    def decide(self, view: View) -> Decision:
        return Decision(np.zeros(view.state.shape), np.zeros(view.state.shape))


class Comparison:
    """A sweep with what the command line would hand to the page."""

    def __init__(
        self,
        players: Sequence[Any] = PLAYERS,
        workload: Workload | None = None,
        *,
        loads: Sequence[int] = (5, 12),
        seeds: int = 3,
        oracle: int = 0,
        seed: int = 1,
        task: int | None = None,
    ) -> None:
        found = sweep(list(players), workload or Workload.described(), loads=loads, seeds=seeds, oracle=oracle)
        self.sweep: Sweep = replace(found, timeline=Timeline(seed=seed, task=task))
        self.lives = self.sweep._lives
        self.document: Document = self.sweep.document()
        self.html = self.page()

    def page(self) -> str:
        return report(self.document)

    @property
    def options(self) -> dict[str, Any]:
        return embedded(self.html, "chart-data")


@pytest.fixture(scope="module")
def usual() -> Comparison:
    return Comparison(oracle=2)


def looks(players: Sequence[Any]) -> list[Look]:
    names = [name_of(player) for player in players]
    return list(looks_of(names, {name: look_of(p) for name, p in zip(names, players, strict=True)}).values())


def embedded(html: str, key: str) -> dict[str, Any]:
    (found,) = re.findall(rf'<script type="application/json" id="{key}">(.*?)</script>', html, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def without_library(html: str) -> str:
    return re.sub(r'<script id="echarts">.*?</script>', "", html, flags=re.DOTALL)


def lines(option: dict[str, Any], kind: str = "line") -> dict[str, list[Any]]:
    return {entry["name"]: entry["data"] for entry in option["series"] if entry["type"] == kind}


@pytest.mark.parametrize("column", COLUMNS)
def test_every_panel_draws_the_rows(usual: Comparison, column: str) -> None:
    """Load, value and standard error of each policy, to the last digit."""
    drawn = lines(usual.options[column])
    drawn.pop(ORACLE, None)
    expected: dict[str, list[Any]] = {name: [] for name in usual.sweep.names}
    for row in usual.sweep.rows:
        error = f"{column}_se"
        expected[row["policy"]].append([row["load"], row[column], *([row[error]] if error in row else [])])
    assert drawn == expected


def test_whiskers_are_the_standard_errors(usual: Comparison) -> None:
    """On the same values as the lines, and under the same names, so that one press hides both."""
    option = usual.options["success"]
    points = {name: [p for p in data if p[2:] and p[2]] for name, data in lines(option).items() if name != ORACLE}
    assert lines(option, "custom") == {name: data for name, data in points.items() if data}


def test_the_oracle_stands_in_the_success_panel_alone(usual: Comparison) -> None:
    bounds = {row["load"]: row["oracle"] for row in usual.sweep.rows}
    assert lines(usual.options["success"])[ORACLE] == [[load, bound] for load, bound in bounds.items()]
    assert all(ORACLE not in lines(usual.options[column]) for column in COLUMNS if column != "success")


def cells(html: str) -> dict[str, list[str]]:
    """The table's rows by policy."""
    (body,) = re.findall(r'<table class="measures">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    rows = re.findall(r"</svg>\s*(.*?)</th>(.*?)</tr>", body, re.DOTALL)
    return {name: re.findall(r"<td[^>]*>(.*?)</td>", rest) for name, rest in rows}


def test_the_table_holds_the_rows_of_the_largest_load(usual: Comparison) -> None:
    found = cells(usual.html)
    for row in usual.sweep.rows:
        if row["load"] == 12:
            told = found[row["policy"]]
            assert told[0] == f"{row['success']:.1f} ±\N{NO-BREAK SPACE}{row['success_se']:.1f}"
            assert told[1] == f"{row['energy']:,.0f}"
            assert told[2] == f"{row['efficiency']:.4f} ±\N{NO-BREAK SPACE}{row['efficiency_se']:.4f}"
            assert told[3:6] == [f"{row[name]:.1f}" for name in ("latency", "network", "idle_while_work")]
            assert told[6] == f"{100 * row['of_oracle']:.1f}"


def test_differences_are_paired_against_uniform(usual: Comparison) -> None:
    """Seed by seed, as the sweep says."""
    (gap,) = [p for p in usual.sweep.paired("DescribedUARA+LARA", "Uniform") if p.load == 12]
    told = f"{gap.difference:+.1f} ±\N{NO-BREAK SPACE}{gap.standard_error:.1f}".replace("-", "−")
    assert cells(usual.html)["DescribedUARA+LARA"][7] == told
    assert cells(usual.html)["Uniform"][7] == "–"


def test_the_paper_stands_beside_its_own_load_only() -> None:
    """At 60 tasks of its authors' preset; not at other loads, nor beside tasks of another kind."""
    players = [policies.Uniform(), policies.SRTF()]
    there = Comparison(players, Workload.authors(), loads=[60], seeds=1)
    told = PUBLISHED_TABLE["Uniform"]
    assert cells(there.html)["Uniform"][-1] == f"{told.success:.1f} · {told.energy:,.0f}"
    assert cells(there.html)["SRTF"][-1] == "–"
    assert "paper&#39;s" not in Comparison(players, Workload.network_heavy(), loads=[60], seeds=1).html
    assert "paper&#39;s" not in Comparison(players, Workload.described(), loads=[60], seeds=1).html
    assert "paper&#39;s" not in Comparison(players, Workload.authors()).html


def test_embedded_lives_are_the_traces(usual: Comparison) -> None:
    """When each task was sending, delayed and ready, what it got, what was observed, and what the site did."""
    told = embedded(usual.html, "task_lives-data")
    assert [policy["name"] for policy in told["policies"]] == list(usual.sweep.names)
    for p, run in enumerate(usual.lives.values()):
        assert run.trace is not None
        state = run.trace.state[:, 0]
        assert told["policies"][p]["used"] == pytest.approx(run.trace.compute[:, 0].sum(axis=1), abs=0.006)
        for name, code in (("sending", SENDING), ("delayed", DELAYED), ("computing", COMPUTING)):
            assert told["policies"][p][name] == (state == code).sum(axis=1).tolist()
        for task in told["tasks"]:
            k = task["id"]
            start, sent, ready, end, done, _, sends, given, errors = task["lives"][p]
            assert set(state[start:sent, k]) | set(state[sent:ready, k]) <= {SENDING, DELAYED}
            assert (state[ready:end, k] == COMPUTING).all()
            assert (end if done else -1) == run.done_at[0, k]
            assert [got == "1" for got in sends] == (run.trace.bandwidth[start:sent, 0, k] > 0).tolist()
            assert given == pytest.approx(run.trace.compute[ready:end, 0, k], abs=0.006)
            seen = [e for e, x in zip(run.trace.error[ready:end, 0, k], given, strict=True) if x > 0]
            assert [e for e in errors if e is not None] == pytest.approx(seen, rel=1e-3)


def test_where_the_uplink_divides_itself_the_delay_comes_first() -> None:
    """The authors' site: letters of every step before a task is ready, d and then s, as its states say."""
    found = Comparison([policies.Uniform()], Workload.authors(), seeds=1)
    (run,) = found.lives.values()
    assert run.trace is not None
    for task in embedded(found.html, "task_lives-data")["tasks"]:
        start, sent, ready, _, _, _, sends, *_ = task["lives"][0]
        states = run.trace.state[start:ready, 0, task["id"]]
        assert sent == ready and sends.startswith("ddd1")
        assert [{"d": DELAYED, "1": SENDING}[letter] for letter in sends] == states.tolist()


def one_task() -> Workload:
    """100 samples of work (error 1/sqrt(s), target .1), ready at step 3, to be done by step 40."""
    return Workload.of([Task(arrival=0, deadline=40, data=100.0, target=0.1, curve=Curve(1.0, 0.5), delay=2)])


def test_the_words_say_who_starved_the_task_and_who_finished_it() -> None:
    """By hand: one sample per step of 150 leaves 99 % idle; 30 per step do 100 in four steps, so it is done at 7."""
    html = Comparison([Frugal(), policies.Uniform()], one_task(), seeds=1).html
    told = "Task 0 needs 100 samples by step 40; Frugal gave it 1 per step while 99 % of the site stood idle; "
    assert told + "Uniform finished it at step 7." in html
    assert '<option value="0" selected>task 0: 1 of 2 finish it</option>' in html


@pytest.mark.parametrize(
    ("players", "told"),
    [
        ([policies.Uniform(), policies.SDF()], "every policy finished it, Uniform first at step 7."),
        ([Frugal(), Idle()], "no policy finished it; Frugal came nearest, with 37 % of them."),
        ([Idle(), policies.SDF()], "Idle had not brought its data in by then; SDF finished it at step 7."),
    ],
)
def test_the_words_fit_other_ends(players: list[Any], told: str) -> None:
    assert told in Comparison(players, one_task(), seeds=1).html


def test_a_task_that_can_never_succeed_is_called_so() -> None:
    hopeless = Task(arrival=0, deadline=40, data=10.0, target=0.1, curve=Curve(1.0, 0.5, floor=0.2), delay=2)
    html = Comparison([policies.SDF()], Workload.of([hopeless]), seeds=1).html
    assert "Task 0 can never succeed: its curve does not reach its target." in html


def test_the_task_asked_for_is_the_one_shown() -> None:
    shown = Comparison(task=7, seeds=1)
    assert embedded(shown.html, "task_lives-data")["chosen"] == 7
    assert re.search(r'<option value="7" selected>task 7: ', shown.html)


def test_a_page_with_too_many_tasks_keeps_some_and_says_so(usual: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("equipoise.share.simulate"), "MOST_TASKS", 4)
    html = report(usual.sweep.document())
    told = embedded(html, "task_lives-data")
    kept = [task["id"] for task in told["tasks"]]
    assert 4 <= len(kept) <= 5
    assert told["chosen"] in kept
    assert f"{len(kept)} of its 12 tasks can be chosen" in html


def test_the_title_is_the_finding(usual: Comparison) -> None:
    rows = {row["policy"]: row["success"] for row in usual.sweep.rows if row["load"] == 12}
    best, worst = max(rows, key=lambda name: rows[name]), min(rows, key=lambda name: rows[name])
    finding = f"{best} finishes {rows[best]:.0f} % at 12 tasks, {worst} {rows[worst]:.0f} %"
    title = f"<title>4 policies at 5 to 12 tasks, 3 seeds: {finding}: certificate passed</title>"
    assert title in usual.html.replace("\N{NO-BREAK SPACE}", " ")


def test_a_policy_may_be_called_anything() -> None:
    """A name with a tag in it stays a name: in the title, the table, the legend, the words and the charts."""
    hostile = Idle()
    hostile.label = "</script><script>alert(1)</script>"
    html = Comparison([hostile, policies.DescribedUniform()], one_task(), seeds=1).html
    assert "<script>alert" not in html
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in html
    assert hostile.label in lines(embedded(html, "chart-data")["errors"])
    assert embedded(html, "task_lives-data")["policies"][0]["name"] == hostile.label


def test_one_load_draws_a_dot_per_policy() -> None:
    found = Comparison(loads=[8])
    for column in COLUMNS:
        dots = lines(found.options[column], "scatter")
        assert {name: data[0][0] for name, data in dots.items()} == {
            row["policy"]: row[column] for row in found.sweep.rows
        }


def test_one_policy_and_one_seed_make_a_page_without_errors_or_differences() -> None:
    found = Comparison([policies.DescribedUniform()], seeds=1)
    assert all(not lines(found.options[column], "custom") for column in COLUMNS)
    assert "±" not in found.html.split("<noscript>")[0]
    assert "against" not in "".join(re.findall(r"<thead>.*?</thead>", found.html))
    assert "<title>DescribedUniform at 5 to 12 tasks, 1 seed: it finishes" in found.html


def test_without_an_oracle_nothing_speaks_of_it() -> None:
    assert "oracle" not in without_library(Comparison(seeds=1).html).lower()


def test_a_policy_that_finishes_nothing_has_no_latency_and_no_place_on_a_log_axis() -> None:
    found = Comparison([Idle(), policies.DescribedUniform()])
    assert [point[1] for point in lines(found.options["latency"])["Idle"]] == [None, None]
    assert cells(found.html)["Idle"][3] == "–"
    assert not re.search(r"\b(NaN|nan|Infinity|inf|None)\b", without_library(found.html))


def test_without_lives_the_panels_stand_alone(usual: Comparison) -> None:
    tables = {"history": usual.document.rows("history")}
    html = report(replace(usual.document, tables=tables))
    assert set(embedded(html, "chart-data")) == set(COLUMNS)
    assert "task_lives" not in html


def test_every_policy_has_one_colour_and_marker_everywhere(usual: Comparison) -> None:
    """In six panels and in the chart of errors; whatever ships has a look of its own."""
    seen = {look.name: look for look in looks(PLAYERS)}
    for key in (*COLUMNS, "errors"):
        for entry in usual.options[key]["series"]:
            if entry["type"] == "line" and entry["name"] in seen:
                assert entry["lineStyle"]["color"] == seen[entry["name"]].colour
                assert entry["symbol"] == seen[entry["name"]].plain
    shipped = looks([policy() for policy in policies.ALL])
    assert len({(look.light, look.marker) for look in shipped}) == len(shipped)


def test_a_policy_without_a_look_gets_one_that_nobody_has() -> None:
    given = looks([*(policy() for policy in policies.ALL), Idle(), Frugal()])
    assert len({look.light for look in given}) == len(given)
    assert all(look.plain in SHAPES for look in given)


def test_a_marker_from_elsewhere_is_not_drawn() -> None:
    """ECharts would fetch an image, and a colour that is none would be black on black."""
    strange = Idle()
    vars(strange).update(marker="image://http://example.org/x.png", colour="url(x)")
    (look,) = looks([strange])
    assert look.plain in SHAPES
    assert re.fullmatch("#[0-9a-f]{6}", look.light)


def test_a_clairvoyant_twin_is_its_policy_in_dashes() -> None:
    one, twin = looks([policies.DescribedUARALARA(), policies.clairvoyant(policies.DescribedUARALARA())])
    assert (twin.light, twin.marker, twin.dashed) == (one.light, one.marker, True)
    assert one.dashed is False


def test_colours_can_be_read_on_light_and_on_dark() -> None:
    for look in looks([policy() for policy in policies.ALL]):
        for colour, paper in zip((look.light, look.dark), CONTRAST, strict=True):
            assert contrast(colour, paper) >= CONTRAST[paper]


def test_nothing_is_asked_of_the_network(usual: Comparison) -> None:
    html = without_library(usual.html)
    assert "http://" not in html
    assert "https://" not in html
    assert set(re.findall(r'(?:href|src)="([^"]*)"', html)) == {
        *("data:,", "result.json", "history.csv", "lives.csv", "config.yaml")
    }


def test_charts_carry_words_and_choices_have_labels(usual: Comparison) -> None:
    for key in usual.options:
        assert re.search(rf'data-chart="{key}" role="img" aria-label="[^"]{{20,}}"', usual.html)
    (label,) = re.findall(r'data-chart="errors" role="img" aria-label="([^"]*)"', usual.html)
    assert ("logarithmic" in label) == (usual.options["errors"]["yAxis"]["type"] == "log")
    assert len(re.findall(r"<label>[^<]+<select", usual.html)) == 2
    assert usual.html.count('aria-pressed="true"') == len(usual.sweep.names) + 1
