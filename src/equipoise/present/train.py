"""The page of a training run, its lines in the terminal and its figure for a paper, from plain values alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from equipoise.document import Document, Plain
from equipoise.present.echarts import Floats, Ints
from equipoise.present.looks import hues
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
from equipoise.present.text import NOTHING, count, number, percent, scaled
from equipoise.present.train_nodes import allocations, final_shares, node_accuracy, node_losses, rivals
from equipoise.present.values import (
    Axis,
    Block,
    Bullets,
    Figure,
    KeyNumber,
    KeyNumbers,
    Mark,
    Page,
    Section,
    Series,
    Text,
    thinned,
    verdict,
)

Values = dict[str, Any]  # of a result
ROWS_DRAWN = 1000  # of the history; a page stays small whatever the run's length
SHARE_ROWS_DRAWN = 300
BANDS, LARGEST = 40, 20  # with more nodes than bands, the largest are drawn one by one and the rest as one
ROUND = Axis("round", low=0, whole=True, point="round {value}")
# Columns of the history: name, colour, width and meaning of each line.
CURVES = {
    "relative_gap": ("relative gap", "@blue", 2.5, "distance from what one central solver would reach"),
    "consensus": ("consensus", "@teal", 2.0, "how far the nodes' models differ"),
    "loss_part": ("loss", "@violet", 2.5, "the worst node's loss, as a part of the one at the start"),
    "kkt": ("kkt", "@amber", 2.0, "how far the nodes' prices of a CPU differ"),
    "tracker": ("tracker", "@grey", 2.0, "error of the tracked gradient, mere rounding if all is well"),
}
BESIDE = {
    "result.json": "holds the result and the certificate",
    "history.csv": "every recorded row",
    "config.yaml": "repeats the run",
}


def page(document: Document) -> Page:
    """What was done in words, the certificate, key numbers, what happened, and the charts."""
    result, history = document.result, columns(document)
    seconds = document.arrays.get("seconds")
    blocks: list[Block] = []
    if result["status"] == "diverged":
        blocks.append(Text(result["reason"], "The run diverged.", banner=True))
    blocks.append(key_numbers(document, history))
    happened = [event["text"] for event in events_of(document)] + list(result.get("trouble", []))
    if happened:
        note = Text("Rounds count from 0; history row r is the state after r rounds.", soft=True)
        blocks.append(Section("What happened", [Bullets(happened), note]))
    study = result.get("allocations")
    charts = [
        allocations(study),
        allocations(study, equal=True),
        convergence(document, history),
        shares_over_time(document, history),
        network(document),
        in_flight(document, history),
        bits_spent(document, history),
        final_shares(document),
        node_accuracy(result.get("accuracy")),
        node_losses(result.get("losses")),
        rivals(result.get("rivals")),
    ]
    blocks += [chart for chart in charts if chart is not None]
    outcome = "" if document.certificate is None else f": certificate {verdict(document.certificate)}"
    if result["status"] == "diverged":
        outcome = f": the run diverged{outcome.replace(':', ',')}"
    return Page.of(
        document,
        headline(document) + outcome,
        blocks,
        BESIDE,
        "" if seconds is None else f"the run took {number(float(seconds), 2)} s",
    )


def headline(document: Document) -> str:
    """20 centres trained softmax on digits and shared 500 CPUs."""
    result, deeds = document.result, []
    model = model_of(document)
    if model:
        data = _data_name(document.config)
        deeds.append(f"trained {model['words']}" + (f" on {data}" if data else ""))
    if "budget" in result:
        amount = result["budget"]
        deeds.append(f"shared {number(amount)} {'CPU' if amount == 1 else 'CPUs'}")
    where = " over a hostile network" if hostile(document) else ""
    lost = len(result.get("engine", {}).get("lost", ()))
    if lost:
        where += f" and lost {count(lost, 'worker')}"
    return f"{count(about_network(document)['nodes'], 'centre')} {' and '.join(deeds)}{where}"


def model_of(document: Document) -> Values:
    """What was trained, in words, and whether it is convex; empty where nothing was. 0.1.0 says it by its settings."""
    result = document.result
    if "model" in result or "consensus" not in result:
        return cast(Values, result.get("model", {}))
    name = str(document.config.get("model", "auto"))
    words = name.replace("_", " ") if name != "auto" else "softmax" if "accuracy" in result else "least squares"
    return {"words": words, "convex": "loss" not in result}


def convex(document: Document) -> bool:
    """Whether there is an optimum to compare with."""
    return bool(model_of(document).get("convex", True))


def _data_name(config: dict[str, Plain]) -> str:
    """digits, or the name of the file the data came from."""
    if config.get("couple"):
        return "digits"
    name = config.get("data")
    if name == "csv" and config.get("data_file"):
        return Path(str(config["data_file"])).name
    return name.replace("_", " ") if isinstance(name, str) and name != "none" else ""


def columns(document: Document) -> dict[str, Floats]:
    """The history by columns; what is not known is not a number."""
    return {
        name: np.array([np.nan if value is None else value for value in values], dtype=float)
        for name, values in document.columns("history").items()
    }


def _gap_limit(document: Document) -> float | None:
    """The relative gap that the certificate asks for."""
    checks = document.certificate or ()
    return next((check.limit for check in checks if check.name == "gap"), None)


# Key numbers.


def key_numbers(document: Document, history: dict[str, Floats]) -> KeyNumbers:
    """Tiles: rounds, the gap or the loss, what was sent, and how good the models are."""
    result, target = document.result, _gap_limit(document)
    diverged = result["status"] == "diverged"
    found = [KeyNumber("rounds", f"{result['rounds']:,}", "diverged" if diverged else result["reason"])]
    if convex(document) or "shares" in result:
        since = "at the last event" if events_of(document) else "at the start"
        half = "of the gap" if convex(document) else "of the gap of the CPU cost"
        asked = "" if target is None else f"; asked for {number(target)}"
        value = NOTHING if diverged else number(result.get("relative_gap"))
        found.append(KeyNumber("relative gap", value, f"{half} {since}{asked}"))
    if "loss" in result:
        first = number(float(history["loss"][0]))
        found.append(KeyNumber("worst node's loss", number(result["loss"]), f"{first} at the start"))
    found += _engine_numbers(result.get("engine"))
    links = count(result["links"], "directed link")
    found.append(
        KeyNumber(
            "sent over all links", scaled(result["bits"], "bit"), f"{scaled(result['bits'] / 8, 'B')} over {links}"
        )
    )
    found += _hostile_numbers(document, history)
    if "accuracy" in result:
        worst, central = result["accuracy"]["worst"], result["accuracy"].get("centralised")
        note = "on data that nobody trained on" if central is None else f"centralised: {percent(central)}"
        found.append(KeyNumber("worst node's test accuracy", percent(worst), note))
    return KeyNumbers(found)


def _engine_numbers(engine: Values | None) -> list[KeyNumber]:
    """Where rounds were played, by whom, and what CPU they were held to."""
    if engine is None:
        return []
    note = engine["where"]
    if "lost" in engine:
        died = "; ".join(f"worker {row['worker']} died in round {row['round']}" for row in engine["lost"])
        note = f"{note}; {died}"
    found = [KeyNumber("between workers", scaled(engine["bytes_a_round"], "B"), f"a round; {note}")]
    if "held" in engine:
        asked = sum(row["asked_cpu_seconds"] for row in engine["held"]["workers"])
        value = f"{number(engine['held']['cpu_seconds'])} s"
        found.append(KeyNumber("CPU of workers", value, f"of the {number(asked)} s they were held to"))
    return found


def _hostile_numbers(document: Document, history: dict[str, Floats]) -> list[KeyNumber]:
    """Packets lost and who is left."""
    if not hostile(document):
        return []
    result, there = document.result, present(document)
    gone = [str(node) for node, here in enumerate(there) if not here][:8]
    found = [
        KeyNumber(
            "centres at the end", f"{sum(there)} of {len(there)}", f"gone: {', '.join(gone)}" if gone else "all of them"
        ),
        KeyNumber(
            "packets lost",
            percent(result["packets_lost"] / max(result["packets"], 1)),
            f"{result['packets_lost']:,} of {result['packets']:,}",
        ),
    ]
    if "in_flight" in result:
        most = f"most: {number(float(history['in_flight'].max()))}"
        found.append(KeyNumber("in flight at the end", f"{number(result['in_flight'], 3)} CPUs", most))
    return found


# Charts over rounds.


def convergence(document: Document, history: dict[str, Floats]) -> Figure | None:
    """Gap, consensus and kkt against rounds on a log axis; the tracker, many decades lower, in a strip below."""
    losses = history.get("loss", np.empty(0))
    if len(losses):
        history = history | {"loss_part": losses / max(float(losses[0]), 1e-300)}
    rounds = history.get("round", np.empty(0))
    rows = thinned(len(rounds), ROWS_DRAWN)
    drawn = {name: history[name][rows] for name in CURVES if name in history}
    drawn = {name: values for name, values in drawn.items() if (values > 0).any()}
    if not drawn:
        return None
    series = [
        Series(
            label,
            rounds[rows],
            drawn[name],
            colour=colour,
            width=width,
            dash="dashed" if name == "kkt" else "solid",
            strip=name == "tracker",
            marker="none",
        )
        for name, (label, colour, width, _) in CURVES.items()
        if name in drawn
    ]
    target, marks = _gap_limit(document), event_marks(document)
    if target is not None and target > 0 and next(iter(drawn)) != "tracker":
        marks = [Mark("y", target, f"gap asked for: {number(target)}", "@soft", end=hostile(document)), *marks]
    meanings = "; ".join(f"{CURVES[name][0]}: {CURVES[name][3]}" for name in drawn)
    zeros = any((~(values > 0)).any() for values in drawn.values())
    return Figure(
        "Progress over the rounds",
        ROUND,
        Axis("relative (kkt: price)" if "kkt" in history else "relative", log=True),
        series,
        marks,
        f"Lower is better ({meanings}).{words_on_gaps(document)}"
        + (" Zeros and negative values are left out: a logarithmic axis has no place for them." if zeros else "")
        + _thinning(rows, len(rounds)),
        key="convergence",
        label=f"Line chart: {', '.join(CURVES[name][0] for name in drawn)} against rounds, on a logarithmic axis"
        + (", with events as upright marks" if events_of(document) else ""),
        strip=Axis("tracker, relative", log=True) if "tracker" in drawn else None,
        legend=True,
        tall=True,
    )


def bits_spent(document: Document, history: dict[str, Floats]) -> Figure | None:
    """Relative gap against bits sent, both on log axes."""
    sent, gap = history.get("bits", np.empty(0)), history.get("relative_gap", np.empty(0))
    rows = thinned(len(sent), ROWS_DRAWN)
    rows = rows[(sent[rows] > 0) & (gap[rows] > 0) & np.isfinite(gap[rows])]
    if len(rows) < 2:
        return None
    each = count(document.result["message"]["bits"], "bit") if "message" in document.result else "few bits"
    return Figure(
        "What the progress cost in messages",
        Axis("bits sent over all links", log=True, form="bits"),
        Axis("relative gap", log=True),
        [Series("relative gap", sent[rows], gap[rows], colour="@blue", width=2.5, marker="none")],
        caption=f"Each number sent takes {each} where a recent one was heard, 64 where not; the curve shows how many bits "
        "over all links bought how small a gap.",
        key="bits",
        label="Line chart: relative gap against bits sent over all links, both axes logarithmic",
    )


def shares_over_time(document: Document, history: dict[str, Floats]) -> Figure | None:
    """Stacked areas that fill the budget; plain lines where a share is negative, since those cannot be stacked."""
    all_shares = _share_history(document, history)
    if all_shares is None or not len(all_shares) or not np.isfinite(all_shares).all():
        return None
    rows = thinned(len(all_shares), SHARE_ROWS_DRAWN)
    rounds, shares = history["round"][rows], all_shares[rows]
    nodes, negative = shares.shape[1], bool((shares < 0).any())
    largest = np.arange(nodes)
    if nodes > BANDS:
        largest = np.sort(np.argsort(-shares[-1], kind="stable")[:LARGEST])
    series = [
        _band(f"node {i}", rounds, shares[:, i], colour, stacked=not negative)
        for i, colour in zip(largest.tolist(), hues(len(largest)), strict=True)
    ]
    top = None
    if negative:
        meaning = "Some shares are negative, so each node has a line; in every round they sum to the budget."
    else:
        meaning = (
            "Each band is a node's share. CPUs move between nodes, but the bands end at the budget in every round."
        )
        if len(largest) < nodes:
            rest = np.setdiff1d(np.arange(nodes), largest)
            series.append(_band(f"{len(rest):,} others", rounds, shares[:, rest].sum(axis=1), "@edge", stacked=True))
        if hostile(document):
            top = float(history["budget"].max())  # else rounding may ask for a tick above it
            series.append(_band("in flight", rounds, history["in_flight"][rows], "@grey", stacked=True))
            meaning = (
                "Each band is a node's share, and the grey one is in flight, in nobody's share. Shares alone never exceed "
                "the budget, and with what is in flight they are the budget in every round."
            )
        series.append(
            Series("budget", rounds, history["budget"][rows], "step", colour="@ink", dash="dashed", width=1.5)
        )
    meaning += words_on_marks(document)
    if len(largest) < nodes:
        meaning += f" Of {nodes:,} nodes the {LARGEST} largest are drawn one by one."
    shape, with_budget = ("Lines", "") if negative else ("Stacked areas", ", with the budget as a dashed line")
    return Figure(
        "How the CPUs were shared",
        ROUND,
        Axis("CPUs", high=top),
        series,
        event_marks(document),
        meaning + _thinning(rows, len(all_shares)),
        key="shares",
        label=f"{shape}: CPU share of each node against rounds{with_budget}",
        legend=True,
        most=9,
        tall=True,
    )


def _share_history(document: Document, history: dict[str, Floats]) -> Floats | None:
    """One row per row of the history; None where nobody shares, or there are too many to keep."""
    kept = document.arrays.get("share_history")
    if kept is not None:
        return kept.astype(float)
    own = [values for name, values in history.items() if name.startswith("share_")]
    return np.column_stack(own) if own else None


def _band(name: str, x: Floats, y: Floats, colour: str, *, stacked: bool) -> Series:
    if stacked:
        return Series(name, x, y, "area", colour=colour, stack="shares")
    return Series(name, x, y, colour=colour, width=1.5, marker="none")


def in_flight(document: Document, history: dict[str, Floats]) -> Figure | None:
    """CPUs in nobody's share over the rounds, and how many centres are there."""
    events, flying = events_of(document), history.get("in_flight")
    if not hostile(document) or (flying is None and not events):
        return None
    result, rows = document.result, thinned(len(history["round"]), ROWS_DRAWN)
    rounds = history["round"][rows]
    at, there = _centres(document, rounds, history["centres"][rows])
    centres = Axis("centres", low=0, high=about_network(document)["nodes"], whole=True)
    series = [Series("centres there", at, there, "step", colour="@teal", dash="dashed", right=flying is not None)]
    lost = result["packets_lost"]
    meaning = (
        f"{lost:,} of {count(result['packets'], 'packet')} were lost ({percent(lost / max(result['packets'], 1))})."
    )
    if flying is not None:
        series.insert(0, Series("CPUs in flight", rounds, flying[rows], "area", colour="@blue"))
        meaning = (
            "CPU on its way between centres, or held for one that crashed, is in nobody's share; with the shares it adds "
            f"up to the budget in every round. At the end {number(result['in_flight'])} CPUs are in flight. {meaning}"
        )
    what = "Centres present" if flying is None else "CPUs in nobody's share and centres present"
    return Figure(
        "Who is there" if flying is None else "In flight, and who is there",
        ROUND,
        centres if flying is None else Axis("CPUs in flight", low=0),
        series,
        event_marks(document),
        meaning + words_on_marks(document),
        key="in_flight",
        label=f"Line chart: {what} against rounds, with events as upright marks",
        right=None if flying is None else centres,
        legend=True,
    )


def _centres(document: Document, rounds: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """How many are there, as recorded and exactly where it changes."""
    points = dict(zip(rounds.tolist(), centres.tolist(), strict=True))
    amount = float(centres[0]) if len(centres) else 0.0
    for event in events_of(document):
        amount += {"join": 1, "crash": -1, "leave": -1}.get(event["kind"], 0) * len(event["nodes"])
        points[float(event["round"])] = amount
    at = sorted(points)
    return np.array(at), np.array([points[place] for place in at])


def _thinning(rows: Ints, recorded: int) -> str:
    return f" {len(rows)} of {recorded:,} recorded rows are drawn." if len(rows) < recorded else ""
