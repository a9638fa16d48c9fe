"""Prices: the recalled constants against prices calibrated on other seeds, all else equal."""

from __future__ import annotations

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.place._growth import HISTORY, SEEDS, UNREAD, Policies, Runs, play
from equipoise.place import placers, prices
from equipoise.place.prices import Prices
from equipoise.place.traces.synthetic import REGIMES, regime
from equipoise.present.figures import Axis, Figure, bars

RECALLED, REPLAY = "recalled", "replay"
TIMES = 1.5  # what prices from history should earn of the recalled ones', at least, where the cluster is short
HISTORIES = {"20x40": 12, "20x100-small": 8, "50x50": 8, "50x200": 2}


def at(name: str, seeds: int, histories: int) -> Runs:
    """The same planner and placement at both kinds of prices; nothing is lent or re-planned."""
    past = [regime(name, HISTORY + k)[1] for k in range(histories)]
    kinds: dict[str, Prices] = {RECALLED: prices.Recalled(past), REPLAY: prices.Replay(past)}
    shown: Policies = {kind: placers.PDORS(prices=kinds[kind], backfill=False) for kind in kinds}
    now = [regime(name, SEEDS + k)[1] for k in range(seeds)]
    return play(regime(name, SEEDS)[0], now, shown, REGIMES[name].slots)


def words(name: str) -> str:
    """A regime in words."""
    one = REGIMES[name]
    return f"{one.machines} machines, {one.jobs}{' small' if one.small else ''} jobs, {one.slots} slots"


@claim(
    "Prices calibrated on history earn at least half as much again as the paper's constants.",
    source="not in what could be read of arXiv 2108.02917; its constants come from the jobs' extremes",
    unread=UNREAD,
    effort=80,
)
def measure(scale: Scale) -> Measured:
    names = scale.pick(("20x40", "20x100-small"), tuple(REGIMES))
    seeds, histories = scale.pick(6, 8), [scale.pick(2, HISTORIES[name]) for name in names]
    runs = {name: at(name, seeds, count) for name, count in zip(names, histories, strict=True)}
    findings = [
        Finding.mean(
            f"utility of {REPLAY} prices beyond {TIMES:g} times the recalled ones'",
            [a.share - TIMES * b.share for a, b in zip(runs[name][REPLAY], runs[name][RECALLED], strict=True)],
            at_least(0.0),
            unit="points of the LP bound",
            over=f"{seeds} seeds",
            when=f"{REPLAY}, {words(name)}",
            about="ours",
        )
        for name in names
    ]
    drawn = []
    for kind in (RECALLED, REPLAY):
        row = [Finding.mean(kind, [run.share for run in runs[name][kind]], at_least(0.0)) for name in names]
        drawn.append(bars(kind, [one.value for one in row], error=[one.error or 0.0 for one in row]))
    figure = Figure(
        "Utility by kind of price",
        x=Axis(groups=[words(name) for name in names]),
        y=Axis("utility, % of the LP bound"),
        series=drawn,
        caption="Prices that history has paid earn several times what prices near nothing earn.",
    )
    return Measured(
        protocol=f"{'; '.join(map(words, names))}: seeds {SEEDS}-{SEEDS + seeds - 1}, prices from"
        f" {', '.join(map(str, histories))} histories, seeds {HISTORY} and up. The same planner with greedy placement;"
        " nothing is lent or re-planned. Replay: level and rise chosen by replaying history.",
        findings=findings,
        figures=(figure,),
        notes=("Calibrating and scoring never share a seed; every cluster here has more work than room.",),
    )
