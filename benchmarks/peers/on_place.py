"""place: the same arrivals at the same prices on the same half-loaded cluster. Decisions per second, and what they earn.

Two questions. A slot: put so many workers and their servers on machines as cheaply as can be; ours answers it for every
width at once. An arrival: which slots, widths and machines, so that finishing is worth most above its cost; ours by hull
fill, or by dynamic programming. HiGHS answers both by integer programs and their relaxations, and CVXPY shows what
modelling adds. Every schedule, ours or theirs, is priced again from the question alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from installing import Installed
from player import Players
from turns import PeerFailed, Play, Row, Spent, clocked, figures, in_turns

from equipoise.claims.place._slots import Slot, loaded
from equipoise.place import traces
from equipoise.place.job import worth_over
from equipoise.place.planner import Planner, occupancy as occupancies
from equipoise.place.planner.job_arrays import JobArrays, arrays_of
from equipoise.place.planner.slot_costs import new_slot_costs, slot_costs
from equipoise.place.prices import densities
from equipoise.place.traces.synthetic import synthetic_cluster

Question = dict[str, Any]
WIDEST = 200  # workers
LOAD = 0.5  # of the scarcest resource, over all slots
LEAST_SECONDS = 0.05
HULL, DYNAMIC = "equipoise, hull fill", "equipoise, dynamic programming"
EXACT = 1e-4  # HiGHS' gap; nobody may earn more than this above it
PEERS = (
    ("highspy", "HiGHS, integer program", "highs_place.py", True),
    ("highspy", "HiGHS, its relaxation (a bound)", "highs_place.py", False),
    ("cvxpy", "CVXPY + HiGHS, integer program", "cvxpy_place.py", True),
)


@dataclass(frozen=True)
class Sizes:
    """Machines, and slots ahead; how many questions; seconds an integer program may take, and a contestant in all."""

    slot: tuple[int, ...]
    slot_questions: int
    plan: tuple[tuple[int, int], ...]
    plan_questions: int
    limit: float
    patience: float


FULL = Sizes((10, 100, 1000), 10, ((5, 10), (10, 10), (20, 20), (50, 20)), 5, limit=10.0, patience=45.0)
QUICK = Sizes((10, 100), 3, ((3, 5),), 2, limit=1.0, patience=5.0)


def slot_questions(machines: int, count: int) -> list[tuple[Slot, int]]:
    """Half-loaded slots with a width that can be had."""
    rng, cluster = np.random.default_rng([7, machines]), synthetic_cluster(machines)
    found: list[tuple[Slot, int]] = []
    options = new_slot_costs(WIDEST, 4)
    for job in traces.synthetic(4 * count, seed=7, slots=200):
        slot = loaded(cluster, arrays_of(job, cluster), rng)
        slot_costs(slot.occupancy, 0, slot.arrays, options)
        can = np.flatnonzero(np.isfinite(options.spread[: slot.arrays.widest + 1]))
        if len(can) > 1:
            found.append((slot, int(can[len(can) // 2])))
        if len(found) == count:
            break
    return found


def asked_of_slot(slot: Slot, width: int) -> Question:
    return {
        "free": (slot.free / 1000.0).tolist(),
        "worker": (slot.arrays.worker / 1000.0).tolist(),
        "server": (slot.arrays.server / 1000.0).tolist(),
        "price_worker": scaled(slot, slot.price_worker),
        "price_server": scaled(slot, slot.price_server),
        "workers": width,
        "servers": slot.servers(width),
    }


def scaled(slot: Slot, price: Any) -> Any:
    return (price / np.median(slot.price_worker)).tolist()


def half_full(machines: int, slots: int) -> Planner:
    """A planner whose cluster is taken by half, by jobs that paid for it."""
    cluster = synthetic_cluster(machines)
    jobs = traces.synthetic(400, seed=1, slots=slots)
    level = float(np.median(densities(cluster, jobs, slots).density)) * 0.05
    planner = Planner(cluster, slots, np.full(4, np.log(10.0)), level / cluster.total)
    rng, taken = np.random.default_rng(2), np.zeros(4)
    for job in jobs:
        if (taken / (cluster.total * slots)).max() >= LOAD:
            break
        arrays, start = arrays_of(job, cluster), int(rng.integers(0, slots))
        _, plan = planner.plan(arrays, value_of(job, slots - start), job.work, start, slots)
        if plan is not None:
            planner.take(arrays, plan.cells)
            cells = plan.cells.astype(np.int64)
            taken += cells[:, 2].sum() * arrays.worker + cells[:, 3].sum() * arrays.server
    return planner


def value_of(job: Any, slots: int) -> Any:
    return worth_over(job.utility.kind, *job.utility.parameters, 0, slots)


@dataclass(frozen=True)
class Arrival:
    """A job that comes now, as the planner sees it and as a program sees it."""

    arrays: JobArrays
    value: Any
    work: float
    question: Question


def arrivals(planner: Planner, count: int) -> list[Arrival]:
    """Jobs of which some are worth admitting: those that nobody could finish are no question."""
    cluster, slots = planner.cluster, planner.window
    found: list[Arrival] = []
    for job in traces.synthetic(20 * count, seed=3, slots=slots):
        arrays, value = arrays_of(job, cluster), value_of(job, slots)
        if planner.plan(arrays, value, job.work, 0, slots)[1] is not None:
            found.append(Arrival(arrays, value, job.work, asked_of_plan(planner, arrays, value, job.work)))
        if len(found) == count:
            break
    return found


def asked_of_plan(planner: Planner, arrays: JobArrays, value: Any, work: float) -> Question:
    """Prices and room of every machine in every slot, from the occupancy."""
    occupancy, capacity = planner.occupancy, planner.cluster.capacity[planner.cluster.type_of]
    price = np.array([occupancy.base[t] * occupancy.factor[t, occupancy.group[t]] for t in range(planner.window)])
    free = np.array([capacity - occupancies.use(occupancy, t) for t in range(planner.window)])
    return {
        "free": (free / 1000.0).tolist(),
        "worker": (arrays.worker / 1000.0).tolist(),
        "server": (arrays.server / 1000.0).tolist(),
        "price_worker": (price @ arrays.worker).tolist(),
        "price_server": (price @ arrays.server).tolist(),
        "widest": arrays.widest,
        "per_server": arrays.per_server,
        "together": float(arrays.together[0, 1]),
        "apart": float(arrays.apart[0, 1]),
        "work": work,
        "value": value.tolist(),
    }


def earned(cells: Any, given: Question) -> float:
    """What a schedule earns by the question alone; minus infinity where it breaks a limit or leaves work undone."""
    cells = np.asarray(cells, dtype=int).reshape(-1, 4)
    if not len(cells):
        return 0.0
    free, work, cost = np.array(given["free"]), 0.0, 0.0
    worker, server = np.array(given["worker"]), np.array(given["server"])
    for t in np.unique(cells[:, 0]):
        mine = cells[cells[:, 0] == t]
        width, servers = int(mine[:, 2].sum()), int(mine[:, 3].sum())
        for _, h, w, s in mine:
            if np.any(w * worker + s * server > free[t, h] + 1e-6):
                return -np.inf
            cost += w * given["price_worker"][t][h] + s * given["price_server"][t][h]
        if width > given["widest"] or servers * given["per_server"] < width:
            return -np.inf
        work += width * (given["together"] if len(mine) == 1 else given["apart"])
    done = work >= given["work"] * (1.0 - 1e-6)
    return float(given["value"][cells[:, 0].max()] - cost) if done else -np.inf


def on_slots(machines: int, sizes: Sizes, peers: dict[str, Installed], players: Players, turns: int) -> list[Row]:
    """One slot, one width; ours fills the whole curve of widths in the same time."""
    asked, options = slot_questions(machines, sizes.slot_questions), new_slot_costs(WIDEST, 4)
    scale = [float(np.median(slot.price_worker)) for slot, _ in asked]

    def all_curves() -> None:
        for slot, _ in asked:
            slot_costs(slot.occupancy, 0, slot.arrays, options)

    costs: dict[str, Any] = {}
    ours = "equipoise, greedy"
    costs[ours] = np.zeros(len(asked))
    for k, (slot, width) in enumerate(asked):
        slot_costs(slot.occupancy, 0, slot.arrays, options)
        costs[ours][k] = options.spread[width] / scale[k]
    plays: dict[str, Play] = {ours: lambda: clocked(all_curves, len(asked), LEAST_SECONDS)}
    said, absent, spent = _answered("slot", [asked_of_slot(*one) for one in asked], plays, sizes, peers, players, turns)
    for who, answers in said.items():
        costs[who] = np.array([np.nan if one["cost"] is None else one["cost"] for one in answers])
    work = f"one slot, {machines:,} machines"
    best = costs.get(PEERS[0][1], np.full(len(asked), np.nan))
    rows = []
    for who in spent:
        over = float(np.mean(costs[who] / best)) if np.isfinite(best).all() else None
        relaxed = "relaxation" in who
        valid = np.isfinite(costs[who]).all() and (
            over is None or (over <= 1.0 + EXACT if relaxed else over >= 1.0 - EXACT)
        )
        shown = f"{over:.4f} times the least cost" if over is not None else "no exact answer to compare with"
        rows.append(
            Row(
                "place",
                work,
                machines,
                who,
                who == ours,
                "placements",
                same=bool(valid),
                check=shown if valid else f"not the same work: {shown}",
                more={"question": "slot", "objective": over},
                **figures(spent, who, ours),
            )
        )
    return rows + [Row("place", work, machines, who, False, "placements", check=why) for who, why in absent.items()]


def on_plans(
    machines: int, slots: int, sizes: Sizes, peers: dict[str, Installed], players: Players, turns: int
) -> list[Row]:
    """The whole plan of an arrival."""
    planner = half_full(machines, slots)
    asked = arrivals(planner, sizes.plan_questions)
    questions = [one.question for one in asked]
    plays: dict[str, Play] = {}
    gains: dict[str, list[float]] = {}
    late: dict[str, int] = {}
    ours = HULL
    for who, method in ((ours, "hull"), (DYNAMIC, "dynamic")):
        planner.method = method
        plans = [planner.plan(one.arrays, one.value, one.work, 0, slots)[1] for one in asked]
        gains[who] = [0.0 if plan is None else earned(plan.cells, q) for plan, q in zip(plans, questions, strict=True)]
        for plan, gain in zip(plans, gains[who], strict=True):
            if plan is not None and abs(plan.payoff - gain) > 1e-6 * max(1.0, abs(gain)):
                gains[who] = [-np.inf] * len(asked)  # it says it earns what it does not
        plays[who] = partial(_decide, planner, method, asked)
    said, absent, spent = _answered("plan", questions, plays, sizes, peers, players, turns)
    for who, answers in said.items():
        whole = "relaxation" not in who
        gains[who] = [
            0.0 if one["cost"] is None else (earned(one["cells"], q) if whole else -one["cost"])
            for one, q in zip(answers, questions, strict=True)
        ]
        late[who] = sum(one["late"] for one in answers)
    work = f"an arrival, {machines} machines x {slots} slots"
    best = sum(gains[PEERS[0][1]]) if PEERS[0][1] in gains else None
    rows = []
    for who in spent:
        part = sum(gains[who]) / best if best else None
        relaxed = "relaxation" in who
        slack = 1.0 + EXACT if not late.get(PEERS[0][1]) else np.inf  # stopped early, it may be beaten
        valid = bool(np.isfinite(gains[who]).all()) and (
            part is None or (part >= 1.0 - EXACT if relaxed else part <= slack)
        )
        shown = (
            "no exact answer to compare with" if part is None else f"{100 * part:.2f}% of the integer program's payoff"
        )
        shown += f"; stopped at {sizes.limit:g} s in {late[who]} of {len(asked)}" if late.get(who) else ""
        rows.append(
            Row(
                "place",
                work,
                machines * slots,
                who,
                who in (HULL, DYNAMIC),
                "decisions",
                same=valid,
                check=shown if valid else f"not the same work: {shown}",
                more={"question": "plan", "objective": part},
                **figures(spent, who, ours),
            )
        )
    return rows + [
        Row("place", work, machines * slots, who, False, "decisions", check=why) for who, why in absent.items()
    ]


def _decide(planner: Planner, method: str, asked: list[Arrival]) -> Spent:
    planner.method = method

    def all_of_them() -> None:
        for one in asked:
            planner.plan(one.arrays, one.value, one.work, 0, planner.window)

    return clocked(all_of_them, len(asked), LEAST_SECONDS)


def _answered(
    kind: str,
    questions: list[Question],
    plays: dict[str, Play],
    sizes: Sizes,
    peers: dict[str, Installed],
    players: Players,
    turns: int,
) -> tuple[dict[str, list[Any]], dict[str, str], dict[str, list[Spent]]]:
    """The peers' answers, who is absent and why, and what everybody spent; `plays` gets the peers that play."""
    said: dict[str, list[Any]] = {}
    absent: dict[str, str] = {}
    for package, who, script, whole in PEERS:
        if peers[package].version is None:
            absent[who] = f"not installed: {peers[package].reason}"
            continue
        peer = players.of(script)
        request = {"kind": kind, "whole": whole, "limit": sizes.limit}
        try:
            peer.ask(**{**request, "limit": 0.5}, questions=questions[:1])  # loads
        except PeerFailed as failed:
            absent[who] = f"failed: {failed}"
            continue

        def play(peer: Any = peer, request: dict[str, Any] = request, who: str = who) -> Spent:
            answer = peer.ask(**request, questions=questions)
            said[who] = answer["answers"]
            return Spent(answer["wall"], answer["cpu"], len(questions))

        plays[who] = play
    spent = in_turns(plays, turns, absent, sizes.patience)
    return said, absent, spent


def rows(peers: dict[str, Installed], players: Players, turns: int, quick: bool) -> Iterator[Row]:
    sizes = QUICK if quick else FULL
    for machines in sizes.slot:
        yield from on_slots(machines, sizes, peers, players, turns)
    for machines, slots in sizes.plan:
        yield from on_plans(machines, slots, sizes, peers, players, turns)
