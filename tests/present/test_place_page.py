"""The page of policies on a cluster: what is drawn is what the results say, and odd comparisons make a page too."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import COLOURS, NEEDS_A_BROWSER, visit

from equipoise import load
from equipoise.certificate import Certificate, Check
from equipoise.place import (
    Calendar,
    Cluster,
    Job,
    Linear,
    Machine,
    PlaceSpec,
    Result,
    Window,
    Workload,
    placers,
    prices,
    traces,
)
from equipoise.place.compare import PlaceComparison, compare
from equipoise.place.execution import Decision
from equipoise.place.job import Skipped
from equipoise.place.simulate import Session
from equipoise.place.tables import posted, utilisation
from equipoise.present import report, timeline
from equipoise.present.place import headline
from equipoise.present.timeline import FULL, Timeline, lines_of, stacked

RECORDED = Path(__file__).parents[1] / "recorded" / "0.1.0" / "place"
LEVEL = prices.Level(8.5, 10, 5.0)
PLAYERS = (
    placers.PDORS(prices=LEVEL, replan=2, backfill=True),
    placers.PDORS(prices=LEVEL, label="plain </script><img src=x onerror=alert(1)>"),
    placers.SRTF(),
    placers.FIFO(),
)
CHARTS = {"utility", "completed", "gantt", "heat", "use", "completion", "reasons"}


def overloaded(players: Any = PLAYERS, **how: Any) -> PlaceComparison:
    cluster, jobs, slots = traces.regime("20x100-small", 1)
    return compare(cluster, jobs, list(players), slots=slots, **how)


@pytest.fixture(scope="module")
def usual() -> PlaceComparison:
    return overloaded()


@pytest.fixture(scope="module")
def html(usual: PlaceComparison) -> str:
    return page(usual)


def page(comparison: PlaceComparison) -> str:
    return report(comparison.document())


def embedded(text: str, key: str) -> Any:
    (found,) = re.findall(rf'<script type="application/json" id="{key}">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def words(text: str) -> str:
    """What is read on the page."""
    import html as entities

    inside = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    return entities.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", inside)))


def test_the_rows_in_the_page_are_the_results(usual: PlaceComparison, html: str) -> None:
    """Every number of every policy to the last digit, and the bars draw them."""
    rows = usual.document().rows("rows")
    assert [row["policy"] for row in rows] == list(usual.labels)
    for row, result in zip(rows, usual.results, strict=True):
        expected = {k: v for k, v in result.row.items() if k != "seconds_per_decision"}
        assert {k: row[k] for k in expected} == expected
        assert usual.bound is not None
        assert row["share_of_bound"] == result.utility / usual.bound.utility
    options = embedded(html, "chart-data")
    for key in ("utility", "completed"):
        assert [bar["value"][0] for bar in options[key]["series"][0]["data"]] == [row[key] for row in rows]


def test_the_bound_is_a_line_across_the_bars(usual: PlaceComparison, html: str) -> None:
    assert usual.bound is not None
    (mark,) = embedded(html, "chart-data")["utility"]["series"][-1]["markLine"]["data"]
    assert mark == {"xAxis": usual.bound.utility}


def test_slots_are_named_by_their_whole_number(html: str) -> None:
    """The head of the tooltip: slot 12345, not 12,350."""
    option = embedded(html, "chart-data")["use"]
    told = json.loads(option["tooltip"]["formatter"].removeprefix("@listed "))
    assert (told["point"], told["whole"]) == ("slot {value}, % in use", True)


def test_the_headline_says_who_earned_most_and_how_near_the_bound(usual: PlaceComparison, html: str) -> None:
    best = max(usual.table, key=lambda row: row["utility"])
    told = f"{best['policy']} earned most of 4 policies, {100 * best['share_of_bound']:.1f} % of the bound"
    assert headline(usual.document()) == f"{told}: certificate passed"
    assert f"100 jobs on 20 machines, 20 slots of 1 h: {headline(usual.document())}" in words(html)


def test_a_failed_certificate_is_in_the_headline(usual: PlaceComparison) -> None:
    failed = Check("capacity", 1.0, 0.0, False, "Over capacity.")
    other = replace(usual, certificate=Certificate((failed,)))
    assert headline(other.document()).endswith("certificate FAILED")
    assert "✗ FAILED" in page(other)


def test_bars_cover_exactly_the_cells_of_the_schedule(usual: PlaceComparison, html: str) -> None:
    """Every (job, slot, machine) of a schedule is in one bar, with its workers and servers, and nothing else is."""
    floor = embedded(html, "timeline-data")
    names = list(usual.cluster.names)
    ids = [job.id for job in usual.jobs]
    for one, result in zip(floor["policies"], usual.results, strict=True):
        drawn = Counter(
            (ids.index(floor["jobs"][job]), slot, names.index(floor["machines"][row]), workers, servers)
            for job, row, first, last, workers, servers, *_ in one["bars"]
            for slot in range(first, last)
        )
        assert drawn == Counter(map(tuple, result.schedule.tolist()))
        unfinished = {floor["jobs"][job] for job in one["unfinished"]}
        ran = {ids[j] for j in result.schedule[:, 0].tolist()}
        assert unfinished & ran == {ids[j] for j in np.flatnonzero(result.finish < 0)} & ran


def test_bars_say_whether_a_job_is_spread_and_never_overlap(usual: PlaceComparison, html: str) -> None:
    """By hand from the schedule: how many machines a job has in a slot; and heights within a row stay in it."""
    floor = embedded(html, "timeline-data")
    ids = [job.id for job in usual.jobs]
    for one, result in zip(floor["policies"], usual.results, strict=True):
        machines = Counter(map(tuple, result.schedule[:, :2].tolist()))
        taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for job, row, first, last, _, _, spread, bottom, height in one["bars"]:
            for slot in range(first, last):
                assert (machines[(ids.index(floor["jobs"][job]), slot)] > 1) == bool(spread)
                taken.setdefault((row, slot), []).append((bottom, height))
        for places in taken.values():
            ends = [bottom + height for bottom, height in sorted(places)]
            starts = [bottom for bottom, _ in sorted(places)]
            assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
            assert starts[0] >= 0 and ends[-1] <= FULL + len(places)


def test_bars_run_on_where_nothing_changes(usual: PlaceComparison, html: str) -> None:
    bars = [bar for one in embedded(html, "timeline-data")["policies"] for bar in one["bars"]]
    assert len(bars) < sum(len(result.schedule) for result in usual.results)
    assert max(last - first for _, _, first, last, *_ in bars) > 1


def test_who_is_there_stays_while_others_come_and_go() -> None:
    """500 at the bottom leaves; 300 above stays where it was, and a 400 fits below it."""
    assert stacked({1: (0, 500), 2: (500, 300)}, {2: 300, 3: 400}) == {2: (500, 300), 3: (0, 400)}


def test_a_row_in_pieces_is_stacked_anew() -> None:
    """Free: 300 below and 300 above, together enough for 600."""
    places = stacked({1: (300, 400)}, {1: 400, 2: 600})
    assert sorted(places.values()) == [(0, 400), (400, 600)]


def test_dominant_shares_that_add_to_more_than_a_machine_are_scaled() -> None:
    """One job takes 800 of the memory, one 700 of the GPUs: 8/15 and 7/15 of the row."""
    assert stacked({}, {1: 800, 2: 700}) == {1: (0, 533), 2: (533, 466)}


def test_the_price_of_a_machine_is_its_resources_at_their_prices() -> None:
    """Level 20 on two machines: 10 of each resource for an empty one, x 10 when full, x sqrt(10) when half."""
    cluster = Cluster((Machine({"gpu": 4, "cpu": 8}, count=2),))
    result = by_hand(placers.PDORS(prices=LEVEL), cluster, [[0, 0, 0, 2, 0], [1, 1, 1, 4, 0]], [0, 1])
    told = {"base": [[20.0 / 8000, 20.0 / 16000]], "growth": [np.log(10.0)] * 2}  # by milli-unit: 8 GPUs, 16 CPUs
    floor = timeline_of(replace(result, detail={"posted": told}))
    kind, heat = floor.heat(0, floor.window)
    assert kind == "price"
    assert heat[1, 0] == pytest.approx(20.0)
    assert heat[0, 0] == pytest.approx(10.0 * 10**0.5 + 10.0)
    assert heat[1, 1] == pytest.approx(10.0 * 10 + 10.0)


def closed(**given: Any) -> PlaceComparison:
    """Three machines of two GPUs: one closed in slots 1 and 2, of another one GPU kept in slot 4."""
    windows = Window("a-0", 1, 3, kind="maintenance"), Window("a-1", 4, 5, {"gpu": 1})
    job = Job("j", 0, 6.0, 1, 1.0, {"gpu": 1}, user="ann")
    cluster = Cluster((Machine({"gpu": 2}, 3, "a"),))
    return compare(cluster, [job], [placers.Dated(), placers.FIFO()], slots=8, calendar=Calendar(windows), **given)


def test_what_the_calendar_takes_is_drawn_on_its_machines(tmp_path: Path) -> None:
    """All of a machine, and half of another; in a folder it is windows.csv, and the paper has a span for each too."""
    found = closed()
    assert embedded(page(found), "timeline-data")["windows"] == [
        [0, 1, 3, 1.0, "maintenance"],
        [1, 4, 5, 0.5, "reservation"],
    ]
    loaded = load(found.save(tmp_path, report=False))
    assert embedded(report(loaded), "timeline-data")["windows"] == embedded(page(found), "timeline-data")["windows"]
    spans = timeline.schedule(loaded, "FIFO").panels[0].spans
    assert [span[:3] for span in spans if span[-1] == timeline.CLOSED] == [(1, 3, 0), (4, 5, 1)]


def test_fair_is_said_beside_the_policies() -> None:
    """Only where it was asked for, and Dated takes part."""
    found = replace(closed(), spec=PlaceSpec(fair=True))
    assert "Dated is fair (--fair): a job counts the less" in words(page(found))
    assert "is fair" not in words(page(replace(found, results=found.results[1:])))
    assert "is fair" not in words(page(replace(found, spec=PlaceSpec())))


def test_posted_prices_are_taken_as_told_slot_by_slot() -> None:
    cluster = Cluster((Machine({"gpu": 4, "cpu": 8}),))
    result = by_hand(placers.PDORS(prices=LEVEL), cluster, [[0, 0, 0, 2, 0], [1, 1, 0, 4, 0]], [0, 1])
    told = {"base": [[1e-3, 0.0], [2e-3, 0.0]], "growth": [0.0, 0.0]}
    floor = timeline_of(replace(result, detail={"posted": told}))
    _, heat = floor.heat(0, floor.window)
    assert heat.tolist() == [[4.0, 8.0]]


def test_without_prices_the_heat_is_the_use_of_the_fullest_resource() -> None:
    cluster = Cluster((Machine({"gpu": 4, "cpu": 8}, count=2),))
    result = by_hand(placers.FIFO(), cluster, [[0, 0, 0, 2, 0], [1, 1, 1, 4, 0]], [0, 1])
    floor = timeline_of(result)
    kind, heat = floor.heat(0, floor.window)
    assert posted(result) is None
    assert (kind, heat.tolist()) == ("use", [[0.5, 0.0], [0.0, 1.0]])


def test_use_is_that_of_the_schedule(usual: PlaceComparison, html: str) -> None:
    for one, result in zip(embedded(html, "timeline-data")["policies"], usual.results, strict=True):
        expected = 100.0 * utilisation(result)
        np.testing.assert_allclose(np.array(one["use"]).T, expected, atol=0.051)


def test_many_slots_become_means_over_spans() -> None:
    times, use = lines_of(np.arange(1300.0)[:, None])
    assert len(times) <= timeline.MOST_TIMES
    assert times[:3].tolist() == [0, 2, 4]
    assert use[:3, 0].tolist() == [0.5, 2.5, 4.5]


def test_completion_curves_end_at_the_part_of_all_jobs_completed(usual: PlaceComparison, html: str) -> None:
    """And rise where the completed jobs finish: half of the completed ones by the median hour."""
    series = embedded(html, "chart-data")["completion"]["series"]
    for line, result in zip(series, usual.results, strict=True):
        assert line["data"][-1][1] == pytest.approx(100 * result.completed / len(usual.jobs), abs=1e-3)
        for hours, done in line["data"][1:-1]:
            assert done == pytest.approx(
                100 * float((result.completion <= hours + 1e-9).sum()) / len(usual.jobs), abs=1e-3
            )


def test_reasons_are_counted_as_told(usual: PlaceComparison, html: str) -> None:
    series = embedded(html, "chart-data")["reasons"]["series"]
    for k, result in enumerate(usual.results):
        drawn = [entry["data"][k][0] for entry in series if entry["data"][k][0]]
        assert sorted(drawn) == sorted(result.reasons.values())
        assert sum(drawn) == len(usual.jobs) - result.completed


@dataclass(frozen=True)
class Named:
    """A policy in name only: its result is made by hand."""

    label: str
    colour: str = "#2563eb"

    def start(self, desk: Any, seed: int) -> Session:
        raise NotImplementedError


def by_hand(policy: Any, cluster: Cluster, schedule: list[list[int]], finish: list[int]) -> Result:
    """Jobs worth 100 and 60 at once, less by a tenth each slot; a worker takes a GPU."""
    jobs = Workload(
        tuple(Job(f"job-{k}", 0, 1.0, 8, 1.0, {"gpu": 1}, Linear(worth, 10)) for k, worth in enumerate((100.0, 60.0))),
        skipped=(Skipped(12, "no duration"),),
    )
    told = tuple((Decision(0, "admitted"),) if f >= 0 else (Decision(0, "refused", "priced_out"),) for f in finish)
    rows = np.array(schedule, dtype=np.int32).reshape(-1, 5)
    return Result(policy, cluster, jobs, 6, None, 0, 6, rows, np.array(finish), told, 0.0)


def timeline_of(result: Result) -> Timeline:
    return Timeline(hand_made(result).document())


def hand_made(*results: Result) -> PlaceComparison:
    one = results[0]
    passed = Certificate((Check("capacity", 0.0, 0.0, True, "Nothing over capacity."),))
    return PlaceComparison(
        one.cluster, one.jobs, tuple(results), None, 6, None, 0, [], passed, notes=("utilities made up",)
    )


def test_gains_and_losses_of_two_jobs() -> None:
    """FIFO finishes both, in slots 0 and 2: 100 + 48. Other gives the second slot 0 and refuses the first: 60."""
    cluster = Cluster((Machine({"gpu": 1}),))
    fifo = by_hand(Named("FIFO"), cluster, [[0, 0, 0, 1, 0], [1, 2, 0, 1, 0]], [0, 2])
    other = by_hand(Named("Other"), cluster, [[1, 0, 0, 1, 0]], [-1, 0])
    text = page(hand_made(other, fifo))
    read = words(text)
    assert "What you would have gained over FIFO, and which jobs lost" in read
    assert "Other −1 −1 +1.50 −88 −59.5 % 1 1 0" in read  # slowdowns 1 and 3 against 6, to the end, and 1
    assert "Other instead of FIFO: utility −88; 1 job gained, 1 lost" in read
    lost, gained = read.split("Jobs that lost most")[1].split("Jobs that gained most")
    assert "job-0 0 100 0 0 not refused: priced out" in lost
    assert "job-1 0 48 60 2 0 admitted" in gained
    assert "1 row of the trace could not be mapped to a job and was left out" in read
    assert "line 12: no duration" in read
    assert "utilities made up" in read


def test_another_baseline_can_be_asked_for() -> None:
    cluster = Cluster((Machine({"gpu": 1}),))
    fifo = by_hand(Named("FIFO"), cluster, [[0, 0, 0, 1, 0], [1, 2, 0, 1, 0]], [0, 2])
    other = by_hand(Named("Other"), cluster, [[1, 0, 0, 1, 0]], [-1, 0])
    assert "FIFO +1 +1 −1.50 +88 +146.7 % 1 1 0" in words(page(replace(hand_made(other, fifo), asked_baseline="Other")))


def test_policies_of_one_colour_are_told_apart(html: str) -> None:
    """Two PDORS have one colour of their own; in the page no two bars have."""
    bars = embedded(html, "chart-data")["utility"]["series"][0]["data"]
    assert len({bar["itemStyle"]["color"] for bar in bars}) == len(PLAYERS)


def test_a_wide_cluster_is_cut_to_its_busiest_part_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 machines and 6 slots, 2 and 2: machine 1 is idle, and slots 3 and 4 are the fullest."""
    monkeypatch.setattr(timeline, "MOST_MACHINES", 2)
    monkeypatch.setattr(timeline, "MOST_SLOTS", 2)
    cluster = Cluster((Machine({"gpu": 4}, count=3),))
    cells = [[0, 0, 0, 1, 0], [0, 3, 0, 4, 0], [0, 4, 0, 4, 0], [1, 3, 2, 2, 0]]
    result = by_hand(Named("A"), cluster, cells, [4, 3])
    floor = timeline_of(result)
    window = floor.window
    assert (window.machines.tolist(), window.first, window.last) == ([0, 2], 3, 5)
    assert [(b.job, b.machine, b.first, b.last) for b in floor.bars(0, window)] == [(0, 0, 3, 5), (1, 2, 3, 4)]
    read = words(page(hand_made(result)))
    assert "Shown are the 2 busiest of 3 machines and the busiest 2 slots in a row (3 to 4) of 6" in read


