"""train: how a run closed its gap and what that cost in bits, who got how much, the budget; rivals beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.plots.plain import Plain
from equipoise.present import paper

HEIGHT = 1.55  # inches a panel
BARS = 40  # centres up to which every share is a bar of its own
LEAST = 1e-12  # of the gap at the start: below it lies rounding
MARKED = 10  # markers on a line


def run(saved: Plain, *, width: str = "column", panels: Sequence[str] | None = None) -> paper.PaperFigure:
    """Panels: "gap" and "bits" over rounds, "shares" over centres beside the optimum, "budget": the sum held."""
    history = {name: _floats(values) for name, values in saved.columns("history").items()}
    if not history:
        raise InputError("this run recorded no rounds: there is nothing to draw")
    able = ["gap", "bits", *(["shares", "budget"] if "shares" in saved.result else [])]
    asked = paper.chosen(panels, able, able)
    figure, axes = paper.blank(width, len(asked), height=HEIGHT)
    for name, one in zip(asked, axes, strict=True):
        if name == "shares":
            _shares(one, saved)
        else:
            {"gap": _gap, "bits": _bits, "budget": _budget}[name](one, history, saved)
            one.set_xlim(0, max(1.0, history["round"][-1]))
            paper.whole_x(one)
    paper.letters(axes)
    return figure


def _gap(axes: Any, history: dict[str, Any], saved: Plain) -> None:
    """Each half's gap as a part of that at the start; a net has no optimum, and shows its loss."""
    lines = [
        ("cpu_gap", "shares", paper.BLUE, "-"),
        ("model_gap", "models", paper.ORANGE, "--"),
        ("loss", "loss", paper.ORANGE, "--"),
    ]
    drawn, shown = [], []
    for column, label, colour, dash in lines:
        if column in history and np.isfinite(history[column]).any():
            values = history[column]
            scale = next((abs(v) for v in values if np.isfinite(v) and v != 0), 1.0)
            kept = _above(values / scale)
            axes.plot(history["round"], kept, color=colour, linestyle=dash, linewidth=1.1, label=label)
            drawn += kept[np.isfinite(kept)].tolist()
            shown.append(label)
    paper.log_y(axes, drawn or [1.0])
    paper.name_axes(axes, "round", "relative to the start", "Loss" if shown == ["loss"] else "Gap to the optimum")
    if len(shown) > 1:
        paper.key_above(axes)


def _bits(axes: Any, history: dict[str, Any], saved: Plain) -> None:
    size, word = paper.scaled(float(history["bits"][-1]))
    axes.plot(history["round"], history["bits"] / size, color=paper.GREEN, linewidth=1.1)
    axes.set_ylim(bottom=0)
    paper.name_axes(axes, "round", f"{word}bits".strip(), "Bits sent, over all links")


def _budget(axes: Any, history: dict[str, Any], saved: Plain) -> None:
    """The sum of shares minus the budget. In a run without faults it is zero in every round, to the last bit."""
    off = history["budget_residual"]
    worst = float(np.nanmax(np.abs(off)))
    axes.plot(history["round"], off, color=paper.BLUE, linewidth=1.1)
    axes.axhline(0.0, color=paper.RULE, linewidth=0.5, zorder=0)
    if worst == 0.0:
        axes.set_ylim(-1, 1)
    words = "0 throughout" if worst == 0.0 else f"at most {worst:.2g} off"
    held = "Shares + in flight" if "in_flight" in history else "Sum of shares"
    paper.name_axes(axes, "round", "CPUs", f"{held} $-$ budget: {words}")


