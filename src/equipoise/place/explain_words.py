"""An explanation in a few lines of plain words, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.place.desk import ADMITTED, BEYOND_HORIZON, INFEASIBLE_ALONE, LENT, NO_CAPACITY, PRICED_OUT, REFUSED
from equipoise.units import MILLI, show

if TYPE_CHECKING:
    from equipoise.place.explain import Explanation


def text(e: Explanation) -> str:
    """What happened, why it waited or was refused, the prices, the room, and what would have helped."""
    lines = [_what_happened(e), _why_it_waited(e), *_why_refused(e), *_at_these_prices(e), *_room(e), _change(e)]
    return "\n".join(line for line in lines if line)


def _slots(number: int) -> str:
    return f"{number:,} slot{'' if number == 1 else 's'}"


def _jobs(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}job{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _what_happened(e: Explanation) -> str:
    told = "; ".join(f"{d.state}{f' ({d.reason})' if d.reason else ''} in slot {d.slot}" for d in e.told)
    end = "It did not finish." if e.finish is None else f"It finished in slot {e.finish}, worth {e.utility:.4g}."
    return f"Job {e.job} under {e.policy}: arrived in slot {e.arrival}; told {told or 'nothing'}. {end}"


def _why_it_waited(e: Explanation) -> str:
    if e.told and e.told[0].state == REFUSED:
        return ""
    if e.first_run is None:
        line = f"It waited {_slots(e.waited)}, to the end, and never ran: {_crowd(e)}"
    elif e.waited == 0:
        line = f"It ran at once{_on_lent(e)}, {_slots(e.ran)} in all"
    else:
        line = f"It waited {_slots(e.waited)}: {_crowd(e)}; it ran{_on_lent(e)} from slot {e.first_run}"
    if e.pauses:
        line += f", and was put aside {'once' if e.pauses == 1 else f'{e.pauses} times'}"
    if e.waited and e.ahead:
        line += f". {_jobs(e.ahead)} {'were' if e.ahead > 1 else 'was'} here before it, {e.running} of them running"
        if e.overtook:
            line += f"; {e.overtook} that came later ran first"
    return line + "."


def _on_lent(e: Explanation) -> str:
    states = [d.state for d in e.told if e.first_run is not None and d.slot <= e.first_run]
    return " on lent slots" if states and states[-1] == LENT else ""


def _crowd(e: Explanation) -> str:
    """What held it up: the room others had, or its own plan."""
    resource, share = max(e.taken.items(), key=lambda item: item[1])
    held = [_jobs(e.held_promised, "promised ")] if e.held_promised else []
    held += [f"{e.held_others:,} without promise"] if e.held_others and held else []
    held += [_jobs(e.held_others)] if e.held_others and not e.held_promised else []
    by = f" by {' and '.join(held)}" if held else ""
    crowd = f"the cluster's {resource} was {_percent(share)} taken{by}"
    if e.told and e.told[0].state == ADMITTED and e.told[0].slot == e.arrival and e.earliest_start == e.arrival:
        return f"there was room, and later slots were cheaper ({crowd})"
    return crowd


def _why_refused(e: Explanation) -> list[str]:
    if e.reason == INFEASIBLE_ALONE:
        if not e.missing:
            return ["It does not fit this cluster even when it is empty."]
        return [
            f"It does not fit even an empty cluster: {m.part} needs {show(round(m.needs * MILLI))} {m.resource}, and "
            f"{m.machine}, the machine that comes nearest, has {show(round(m.has * MILLI))}."
            for m in e.missing
        ]
    if e.reason == BEYOND_HORIZON:
        if e.window <= 0:
            return ["It came after the last slot of the run."]
        return [
            f"It needs {_slots(e.alone or 0)} alone on an empty cluster at full width; it had {e.window:,} "
            "(the horizon, or what was left to the end)."
        ]
    return []


def _at_these_prices(e: Explanation) -> list[str]:
    full = ", ".join(f"{p.resource} {_percent(p.full)}" for p in e.prices)
    if e.reason in (INFEASIBLE_ALONE, BEYOND_HORIZON):
        return []
    if e.best is None and e.reason == PRICED_OUT:
        return [
            "Planned with a restart in every slot its work has no room; planned with few, it costs more than its worth."
        ]
    if e.best is None:
        return [f"No room for all of its work within its {_slots(e.window)}: taken are {full}."] if e.prices else []
    b = e.best
    widths = sorted({s.workers for s in b.stretches})
    wide = f"{widths[0]}" if len(widths) == 1 else f"{widths[0]}-{widths[-1]}"
    machines = sorted({name for s in b.stretches for name in s.machines}, key=lambda name: (len(name), name))
    where = ", ".join(machines[:4]) + (f" and {len(machines) - 4} more" if len(machines) > 4 else "")
    costs = ", ".join(f"{p.resource} {p.cost:.4g}" for p in e.prices if p.cost > 0.0)
    lines = [
        f"The best schedule at the prices it met: {_slots(b.slots)} from {b.first} to {b.last}, "
        f"{wide} worker{'s' if wide != '1' else ''} on {where}; worth {b.worth:.4g}, cost {b.cost:.4g}"
        f"{f' ({costs})' if costs else ''}: payoff {b.payoff:.4g}. Taken there: {full}."
    ]
    if e.reason == NO_CAPACITY and b.worth <= 0.0:
        lines.append("There is room for its work only when finishing it is worth nothing any more.")
    elif e.reason and b.payoff > 0.0:
        lines.append("Planned with a restart in every slot it does not pay: that is how it was judged.")
    return lines


def _room(e: Explanation) -> list[str]:
    if e.reason in (INFEASIBLE_ALONE, BEYOND_HORIZON) or e.window <= 0:
        return []
    if e.earliest_start is None:
        return ["There was no slot with room for even one worker."]
    line = f"The first slot with room for a worker was {e.earliest_start}"
    if e.earliest_finish is not None:
        line += f"; as fast as the room allowed, whatever the price, it could finish in slot {e.earliest_finish}"
    return [line + "."]


def _change(e: Explanation) -> str:
    if e.smaller is None:
        nothing = "No narrower, smaller or shorter form of it (down to 1 % of the work) would have been taken."
        return nothing if e.reason and e.window > 0 else ""
    if e.smaller.payoff is None:
        return f"It would not have been refused with {e.smaller.words}."
    finish = f"payoff {e.smaller.payoff:.4g}, finished in slot {e.smaller.finish}"
    return f"It would have been promised on arrival with {e.smaller.words}: {finish}."
