"""Which policy to recommend for a workload: each candidate replays the past, and the best by what the jobs state is it.

Nothing of the jobs to come is seen. Where load is low all policies are alike, so the busiest stretch of the past is
replayed, or several pasts one by one if they are short; a tenth of it calibrates those that need it. The rule: who broke a
promise by its own fault is out; of those within 1 % of the most utility (where nothing is stated: of the least mean
slowdown), the one with most jobs done, then most in time, then most promised on arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from equipoise.document import Row
from equipoise.errors import InputError
from equipoise.place.cluster import Cluster
from equipoise.place.job import Workload
from equipoise.place.prices._posted import history_of
from equipoise.place.simulate import Placer, simulate
from equipoise.place.slowdown import NOTHING, WORTH, stated
from equipoise.place.spec import PLACERS, SEEN, USUAL
from equipoise.present.text import number
from equipoise.units import count

NEAR, TIES = 0.01, ("completed", "in_time", "promised_on_arrival")  # of the best: as good; what then decides
# Jobs at most: 2 to 5 CPU-seconds for 1,000 past jobs, half of it the calibration of PDORS. Time itself may not decide, or
# no run would repeat.
REPLAYED, CALIBRATED, LEAST = 1000, 200, 50
ENOUGH = 100  # with fewer past jobs one or two large ones would decide: the usual policy is recommended
SUMMED = (*TIES, "utility", "admitted", "broken_by_us", "broken_by_machine", "broken_by_statement")  # of a replay
BESIDE = (USUAL, "srtf", "easy", "fifo")  # shown beside the one recommended


@dataclass(frozen=True)
class Recommendation:
    """The policy, by its label and as --policy calls it; why, in a sentence; the row of every candidate that could run."""

    label: str
    name: str
    why: str
    rows: tuple[Row, ...] = ()
    unable: Mapping[str, str] = field(default_factory=dict)  # why others cannot run, by label

    def as_dict(self) -> Row:
        """Plain values."""
        return {
            "policy": self.label,
            "name": self.name,
            "why": self.why,
            "rows": list(self.rows),
            "unable": dict(self.unable),
        }


def candidates(*, calendar: bool = False, about: str = WORTH) -> list[str]:
    """Every placer there is and each of its `kinds`; of the `named_only` those that say `candidate = True`; with a calendar
    those only that keep to one. `about` is what jobs state: those that post prices want worth, which takes long to find
    them, and those that say `wants_worth` want worth or deadlines."""
    found = []
    for choice in PLACERS.choices():
        able = not calendar or choice.facts.get("calendars", True)
        able = able and (about == WORTH or "prices" not in cast("Sequence[str]", choice.facts.get("settings", ())))
        able = able and (about != NOTHING or not choice.facts.get("wants_worth"))
        if able and choice.facts.get("candidate", not choice.facts.get("named_only")):
            kinds = cast("Sequence[str]", choice.facts.get("kinds", ()))
            found += [choice.stem, *(f"{choice.stem}:{kind}" for kind in kinds)]
    return found


def parts(history: Sequence[Workload], slots: int | None = None) -> tuple[list[Workload], list[Workload]]:
    """What candidates are calibrated on, and what they replay: the busiest of the last history, and those before it as long
    as all are few. With several histories the first ones calibrate, and are not replayed. With a fixed end after `slots` a
    part of the jobs would be a lower load: then it is the first so many slots of each."""
    tenth = max(LEAST, min(sum(map(len, history)) // 10, CALIBRATED))
    if slots is None:
        first, *rest, last = [busiest(history[0], tenth), *history[1:-1], busiest(history[-1], REPLAYED)]
    else:
        whole = [past.between(past[0].arrival, past[0].arrival + slots) for past in history]
        first, *rest, last = whole if len(whole) > 1 else whole * 2
    early, late = [first], [last]
    while rest and sum(map(len, early)) < tenth:
        early.append(rest.pop(0))
    while rest and len(rest[-1]) + sum(map(len, late)) <= REPLAYED:
        late.insert(0, rest.pop())
    return early, late


def busiest(past: Workload, most: int) -> Workload:
    """Jobs that come one after the other, at least so many if there are, in the fewest slots; slot 0 is the first's."""
    first = 0
    if len(past) > most:
        arrival = np.array([job.arrival for job in past])
        first = int(np.argmin(arrival[most - 1 :] - arrival[: len(past) - most + 1]))
    last = past[min(first + most, len(past)) - 1]
    return past.between(past[first].arrival, last.arrival + 1)


