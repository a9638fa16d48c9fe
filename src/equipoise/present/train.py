"""The page of a training run and its figure for a paper, from plain values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.document import Document, Row
from equipoise.errors import InputError
from equipoise.present.echarts import Floats, Ints
from equipoise.present.figures import Axis, Figure, Mark, Panel, Series, Sheet, chosen, hues, thinned
from equipoise.present.network import (
    about_network,
    event_marks,
    events_of,
    hostile,
    network,
    present,
    words_on_gaps,
    words_on_marks,
)
from equipoise.present.text import NOTHING, count, number, outcome, percent, prefix, scaled
from equipoise.present.train_advice import advice
from equipoise.present.train_beside import beside_figures, beside_table
from equipoise.present.train_data import left_table, recall_table, scores_table
from equipoise.present.train_nodes import allocations, final_shares, node_accuracy, node_losses, rivals
from equipoise.present.values import Block, Bullets, KeyNumber, KeyNumbers, Page, Section, Text

History = dict[str, Floats]  # by columns
ROWS_DRAWN = 1000  # of the history; a page stays small whatever the run's length
SHARE_ROWS_DRAWN = 300
BANDS, LARGEST = 40, 20  # with more nodes than bands, the largest are drawn one by one and the rest as one
ROUND = Axis("round", low=0, whole=True, point="round {value}")
BITS = Axis("bits sent over all links", log=True, form="bits")
# Columns of the history: name, colour, width and meaning of each line.
CURVES = {
    "relative_gap": ("relative gap", "@blue", 2.5, "distance from what one central solver would reach"),
    "consensus": ("consensus", "@teal", 2.0, "how far the nodes' models differ"),
    "loss_part": ("loss", "@violet", 2.5, "the worst node's loss, as a part of the one at the start"),
    "kkt": ("kkt", "@amber", 2.0, "how far the nodes' prices of a CPU differ"),
    "gradient": ("gradient", "@grey", 2.0, "sum of the nodes' gradients where their models are, 0 at the optimum"),
    "tracker": ("tracker", "@grey", 2.0, "error of the tracked gradient, mere rounding if all is well"),
}
CODES = {
    "minifloat": "a minifloat of the change since the last message",
    "log": "a logarithmic code",
    "uniform": "a code of even steps",
    "float": "the number itself",
}
BESIDE = {
    "result.json": "holds the result and the certificate",
    "history.csv": "every recorded row",
    "config.yaml": "repeats the run",
}
HEIGHT = 1.55  # inches of a panel on paper
BARS = 40  # centres up to which every share is a bar of its own on paper
LEAST = 1e-12  # of the gap at the start: below it lies rounding


def page(document: Document) -> Page:
    """What was done in words, the certificate, key numbers, what happened, and the charts."""
    result, history, seconds = document.result, columns(document), document.arrays.get("seconds")
    diverged, study = result["status"] == "diverged", result.get("allocations")
    happened = [event["text"] for event in events_of(document)] + list(result.get("trouble", []))
    note = Text("Rounds count from 0; history row r is the state after r rounds.", soft=True)
    blocks: list[Block | None] = [
        Text(result["reason"], "The run diverged.", banner=True) if diverged else None,
        None if diverged or not (words := advice(document)) else Text(words, "What to do:", banner=True),
        key_numbers(document, history),
        Text(f"{result['dynamics']['why']}.", "How it was played:") if "dynamics" in result else None,
        Section("What happened", [Bullets(happened), note]) if happened else None,
        scores_table(document),
        recall_table(document),
        allocations(study),
        allocations(study, equal=True),
        convergence(document, history),
        beside_table(document),
        *beside_figures(document),
        shares_over_time(document, history),
        network(document),
        in_flight(document, history),
        bits_spent(document, history),
        left_table(document),
        final_shares(document),
        node_accuracy(result.get("accuracy")),
        node_losses(result.get("losses")),
        rivals(result.get("rivals")),
    ]
    end = f": the run diverged{outcome(document).replace(':', ',')}" if diverged else outcome(document)
    took = "" if seconds is None else f"the run took {number(float(seconds), 2)} s"
    files = dict(BESIDE)
    if "beside_history" in document.names:
        files["beside_history.csv"] = "those of the run beside it"
    if "data" in result:
        files |= {"schema.json": "what centres agreed on", "left.json": "what each told of its own rows"}
    return Page(document, headline(document) + end, [block for block in blocks if block is not None], files, took)


def headline(document: Document) -> str:
    """20 centres trained softmax on digits and shared 500 CPUs."""
    result, deeds, model = document.result, [], model_of(document)
    if model:
        data = _data_name(document.config)
        deeds.append(f"trained {model['words']}" + (f" on {data}" if data else ""))
    if "budget" in result:
        deeds.append(f"shared {number(result['budget'])} {'CPU' if result['budget'] == 1 else 'CPUs'}")
    where = " over a hostile network" if hostile(document) else ""
    lost = len(result.get("engine", {}).get("lost", ()))
    where += f" and lost {count(lost, 'worker')}" if lost else ""
    return f"{count(about_network(document)['nodes'], 'centre')} {' and '.join(deeds)}{where}"


def model_of(document: Document) -> Row:
    """What was trained, in words, and whether it is convex; empty where nothing was. 0.1.0 says it by its settings."""
    result = document.result
    found: Row = result.get("model", {})
    if "model" in result or "consensus" not in result:
        return found
    name = str(document.config.get("model", "auto"))
    words = name.replace("_", " ") if name != "auto" else "softmax" if "accuracy" in result else "least squares"
    return {"words": words, "convex": "loss" not in result}


def convex(document: Document) -> bool:
    """Whether there is an optimum to compare with."""
    return bool(model_of(document).get("convex", True))


def _data_name(config: Row) -> str:
    """digits, or the name of the file the data came from."""
    name = "digits" if config.get("couple") else config.get("data")
    if files := config.get("files"):
        return Path(str(files[0])).name if len(files) == 1 else f"{len(files)} files"
    if name == "csv" and config.get("data_file"):
        return Path(str(config["data_file"])).name
    return name.replace("_", " ") if isinstance(name, str) and name != "none" else ""


def columns(document: Document) -> History:
    """The history by columns; what is not known is not a number."""
    return {name: np.array(values, dtype=float) for name, values in document.columns("history").items()}


def _gap_limit(document: Document) -> float | None:
    """The relative gap that the certificate asks for."""
    return next((check.limit for check in document.certificate or () if check.name == "gap"), None)


def since(document: Document) -> str:
    """What gaps are a part of."""
    return "at the last event" if events_of(document) else "at the start"


def key_numbers(document: Document, history: History) -> KeyNumbers:
    """Tiles: rounds, the gap or the loss, what was sent, and how good the models are."""
    result, target, diverged = document.result, _gap_limit(document), document.result["status"] == "diverged"
    found = [("rounds", f"{result['rounds']:,}", "diverged" if diverged else result["reason"])]
    if convex(document) or "shares" in result:
        half = "of the gap" if convex(document) else "of the gap of the CPU cost"
        asked = "" if target is None else f"; asked for {number(target)}"
        value = NOTHING if diverged else number(result.get("relative_gap"))
        found.append(("relative gap", value, f"{half} {since(document)}{asked}"))
    if "loss" in result:
        first = number(float(history["loss"][0]))
        found.append(("worst node's loss", number(result["loss"]), f"{first} at the start"))
    if engine := result.get("engine"):
        died = [f"worker {row['worker']} died in round {row['round']}" for row in engine.get("lost", ())]
        note = "; ".join(["a round", engine["where"], *died])
        found.append(("between workers", scaled(engine["bytes_a_round"], "B"), note))
        if "held" in engine:
            asked = number(sum(row["asked_cpu_seconds"] for row in engine["held"]["workers"]))
            took = f"{number(engine['held']['cpu_seconds'])} s"
            found.append(("CPU of workers", took, f"of the {asked} s they were held to"))
    note = f"{scaled(result['bits'] / 8, 'B')} over {count(result['links'], 'directed link')}"
    found.append(("sent over all links", scaled(result["bits"], "bit"), note))
    if "message" in result:
        code = result["message"].get("code", "")
        found.append(("a number sent", count(result["message"]["bits"], "bit"), CODES.get(code, "")))
    if hostile(document):
        there, lost, sent = present(document), result["packets_lost"], result["packets"]
        gone = ", ".join([str(node) for node, here in enumerate(there) if not here][:8])
        gone = f"gone: {gone}" if gone else "all of them"
        found.append(("centres at the end", f"{sum(there)} of {len(there)}", gone))
        found.append(("packets lost", percent(lost / max(sent, 1)), f"{lost:,} of {sent:,}"))
        if "in_flight" in result:
            most = f"most: {number(float(history['in_flight'].max()))}"
            found.append(("in flight at the end", f"{number(result['in_flight'], 3)} CPUs", most))
    if "accuracy" in result:
        worst, central = result["accuracy"]["worst"], result["accuracy"].get("centralised")
        note = "on data that nobody trained on" if central is None else f"centralised: {percent(central)}"
        found.append(("worst node's test accuracy", percent(worst), note))
    return KeyNumbers([KeyNumber(*row) for row in found])


# Charts over rounds.


def convergence(document: Document, history: History) -> Figure | None:
    """Gap, consensus, kkt and gradient against rounds on a log axis; the tracker, many decades lower, in a strip below."""
    losses, rounds = history.get("loss", np.empty(0)), history.get("round", np.empty(0))
    if len(losses):
        history = history | {"loss_part": losses / max(float(losses[0]), 1e-300)}
    rows = thinned(len(rounds), ROWS_DRAWN)
    drawn = {name: history[name][rows] for name in CURVES if name in history}
    drawn = {name: values for name, values in drawn.items() if (values > 0).any()}
    if not drawn:
        return None
    series = []
    for name, values in drawn.items():
        label, colour, width, _ = CURVES[name]
        line = Series(label, rounds[rows], values, colour=colour, width=width, marker="none")
        series.append(replace(line, dash="dashed" if name == "kkt" else "solid", strip=name == "tracker"))
    target, marks = _gap_limit(document), event_marks(document)
    if target is not None and target > 0 and next(iter(drawn)) != "tracker":
        marks = [Mark("y", target, f"gap asked for: {number(target)}", "@soft", end=hostile(document)), *marks]
    meaning = "; ".join(f"{CURVES[name][0]}: {CURVES[name][3]}" for name in drawn)
    meaning = f"Lower is better ({meaning}).{words_on_gaps(document)}"
    if any((~(values > 0)).any() for values in drawn.values()):
        meaning += " Zeros and negative values are left out: a logarithmic axis has no place for them."
    meaning += _thinning(rows, len(rounds))
    label = f"Line chart: {', '.join(one.name for one in series)} against rounds, on a logarithmic axis"
    label += ", with events as upright marks" if events_of(document) else ""
    y = Axis("relative (kkt: price)" if "kkt" in history else "relative", log=True)
    strip = Axis("tracker, relative", log=True) if "tracker" in drawn else None
    return Figure(
        "Progress over the rounds",
        ROUND,
        y,
        series,
        marks,
        caption=meaning,
        key="convergence",
        label=label,
        strip=strip,
        legend=True,
        tall=True,
    )


def bits_spent(document: Document, history: History) -> Figure | None:
    """Relative gap against bits sent, both on log axes."""
    sent, gap = history.get("bits", np.empty(0)), history.get("relative_gap", np.empty(0))
    rows = thinned(len(sent), ROWS_DRAWN)
    rows = rows[(sent[rows] > 0) & (gap[rows] > 0) & np.isfinite(gap[rows])]
    if len(rows) < 2:
        return None
    each = count(document.result["message"]["bits"], "bit") if "message" in document.result else "few bits"
    meaning = (
        f"Each number sent takes {each} where a recent one was heard, 64 where not; the curve shows how many bits "
        "over all links bought how small a gap."
    )
    series = [Series("relative gap", sent[rows], gap[rows], colour="@blue", width=2.5, marker="none")]
    label = "Line chart: relative gap against bits sent over all links, both axes logarithmic"
    title, y = "What the progress cost in messages", Axis("relative gap", log=True)
    return Figure(title, BITS, y, series, caption=meaning, key="bits", label=label)


def shares_over_time(document: Document, history: History) -> Figure | None:
    """Stacked areas that fill the budget; plain lines where a share is negative, since those cannot be stacked."""
    kept = document.arrays.get("share_history")  # a row for each row of the history; none where they are too many
    own = [values for name, values in history.items() if name.startswith("share_")]
    every = kept.astype(float) if kept is not None else np.column_stack(own) if own else np.empty(0)
    if not len(every) or not np.isfinite(every).all():
        return None
    rows = thinned(len(every), SHARE_ROWS_DRAWN)
    rounds, shares = history["round"][rows], every[rows]
    nodes, stack = shares.shape[1], "" if (shares < 0).any() else "shares"
    largest = np.sort(np.argsort(-shares[-1], kind="stable")[: LARGEST if nodes > BANDS else nodes])
    colours = zip(largest.tolist(), hues(len(largest)), strict=True)
    bands = {f"node {i}": (shares[:, i], colour) for i, colour in colours}
    top, shape, budget = None, "Lines", ""
    if not stack:
        meaning = "Some shares are negative, so each node has a line; in every round they sum to the budget."
        series = [Series(name, rounds, y, colour=c, width=1.5, marker="none") for name, (y, c) in bands.items()]
    else:
        meaning = "Each band is a node's share. CPUs move between nodes, but the bands end at the budget"
        meaning += " in every round."
        rest = np.setdiff1d(np.arange(nodes), largest)
        if len(rest):
            bands[f"{len(rest):,} others"] = (shares[:, rest].sum(axis=1), "@edge")
        if hostile(document):
            top = float(history["budget"].max())  # else rounding may ask for a tick above it
            bands["in flight"] = (history["in_flight"][rows], "@grey")
            meaning = (
                "Each band is a node's share, and the grey one is in flight, in nobody's share. Shares alone never exceed "
                "the budget, and with what is in flight they are the budget in every round."
            )
        series = [Series(name, rounds, y, "area", colour=c, stack=stack) for name, (y, c) in bands.items()]
        line = history["budget"][rows]
        series.append(Series("budget", rounds, line, "step", colour="@ink", dash="dashed", width=1.5))
        shape, budget = "Stacked areas", ", with the budget as a dashed line"
    meaning += words_on_marks(document)
    if len(largest) < nodes:
        meaning += f" Of {nodes:,} nodes the {LARGEST} largest are drawn one by one."
    label = f"{shape}: CPU share of each node against rounds{budget}"
    meaning += _thinning(rows, len(every))
    title, y, marks = "How the CPUs were shared", Axis("CPUs", high=top), event_marks(document)
    return Figure(
        title, ROUND, y, series, marks, caption=meaning, key="shares", label=label, legend=True, most=9, tall=True
    )


def in_flight(document: Document, history: History) -> Figure | None:
    """CPUs in nobody's share over the rounds, and how many centres are there."""
    events, flying = events_of(document), history.get("in_flight")
    if not hostile(document) or (flying is None and not events):
        return None
    result, rows = document.result, thinned(len(history["round"]), ROWS_DRAWN)
    rounds, there = history["round"][rows], history["centres"][rows]
    points, amount = dict(zip(rounds.tolist(), there.tolist(), strict=True)), float(there[0]) if len(there) else 0.0
    for event in events:  # exactly where it changes
        amount += {"join": 1, "crash": -1, "leave": -1}.get(event["kind"], 0) * len(event["nodes"])
        points[float(event["round"])] = amount
    at = sorted(points)
    y, right = Axis("centres", low=0, high=about_network(document)["nodes"], whole=True), None
    steps = Series("centres there", at, [points[place] for place in at], "step", colour="@teal", dash="dashed")
    lost, sent = result["packets_lost"], result["packets"]
    meaning = f"{lost:,} of {count(sent, 'packet')} were lost ({percent(lost / max(sent, 1))})."
    title, what, series = "Who is there", "Centres present", [steps]
    if flying is not None:
        series = [Series("CPUs in flight", rounds, flying[rows], "area", colour="@blue"), replace(steps, right=True)]
        meaning = (
            "CPU on its way between centres, or held for one that crashed, is in nobody's share; with the shares it adds "
            f"up to the budget in every round. At the end {number(result['in_flight'])} CPUs are in flight. {meaning}"
        )
        title, what = "In flight, and who is there", "CPUs in nobody's share and centres present"
        y, right = Axis("CPUs in flight", low=0), y
    label = f"Line chart: {what} against rounds, with events as upright marks"
    meaning += words_on_marks(document)
    return Figure(
        title,
        ROUND,
        y,
        series,
        event_marks(document),
        caption=meaning,
        key="in_flight",
        label=label,
        right=right,
        legend=True,
    )


