"""Total utility against FIFO, DRF, Dorm and OASiS as more jobs come to the same cluster."""

from __future__ import annotations

from equipoise.claims import Measured, Scale, claim
from equipoise.claims.place._growth import ABSTRACT, UNREAD, grown, growth, words

MACHINES = 40


@claim(
    "As jobs grow in number, PD-ORS earns more total utility than FIFO, DRF, Dorm and OASiS.",
    source=ABSTRACT,
    unread=UNREAD,
    effort=50,
)
def measure(scale: Scale) -> Measured:
    jobs = scale.pick((20, 60), (10, 20, 40, 60, 80, 100))
    seeds, histories = scale.pick((4, 2), (8, 6))
    runs = grown([(MACHINES, count) for count in jobs], seeds, histories)
    return growth(
        "jobs",
        jobs,
        runs,
        words(str(MACHINES), ", ".join(map(str, jobs)), seeds, histories),
        "With recalled prices more jobs bring no more: who comes first has the machines. Ours choose.",
        "The more jobs compete, the smaller the share; smallest for those without prices from history.",
    )
