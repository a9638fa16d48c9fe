"""An idle cluster: with room for everybody, what is left of the differences between policies?"""

from __future__ import annotations

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.place._growth import HISTORY, OURS, PAPER, SEEDS, SLOTS, UNREAD, Runs, grown
from equipoise.present.figures import Axis, Figure, bars

IDLE, BUSY = (60, 6), (20, 40)  # machines, jobs
HISTORIES = 2
TIED = (PAPER, OURS, "DRF", "Dorm")  # they choose a job's width and know that one machine is faster than many
TIE, APART = 1.0, 10.0  # per cent


def behind(runs: Runs, label: str) -> float:
    """Per cent of the best policy's utility, summed over seeds, that one is short of."""
    earned = {name: sum(run.utility for run in some) for name, some in runs.items()}
    return 100.0 * (1.0 - earned[label] / max(earned.values()))


@claim(
    "With room for everybody PDORS, DRF and Dorm tie within 1 %; only load tells admission and prices apart.",
    source="not in what could be read of arXiv 2108.02917: a caution about comparisons like its own",
    unread=UNREAD,
    effort=5,
)
def measure(scale: Scale) -> Measured:
    seeds = scale.pick(4, 8)
    idle, busy = grown((IDLE, BUSY), seeds, HISTORIES)
    second = sorted(behind(busy, label) for label in TIED)[1]
    what, over = "behind the best policy", f"{seeds} seeds together"
    findings = [
        Finding(what, behind(idle, label), at_most(TIE), unit="%", over=over, when=f"idle, {label}", about="ours")
        for label in TIED
    ]
    findings.append(
        Finding(what, second, at_least(APART), unit="%", over=over, when="busy, the second best of them", about="ours")
    )
    figure = Figure(
        "Behind the best policy",
        x=Axis(groups=list(idle)),
        y=Axis("utility, % behind"),
        series=[
            bars("idle", [behind(idle, label) for label in idle]),
            bars("busy", [behind(busy, label) for label in busy]),
        ],
        caption="With room for everybody four policies tie; under load the same four are far apart.",
    )
    return Measured(
        protocol=f"{IDLE[1]} synthetic jobs at {IDLE[0]} machines (idle) and {BUSY[1]} at {BUSY[0]} (busy), {SLOTS} slots,"
        f" seeds {SEEDS}-{SEEDS + seeds - 1}, prices from seeds {HISTORY}-{HISTORY + HISTORIES - 1}.",
        findings=findings,
        figures=(figure,),
        notes=(
            "A comparison on an idle cluster shows nothing about admission or prices, whoever it favours.",
            "What differs there is the job's own speed: FIFO, bound to the width asked for, is"
            f" {behind(idle, 'FIFO'):.0f} % behind, and OASiS, blind to locality, {behind(idle, 'OASiS'):.1f} %.",
        ),
    )