def _thinning(rows: Ints, recorded: int) -> str:
    return f" {len(rows)} of {recorded:,} recorded rows are drawn." if len(rows) < recorded else ""


# For a paper: how a run closed its gap and what that cost in bits, who got how much.


def sheet(document: Document, *, panels: Sequence[str] | None = None) -> Sheet:
    """The panels of a run: "gap", "bits", and "shares" and "budget" where CPUs were shared."""
    history = columns(document)
    if not history:
        raise InputError("this run recorded no rounds: there is nothing to draw", code="figure.rounds")
    made = {"gap": _gap, "bits": _bits}
    made |= {"shares": _shares, "budget": _budget} if "shares" in document.result else {}
    x = replace(ROUND, high=max(1.0, float(history["round"][-1])))
    asked = chosen(panels, list(made), list(made))
    return Sheet([Panel(made[name](document, history, x), HEIGHT) for name in asked], legend=False)


def _gap(document: Document, history: History, x: Axis) -> Figure:
    """Each half's gap as a part of that at the start; a net has no optimum, and shows its loss."""
    series = []
    for column, name in (("cpu_gap", "shares"), ("model_gap", "models"), ("loss", "loss")):
        values = history.get(column, np.empty(0))
        if np.isfinite(values).any():
            scale = next((abs(v) for v in values.tolist() if np.isfinite(v) and v != 0), 1.0)
            line = Series(name, history["round"], above(values / scale), colour="@blue")
            series.append(line if name == "shares" else replace(line, colour="@amber", dash="dashed"))
    title = "Loss" if [one.name for one in series] == ["loss"] else "Gap to the optimum"
    return Figure(title, x, Axis("relative to the start", log=True), series, legend=len(series) > 1)


