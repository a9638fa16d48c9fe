"""Training for a paper: how a run closed its gap and what that cost in bits, who got how much; rivals beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.document import Document, Plain
from equipoise.errors import InputError
from equipoise.present.looks import Look, looks
from equipoise.present.text import prefix
from equipoise.present.values import Axis, Figure, Mark, Panel, Series, Sheet, chosen

HEIGHT = 1.55  # inches of a panel
BARS = 40  # centres up to which every share is a bar of its own
LEAST = 1e-12  # of the gap at the start: below it lies rounding
Floats = NDArray[np.float64]
History = dict[str, Floats]


def sheet(document: Document, *, panels: Sequence[str] | None = None) -> Sheet:
    """The panels of a run ("gap", "bits", "shares", "budget") or of a comparison ("rounds", "bits")."""
    if document.verb == "train compare":
        return _comparison(document, panels)
    history = {name: _floats(values) for name, values in document.columns("history").items()}
    if not history:
        raise InputError("this run recorded no rounds: there is nothing to draw")
    able = ["gap", "bits", *(["shares", "budget"] if "shares" in document.result else [])]
    made = {"gap": _gap, "bits": _bits, "budget": _budget}
    return Sheet(
        [
            Panel(_shares(document) if name == "shares" else made[name](history), HEIGHT)
            for name in chosen(panels, able, able)
        ],
        legend=False,
    )


def _rounds(history: History) -> Axis:
    return Axis("round", low=0, high=max(1.0, float(history["round"][-1])), whole=True)


def _gap(history: History) -> Figure:
    """Each half's gap as a part of that at the start; a net has no optimum, and shows its loss."""
    kinds = (("cpu_gap", "shares", "@blue"), ("model_gap", "models", "@amber"), ("loss", "loss", "@amber"))
    series = []
    for column, name, colour in kinds:
        if column in history and np.isfinite(history[column]).any():
            values = history[column]
            scale = next((abs(v) for v in values.tolist() if np.isfinite(v) and v != 0), 1.0)
            dash = "solid" if colour == "@blue" else "dashed"
            series.append(Series(name, history["round"], _above(values / scale), colour=colour, dash=dash))  # type: ignore[arg-type]
    title = "Loss" if [one.name for one in series] == ["loss"] else "Gap to the optimum"
    y = Axis("relative to the start", log=True)
    return Figure(title, _rounds(history), y, series, legend=len(series) > 1)


def _bits(history: History) -> Figure:
    size, word = prefix(float(history["bits"][-1]))
    series = [Series("bits", history["round"], history["bits"] / size, colour="@teal")]
    return Figure("Bits sent, over all links", _rounds(history), Axis(f"{word}bits"), series, legend=False)


def _budget(history: History) -> Figure:
    """The sum of shares minus the budget. In a run without faults it is zero in every round, to the last bit."""
    off = history["budget_residual"]
    worst = float(np.nanmax(np.abs(off)))
    y = Axis("CPUs", low=-1, high=1) if worst == 0.0 else Axis("CPUs", zero=False)
    words = "0 throughout" if worst == 0.0 else f"at most {worst:.2g} off"
    held = "Shares + in flight" if "in_flight" in history else "Sum of shares"
    series = [Series("off", history["round"], off, colour="@blue")]
    marks = [Mark("y", 0.0, colour="@soft", dash="solid")]
    return Figure(f"{held} $-$ budget: {words}", _rounds(history), y, series, marks, legend=False)


def _shares(document: Document) -> Figure:
    """What each centre has at the end, its box where known, and what a centralised solver would give it."""
    got, best = _floats(document.result["shares"]), _floats(document.result.get("optimal_shares", []))
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


def _comparison(document: Document, panels: Sequence[str] | None) -> Sheet:
    """The median distance to the optimal shares over instances, with its quartiles."""
    tracks: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in document.rows("history"):
        tracks[row["entrant"]][row["round"]].append((row["distance"], row["bits"]))
    if not tracks:
        raise InputError("this comparison has no history to draw; studies have rows only (to_frame)")
    asked = chosen(panels, ("rounds", "bits"), ("rounds", "bits"))
    series: dict[str, list[Series]] = {name: [] for name in asked}
    for entrant, look in looks(tracks, document.looks).items():
        for name in asked:
            series[name].append(_track(look, tracks[entrant], name))
    drawn = [v for one in series[asked[0]] for v in _floats(one.y).tolist() if np.isfinite(v)]
    y = Axis("distance to optimum", log=True, low=10.0 ** np.floor(np.log10(min([0.1, *drawn]) + 1e-300)), high=1.3)
    kinds = {
        "rounds": ("After as many rounds", Axis("rounds", low=0, whole=True)),
        "bits": ("For as many bits sent", Axis("bits (median)", log=True)),
    }
    return Sheet([Panel(Figure(*kinds[name], y, series[name]), 1.75) for name in asked])


def _track(look: Look, found: dict[int, list[tuple[float, float]]], along: str) -> Series:
    """One entrant over rounds or bits; a seed that has stopped is infinitely far."""
    rounds = sorted(found)
    seeds = max(len(found[k]) for k in rounds)
    far = [[d for d, _ in found[k]] + [np.inf] * (seeds - len(found[k])) for k in rounds]
    low, middle, high = (_above(np.quantile(far, q, axis=1, method="nearest")) for q in (0.25, 0.5, 0.75))
    paid = np.array([np.median([b for _, b in found[k]]) for k in rounds])
    x = np.array(rounds, dtype=float) if along == "rounds" else paid
    kept = x > 0 if along == "bits" else np.ones(len(x), dtype=bool)
    return Series(look.name, x[kept], middle[kept], look=look, band=(low[kept], high[kept]))


def _above(values: Floats) -> Floats:
    """Fit for a logarithmic axis: what is nearly zero lies at its bottom, what is negative or infinite is left out."""
    return np.where(np.isfinite(values) & (values > -LEAST), np.maximum(values, LEAST), np.nan)


def _floats(values: Plain) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=float)
