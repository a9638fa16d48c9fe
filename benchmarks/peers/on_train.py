"""train: gradient tracking on least squares, to the same accuracy. Rounds per second, and seconds to get there.

Everybody has the same network, shards and starting point, and plays until every node's model is within 1e-6 of the gap at
the start. Ours takes its steps as it finds them; the others get the best of a grid, found beforehand and not timed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from installing import Installed
from numpy.typing import NDArray
from player import Players
from turns import PeerFailed, Play, Row, Spent, figures, in_turns

sys.path.append(str(Path(__file__).resolve().parents[1] / "train"))
from bare import products
from instances import Instance, instance

from equipoise.train import Exact, LogQuantizer, Method, Problem, solve

Floats = NDArray[np.float64]
Step = Callable[[Any, Callable[[Floats], Floats], float], Iterator[Floats]]

TARGET = 1e-6  # of the gap at the start
PARAMETERS = 4
STEPS, PARTS = (0.6, 0.95), (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)  # of the mixing; of the descent, in 1 / max L
MOST_ROUNDS, LOOK_EVERY = 5000, 2
PATIENCE = 45.0  # wall seconds of a contestant, after which it sits out
LEAST_SECONDS = 0.05  # of a turn: shorter runs are repeated within it
OURS, BARE = "equipoise, 10-bit messages", "bare NumPy script"
CENTRAL = "CVXPY (Clarabel), all data in one place"
DENSE = 2000  # centres: tvopt keeps a dense matrix, and disropt a process for each


@dataclass(frozen=True)
class Sizes:
    """Centres to be tried, and those at which slow peers still play."""

    centres: tuple[int, ...]
    tvopt: int  # at most
    disropt: int


FULL = Sizes((20, 100, 1000, 10_000), tvopt=1000, disropt=20)
QUICK = Sizes((3, 20, 100), tvopt=100, disropt=3)


def tracking(W: Any, gradient: Callable[[Floats], Floats], rate: float, Y: Floats) -> Iterator[Floats]:
    """y+ = W y - rate z; z+ = W z + grad(y+) - grad(y): the bare script's and disropt's round."""
    G = gradient(Y)
    Z = G.copy()
    while True:
        Y = W @ Y - rate * Z
        new = gradient(Y)
        Z, G = W @ Z + new - G, new
        yield Y


def augmented(W: Any, gradient: Callable[[Floats], Floats], rate: float, Y: Floats) -> Iterator[Floats]:
    """z = W (z + grad(y) - grad(y-)); y+ = W (y - rate z): tvopt's round."""
    G = gradient(Y)
    Z = G
    Y = W @ (Y - rate * Z)
    while True:
        yield Y
        new = gradient(Y)
        Z, G = W @ (Z + new - G), new
        Y = W @ (Y - rate * Z)


@dataclass(frozen=True)
class Tuned:
    """The fewest rounds to the target over the grid, and with what."""

    rounds: int
    step: float
    rate: float


class Scale:
    """The gap of models, as a part of that at the start."""

    def __init__(self, drawn: Instance) -> None:
        self.model = drawn.model
        self.best = self.model.total(self.model.optimum())[0]
        self.first = self.model.total(np.zeros(self.model.size))[0] - self.best

    def gap(self, Y: Floats) -> float:
        return float((self.model.totals(Y) - self.best).max() / self.first)


def tuned(drawn: Instance, scale: Scale, equation: Callable[..., Iterator[Floats]]) -> Tuned:
    """A peer at its best here."""
    H, s, L = drawn.hessians, drawn.slopes, float(drawn.model.smoothness().max())
    best = Tuned(MOST_ROUNDS, STEPS[0], PARTS[0] / L)
    for step in STEPS:
        W: Any = drawn.mixing_matrices(step)[0]
        for part in PARTS:
            rounds = equation(W, lambda Y: products["matmul"](H, Y) - s, part / L, np.zeros_like(s))
            with np.errstate(all="ignore"):  # a step too large diverges, and is out
                for k, Y in enumerate(rounds, 1):
                    if k >= best.rounds or not np.isfinite(Y[0, 0]):
                        break
                    if k % LOOK_EVERY == 0 and scale.gap(Y) <= TARGET:
                        best = Tuned(k, step, part / L)
                        break
    return best


