"""Total utility against FIFO, DRF, Dorm and OASiS as the cluster grows under the same jobs."""

from __future__ import annotations

from equipoise.claims import Measured, Scale, claim
from equipoise.claims.place._growth import ABSTRACT, UNREAD, grown, growth, words

JOBS = 40


@claim(
    "As machines grow in number, PD-ORS earns more total utility than FIFO, DRF, Dorm and OASiS.",
    source=ABSTRACT,
    unread=UNREAD,
    effort=50,
)
def measure(scale: Scale) -> Measured:
    machines = scale.pick((20, 60), (10, 20, 40, 60, 80, 100))
    seeds, histories = scale.pick((8, 2), (8, 6))
    runs = grown([(m, JOBS) for m in machines], seeds, histories)
    return growth(
        "machines",
        machines,
        runs,
        words(", ".join(map(str, machines)), str(JOBS), seeds, histories),
        "PD-ORS leads those that know no utilities at every size; prices from history earn far more still.",
        "The fewer the machines, the more it matters who is turned away.",
    )
