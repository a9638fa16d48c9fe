"""Total training time against FIFO, DRF, Dorm and OASiS: of every job, and of those that finish alone."""

from __future__ import annotations

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.place._growth import (
    ABSTRACT,
    MORE,
    NOTES,
    OTHERS,
    OURS,
    PAPER,
    UNREAD,
    Runs,
    by_seed,
    curves,
    grown,
    words,
)
from equipoise.present.figures import Axis, Figure

JOBS, MACHINES = 40, 40  # while the other one grows
ALL, DONE = "every job", "finished jobs only"


def hours(runs: list[Runs], label: str, counted: str) -> list[float | None]:
    """By seed over all sizes, from arrival to finish: in all, or of a finished job; None where nothing finished."""
    if counted == ALL:
        return list(by_seed(runs, label, lambda run: run.slots_all))
    slots = by_seed(runs, label, lambda run: run.slots_done)
    finished = by_seed(runs, label, lambda run: float(run.completed))
    return [some / count if count else None for some, count in zip(slots, finished, strict=True)]


def saved(runs: list[Runs], label: str, counted: str, about: str) -> list[Finding]:
    """Time saved against each of the four, as a part of theirs, on the seeds on which both finished something."""
    mine, findings = hours(runs, label, counted), []
    for other in OTHERS:
        pairs = zip(mine, hours(runs, other, counted), strict=True)
        parts = [100.0 * (1.0 - a / b) for a, b in pairs if a is not None and b is not None]
        who = f"{label}, " if about == "ours" else ""
        findings.append(
            Finding.mean(
                f"training time saved against {other}",
                parts,
                at_least(MORE),
                unit="%",
                about=about,
                over=f"{len(parts)} seeds, each over {len(runs)} sizes",
                when=f"{who}{counted}, against {other}",
            )
        )
    return findings


@claim(
    "Jobs train in less total time under PD-ORS than under FIFO, DRF, Dorm and OASiS.",
    source=ABSTRACT,
    unread=UNREAD,
    effort=95,
)
def measure(scale: Scale) -> Measured:
    machines = scale.pick((20, 60), (10, 20, 40, 60, 80, 100))
    jobs = scale.pick((), (10, 20, 60, 80, 100))
    seeds, histories = scale.pick((8, 2), (8, 6))
    runs = grown([(m, JOBS) for m in machines] + [(MACHINES, count) for count in jobs], seeds, histories)
    mean = {label: sum(by_seed(runs, label, lambda run: run.slots_all)) / seeds for label in (PAPER, OURS)}
    protocol = words(", ".join(map(str, machines)), str(JOBS), seeds, histories)
    more = f" Then {', '.join(map(str, jobs))} jobs at {MACHINES} machines." if jobs else ""
    return Measured(
        protocol=f"{protocol}{more} A job's time runs from its arrival to its finish, counted in two ways: {ALL}, the"
        f" unfinished to the end of the run; {DONE}, per finished job.",
        findings=[
            *saved(runs, PAPER, ALL, "paper"),
            *saved(runs, PAPER, DONE, "paper"),
            *saved(runs, OURS, ALL, "ours"),
        ],
        figures=(
            Figure(
                "Training time of every job",
                x=Axis("machines"),
                y=Axis("hours per job, the unfinished to the end"),
                series=curves(runs[: len(machines)], machines, lambda run: run.slots_all / JOBS),
                caption="The more a policy finishes, the less time passes in all.",
            ),
            Figure(
                "Jobs finished",
                x=Axis("machines"),
                y=Axis(f"of {JOBS}"),
                series=curves(runs[: len(machines)], machines, lambda run: float(run.completed)),
                caption="Who finishes only the few easiest has short training times: a mean over finished jobs flatters it.",
            ),
        ),
        notes=(
            *NOTES,
            "How the paper counts a job that does not finish could not be read; hence both ways.",
            f"Prices from history are set for utility, not for time: a run's jobs take {mean[OURS]:.0f} hours with them,"
            f" {mean[PAPER]:.0f} with the recalled ones, the unfinished to the end.",
        ),
    )