class BothClocks:
    """solve reads its clock at its start, before the first round and at its end: here CPU time is kept as well."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def perf_counter(self) -> float:
        self.cpu.append(time.process_time())
        return time.perf_counter()


@contextmanager
def both_clocks() -> Iterator[BothClocks]:
    module: Any = sys.modules["equipoise.train.solve"]
    clocks = BothClocks()
    module.time = clocks
    try:
        yield clocks
    finally:
        module.time = time


def our_turn(problem: Problem, drawn: Instance, method: Method, rounds: int, starts: list[float]) -> Spent:
    """Runs to the target; only their rounds count, and what comes before them goes to `starts`."""
    wall = cpu = 0.0
    times = 0
    while cpu < LEAST_SECONDS:
        with both_clocks() as clocks:
            run = solve(problem, drawn.network, method, rounds=rounds, every=rounds)
        wall += run.seconds - run.start_seconds
        cpu += clocks.cpu[-1] - clocks.cpu[1]
        starts.append(run.start_seconds)
        times += 1
    return Spent(wall, cpu, times)


def measure(n: int, sizes: Sizes, peers: dict[str, Installed], players: Players, turns: int) -> list[Row]:
    """All contestants on one network."""
    drawn = instance(n, PARAMETERS)
    scale, problem = Scale(drawn), Problem(model=drawn.model)
    rounds: dict[str, int] = {}
    gaps: dict[str, float] = {}
    starts: dict[str, list[float]] = {}
    plays: dict[str, Play] = {}
    absent: dict[str, str] = {}

    def ours(who: str, quantizer: Exact | LogQuantizer) -> None:
        method = Method(quantizer=quantizer)
        run = solve(problem, drawn.network, method, rounds=MOST_ROUNDS, every=1, target=TARGET)
        assert run.models is not None
        rounds[who], gaps[who], starts[who] = run.rounds, scale.gap(run.models), []
        plays[who] = lambda: our_turn(problem, drawn, method, run.rounds, starts[who])

    ours(OURS, LogQuantizer(rho=0.125, mode="innovation"))
    ours("equipoise, exact messages", Exact())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def theirs(
            who: str, script: str, best: Tuned | None, *, processes: int = 0, again: bool = False, **more: Any
        ) -> None:
            file, answer = folder / f"{len(plays)}.npz", folder / f"{len(plays)}.npy"
            rounds[who] = best.rounds if best else 0
            np.savez(file, **_arrays(drawn, best, n <= DENSE))
            peer = players.of(script, processes, ours=who == BARE)
            request = {"file": str(file), "answer": str(answer), "rounds": rounds[who], **more}
            times = 1
            try:
                first = peer.ask(**request, times=1)  # loads, compiles, fills caches
                if again:
                    first = peer.ask(**request, times=1)
                    times = max(1, int(LEAST_SECONDS / max(first["cpu"], 1e-6)))
            except PeerFailed as failed:
                absent[who] = f"failed: {failed}"
                return
            gaps[who], starts[who] = scale.gap(np.load(answer)), []

            def play() -> Spent:
                said = peer.ask(**request, times=times)
                starts[who].append(said["start"])
                return Spent(said["wall"], said["cpu"], times)

            plays[who] = play

        plain = tuned(drawn, scale, tracking)
        theirs(BARE, "bare_rounds.py", plain, again=True)
        for package, who, most in (("tvopt", "tvopt", sizes.tvopt), ("disropt", "disropt (MPI)", sizes.disropt)):
            if peers[package].version is None:
                absent[who] = f"not installed: {peers[package].reason}"
            elif n <= most and package == "tvopt":
                theirs(who, "tvopt_rounds.py", tuned(drawn, scale, augmented))
            elif n <= most:
                theirs(who, "disropt_rounds.py", plain, processes=n)
        if peers["cvxpy"].version is None:
            absent[CENTRAL] = f"not installed: {peers['cvxpy'].reason}"
        else:
            theirs(CENTRAL, "cvxpy_model.py", None)
        spent = in_turns(plays, turns, absent, PATIENCE)
    work, unit = f"least squares, {n:,} centres, {PARAMETERS} parameters", f"runs to {TARGET:g}"
    rows = [_row(work, n, unit, who, spent, rounds, gaps[who], starts[who]) for who in spent]
    return rows + [Row("train", work, n, who, False, unit, check=reason) for who, reason in absent.items()]


def _arrays(drawn: Instance, best: Tuned | None, dense: bool) -> dict[str, Any]:
    """What a player needs of an instance."""
    if best is None:
        return {"X": drawn.X, "t": drawn.t}
    W: Any = drawn.mixing_matrices(best.step)[0]
    mixing = {"W": W.toarray()} if dense else {}
    sparse = {"data": W.data, "indices": W.indices, "indptr": W.indptr}
    return {**mixing, **sparse, "H": drawn.hessians, "s": drawn.slopes, "rate": best.rate}


def _row(
    work: str,
    n: int,
    unit: str,
    who: str,
    spent: dict[str, list[Spent]],
    rounds: dict[str, int],
    gap: float,
    starts: list[float],
) -> Row:
    found = figures(spent, who, OURS)
    more: dict[str, Any] = {
        "rounds": rounds[who] or None,
        "ms_cpu": 1e3 / found["rate_cpu"],
        "ms_wall": 1e3 / found["rate_wall"],
        "start_ms": 1e3 * float(np.median(starts)),
        "gap": gap,
    }
    if rounds[who]:
        more["rounds_per_cpu_second"] = rounds[who] * found["rate_cpu"]
        more["rounds_per_second"] = rounds[who] * found["rate_wall"]
        more["rounds_faster_cpu"] = found["faster_cpu"] * rounds[OURS] / rounds[who]
    check = f"gap {gap:.1e} of the start's" + ("" if abs(gap) <= TARGET else f", not {TARGET:g}: not the same work")
    return Row(
        "train",
        work,
        n,
        who,
        who.startswith("equipoise"),
        unit,
        same=abs(gap) <= TARGET,
        check=check,
        more=more,
        **found,
    )


def rows(peers: dict[str, Installed], players: Players, turns: int, quick: bool) -> Iterator[Row]:
    sizes = QUICK if quick else FULL
    for n in sizes.centres:
        yield from measure(n, sizes, peers, players, turns)
