"""One picture: seconds to accuracy, task-steps per second and decisions per second, over size, all on log axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from turns import Row

# Okabe and Ito's colours, told apart by all kinds of sight; each line has a marker of its own as well.
COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#000000")
MARKERS = "osD^vPX"


def draw(rows: Sequence[Row], file: Path, machine: str) -> None:
    """Three panels on white, whatever the page behind it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 5.4), layout="constrained", facecolor="white")
    train = [row for row in rows if row.part == "train"]
    share = [row for row in rows if row.part == "share" and row.work.startswith("Uniform")]
    place = [row for row in rows if row.part == "place" and row.unit == "decisions"]
    more = "per CPU second: more is better"
    _panel(axes[0], train, _milliseconds, "centres", "train: CPU milliseconds to 1e-6, less is better")
    _panel(axes[1], share, _rate, "tasks x seeds", f"share, Uniform: task-steps {more}")
    _panel(axes[2], place, _rate, "machines x slots", f"place: whole plans {more}")
    figure.supxlabel(machine, fontsize=7, color="#444444")
    figure.savefig(file, dpi=130, facecolor="white")
    plt.close(figure)


def _milliseconds(row: Row) -> float:
    return float(row.more["ms_cpu"])


def _rate(row: Row) -> float:
    return row.rate_cpu or 0.0


def _panel(axes: object, rows: Sequence[Row], value: Callable[[Row], float], across: str, title: str) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    measured = [row for row in rows if row.rate_cpu is not None and row.same]
    for who, colour, marker in zip(dict.fromkeys(row.who for row in measured), COLOURS, MARKERS, strict=False):
        mine = sorted((row for row in measured if row.who == who), key=lambda row: row.size)
        ours = mine[0].ours
        axes.loglog(
            [row.size for row in mine],
            [value(row) for row in mine],
            marker=marker,
            color=colour,
            label=who,
            linewidth=2.2 if ours else 1.3,
            linestyle="-" if ours else "--",
            markersize=6,
        )
    ticks = sorted({row.size for row in measured})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel(across)
    axes.set_title(title, fontsize=9.5, loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if measured:
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14))