def _bits(document: Document, history: History, x: Axis) -> Figure:
    size, word = prefix(float(history["bits"][-1]))
    series = [Series("bits", history["round"], history["bits"] / size, colour="@teal")]
    return Figure("Bits sent, over all links", x, Axis(f"{word}bits"), series, legend=False)


def _budget(document: Document, history: History, x: Axis) -> Figure:
    """The sum of shares minus the budget. In a run without faults it is zero in every round, to the last bit."""
    off = history["budget_residual"]
    worst = float(np.nanmax(np.abs(off)))
    y = Axis("CPUs", low=-1, high=1) if worst == 0.0 else Axis("CPUs", zero=False)
    words = "0 throughout" if worst == 0.0 else f"at most {worst:.2g} off"
    held = "Shares + in flight" if "in_flight" in history else "Sum of shares"
    series = [Series("off", history["round"], off, colour="@blue")]
    marks = [Mark("y", 0.0, colour="@soft", dash="solid")]
    return Figure(f"{held} $-$ budget: {words}", x, y, series, marks, legend=False)


def _shares(document: Document, history: History, x: Axis) -> Figure:
    """What each centre has at the end, its box where known, and what a centralised solver would give it."""
    got = np.array(document.result["shares"], dtype=float)
    best = np.array(document.result.get("optimal_shares", []), dtype=float)
    centres = np.arange(len(got))
    if len(got) > BARS:
        order = np.argsort(best if len(best) else got, kind="stable")
        series = [Series("got", centres, got[order], colour="@blue")]
        if len(best):
            series.append(Series("optimal", centres, best[order], colour="@ink", dash="dotted"))
        x = Axis("centres, by optimal share", low=0, high=len(got) - 1)
        return Figure("Shares", x, Axis("CPUs"), series, legend=True)
    series = [Series("got", centres, got, "bars", colour="@blue")]
    if len(best):
        series.append(Series("optimal", centres, best, "dots", colour="@ink", marker="emptyDiamond", size=2.8))
    box = [np.asarray(document.arrays[name], dtype=float) for name in ("lo", "hi") if name in document.arrays]
    if len(box) == 2 and np.isfinite(box).all():
        series.append(Series("may use", centres, box[1], "bars", colour="@edge", band=(box[0], box[1])))
    x = Axis("centre", low=-0.6, high=len(got) - 0.4, whole=True)
    return Figure("Shares", x, Axis("CPUs"), series, legend=True)


def above(values: Floats) -> Floats:
    """Fit for a logarithmic axis: what is nearly zero lies at its bottom, what is negative or infinite is left out."""
    return np.where(np.isfinite(values) & (values > -LEAST), np.maximum(values, LEAST), np.nan)
