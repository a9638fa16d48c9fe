"""Negotiated shares against equal ones on real processes: CPU-seconds until the centres' models are good.

    python benchmarks/engine/shares.py            5 seeds, about 12 minutes on two cores; wants a quiet machine
    python benchmarks/engine/shares.py --quick    one seed, few rounds: half a minute

The study of benchmarks/train/coupling.py (softmax: 20 unequal centres, its target, its pace for each allocation), with one
worker process per centre. A budget of 100 CPUs stands for `--cpus` cores, and the limiter holds every worker to its part of
them: x_i / budget when shares are negotiated (sigma is learnt on the way), the same for all when they are equal; its batch
is what that buys. CPU-seconds are the kernel's, of all workers, until the mean test accuracy over centres first reaches the
target; looking at it is the coordinator's work and is not counted.

One machine has one speed. A slow centre is emulated by more work a sample: c / speed_i CPU-seconds of further passes of the
gradient's products (laborious.py), so many of them that a worker at its share fills a round of `--tau` seconds.
The number of passes is fixed beforehand; what they cost is measured, not set.

Paces were tuned on seeds 100-102 (train/coupling/study.py); seeds 20-24 were used for nothing before. Simulated and executed
runs draw the same samples and end in the same round with the same bits. Nominal CPU-seconds, as the study counts them, are
what was set aside, rounds x tau x budget; work is what the samples drawn should cost: a batch is a whole number of samples,
so a centre seldom spends all it has; executed is what was spent, with the engine's own work.

`--centres 8` has other best paces: of the study's grid 0.65 and 0.5 on seeds 100-103 (--coupled-cap 0.65 --equal-cap 0.5).
A run that never reaches the target counts as its whole length.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from dataclasses import dataclass, field, replace

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from laborious import Laborious, seconds_a_pass

from equipoise.engine.cpu_limit import Usage
from equipoise.engine.shards.keeper import Hold
from equipoise.engine.shards.restrict import partition
from equipoise.engine.shards.workers import Workers
from equipoise.train.arrays import Floats, Ints
from equipoise.train.coupling.instance import CENTRES, Instance, draw
from equipoise.train.coupling.study import LINK_CHANCE, RIVALS, SETTINGS, SMOOTHED, Pace, target_of
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.solve import Moment, solve

FIRST_SEED = 20  # 20 to 24: neither paces nor instances were chosen on them
NAMES = ("coupled", "equal")
IDLE_ROUNDS = 40  # of a run without work, which shows what the engine spends itself
QUICK_ROUNDS, QUICK_CENTRES = 20, 8
SETTING = SETTINGS["softmax"]

Tallies = tuple[Usage, ...]  # of each worker


@dataclass(frozen=True)
class Fixed(Hold):
    """Every worker is held to the same part of the cores throughout."""

    parts: dict[int, float] = field(default_factory=dict)

    def shares(self, units: dict[int, int], nodes: dict[int, int]) -> dict[int, float]:
        return {shard: self.cores * self.parts[shard] for shard in nodes}


@dataclass(frozen=True, eq=False)
class Outcome:
    """One run: when it got there, and what its workers spent until then."""

    rounds: int
    reached: bool
    works: Floats  # CPU-seconds that the samples drawn should cost, by centre; 0 where workers drew them
    looks: list[tuple[int, Tallies]]  # rounds, and what workers got until then, by centre
    models: Floats
    shares: Floats

    @property
    def work(self) -> float:
        return float(self.works.sum())

    @property
    def spent(self) -> float:
        """CPU-seconds of all workers."""
        return sum(each.cpu_seconds for each in self.looks[-1][1])

    @property
    def wall(self) -> float:
        return max(each.wall_seconds for each in self.looks[-1][1])

    def since_first(self, name: str) -> float:
        """A tally of all workers from the first look on: without the start."""
        return sum(getattr(last, name) - getattr(first, name) for first, last in self._window())

    @property
    def seconds(self) -> float:
        """From the first look on."""
        return self.since_first("wall_seconds") / max(1, len(self._window()))

    @property
    def asked(self) -> float:
        """Cores of all workers, in the mean."""
        return self.since_first("asked_cpu_seconds") / self.seconds

    @property
    def got(self) -> float:
        return self.since_first("cpu_seconds") / self.seconds

    @property
    def window_rounds(self) -> int:
        return self.looks[-1][0] - self.looks[0][0]

    def _window(self) -> list[tuple[Usage, Usage]]:
        return list(zip(self.looks[0][1], self.looks[-1][1], strict=True))


@dataclass(frozen=True)
class Trial:
    """How long rounds are and who may play them."""

    cpus: float
    tau: float  # seconds of a round on this machine
    limiter: str
    rounds: int
    centres: int
    pass_seconds: float = 0.0

    def draw(self, seed: int) -> Instance:
        return draw(SETTING.factory, seed, noise=SETTING.blur, n=self.centres, cpus=SETTING.cpus)

    def sample_seconds(self, instance: Instance) -> Floats:
        """CPU-seconds of a sample at each centre: a round of batches that use up all shares takes cpus x tau."""
        return np.asarray(self.tau * self.cpus / (instance.tau * instance.budget) / instance.speed)

    def passes(self, instance: Instance) -> Ints:
        return np.rint(self.sample_seconds(instance) / self.pass_seconds).astype(np.int64)


def trained(
    instance: Instance,
    name: str,
    pace: Pace,
    trial: Trial,
    target: float,
    *,
    passes: Ints | None = None,
    rounds: int | None = None,
) -> Outcome:
    """One run until the target: simulated in this process, or on workers that do so many passes a sample."""
    n, limit = len(instance.speed), trial.rounds if rounds is None else rounds
    network = Network.erdos_renyi(n, LINK_CHANCE, seed=instance.seed)
    cost = instance.cost() if name == "coupled" else None
    fixed = None if name == "coupled" else RIVALS[name](instance)
    batch = None if fixed is None else instance.cost(np.ones(n)).batches(fixed)
    costs, works = trial.sample_seconds(instance), np.zeros(n)
    worker = partition(network, n)
    scores: list[float] = []
    looks: list[tuple[int, Tallies]] = []
    model: Laborious | None = None
    engine: Workers | None = None
    if passes is not None:
        model = Laborious(instance.model, passes)  # type: ignore[arg-type]
        hold = Hold(trial.cpus, trial.limiter)
        if fixed is not None:
            parts = dict(zip(worker.tolist(), (fixed / fixed.sum()).tolist(), strict=True))
            hold = Fixed(trial.cpus, trial.limiter, parts)
        engine = Workers(n, hold=hold)

    def look(moment: Moment) -> bool:
        if engine is None:
            works[:] += moment.state.learning.sampler.batch * costs
        if moment.number % SETTING.every and moment.number < limit:
            return False
        usage = {} if engine is None else engine.usage()
        looks.append((moment.number, tuple(usage[int(shard)] for shard in worker) if usage else ()))
        models = moment.state.models
        scores.append(
            float(np.mean([instance.model.accuracy(y, instance.X_test, instance.y_test) or 0.0 for y in models]))
        )
        last = scores[-SMOOTHED:]
        return sum(last) / len(last) >= target

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as the study does: a pace past its limit
            run = solve(
                Problem(model=model or instance.model)
                if cost is None
                else Problem(cost=cost, budget=instance.budget, model=model or instance.model),
                network,
                pace.method(instance),
                rounds=limit,
                every=limit,
                seed=instance.seed,
                start=instance.start,
                batch=batch,
                callback=look,
                engine=engine,
            )
    finally:
        if engine is not None:
            engine.close()
    last = scores[-SMOOTHED:]
    shares = run.shares if fixed is None else fixed
    assert run.models is not None and shares is not None
    return Outcome(run.rounds, sum(last) / len(last) >= target, works, looks, run.models, shares)


def main() -> int:
    given = arguments()
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else SETTING.rounds)
    seeds = range(given.first_seed, given.first_seed + (1 if given.quick else given.seeds))
    centres = given.centres or (QUICK_CENTRES if given.quick else CENTRES)
    trial = Trial(given.cpus, given.tau, given.limiter, rounds, centres)
    began = time.monotonic()
    first = trial.draw(seeds[0])
    trial = replace(trial, pass_seconds=seconds_a_pass(first.model))  # type: ignore[arg-type]
    paces = {
        name: SETTING.paces[name] if cap is None else Pace(cap=cap)
        for name, cap in (("coupled", given.coupled_cap), ("equal", given.equal_cap))
    }
    per_sample = 1e3 * trial.tau * trial.cpus / (first.tau * first.budget)
    print(
        f"{trial.centres} centres, one process each, {trial.cpus:g} cores for all, rounds of {trial.tau:g} s; a pass costs "
        f"{1e6 * trial.pass_seconds:.0f} us of CPU,\na sample {per_sample:.2f} ms / speed; "
        + ", ".join(f"{name} at cap {pace.cap:g}" for name, pace in paces.items())
    )
    idle = {name: engine_alone(first, name, paces[name], trial) for name in NAMES}
    for name, (cpu, wall) in idle.items():
        print(
            f"engine without work, {name}: {1e3 * cpu:.1f} ms of CPU a round in all workers "
            f"({cpu / (trial.tau * trial.cpus):.1%} of a round's), {1e3 * wall:.0f} ms per round"
        )
    print(f"\n{'':>14}{'':>8}{'CPU-seconds':>25}{'own ms /':>10}{'spent /':>8}{'seconds':>17}{'cores':>13}")
    print(
        f"{'seed':>5}{'':>9}{'rounds':>8}{'nominal':>9}{'work':>8}{'spent':>8}{'round':>10}{'work':>8}{'all':>8}"
        f"{'a round':>9}{'asked':>7}{'got':>6}{'short':>7}  bits"
    )
    rows: list[dict[str, tuple[Outcome, Outcome]]] = []
    for number, seed in enumerate(seeds):
        instance = trial.draw(seed)
        target = target_of(instance, SETTING.target)
        row: dict[str, tuple[Outcome, Outcome]] = {}
        for name in NAMES if number % 2 == 0 else NAMES[::-1]:  # who comes first changes: machines drift
            foretold = trained(instance, name, paces[name], trial, target)
            passes = trial.passes(instance)
            row[name] = foretold, trained(instance, name, paces[name], trial, target, passes=passes)
            print(line(seed, name, *row[name], trial), flush=True)
        rows.append(row)
        print(
            f"{seed:>5} {'coupled / equal':<17}"
            + ", ".join(f"{kind} {value:.3f}" for kind, value in ratios(row).items())
        )
    summary(rows)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, {time.monotonic() - began:.0f} s in all")
    return 0 if all(same_bits(*pair) for row in rows for pair in row.values()) else 1


def engine_alone(instance: Instance, name: str, pace: Pace, trial: Trial) -> tuple[float, float]:
    """CPU-seconds of all workers and seconds of a round in which a sample costs no more than its gradient."""
    nothing = np.zeros(len(instance.speed), dtype=np.int64)
    run = trained(instance, name, pace, trial, math.inf, passes=nothing, rounds=IDLE_ROUNDS)
    return run.since_first("cpu_seconds") / run.window_rounds, run.seconds / run.window_rounds


def same_bits(one: Outcome, other: Outcome) -> bool:
    """Whether simulated and executed ended with the same models and shares."""
    return (
        one.rounds == other.rounds
        and np.array_equal(one.models, other.models)
        and np.array_equal(one.shares, other.shares)
    )


def fitted(foretold: Outcome, run: Outcome) -> tuple[float, float]:
    """What a worker spends in a round whatever it draws, ms, and CPU-seconds for each that its samples should cost: the
    straight line through its CPU-seconds over all workers, in parts of their size."""
    spent = np.array([each.cpu_seconds for each in run.looks[-1][1]])
    sides = np.stack([np.full(len(spent), run.rounds), foretold.works], axis=1) / spent[:, None]
    (engine, slope), *_ = np.linalg.lstsq(sides, np.ones(len(spent)))
    return 1e3 * float(engine), float(slope)


def line(seed: int, name: str, foretold: Outcome, run: Outcome, trial: Trial) -> str:
    nominal = run.rounds * trial.tau * trial.cpus
    short = 1.0 - run.got / run.asked
    engine, slope = fitted(foretold, run)
    return (
        f"{seed:>5}{name:>9}{run.rounds:>8}{nominal:>9.1f}{foretold.work:>8.1f}{run.spent:>8.1f}"
        f"{engine:>10.1f}{slope:>8.2f}"
        f"{run.wall:>8.1f}{run.wall / run.rounds:>9.3f}{run.asked:>7.2f}{run.got:>6.2f}{short:>7.0%}  "
        f"{'same' if same_bits(foretold, run) else 'DIFFER'}{'' if run.reached else '  target not reached'}"
    )


def ratios(row: dict[str, tuple[Outcome, Outcome]]) -> dict[str, float]:
    """Coupled over equal: as the study counts, as samples cost, as spent, and by the clock."""
    (said, ours), (other, theirs) = row["coupled"], row["equal"]
    return {
        "nominal": said.rounds / other.rounds,
        "work": said.work / other.work,
        "executed": ours.spent / theirs.spent,
        "wall": ours.wall / theirs.wall,
    }


def summary(rows: list[dict[str, tuple[Outcome, Outcome]]]) -> None:
    print(f"\ncoupled / equal over {len(rows)} seeds: mean, sd, standard error, least to most")
    for kind in ratios(rows[0]):
        each = np.array([ratios(row)[kind] for row in rows])
        sd = each.std(ddof=1) if len(each) > 1 else math.nan
        error, ends = sd / math.sqrt(len(each)), f"{each.min():.3f} to {each.max():.3f}"
        print(f"{kind:>10} {each.mean():.3f}  sd {sd:.3f}  se {error:.3f}  {ends}")
    missed = {name: sum(not row[name][1].reached for row in rows) for name in NAMES}
    if any(missed.values()):
        print(f"not reached: {missed}; a run that never got there counts as its whole length")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help=f"one seed, {QUICK_ROUNDS} rounds, {QUICK_CENTRES} centres"
    )
    parser.add_argument("--seeds", type=int, default=5, help="how many (5)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help=f"({FIRST_SEED})")
    parser.add_argument("--centres", type=int, help="and workers (20, as in the study; 8 for --quick)")
    parser.add_argument("--cpus", type=float, default=1.6, help="cores for all workers (1.6)")
    parser.add_argument("--tau", type=float, default=0.4, help="seconds of a round (0.4)")
    parser.add_argument("--rounds", type=int, help="at most (the study's)")
    parser.add_argument("--limiter", default="auto", help="auto, systemd, cgroup2, cgroup1, stop, none")
    parser.add_argument("--coupled-cap", type=float, help="another pace than the study's")
    parser.add_argument("--equal-cap", type=float, help="another pace than the study's")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