def test_too_many_bars_narrow_the_window(monkeypatch: pytest.MonkeyPatch, usual: PlaceComparison) -> None:
    whole = Timeline(usual.document()).window.slots
    monkeypatch.setattr(timeline, "MOST_BARS", 100)
    assert Timeline(usual.document()).window.slots < whole


def test_candidates_of_a_calibration_are_drawn_and_the_chosen_one_is_ringed(usual: PlaceComparison) -> None:
    trial = {"policy": "PDORS", "ratio": 10.0, "lead": 0.0, "completed": 3, "chosen": False}
    trials = [trial | {"level": level, "utility": 10.0 * level} for level in (1.0, 2.0, 4.0)]
    trials += [trial | {"level": 2.0, "ratio": 30.0, "utility": 50.0, "chosen": True}]
    text = page(replace(usual, calibration=trials))
    series = embedded(text, "chart-data")["calibration-0"]["series"]
    assert [(one["name"], [point["value"] for point in one["data"]]) for one in series[:2]] == [
        ("ratio 10", [[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]),
        ("ratio 30", [[2.0, 50.0]]),
    ]
    assert series[0]["data"][2]["tip"].endswith("utility 40, 3 jobs done")
    assert (series[2]["name"], series[2]["data"]) == ("chosen", [[2.0, 50.0]])
    assert text.index('id="gains"') < text.index('data-chart="calibration-0"') < text.index('id="facts"')


def test_a_hostile_name_stays_a_name(html: str) -> None:
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html


def write(path: Path, comparison: PlaceComparison) -> Path:
    path.write_text(page(comparison), encoding="utf-8")
    return path


def odd(kind: str, usual: PlaceComparison) -> PlaceComparison:
    """Comparisons with little in them."""
    if kind == "one policy":
        return overloaded([placers.SRTF()])
    if kind == "no bound":
        return overloaded([placers.SRTF(), placers.FIFO()], bound=False)
    if kind == "nothing completed":
        cluster = Cluster((Machine({"cpu": 1, "gpu": 4}, name="</script><b>"),))
        return hand_made(*(by_hand(Named(name), cluster, [[0, 0, 0, 1, 0]], [-1, -1]) for name in "AB"))
    if kind == "nothing scheduled":
        return hand_made(by_hand(Named("A"), Cluster((Machine({"gpu": 1}),)), [], [-1, -1]))
    return usual


ODD = ["usual", "one policy", "no bound", "nothing completed", "nothing scheduled"]


@pytest.mark.parametrize("kind", ODD)
def test_odd_comparisons_make_a_page(kind: str, usual: PlaceComparison) -> None:
    comparison = odd(kind, usual)
    read = words(page(comparison))
    assert all(label in read for label in comparison.labels)
    assert ("of the bound" in read) == (comparison.bound is not None)
    assert ("What you would have gained" in read) == (len(comparison.results) > 1)


@NEEDS_A_BROWSER
@pytest.mark.parametrize(("screen", "scheme"), [("desktop", "light"), ("phone", "dark")])
@pytest.mark.parametrize("kind", ODD)
def test_every_chart_is_drawn_and_the_page_asks_for_nothing(
    browser: Any, tmp_path: Path, usual: PlaceComparison, screen: str, scheme: str, kind: str
) -> None:
    """Something in every chart, a silent console, no request but the file, nothing wider than the screen."""
    comparison = odd(kind, usual)
    path = write(tmp_path / "report.html", comparison)
    opened, complaints, asked = visit(browser, path, screen, scheme)
    places = opened.query_selector_all("[data-chart]")
    drawn = {place.get_attribute("data-chart"): place.evaluate(COLOURS) for place in places}
    some = any(result.completed for result in comparison.results)
    assert set(drawn) == (CHARTS if some else CHARTS - {"completion"})
    assert min(drawn.values()) > 5
    assert complaints == []
    assert asked == [path.as_uri()]
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.close()


def drawn_now(opened: Any, key: str) -> Any:
    return opened.evaluate(
        f"""() => {{
          const chart = echarts.getInstanceByDom(document.querySelector('[data-chart="{key}"]'));
          return chart.getOption().series.map(({{ name, data }}) => ({{ name, data }}));
        }}"""
    )


@NEEDS_A_BROWSER
def test_choosing_a_policy_redraws_its_schedule(
    browser: Any, tmp_path: Path, usual: PlaceComparison, html: str
) -> None:
    """Bars, prices or use, lines and words are those of the policy chosen, and stay when light turns to dark."""
    opened, complaints, _ = visit(browser, write(tmp_path / "report.html", usual))
    floor = embedded(html, "timeline-data")
    for k in (2, 0):
        opened.select_option("#shown-policy", str(k))
        one = floor["policies"][k]
        assert drawn_now(opened, "gantt")[0]["data"] == one["bars"]
        heat = drawn_now(opened, "heat")[0]["data"]
        for first, last, row, _, value in heat:
            assert one["cells"][row][first - floor["first"] : last - floor["first"]] == [value] * (last - first)
        assert sum(last - first for first, last, *_ in heat) == sum(map(len, one["cells"]))
        use = drawn_now(opened, "use")
        assert [[v for _, v in line["data"][:-1]] for line in use] == one["use"]
        assert opened.inner_text(".story").startswith(one["policy"])
    colour = "() => echarts.getInstanceByDom(document.querySelector('[data-chart]')).getOption().textStyle.color"
    light = opened.evaluate(colour)
    opened.select_option("#shown-policy", "2")
    opened.emulate_media(color_scheme="dark")
    opened.wait_for_function(f"() => ({colour})() !== {light!r}")
    assert drawn_now(opened, "gantt")[0]["data"] == floor["policies"][2]["bars"]
    assert complaints == []
    opened.close()


@NEEDS_A_BROWSER
def test_tooltips_say_what_is_there(browser: Any, tmp_path: Path, usual: PlaceComparison, html: str) -> None:
    opened, complaints, _ = visit(browser, write(tmp_path / "report.html", usual))
    opened.select_option("#shown-policy", "1")
    shown = {}
    for key in sorted(CHARTS):
        opened.evaluate(f"""() => {{
          const chart = echarts.getInstanceByDom(document.querySelector('[data-chart="{key}"]'));
          chart.dispatchAction({{ type: "showTip", seriesIndex: 0, dataIndex: 1 }});
        }}""")
        opened.wait_for_timeout(60)
        shown[key] = opened.inner_text(f'[data-chart="{key}"]')
    floor = embedded(html, "timeline-data")
    job, row, first, last, workers, _, spread, *_ = floor["policies"][1]["bars"][1]
    lines = shown["gantt"].split("\n")
    slots = f"slot {first}" if last - first == 1 else f"slots {first} to {last - 1}"
    assert lines[0] == f"job {floor['jobs'][job]}"
    assert lines[1] == f"on {floor['machines'][row]}, {slots}"
    assert lines[2].startswith(f"{workers} worker")
    assert lines[3] == ("spread over several machines" if spread else "together on one machine")
    assert lines[4].endswith(usual.labels[1])
    assert shown["heat"].endswith(" a slot for all of it")
    assert shown["use"].startswith("slot 1, % in use")
    label = "axisPointer.label.formatter"
    chart = """echarts.getInstanceByDom(document.querySelector('[data-chart="use"]'))"""
    assert opened.evaluate(f"() => {chart}.getOption().xAxis[0].{label}") == "slot {value}"
    assert shown["completion"].startswith("% of all jobs done within ")
    assert shown["utility"].startswith(usual.labels[1])
    assert opened.query_selector('[data-chart] img, [src="x"]') is None
    assert complaints == []
    opened.close()


def test_a_folder_of_0_1_0_makes_a_page() -> None:
    """What 0.1.0 did not write is found elsewhere: the machines, the baseline, the arrivals."""
    document = load(RECORDED).document()
    read = words(report(document))
    assert all(str(row["policy"]) in read for row in document.rows("rows"))
    assert embedded(report(document), "timeline-data")["policies"][0]["bars"]
    assert "What you would have gained over FIFO" in read
    kinds = [row["kind"] for row in document.result["calibration"]]
    assert "bid" in kinds and f"{kinds.count('replay')} candidates replayed over history" in read  # bids are gone
