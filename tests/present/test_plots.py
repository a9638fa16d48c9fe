"""Figures show the numbers of their results, fit a paper, and leave matplotlib's settings alone."""

from __future__ import annotations

import io
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from equipoise.document import Document
from equipoise.place import Cluster, Deadline, Job, Machine, compare, placers, simulate
from equipoise.present import draw
from equipoise.share import policies as sharers, simulate as play, sweep
from equipoise.train import Network, Problem, Quadratic, Softmax, compare as race, solve
from refusals import refused

NODES = 8
COST = Quadratic(a=np.linspace(1, 3, NODES), c=np.linspace(1, 9, NODES), lo=0.0, hi=8.0)
SHARDS = [(np.array([[0.0, 1.0], [1.0, k]]), np.array([0, 1])) for k in range(NODES)]
CLUSTER = Cluster((Machine({"gpu": 4, "cpu": 8}, count=3, name="v100"),))
JOBS = [Job(f"job-{k}", k // 2, 8.0, 4, 1.0, {"gpu": 1, "cpu": 1}, Deadline(10, 9)) for k in range(9)]

RESULTS = {
    "train": lambda: solve(Problem(COST, 30.0, Softmax(SHARDS)), Network.ring(NODES), rounds=60),
    "train, many": lambda: solve(
        Problem(Quadratic(a=np.ones(50), c=np.arange(50.0), lo=0.0, hi=80.0), 900.0), Network.grid(50), rounds=40
    ),
    "race": lambda: race(Problem(COST, 30.0), Network.ring(NODES), rounds=30),
    "sweep": lambda: sweep([sharers.named(n) for n in ("Uniform", "SDF", "Hybrid")], loads=[5, 10], seeds=4, oracle=1),
    "one load": lambda: sweep([sharers.Uniform(), sharers.SDF()], loads=[8], seeds=4, oracle=1),
    "lives": lambda: play(sharers.SDF(), load=20, seeds=[3, 4], trace=True),
    "lives, no trace": lambda: play(sharers.SDF(), load=20),
    "places": lambda: compare(CLUSTER, JOBS, [placers.SRTF(), placers.FIFO(), placers.DRF()], slots=10),
    "place": lambda: simulate(CLUSTER, JOBS, placers.SRTF(), slots=10),
}


@pytest.fixture(scope="module")
def results():
    """Every kind of result, made once."""
    return {name: make() for name, make in RESULTS.items()}


def texts(figure):
    """Every text that is shown and not empty."""
    return [text for text in figure.findobj(matplotlib.text.Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("name", RESULTS)
def test_every_figure_fits_a_paper(name, width, results):
    """As wide as told; text of 7 or 8 points inside the figure; every axis named; no legend on a panel or a title."""
    before = dict(matplotlib.rcParams)
    figure = results[name].plot(width=width)
    assert isinstance(figure, Figure) and figure.get_figwidth() == {"column": 3.5, "page": 7.16}[width]
    assert figure.get_figheight() < 9.5
    FigureCanvasAgg(figure).draw()
    assert {text.get_fontsize() for text in texts(figure)} <= {7.0, 8.0}
    drawn = figure.get_tightbbox()  # everything that is visible, in inches
    assert min(drawn.x0, drawn.y0) > -0.01
    assert drawn.x1 < figure.get_figwidth() + 0.01 and drawn.y1 < figure.get_figheight() + 0.01
    legends = [*figure.legends, *(one.get_legend() for one in figure.axes if one.get_legend() is not None)]
    panels = [one.get_window_extent().padded(-2.0) for one in figure.axes]
    titles = [one.title.get_window_extent() for one in figure.axes]
    titles += [one._left_title.get_window_extent() for one in figure.axes if one._left_title.get_text()]
    for legend in legends:
        assert not any(legend.get_window_extent().padded(-2.0).overlaps(panel) for panel in panels)
        assert not any(legend.get_window_extent().padded(-1.0).overlaps(title) for title in titles if title.width > 0)
    assert all(one.get_ylabel() or one.get_yticklabels()[0].get_text() for one in figure.axes)
    assert all(one.get_xlabel() or not one.xaxis.get_tick_params()["labelbottom"] for one in figure.axes)
    assert dict(matplotlib.rcParams) == before


def lines(axes):
    """Lines by their labels or in order, as (x, y)."""
    return [line.get_xydata().T for line in axes.lines]


def test_a_training_run_shows_its_history(results):
    """Bits, the residual of the budget and the shares are the run's own numbers, gaps begin at one."""
    run = results["train"]
    gap, bits, shares, budget = run.plot().axes
    assert lines(bits)[0][1] == pytest.approx(run.history["bits"] / _unit(bits))
    assert lines(budget)[0][1].tolist() == run.history["budget_residual"].tolist() == [0.0] * len(run.history["round"])
    assert "budget: 0 throughout" in budget.get_title(loc="left")
    assert [line[1][0] for line in lines(gap)] == [1.0, 1.0]
    heights = [patch.get_height() for patch in shares.patches]
    assert heights[:NODES] == pytest.approx(run.shares.tolist())
    assert lines(shares)[0][1] == pytest.approx(run.cpu_optimum.shares)


def _unit(axes):
    return {"bits": 1.0, "thousand bits": 1e3, "million bits": 1e6}[axes.get_ylabel()]


def test_what_lies_beyond_the_axis_and_what_is_not_there():
    """A gap of zero lies on the axis, what is not a number is left out; without rounds there is no figure."""
    rows = [{"round": k, "cpu_gap": gap, "bits": 9 * k} for k, gap in enumerate((4.0, 1.0, 0.0, None))]
    (gap,) = draw(Document("train", {}, tables={"history": rows}), panels=["gap"]).axes
    assert lines(gap)[0][1][:3].tolist() == [1.0, 0.25, 1e-12] and np.isnan(lines(gap)[0][1][3])
    with refused("figure.rounds"):
        draw(Document("train", {}, tables={"history": []}))
    with refused("document.verb", "'share bundles'"):
        draw(Document("share bundles", {}))


def test_panels_can_be_chosen(results):
    """In the order asked for; one that is not there is refused with those that are."""
    figure = results["train"].plot(panels=["shares", "gap"])
    assert [one.get_title(loc="left") for one in figure.axes] == ["(a) Shares", "(b) Gap to the optimum"]
    assert [one.get_title(loc="left") for one in results["train"].plot(panels="bits").axes] == [
        "Bits sent, over all links"
    ]
    with refused("unknown", "'price'", "gap, bits, shares, budget"):
        results["train"].plot(panels=["price"])
    with refused("figure.choice", "'panel'", "width, panels"):
        results["train"].plot(panel="gap")
    with refused("figure.width", "'wide'"):
        results["train"].plot(width="wide")


def test_rivals_have_their_own_colours_and_distances(results):
    """A line for each, in its class's colour, ending where its track ends."""
    race, figure = results["race"], results["race"].plot()
    for line, (name, tracks) in zip(figure.axes[0].lines, race.tracks.items(), strict=True):
        entrant = next(one for one in race.entrants if one.name == name)
        assert line.get_color() == entrant.colour
        assert line.get_ydata()[-1] == pytest.approx(max(tracks[0].distance[-1], 1e-12))
    labels = [getattr(entrant, "label", entrant.name) for entrant in race.entrants]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == labels


def test_a_sweep_shows_its_means(results):
    """Success of every policy at every load, in its own colour; the oracle is dotted above."""
    result = results["sweep"]
    success, energy, *_ = result.plot().axes
    rows = {(row["policy"], row["load"]): row for row in result.rows}
    for line, name in zip(success.lines, result.names, strict=False):
        assert line.get_ydata() == pytest.approx([rows[name, load]["success"] for load in (5, 10)])
        assert line.get_color() == sharers.named(name).colour
    assert success.lines[3].get_ydata() == pytest.approx([rows["SDF", load]["oracle"] for load in (5, 10)])
    assert energy.lines[2].get_ydata() == pytest.approx([rows["Hybrid", load]["energy"] for load in (5, 10)])


def test_one_load_is_bars(results):
    """A bar per policy, and a hollow one for the bound."""
    axes = results["one load"].plot(panels=["success", "latency"]).axes
    rows = results["one load"].rows
    widths = [patch.get_width() for patch in axes[0].patches]
    assert widths == pytest.approx([rows[0]["success"], rows[1]["success"], rows[0]["oracle"]])
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["Uniform", "SDF", "oracle's bound"]
    assert [patch.get_width() for patch in axes[1].patches] == pytest.approx([row["latency"] for row in rows])


def test_the_lives_of_tasks(results):
    """Computing stretches add up to the steps that tasks computed; seeds are told apart."""
    run = results["lives"]
    lives, use = run.plot(seed=4).axes
    computing = run.trace.state[:, 1] == 3
    blue = [patch for patch in lives.patches if matplotlib.colors.to_hex(patch.get_facecolor()) == "#0072b2"]
    assert sum(patch.get_width() for patch in blue) == computing.sum()
    assert f"{run.successes[1]} of 20" in lives.get_title(loc="left") and "seed 4" in lives.get_title(loc="left")
    assert use.lines[1].get_ydata() == pytest.approx(
        np.diff(run.trace.sent[:, 1], prepend=0.0)
    )  # the uplink carries 100
    assert len(results["lives, no trace"].plot().axes) == 1
    with refused("figure.seed", 7, 3, 4):
        run.plot(seed=7)


def test_placed_policies_beside_the_bound(results):
    """Bars are utilities, the hollow one the bound; the curves end at the number of jobs done."""
    found = results["places"]
    utility, completion = found.plot().axes
    assert [patch.get_width() for patch in utility.patches] == pytest.approx(
        [*(result.utility for result in found.results), found.bound.utility]
    )
    assert [line.get_ydata()[-1] for line in completion.lines] == [result.completed for result in found.results]
    first = completion.lines[0].get_xdata()[1:-1]
    assert sorted(first) == pytest.approx(sorted(found.results[0].completion))
    with refused("unknown", "'LAS'", "SRTF, FIFO, DRF"):
        found.plot(policy="LAS")


def test_a_schedule_shows_every_cell(results):
    """The area of the blocks is what the jobs held of the machines, worker by worker; use is that of the GPUs."""
    result = results["place"]
    seats, use = result.plot().axes
    area = sum(patch.get_width() * patch.get_height() for patch in seats.patches) / 0.88
    assert area == pytest.approx(result.schedule[:, 3].sum() / 4)  # of four GPUs a machine
    assert [label.get_text() for label in seats.get_yticklabels()] == ["v100-0", "v100-1", "v100-2"]
    gpus = np.bincount(result.schedule[:, 1], result.schedule[:, 3], result.end) / 12
    assert use.lines[0].get_ydata()[:-1] == pytest.approx(gpus)


def test_saved_figures_hold_real_fonts(results, tmp_path):
    """PDF with TrueType fonts and no Type 3, SVG whose text is text, PNG for notebooks."""
    figure = results["places"].plot()
    figure.savefig(tmp_path / "one.pdf")
    pdf = (tmp_path / "one.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and b"/Type3" not in pdf and b"/CIDFontType2" in pdf
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    assert "hours since arrival" in buffer.getvalue()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_no_pyplot_and_nothing_before_it_is_asked_for():
    """The three verbs load neither matplotlib nor pandas; a figure loads no pyplot, and without matplotlib says so."""
    code = """
import sys, equipoise.train, equipoise.share as share, equipoise.place
assert not {"matplotlib", "pandas", "networkx"} & set(sys.modules), "too early"
run = share.simulate(share.policies.SDF(), load=3)
run.plot()
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules, "pyplot"
for name in [name for name in sys.modules if name.startswith(("matplotlib", "equipoise.present.paper"))]:
    del sys.modules[name]
sys.modules["matplotlib"] = None
try:
    run.plot()
except equipoise.errors.InputError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "pip install 'equipoise[plots]'" in found.stdout, found.stderr