def _shares(axes: Any, saved: Plain) -> None:
    """What each centre has at the end, its box where known, and what a centralised solver would give it."""
    got, best = _floats(saved.result["shares"]), _floats(saved.result.get("optimal_shares", []))
    centres = np.arange(len(got))
    lo, hi = (saved.arrays.get(name) for name in ("lo", "hi"))
    if len(got) <= BARS:
        if lo is not None and hi is not None and np.isfinite(lo).all() and np.isfinite(hi).all():
            axes.bar(centres, hi - lo, bottom=lo, width=0.82, color=paper.FAINT, label="may use", linewidth=0)
        axes.bar(centres, got, width=0.5, color=paper.BLUE, label="got", linewidth=0)
        if len(best):
            axes.plot(
                centres,
                best,
                linestyle="none",
                marker="D",
                markersize=2.8,
                markerfacecolor="white",
                markeredgecolor=paper.INK,
                markeredgewidth=0.7,
                label="optimal",
            )
        axes.set_xlim(-0.6, len(got) - 0.4)
        axes.grid(False, axis="x")
        paper.whole_x(axes)
        paper.name_axes(axes, "centre", "CPUs", "Shares")
    else:
        order = np.argsort(best if len(best) else got, kind="stable")
        axes.plot(centres, got[order], color=paper.BLUE, linewidth=1.1, label="got")
        if len(best):
            axes.plot(centres, best[order], color=paper.INK, linewidth=0.9, linestyle=(0, (2, 2)), label="optimal")
        axes.set_xlim(0, len(got) - 1)
        paper.name_axes(axes, "centres, by optimal share", "CPUs", "Shares")
    axes.set_ylim(bottom=min(0.0, float(np.nanmin(got))))
    paper.key_above(axes, ("got", "optimal", "may use"))


def comparison(saved: Plain, *, width: str = "column", panels: Sequence[str] | None = None) -> paper.PaperFigure:
    """Panels "rounds" and "bits": the median distance to the optimal shares over instances, with its quartiles."""
    tracks: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in saved.rows("history"):
        tracks[row["entrant"]][row["round"]].append((row["distance"], row["bits"]))
    if not tracks:
        raise InputError("this comparison has no history to draw; studies have rows only (to_frame)")
    asked = paper.chosen(panels, ("rounds", "bits"), ("rounds", "bits"))
    drawn = paper.styles(list(tracks), saved.looks)
    figure, axes = paper.blank(width, len(asked), height=1.75)
    floor = np.inf
    for entrant, style in drawn.items():
        rounds = sorted(tracks[entrant])
        seeds = max(len(tracks[entrant][k]) for k in rounds)
        far = [[d for d, _ in tracks[entrant][k]] + [np.inf] * (seeds - len(tracks[entrant][k])) for k in rounds]
        low, middle, high = (np.quantile(far, q, axis=1, method="nearest") for q in (0.25, 0.5, 0.75))
        paid = np.array([np.median([b for _, b in tracks[entrant][k]]) for k in rounds])
        middle, low, high = _above(middle), _above(low), _above(high)
        if np.isfinite(middle).any():
            floor = min(floor, float(np.nanmin(middle)))
        for name, one in zip(asked, axes, strict=True):
            x = np.array(rounds, dtype=float) if name == "rounds" else paid
            kept = x > 0 if name == "bits" else np.ones(len(x), dtype=bool)
            one.plot(x[kept], middle[kept], markevery=max(1, int(kept.sum()) // MARKED), **style)
            one.fill_between(x[kept], low[kept], high[kept], color=style["color"], alpha=0.15, linewidth=0)
    for name, one in zip(asked, axes, strict=True):
        paper.log_y(one, [max(floor, LEAST) if np.isfinite(floor) else 0.1, 1.0])
        if name == "bits":
            one.set_xscale("log")
        else:
            one.set_xlim(left=0)
            paper.whole_x(one)
        along, title = (
            ("rounds", "After as many rounds") if name == "rounds" else ("bits (median)", "For as many bits sent")
        )
        paper.name_axes(one, along, "distance to optimum", title)
    paper.letters(axes)
    paper.legend_below(figure, paper.keys(drawn))
    return figure


def _above(values: Any) -> Any:
    """Fit for a logarithmic axis: what is nearly zero lies on its floor, what is negative or infinite is left out."""
    return np.where(np.isfinite(values) & (values > -LEAST), np.maximum(values, LEAST), np.nan)


def _floats(values: Any) -> Any:
    return np.array([np.nan if v is None else v for v in values], dtype=float)
