"""What a hostile network did to a run: events as marks on the axis of rounds, and the CPU that is in nobody's share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.present.echarts import Chart, Floats, Option, frame, grid, legend, line, thinned, tooltip, x_axis, y_axis
from equipoise.present.text import count, number, percent
from equipoise.train.hostile.run import HostileRun
from equipoise.train.hostile.timetable import Event
from equipoise.train.run import Run

ROWS_DRAWN = 1000
LABELLED = 14  # marks; with more of them only the lines are drawn
CLOSE = 1 / 30  # of all rounds: events nearer than this share a label
LATE = 0.93
NAMED = 3  # centres in a label
COLOURS = {"crash": "@bad", "split": "@bad", "leave": "@amber", "join": "@good", "heal": "@good"}
WORDS = {"crash": "crash", "leave": "leave", "join": "join", "split": "split", "heal": "heal"}
AFTERMATH = ("noticed", "cut")  # drawn fainter and without a name: they follow from what came before


def events_of(run: Run) -> tuple[Event, ...]:
    return run.events if isinstance(run, HostileRun) else ()


def event_marks(run: Run) -> Option | None:
    """A line without points that carries a labelled upright mark for every event; None where nothing happened."""
    events = events_of(run)
    if not events:
        return None
    late = LATE * max(run.rounds, 1)  # there a name would leave the chart on the right
    texts = _labels(events, run.rounds)
    data = [_mark(event, text, event.round > late) for event, text in zip(events, texts, strict=True)]
    return {
        "type": "line",
        "name": "events",
        "data": [],
        "silent": True,
        "tooltip": {"show": False},
        "markLine": {"silent": True, "symbol": "none", "precision": 20, "animation": False, "data": data},
    }


def _mark(event: Event, text: str, late: bool) -> Option:
    colour = COLOURS.get(event.kind, "@soft")
    faint = event.kind in AFTERMATH
    return {
        "name": str(event),
        "xAxis": event.round,
        "lineStyle": {"color": colour, "width": 1 if faint else 1.5, "type": "dotted" if faint else "solid"},
        "label": {
            "show": bool(text),
            "formatter": text,
            "position": "insideEndTop" if late else "insideEndBottom",
            "distance": [2, 3],
            "fontSize": 11,
            "color": colour,
            "backgroundColor": "@paper",
            "padding": [1, 3],
            "borderRadius": 2,
        },
    }


def _labels(events: Sequence[Event], rounds: int) -> list[str]:
    """One name for events that are close together, at the first of them."""
    told = [k for k, event in enumerate(events) if event.kind not in AFTERMATH]
    groups: list[list[int]] = []
    for k in told:
        if groups and events[k].round - events[groups[-1][0]].round < CLOSE * max(rounds, 1):
            groups[-1].append(k)
        else:
            groups.append([k])
    texts = [""] * len(events)
    if len(groups) <= LABELLED:
        for group in groups:
            texts[group[0]] = _together([events[k] for k in group])
    return texts


def _together(events: Sequence[Event]) -> str:
    """crash 3, 7; join 9."""
    parts: list[str] = []
    for kind in dict.fromkeys(event.kind for event in events):
        nodes = sorted({node for event in events if event.kind == kind for node in event.nodes})
        many = ", ".join(map(str, nodes[:NAMED])) + (", …" if len(nodes) > NAMED else "")
        parts.append(WORDS[kind] if kind in ("split", "heal") else f"{WORDS[kind]} {many}")
    return "; ".join(parts)


def words_on_marks(run: Run) -> str:
    """What the marks of a chart mean."""
    return " Upright marks are events; dotted ones, when neighbours notice." if events_of(run) else ""


def words_of_events(run: Run) -> list[str]:
    """A line for each event, and for what kept the survivors from their optimum."""
    return [str(event) for event in run.events] + list(run.trouble) if isinstance(run, HostileRun) else []


def words_on_gaps(run: Run) -> str:
    """Why the curve jumps."""
    if not isinstance(run, HostileRun):
        return ""
    found = " The gap is against what those who are there could reach, as a part of the"
    if not run.events:
        return found + " gap at the start."
    return (
        f"{found} gap at the last event, or of equal shares and first models: each event sets a new optimum, so the curve "
        f"jumps there and "
        f"falls anew.{words_on_marks(run)}"
    )


def in_flight(run: Run) -> Chart | None:
    """CPUs in nobody's share over the rounds, and how many centres are there."""
    if not isinstance(run, HostileRun):
        return None
    rounds, centres = run.history["round"], run.history["centres"]
    flying = run.history.get("in_flight")
    if flying is None and not run.events:
        return None
    rows = thinned(len(rounds), ROWS_DRAWN)
    marks = event_marks(run)
    series: list[Option] = []
    axes: list[Option] = []
    if flying is not None:
        points = [[float(a), float(b)] for a, b in zip(rounds[rows], flying[rows], strict=True)]
        drawn = line("CPUs in flight", points, "@blue", areaStyle={"color": "@blue", "opacity": 0.18})
        series.append(drawn)
        axes.append(y_axis("CPUs in flight", min=0))
    there = _centres(run, rounds[rows], centres[rows])
    steps = line("centres there", there, "@teal", step="end", stroke={"type": "dashed"})
    right = y_axis("centres", min=0, max=run.network.n, minInterval=1, splitLine={"show": False})
    if axes:
        right |= {"position": "right"}
        right["nameTextStyle"] = right["nameTextStyle"] | {"align": "right", "padding": [0, -8, 0, 0]}
        steps |= {"yAxisIndex": 1}
    axes.append(right)
    series.append(steps)
    if marks is not None:
        series.append(marks)
    lost = f"{run.lost:,} of {count(run.packets, 'packet')} were lost ({percent(run.lost / max(run.packets, 1))})."
    meaning = lost
    if flying is not None:
        meaning = (
            "CPU on its way between centres, or held for one that crashed, is in nobody's share; with the shares it adds "
            f"up to the budget in every round. At the end {number(run.in_flight)} CPUs are in flight. {lost}"
        )
    what = "CPUs in nobody's share and centres present" if flying is not None else "Centres present"
    return Chart(
        "in_flight",
        "In flight, and who is there" if flying is not None else "Who is there",
        f"Line chart: {what} against rounds, with events as upright marks",
        meaning + words_on_marks(run),
        frame(
            grid=grid(legend=True) | {"top": 18, "right": 8 if len(axes) > 1 else 16},
            legend=legend(icon="inherit", itemWidth=26, data=[entry["name"] for entry in series if entry["data"]]),
            tooltip=tooltip("axis", valueFormatter="@short"),
            xAxis=x_axis("round", pointer="round {value}", max="dataMax", minInterval=1),
            yAxis=axes,
            series=series,
        ),
    )


