"""share: the same tasks under the same policy. Task-steps per second: seeds x tasks x steps, the same for everyone.

Everybody gets the tasks drawn beforehand and must finish the same ones in the same steps at the same energy. Ours once with
the policy as it ships, in compiled parts, and once as a user writes it in plain NumPy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from installing import Installed
from numpy_policies import SDFInNumPy, UniformInNumPy
from player import Players
from turns import PeerFailed, Play, Row, Spent, clocked, figures, in_turns

from equipoise.share import Workload, policies
from equipoise.share.simulate import Run, play
from equipoise.share.site import Site

FULL = ((60, 1), (60, 10), (60, 100), (200, 100))  # tasks, seeds
QUICK = ((60, 1), (60, 4))
LEAST_SECONDS = 0.05
COLUMNS = ("arrival", "deadline", "delay", "data", "work")
PEERS = (
    ("simpy", "SimPy", "simpy_site.py", {"lean": False}),
    ("simpy", "SimPy as a clock only", "simpy_site.py", {"lean": True}),
    ("leafsim", "LEAF (leafsim)", "leaf_site.py", {}),
)


POLICIES: dict[str, tuple[Any, Any]] = {
    "Uniform": (policies.DescribedUniform(), UniformInNumPy()),
    "SDF": (policies.SDF(), SDFInNumPy()),
}


def measure(name: str, tasks: int, seeds: int, peers: dict[str, Installed], players: Players, turns: int) -> list[Row]:
    """All contestants on one batch of tasks under one policy."""
    workload, site = Workload.described(), Site()
    batch = workload.draw(tasks, seeds, site)
    amount = float(tasks * seeds * workload.horizon)
    shipped, written = POLICIES[name]
    expected: Run = play(shipped, batch, site, workload.prior)
    checks: dict[str, tuple[bool, str]] = {}
    plays: dict[str, Play] = {}
    absent: dict[str, str] = {}

    def ours(who: str, policy: Any) -> None:
        run = play(policy, batch, site, workload.prior)
        checks[who] = agreement(expected, run.done_at, run.energy)
        work: Callable[[], object] = partial(play, policy, batch, site, workload.prior)
        plays[who] = lambda: clocked(work, amount, LEAST_SECONDS)

    reference = f"equipoise, {name} as shipped"
    ours(reference, shipped)
    ours(f"equipoise, {name} in plain NumPy", written)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.npz"
        np.savez(file, **{column: getattr(batch, column) for column in COLUMNS})
        for package, who, script, more in PEERS:
            if peers[package].version is None:
                absent[who] = f"not installed: {peers[package].reason}"
                continue
            peer = players.of(script)
            request = {"file": str(file), "horizon": workload.horizon, "policy": name, "site": figures_of(site), **more}
            try:
                first = peer.ask(**request)
            except PeerFailed as failed:
                absent[who] = f"failed: {failed}"
                continue
            checks[who] = agreement(expected, first["done"], first["energy"])
            plays[who] = partial(turn, peer, request, amount)
        spent = in_turns(plays, turns, absent)
    work = f"{name}, {tasks} tasks x {seeds} seed{'s' if seeds > 1 else ''}"
    rows = [
        Row(
            "share",
            work,
            tasks * seeds,
            who,
            who.startswith("equipoise"),
            "task-steps",
            same=checks[who][0],
            check=checks[who][1],
            more={"policy": name, "tasks": tasks, "seeds": seeds},
            **figures(spent, who, reference),
        )
        for who in spent
    ]
    return rows + [
        Row("share", work, tasks * seeds, who, False, "task-steps", check=why) for who, why in absent.items()
    ]


def turn(peer: Any, request: dict[str, Any], amount: float) -> Spent:
    said = peer.ask(**request)
    return Spent(said["wall"], said["cpu"], amount)


def figures_of(site: Site) -> dict[str, float]:
    """The site as its peers know it."""
    return {
        "capacity": site.capacity,
        "task_cap": max(server.capacity for server in site.servers),
        "bandwidth": site.bandwidth,
        "idle": site.idle_power,
        "busy": site.busy_power,
        "servers": len(site.servers),
    }


def agreement(expected: Run, done: Any, energy: Any) -> tuple[bool, str]:
    """Whether the same tasks were done in the same steps, at the same energy."""
    other = int((np.asarray(done) != expected.done_at).sum())
    off = float(np.max(np.abs(np.asarray(energy) / expected.energy - 1.0)))
    finished = int((expected.done_at >= 0).sum())
    if other == 0 and off < 1e-6:
        return True, f"the same {finished} tasks done in the same steps, energy within {max(off, 1e-16):.0e}"
    return False, f"not the same work: {other} tasks end otherwise, energy off by {off:.0e}"


def rows(peers: dict[str, Installed], players: Players, turns: int, quick: bool) -> Iterator[Row]:
    for name in POLICIES:
        for tasks, seeds in QUICK if quick else FULL:
            yield from measure(name, tasks, seeds, peers, players, turns)
