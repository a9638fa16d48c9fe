"""Total utility against FIFO, DRF, Dorm and OASiS as the cluster grows under the same jobs."""

from __future__ import annotations

from equipoise.claims import Claim, Measured, Scale
from equipoise.claims.place._growth import ABSTRACT, NOTES, OURS, PAPER, UNREAD, curves, grown, leads, words
from equipoise.present.figures import Axis, Figure

JOBS = 40


def measure(scale: Scale) -> Measured:
    machines = scale.pick((20, 60), (10, 20, 40, 60, 80, 100))
    seeds, histories = scale.pick((8, 2), (8, 6))
    runs = grown([(m, JOBS) for m in machines], seeds, histories)
    over = f"{seeds} seeds, each the mean of {len(machines)} sizes"
    return Measured(
        protocol=words(", ".join(map(str, machines)), str(JOBS), seeds, histories),
        findings=[*leads(runs, PAPER, "paper", over), *leads(runs, OURS, "ours", over)],
        figures=(
            Figure(
                "Utility as machines grow",
                x=Axis("machines"),
                y=Axis("total utility"),
                series=curves(runs, machines, lambda run: run.utility),
                caption="PD-ORS leads those that know no utilities at every size; prices from history earn far more still.",
            ),
            Figure(
                "Share of what anybody could earn",
                x=Axis("machines"),
                y=Axis("utility, % of the LP bound"),
                series=curves(runs, machines, lambda run: run.share),
                caption="The fewer the machines, the more it matters who is turned away.",
            ),
        ),
        notes=NOTES,
    )


CLAIM = Claim(
    sentence="As machines grow in number, PD-ORS earns more total utility than FIFO, DRF, Dorm and OASiS.",
    source=ABSTRACT,
    unread=UNREAD,
    measure=measure,
    effort=50,
)