def _centres(run: HostileRun, rounds: Floats, centres: Floats) -> list[list[float]]:
    """How many are there, as recorded and exactly where it changes."""
    points = {float(a): float(b) for a, b in zip(rounds, centres, strict=True)}
    amount = float(centres[0]) if len(centres) else 0.0
    for event in run.events:
        amount += {"join": 1, "crash": -1, "leave": -1}.get(event.kind, 0) * len(event.nodes)
        points[float(event.round)] = amount
    return [[at, points[at]] for at in sorted(points)]


def present(run: Run) -> list[bool]:
    """Who is there at the end."""
    if not isinstance(run, HostileRun):
        return [True] * run.network.n
    found: list[bool] = np.asarray(run.present, dtype=bool).tolist()
    return found


def gone_since(run: Run, node: int) -> str:
    """node 7: crashed in round 137."""
    deeds = {"crash": "crashed", "leave": "left"}
    last = [event for event in events_of(run) if event.kind in deeds and node in event.nodes]
    if not last:
        return f"node {node}: never came"
    return f"node {node}: {deeds[last[-1].kind]} in round {last[-1].round}"


def key_numbers(run: Run) -> list[dict[str, str]]:
    """Packets lost and who is left."""
    if not isinstance(run, HostileRun):
        return []
    there = int(run.present.sum())
    gone = [str(node) for node in np.flatnonzero(~run.present)[:8].tolist()]
    note = "all of them" if there == run.network.n else f"gone: {', '.join(gone)}"
    share = run.lost / max(run.packets, 1)
    found = [
        {"name": "centres at the end", "value": f"{there} of {run.network.n}", "note": note},
        {"name": "packets lost", "value": percent(share), "note": f"{run.lost:,} of {run.packets:,}"},
    ]
    if run.shares is not None:
        most = float(run.history["in_flight"].max())
        found.append(
            {
                "name": "in flight at the end",
                "value": f"{number(run.in_flight, 3)} CPUs",
                "note": f"most: {number(most)}",
            }
        )
    return found