def recommend(
    cluster: Cluster,
    past: Workload | Sequence[Workload],
    policies: Mapping[str, Placer],
    *,
    slots: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    pace: str = SEEN,
) -> Recommendation:
    """Replay past jobs under each policy and say which is the best for them.

    Parameters
    ----------
    cluster, past
        The machines, and jobs that came before: a workload, or several that are replayed one by one.
    policies
        Candidates by their names; one that cannot run here is left out.
    slots, horizon, seed, pace
        As in `simulate`.
    """
    rows: dict[str, Row] = {}
    unable: dict[str, str] = {}
    pasts = history_of(past, "recommend")
    window: dict[str, Any] = {"slots": slots, "horizon": horizon, "seed": seed, "pace": pace}
    for name, policy in policies.items():
        try:
            rows[name] = together([simulate(cluster, one, policy, **window).row for one in pasts], [*map(len, pasts)])
        except InputError as error:
            unable[policy.label] = error.what
    if not rows:
        raise InputError(
            f"no policy can replay the past: {next(iter(unable.values()), 'none is given')}", code="policies.none"
        )
    jobs = sum(map(len, pasts))
    nothing = stated(job for one in pasts for job in one) == NOTHING
    first, *others = ranked(rows, nothing)
    judged, key = ("mean slowdown", "mean_slowdown") if nothing else ("utility", "utility")
    row, beside = rows[first], [f"{rows[name]['policy']} {number(rows[name][key], 3)}" for name in others[:2]]
    why = f"{row['policy']}: on {count(jobs, 'past job')} its {judged} was {number(row[key], 3)}"
    why += f" ({', '.join(beside)})" if beside else ""
    why += (
        f", {row['completed']:,} done, {row['in_time']:,} in time, {row['promised_on_arrival']:,} promised on arrival"
    )
    if any(rows[name][key] < row[key] if nothing else rows[name][key] > row[key] for name in others):
        why += "; of those within 1 % of the best it has the most done, in time and promised"
    why += f"; cannot run here: {', '.join(unable)}" if unable else ""
    return Recommendation(row["policy"], first, why, tuple(rows.values()), unable)


def together(rows: Sequence[Row], jobs: Sequence[int]) -> Row:
    """Several replays as one row: what is counted or earned summed, slowdowns on average by jobs."""
    one = {"policy": rows[0]["policy"]} | {key: sum(row[key] for row in rows) for key in SUMMED}
    told = [
        (row["mean_slowdown"], count) for row, count in zip(rows, jobs, strict=True) if row["mean_slowdown"] is not None
    ]
    mean = float(np.average([slow for slow, _ in told], weights=[count for _, count in told])) if told else None
    return one | {"mean_slowdown": mean}


def ranked(rows: Mapping[str, Row], nothing: bool) -> list[str]:
    """Names by the rule above, the recommended one first; `nothing`: nothing is stated."""

    def score(name: str) -> float:
        return -float(rows[name]["mean_slowdown"] or 0.0) if nothing else float(rows[name]["utility"])

    able = [name for name in rows if not rows[name]["broken_by_us"]] or list(rows)
    order = sorted(able, key=score, reverse=True)
    near = [name for name in order if score(name) >= score(order[0]) - NEAR * abs(score(order[0]))]
    first = max(near, key=lambda name: [rows[name][tie] for tie in TIES])
    return [first, *(name for name in order if name != first)]
