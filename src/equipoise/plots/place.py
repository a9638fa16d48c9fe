"""place: what each policy earned beside the bound and how soon jobs were done; who ran on which machine in which slot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from equipoise.errors import InputError
from equipoise.plots.plain import Plain
from equipoise.present import paper

# Neighbours in the list differ in hue and in lightness; a job has the same colour everywhere in a figure.
JOBS = ("#4477aa", "#ee8866", "#228833", "#eedd88", "#aa3377", "#99ddff", "#bbcc33", "#775544", "#ffaabb", "#44bb99")
DASHES = ("-", "--", ":", "-.")
NAMED = 24  # machines up to which every one is named
TALLEST = 5.0  # inches
BAND = 0.88  # of a machine's row
MOST_BLOCKS = 5000  # drawn as vectors; more are dots, or the file grows large


def comparison(
    saved: Plain, *, width: str = "column", panels: Sequence[str] | None = None, policy: str | None = None
) -> paper.PaperFigure:
    """Panels: "utility" beside the bound, "completion": jobs done within so many hours. With `policy`, its schedule."""
    if policy is not None:
        return _schedule(saved, width, policy)
    asked = paper.chosen(panels, ("utility", "completion"), ("utility", "completion"))
    rows = saved.rows("rows")
    drawn = paper.styles([row["policy"] for row in rows], saved.looks)
    figure, axes = paper.blank(width, len(asked), height=0.65 + 0.17 * (1 + max(len(rows), 5)))
    for panel, one in zip(asked, axes, strict=True):
        if panel == "utility":
            bound = saved.result.get("bound")
            _utility(one, rows, drawn, bound["utility"] if isinstance(bound, dict) else bound)
        else:
            _completion(one, saved, drawn)
    paper.letters(axes)
    if "completion" in asked:
        paper.legend_below(figure, paper.keys({name: style | {"marker": ""} for name, style in _dashed(drawn).items()}))
    return figure


def _utility(axes: Any, rows: list[dict[str, Any]], drawn: dict[str, Any], bound: float | None) -> None:
    """A bar a policy; the part of the bound that it reached is written beside it."""
    earned, error = [row["utility"] for row in rows], [row.get("utility_se") or 0.0 for row in rows]
    paper.bars(
        axes, {row["policy"]: drawn[row["policy"]]["color"] for row in rows}, earned, error, "upper bound", bound
    )
    most = max([*earned, bound or 0.0]) or 1.0
    for place, (got, off) in enumerate(zip(earned, error, strict=True)):
        if bound:
            axes.text(
                got + off + 0.015 * most,
                place,
                f"{100 * got / bound:.0f}%",
                va="center",
                fontsize=paper.SMALL,
                color=paper.INK,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )
    axes.set_xlim(0, 1.12 * most)
    paper.name_axes(axes, "utility" + (" (% of the bound)" if bound else ""), "", "What finishing in time earned")


def _dashed(drawn: dict[str, Any]) -> dict[str, Any]:
    """Lines without markers are told apart by dashes too."""
    return {name: style | {"linestyle": DASHES[k % len(DASHES)]} for k, (name, style) in enumerate(drawn.items())}


def _completion(axes: Any, saved: Plain, drawn: dict[str, Any]) -> None:
    """How many jobs were done within so many hours of their arrival: to the upper left is better."""
    hours: dict[str, list[float]] = defaultdict(list)
    per_slot = float(saved.result["slot"]) / 3600.0
    for row in saved.rows("outcomes"):
        if row["finish"] is not None:
            hours[row["policy"]].append((row["finish"] - row["arrival"] + 1) * per_slot)
    longest = max((max(own) for own in hours.values()), default=1.0)
    for name, style in _dashed(drawn).items():
        own = sorted(hours.get(name, []))
        line = {key: style[key] for key in ("color", "linestyle", "linewidth")}
        axes.step([0.0, *own, 1.04 * longest], [0, *range(1, len(own) + 1), len(own)], where="post", **line)
    axes.set_xlim(0, 1.04 * longest)
    axes.set_ylim(0, 1.05 * max((len(own) for own in hours.values()), default=1))
    paper.whole_x(axes)
    paper.name_axes(axes, "hours since arrival", "jobs done", "How soon jobs were done")


def sweep(saved: Plain, *, width: str = "column") -> paper.PaperFigure:
    """Means over seeds with their standard errors, a bar a policy."""
    rows = saved.rows("rows")
    figure, axes = paper.blank(width, 1, height=0.65 + 0.17 * (1 + max(len(rows), 5)))
    _utility(axes[0], rows, paper.styles([row["policy"] for row in rows], saved.looks), None)
    paper.name_axes(axes[0], f"utility, mean of {rows[0]['seeds']} seeds", "", "What finishing in time earned")
    return figure


def run(saved: Plain, *, width: str = "column") -> paper.PaperFigure:
    """Who ran on which machine in which slot, and below it the part of every resource in use."""
    return _schedule(saved, width, saved.rows("rows")[0]["policy"])


def _schedule(saved: Plain, width: str, policy: str) -> paper.PaperFigure:
    known = [row["policy"] for row in saved.rows("rows")]
    if policy not in known:
        raise InputError(f"no policy {policy!r} here; there are {', '.join(known)}")
    cells = (
        [row for row in saved.rows("allocations") if row["policy"] == policy] if "allocations" in saved.names else []
    )
    slots = [row for row in saved.rows("history") if row["policy"] == policy]
    machines = [row["machine"] for row in saved.rows("machines")]
    if not cells:
        raise InputError(f"{policy} gave no job a machine: there is no schedule to draw")
    tall = min(TALLEST, max(1.1, 0.35 + 0.13 * len(machines)))
    figure, (seats, use) = paper.two_rows(width, tall, 1.1)
    _seats(seats, cells, machines)
    hours = float(saved.result["slot"]) / 3600.0
    row = next(row for row in saved.rows("rows") if row["policy"] == policy)
    jobs = saved.result["jobs"]
    title = f"{policy}: {row['completed']} of {jobs} jobs done"
    paper.name_axes(seats, "", "" if len(machines) <= NAMED else f"{len(machines)} machines", title)
    seats.tick_params(labelbottom=False)
    resources = [name for name in slots[0] if name not in ("policy", "slot", "completed", "utility")]
    colours = (paper.BLUE, paper.ORANGE, paper.GREEN, paper.PINK, paper.INK)
    for k, name in enumerate(resources):
        at, used = [s["slot"] for s in slots], [s[name] for s in slots]
        use.step(
            [*at, at[-1] + 1],
            [*used, used[-1]],
            where="post",
            color=colours[k % 5],
            linewidth=1.0,
            linestyle=DASHES[k % len(DASHES)],
        )
    use.set_xlim(0, len(slots))
    use.set_ylim(0, 1.05)
    paper.percent(use)
    paper.whole_x(use)
    paper.name_axes(use, f"slot of {hours:g} h", "% in use")
    paper.legend_below(
        figure,
        [
            paper.Line2D([], [], color=colours[k % 5], linestyle=DASHES[k % len(DASHES)], linewidth=1.0, label=name)
            for k, name in enumerate(resources)
        ],
    )
    return figure


def _seats(axes: Any, cells: list[dict[str, Any]], machines: list[str]) -> None:
    """Every machine is a band; the jobs on it in a slot share its height, by what they hold of it where that is known."""
    row_of = {name: k for k, name in enumerate(machines)}
    jobs = list(dict.fromkeys(row["job"] for row in sorted(cells, key=lambda row: row["slot"])))
    colour_of = {job: JOBS[k % len(JOBS)] for k, job in enumerate(jobs)}
    there: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in cells:
        there[row["machine"], row["slot"]].append(row)
    order = {job: k for k, job in enumerate(jobs)}
    blocks: dict[tuple[str, str, float, float], list[int]] = defaultdict(list)  # its slots
    for (machine, slot), here in sorted(there.items(), key=lambda item: item[0][1]):
        parts = [row.get("share") or 1.0 / len(here) for row in here]
        full, filled = max(1.0, sum(parts)), 0.0  # jobs that are scarce in different things can add up to more than one
        for row, part in sorted(zip(here, parts, strict=True), key=lambda pair: order[pair[0]["job"]]):
            tall = BAND * part / full
            blocks[machine, row["job"], round(row_of[machine] + BAND / 2 - filled - tall, 6), round(tall, 6)].append(
                slot
            )
            filled += tall
    drawn = [(key, first, count) for key, slots in blocks.items() for first, count in _stretches(slots)]
    axes.bar(
        [first for _, first, _ in drawn],
        [key[3] for key, *_ in drawn],
        bottom=[key[2] for key, *_ in drawn],
        width=[count for *_, count in drawn],
        align="edge",
        color=[colour_of[key[1]] for key, *_ in drawn],
        edgecolor="white",
        linewidth=0.25,
        rasterized=len(drawn) > MOST_BLOCKS,
    )
    axes.set_ylim(len(machines) - 0.45, -0.55)
    axes.grid(False)
    if len(machines) <= NAMED:
        axes.set_yticks(range(len(machines)), machines, fontsize=paper.SMALL)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_yticks([])


def _stretches(slots: list[int]) -> list[tuple[int, int]]:
    """Slots in a row as (first, how many)."""
    found: list[tuple[int, int]] = []
    for slot in slots:
        if found and sum(found[-1]) == slot:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((slot, 1))
    return found
