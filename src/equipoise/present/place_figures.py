"""Figures of a comparison of placers: utility, completed jobs, completion times, reasons, calibrated prices; its facts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Document, Row
from equipoise.present.figures import HUES, Axis, Figure, Look, Mark, Panel, Series, Sheet, chosen, looks, thinned
from equipoise.present.text import count, duration, joined, number, percent
from equipoise.present.timeline import DASHES, schedule
from equipoise.present.values import Bullets, Facts, Fold, Section

MOST_POINTS = 250  # of a policy's curve of completion times
LOG_SPREAD = 10.0  # largest over smallest from which an axis is logarithmic
PROGRAMS = {"lp": "linear program", "milp": "integer program", "trivial": "looking: no job can finish"}
BOUNDS = {"lp": "LP", "milp": "exact", "trivial": "trivial"}
REASONS = {"infeasible_alone": "fits no machine", "beyond_horizon": "beyond horizon", "no_capacity": "no capacity"}
REASONS |= {
    "priced_out": "priced out",
    "machine_lost": "machine lost",
    "waiting": "waiting",
    "unfinished": "unfinished",
}
MEANINGS = {
    "beyond_horizon": "Beyond horizon: it could not finish in it even alone on an empty cluster.",
    "waiting": "Waiting: its turn had not come, or had not lasted, by the end.",
    "priced_out": "Priced out: its cheapest schedule cost more than finishing it was worth.",
}


BID = "bid"  # a kind of prices of 0.1.0, with levels on another scale


def facts_of(document: Document) -> Row:
    """What the result says; what 0.1.0 did not write is found elsewhere in the document."""
    result, config = dict(document.result), document.config
    result["calibration"] = [row for row in result["calibration"] if row.get("kind") != BID]
    if "types" in result:
        return result
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in document.rows("machines"):
        kinds[str(row["machine"]).rpartition("-")[0]].append(row)
    types = [
        {"name": name, "count": len(rows), "capacity": {r: f"{rows[0][r]:g}" for r in result["resources"]}}
        for name, rows in kinds.items()
    ]
    arrivals = [row["arrival"] for row in document.rows("outcomes")] or [0]
    gains = result.get("gains") or [{"baseline": result["rows"][0]["policy"]}]
    found = {
        "seed": config.get("seed", 0),
        "bound_note": "",
        "baseline": gains[0]["baseline"],
        "promises": [],
        "start": "",
    }
    found |= {"source": config.get("jobs", "the built-in example"), "arrivals": [min(arrivals), max(arrivals)]}
    return found | {"types": types, "skipped": {"rows": 0, "first": []}} | result


def reason(kind: str) -> str:
    return REASONS.get(kind, kind.replace("_", " "))


def reason_kinds(told: Row) -> list[str]:
    """Reasons that any job was told, known ones first."""
    given = told["reasons"].values()
    kinds = [kind for kind in REASONS if any(kind in found for found in given)]
    return kinds + sorted({kind for found in given for kind in found if kind not in REASONS})


def utility_figure(told: Row, look: Mapping[str, Look]) -> Figure:
    """What each policy earned, and the most that any could have."""
    values, bound = [row["utility"] for row in told["rows"]], told["bound"]
    marks, top = [], None
    if bound is not None and bound["utility"]:
        kind = BOUNDS.get(bound["kind"], bound["kind"])
        marks = [Mark("x", bound["utility"], f"{kind} bound {number(bound['utility'])}")]
        top = float(f"{1.04 * max(bound['utility'], *values):.3g}")
    words = joined(
        "The worth of the jobs that finished, by when they did: higher is better.",
        marks and "No policy can pass the bound, which knows all jobs in advance.",
        not any(values) and "Here no policy earned anything.",
    )
    label = "Bars: utility per policy" + (", with the bound as a line" if marks else "")
    return _bars("Utility", "utility", told, look, words, Axis("utility", low=0, high=top), label, marks)


def slowdown_figure(told: Row, look: Mapping[str, Look]) -> Figure:
    """How much slower than alone jobs were on average."""
    words = "Time from arrival over own duration, mean of all jobs that can finish; unfinished ones count to the end."
    axis, label = Axis("times the own duration", low=0), "Bars: mean slowdown per policy"
    return _bars("Mean slowdown", "mean_slowdown", told, look, words, axis, label)


def completed_figure(told: Row, look: Mapping[str, Look]) -> Figure:
    """How many jobs were done."""
    jobs = told["jobs"]
    words = f"Out of {count(jobs, 'job')}."
    words += (
        " A policy may complete fewer jobs and earn more: jobs differ in worth."
        if told.get("stated") != "nothing"
        else ""
    )
    axis = Axis(f"jobs, of {jobs:,}", low=0, high=max(jobs, 1), whole=True)
    return _bars("Completed jobs", "completed", told, look, words, axis, "Bars: completed jobs per policy")


def _bars(
    title: str,
    key: str,
    told: Row,
    look: Mapping[str, Look],
    words: str,
    axis: Axis,
    label: str,
    marks: Sequence[Mark] = (),
) -> Figure:
    """A lying bar for each policy, the first on top, with its value in it or beside it."""
    values = {row["policy"]: row[key] for row in told["rows"]}
    tips = [f"{name}: {number(value)}" for name, value in values.items()]
    colours = [look[name].colour for name in values]
    bars = Series(axis.name, [*values.values()], range(len(values)), "bars", colours=colours, values=True, tips=tips)
    groups = Axis(groups=[*values])
    return Figure(
        title, axis, groups, [bars], marks, caption=words, key=key, label=label, legend=False, tip="item", down=True
    )


def completion_figure(document: Document, look: Mapping[str, Look]) -> Figure:
    """The part of all jobs that was done within so many hours of arrival, a line for each policy."""
    told, hours = facts_of(document), completion_hours(document)
    if not any(len(own) for own in hours.values()):
        words = "No job finished under any policy: there are no times to show."
        return Figure("Completion times", Axis(), Axis(), caption=words, key="completion")
    everything = np.concatenate(list(hours.values()))
    low, high = float(everything.min()), float(everything.max())
    wide = high > LOG_SPREAD * low
    start = 10.0 ** np.floor(np.log10(low) + 1e-9) if wide else 0.0
    end, ticks = round_end(1.02 * high), _ticks(start, high) if wide else []
    series = []
    for name, own in hours.items():
        times, done = _steps(own, told["jobs"])
        x, y = [start, *times, end], [0.0, *done, done[-1] if done else 0.0]
        series.append(Series(look[name].name, x, y, "step", look=look[name], marker="none"))
    few = [name for name, own in hours.items() if not len(own)]
    words = joined(
        "Jobs done within so many hours of their arrival, in percent of all jobs and not of the completed ones: a "
        "policy that drops long jobs does not look quicker for it.",
        wide and "The axis of hours is logarithmic.",
        few and f"{' and '.join(few)} completed none.",
    )
    point = "% of all jobs done within {value} hours"
    axis = Axis("hours from arrival", wide, start, end, ticks=ticks, point=point)
    label = "Lines: percent of jobs done within so many hours, per policy"
    return Figure(
        "Completion times", axis, Axis("% of all jobs", low=0), series, caption=words, key="completion", label=label
    )


def round_end(high: float) -> float:
    """The end of an axis, where a label can stand: 23.1 as 25, 0.84 as 0.85, 130 as 150."""
    step = 10.0 ** np.floor(np.log10(high)) / 2
    return float(f"{np.ceil(high / step) * step:.6g}")


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... between; only the decades where there are many."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    places = [float(f"{10.0**k * m:.6g}") for k in decades for m in steps]
    return [place for place in places if 0.999 * low <= place <= 1.001 * high]


def completion_hours(document: Document) -> dict[str, NDArray[np.float64]]:
    """Hours from arrival to the end of the slot of finish of the completed jobs, sorted, by policy."""
    told = document.result
    found: dict[str, list[float]] = {row["policy"]: [] for row in told["rows"]}
    for row in document.rows("outcomes"):
        if row["finish"] is not None:
            slots = row["finish"] - row["arrival"] + 1
            found[str(row["policy"])].append(slots * told["slot"] / 3600.0)
    return {name: np.sort(np.array(hours)) for name, hours in found.items()}


def _steps(hours: NDArray[np.float64], total: int) -> tuple[list[float], list[float]]:
    """Hours, and the percent of all jobs done by then: one point where several share a time."""
    times, last = np.unique(hours, return_index=True)
    done = np.append(last[1:], len(hours)) if len(hours) else last
    rows = thinned(len(times), MOST_POINTS)
    return [round(float(t), 4) for t in times[rows]], [round(100.0 * int(n) / total, 3) for n in done[rows]]


def reasons_figure(told: Row) -> Figure:
    """Why jobs did not finish: the last reason each was told."""
    title, kinds = "Why jobs did not finish", reason_kinds(told)
    if not kinds:
        return Figure(title, Axis(), Axis(), caption="Every job finished under every policy.", key="reasons")
    names, places = list(told["reasons"]), range(len(told["reasons"]))
    numbers = {kind: [told["reasons"][name].get(kind, 0) for name in names] for kind in kinds}
    series = [
        Series(reason(kind), jobs, places, "bars", colour=HUES[(3 * k) % len(HUES)], stack="jobs")
        for k, (kind, jobs) in enumerate(numbers.items())
    ]
    meanings = (meaning for kind, meaning in MEANINGS.items() if kind in kinds)
    words = joined("The last reason each unfinished job was told.", *meanings)
    label = "Stacked bars: jobs not finished per policy, by reason"
    axis = Axis("jobs not finished", low=0, high=max(told["jobs"], 1), whole=True)
    return Figure(
        title, axis, Axis(groups=names), series, caption=words, key="reasons", label=label, legend=True, down=True
    )


def calibration_figures(trials: Sequence[Row]) -> list[Figure]:
    """A figure for every policy: each candidate with what it earned on history, the chosen marked."""
    groups: dict[str, list[Row]] = {}
    for trial in trials:
        groups.setdefault(trial["policy"], []).append(trial)
    return [_calibration(k, policy, mine) for k, (policy, mine) in enumerate(groups.items())]


def _calibration(k: int, policy: str, trials: Sequence[Row]) -> Figure:
    positive = [trial["level"] for trial in trials if trial["level"] > 0]
    wide = bool(positive) and max(positive) > LOG_SPREAD * min(positive)
    drawn = [trial for trial in trials if trial["level"] > 0 or not wide]
    families = list(dict.fromkeys(map(_family, drawn)))
    series = []
    for n, family in enumerate(families):
        mine = sorted((trial for trial in drawn if _family(trial) == family), key=lambda trial: trial["level"])
        tips = [
            f"{family}, level {number(t['level'], 3)}: utility {number(t['utility'])}, {count(t['completed'], 'job')} done"
            for t in mine
        ]
        x, y, hue = [t["level"] for t in mine], [t["utility"] for t in mine], HUES[(3 * n) % len(HUES)]
        series.append(Series(family, x, y, colour=hue, marker="circle", size=7, tips=tips))
    chosen = [trial for trial in drawn if trial["chosen"]]
    if chosen:
        x, y = [trial["level"] for trial in chosen], [trial["utility"] for trial in chosen]
        series.append(Series("chosen", x, y, "dots", colour="@ink", marker="emptyCircle", size=17, silent=True))
    unit = "price of the whole empty cluster for a slot"
    low, high = (min(positive) / 1.3, max(positive) * 1.3) if wide else (None, None)
    free = [trial["utility"] for trial in trials if not trial["level"] > 0]
    words = joined(
        f"{count(len(trials), 'candidate')} replayed over history, never over the jobs of this page.",
        len(families) > 1
        and "A line joins those that rise alike with use (ratio) and with distance in time (lead, in slots).",
        free and wide and f"Without prices: {number(free[0])}, not drawn.",
        chosen and "The chosen one is ringed.",
    )
    ticks = [] if low is None or high is None else _ticks(low, high)
    x_axis, y_axis = Axis(unit, log=wide, low=low, high=high, ticks=ticks), Axis("utility on history", zero=False)
    title, label = f"Calibration of {policy}", "Lines: utility on history by level of price"
    return Figure(
        title, x_axis, y_axis, series, caption=words, key=f"calibration-{k}", label=label, legend=True, tip="item"
    )


def _family(trial: Row) -> str:
    """What the candidates of one line have in common."""
    return f"ratio {number(trial['ratio'], 3)}" + (f", lead {number(trial['lead'])}" if trial["lead"] else "")


def facts_section(told: Row) -> Section:
    """The machines, the jobs, the bound and the prices, and the rows of the trace that were left out."""
    return Section("The cluster and the jobs", [Facts(_facts(told)), *_skipped(told)], key="facts")


def _facts(told: Row) -> list[tuple[str, str]]:
    types = "; ".join(
        f"{m['count']:,} × {m['name']} ({', '.join(f'{amount} {name}' for name, amount in m['capacity'].items())})"
        for m in told["types"]
    )
    first, last = told["arrivals"]
    when = f", slot 0 begins {told['start']}" if told["start"] else ""
    ends = [f"fixed end after {count(told['slots'], 'slot')}"] if told["slots"] is not None else []
    if told["horizon"] is not None:
        ends.append(f"each job is planned within {count(told['horizon'], 'slot')} of its arrival")
    facts = [
        ("machines", types if len(told["types"]) == 1 else f"{told['machines']:,}: {types}"),
        ("jobs", f"{told['jobs']:,} from {told['source']}, arriving in slots {first:,} to {last:,}{when}"),
        ("slot", duration(told["slot"])),
        ("planning", "; ".join(ends)),
        ("seed", str(told["seed"])),
    ]
    facts += [("note", "; ".join(told["notes"]))] if told["notes"] else []
    for kind, row in told["hopeless"].items():
        if row["jobs"]:
            held = ", ".join(f"{percent(share)} of {name}" for name, share in row["resource_time"].items())
            words = f"{count(row['jobs'], 'job')} ({percent(row['share'])}), with so much of the time asked for: {held}"
            facts.append((reason(kind), words))
    limit, bound = told["bound"], "not computed"
    if limit is not None:
        status = limit["status"].replace("_", " ")
        loose = "" if status == "optimal" else f", {status}: not the tightest of its kind"
        bound = f"{number(limit['utility'])} by {PROGRAMS.get(limit['kind'], limit['kind'])}{loose}"
    facts.append(("bound", bound))
    for name, note in told["prices"].items():
        facts.append((f"prices of {name}", ", ".join(f"{key} {_words(value)}" for key, value in note.items())))
    return facts


def _words(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_words(inner)}" for key, inner in value.items()) + ")"
    return number(value) if isinstance(value, int | float) else str(value)


def _skipped(told: Row) -> list[Fold]:
    total, rows = told["skipped"]["rows"], told["skipped"]["first"]
    if not total:
        return []
    was = "was" if total == 1 else "were"
    more = [f"and {total - len(rows):,} more"] if total > len(rows) else []
    lines = Bullets([*(f"line {row['line']}: {row['reason']}" for row in rows), *more])
    return [Fold(f"{count(total, 'row')} of the trace could not be mapped to a job and {was} left out", [lines])]


# For a paper.

PANELS = ("utility", "completion")


def sheet(document: Document, *, panels: Sequence[str] | None = None, policy: str | None = None) -> Sheet:
    """Panels of "utility" beside the bound and "completion" times; with `policy`, or of one run, its schedule."""
    names = [str(row["policy"]) for row in document.rows("rows")]
    if policy is not None or document.verb == "place run":
        return schedule(document, policy or names[0])
    look = looks(names, document.looks)
    if document.verb == "place sweep":
        return Sheet([_earned(document, look, f"utility, mean of {document.rows('rows')[0]['seeds']} seeds")])
    made = {"utility": _earned, "completion": _done}
    usual = PANELS[1:] if document.result.get("stated") == "nothing" else PANELS
    return Sheet([made[panel](document, look) for panel in chosen(panels, PANELS, usual)])


def _earned(document: Document, look: Mapping[str, Look], unit: str = "") -> Panel:
    """A bar for each policy and one for the bound; the part of the bound that each reached is written beside it."""
    rows: Sequence[Row] = document.rows("rows")
    bound: Row | None = document.result.get("bound")
    values, errors = [row["utility"] for row in rows], [row.get("utility_se") or 0.0 for row in rows]
    names = [row["policy"] for row in rows]
    colours = [look[name].own or look[name].light for name in names]
    texts, marks = [], []
    if bound is not None:
        texts = [f"{100 * value / bound['utility']:.0f}%" for value in values] if bound["utility"] else []
        marks = [Mark("x", bound["utility"], colour="@ink", dash="dotted")]
        names, values, errors = [*names, "upper bound"], [*values, bound["utility"]], [*errors, 0.0]
        colours = [*colours, "@edge"]
    bars = Series("utility", values, range(len(names)), "bars", error=errors, colours=colours)
    axis = Axis(unit or "utility" + (" (% of the bound)" if bound else ""), low=0, high=1.12 * (max(values) or 1.0))
    figure = Figure("What finishing in time earned", axis, Axis(groups=names), [bars], marks, legend=False, down=True)
    return Panel(figure, height=0.65 + 0.17 * (1 + max(len(rows), 5)), texts=texts)


def _done(document: Document, look: Mapping[str, Look]) -> Panel:
    """How many jobs were done within so many hours of their arrival: to the upper left is better."""
    hours = completion_hours(document)
    longest = 1.04 * max((float(own[-1]) for own in hours.values() if len(own)), default=1.0)
    series = [
        Series(name, [0.0, *own, longest], [0, *range(1, len(own) + 1), len(own)], "step", look=look[name], dash=dash)
        for (name, own), dash in zip(hours.items(), cycle(DASHES))
    ]
    most = 1.05 * max((len(own) for own in hours.values()), default=1)
    x, y = Axis("hours since arrival", low=0, high=longest, whole=True), Axis("jobs done", low=0, high=most or 1.0)
    return Panel(Figure("How soon jobs were done", x, y, series), height=0.65 + 0.17 * (1 + max(len(hours), 5)))
