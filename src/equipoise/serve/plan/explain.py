"""Why a job was treated as it was, and when it could start: the planner is asked, and nothing is changed."""

from __future__ import annotations

import dataclasses
import math

from equipoise.document import plain
from equipoise.place.execution import ADMITTED, BEYOND_HORIZON, INFEASIBLE_ALONE
from equipoise.place.explain import fits_one, prices_met, quickest, schedule_of
from equipoise.place.explanation import changes_of, missing, ways_of
from equipoise.place.job import Deadline, Job
from equipoise.place.planner.job_arrays import arrays_of
from equipoise.serve.plan.decide import Scheduler, Wanted
from equipoise.serve.plan.events import Body
from equipoise.serve.plan.messages import REASONS
from equipoise.serve.plan.state import Held

HOPELESS = (INFEASIBLE_ALONE, BEYOND_HORIZON)


def explanation(scheduler: Scheduler, held: Held) -> Body:
    """Prices met, the best schedule though it may not pay, the first start and finish with room, what to change."""
    state, job, shape = scheduler.state, held.job, held.shape
    planner, start, end = state.machines.planner, scheduler.first, scheduler.deadline(job.arrival)
    first = next((t for t in range(start, end) if fits_one(planner, t, shape)), None)
    soonest = quickest(planner, shape, held.left / held.pace, start, end)
    plan = scheduler.best(held, above=-math.inf)[1]
    pays = plan is not None and plan.payoff > 0.0 and not scheduler.hopeless(held)
    ways = [] if pays else ways_of(job, state.cluster, end - start)
    changes = [
        dataclasses.asdict(one)
        for one in changes_of(ways, lambda form: _taken(scheduler, held, job.but(**form.changes)))
    ]
    lacking = missing(job, state.cluster) if state.alone(held) <= 0.0 else ()
    told: Body = {
        "earliest_start": first,
        "earliest_finish": soonest.last if soonest is not None else None,
        "prices": [dataclasses.asdict(p) for p in prices_met(planner, shape, plan, start, end)] if end > start else [],
        "best": dataclasses.asdict(schedule_of(plan, state.cluster)) if plan is not None else None,
        "changes": changes,
        "smaller": changes[0] if changes else None,  # its name in 0.1.0
        "missing": [dataclasses.asdict(one) for one in lacking],
        "slot": job.arrival,
        "horizon": end - 1,
        "deadline": _deadline(job),
    }
    found: Body = plain(told)
    return found


def _deadline(job: Job) -> int | None:
    """The last slot in which finishing is worth anything, where it ends at once."""
    utility = job.utility
    return job.arrival + int(utility.slots) if isinstance(utility, Deadline) else None


def _taken(scheduler: Scheduler, held: Held, form: Job) -> tuple[float | None, int | None] | None:
    """Payoff and finish of the job in another form, if it would be promised."""
    other = dataclasses.replace(
        held, job=form, shape=arrays_of(form, scheduler.state.cluster), fastest=-1.0, speed=-1.0
    )
    if scheduler.hopeless(other):
        return None
    plan = scheduler.best(other)[1]
    return None if plan is None else (float(plan.payoff), plan.last)


def text(told: Body, state: str, reason: str, *, since: str = "", would: bool = False) -> str:
    """The same in a few sentences. `state` and `reason` are the first decision; `since` is the state now."""
    because = REASONS.get(reason, "")
    came = f"It would be {state} now" if would else f"When it came, in slot {told['slot']}, it was {state}"
    lines = [f"{came}{': ' + because if because else ''}."]
    if since and since != state:
        lines.append(f"By now it is {since}.")
    if told["deadline"] is not None:
        lines.append(f"Finishing it is worth nothing after slot {told['deadline']}, its deadline.")
    elif state != ADMITTED:
        lines.append(f"Its horizon ends with slot {told['horizon']}.")
    for lack in told["missing"]:
        lines.append(
            f"No machine has what one worker needs: {lack['resource']} {lack['needs']:g}, the most is {lack['has']:g}."
        )
    best = told["best"]
    if best is not None:
        pays = "pays" if best["payoff"] > 0 else "does not pay"
        lines.append(
            f"The best schedule at the prices of that moment runs in {best['slots']} slots, {best['first']} to"
            f" {best['last']}, for {best['cost']:.4g}; finishing then is worth {best['worth']:.4g}: it {pays}."
        )
    for price in told["prices"]:
        lines.append(
            f"{price['resource']}: {price['price']:.4g} a unit and slot, {price['full']:.0%} of the cluster taken."
        )
    if state != ADMITTED:
        if told["earliest_finish"] is not None:
            lines.append(
                f"Prices aside, the room there was would have let it finish in slot {told['earliest_finish']}."
            )
        elif told["earliest_start"] is not None and not told["missing"] and reason not in HOPELESS:
            lines.append(
                f"A first worker would have found room in slot {told['earliest_start']}, all of them too late."
            )
    if told["changes"]:
        lines.append(f"It would have been promised with {' or '.join(one['words'] for one in told['changes'])}.")
    return "\n".join(lines)


def forecast(scheduler: Scheduler, body: Wanted, tenant: str) -> Body:
    """When a job could start and end if it took all room there is, prices aside."""
    held, verdict = scheduler.imagine(body, tenant)
    start, end = scheduler.first, scheduler.deadline(held.job.arrival)
    plan = quickest(scheduler.state.machines.planner, held.shape, held.left, start, end)
    if plan is None:
        because = REASONS.get(scheduler.hopeless(held) or "no_capacity", "")
        return {"start": None, "end": None, "text": f"It cannot be done: {because}."}
    first, last = int(plan.cells[0, 0]), plan.last
    promised = "it would be promised now" if verdict.state == ADMITTED else f"now it would be {verdict.state}"
    return {
        "start": first,
        "end": last,
        "text": f"With all the room there is it could start in slot {first} and end in slot {last}; {promised}.",
    }
