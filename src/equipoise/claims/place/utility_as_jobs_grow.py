"""Total utility against FIFO, DRF, Dorm and OASiS as more jobs come to the same cluster."""

from __future__ import annotations

from equipoise.claims import Claim, Measured, Scale
from equipoise.claims.place._growth import ABSTRACT, NOTES, OURS, PAPER, UNREAD, curves, grown, leads, words
from equipoise.present.figures import Axis, Figure

MACHINES = 40


def measure(scale: Scale) -> Measured:
    jobs = scale.pick((20, 60), (10, 20, 40, 60, 80, 100))
    seeds, histories = scale.pick((4, 2), (8, 6))
    runs = grown([(MACHINES, count) for count in jobs], seeds, histories)
    over = f"{seeds} seeds, each the mean of {len(jobs)} sizes"
    return Measured(
        protocol=words(str(MACHINES), ", ".join(map(str, jobs)), seeds, histories),
        findings=[*leads(runs, PAPER, "paper", over), *leads(runs, OURS, "ours", over)],
        figures=(
            Figure(
                "Utility as jobs grow",
                x=Axis("jobs"),
                y=Axis("total utility"),
                series=curves(runs, jobs, lambda run: run.utility),
                caption="With recalled prices more jobs bring no more: who comes first has the machines. Ours choose.",
            ),
            Figure(
                "Share of what anybody could earn",
                x=Axis("jobs"),
                y=Axis("utility, % of the LP bound"),
                series=curves(runs, jobs, lambda run: run.share),
                caption="The more jobs compete, the smaller the share; smallest for those without prices from history.",
            ),
        ),
        notes=NOTES,
    )


CLAIM = Claim(
    sentence="As jobs grow in number, PD-ORS earns more total utility than FIFO, DRF, Dorm and OASiS.",
    source=ABSTRACT,
    unread=UNREAD,
    measure=measure,
    effort=50,
)
