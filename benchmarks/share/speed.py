"""How fast is the engine under each policy? Task-steps per second on one core, beside SimPy under Uniform.

    .venv/bin/pip install -e '.[dev]'
    .venv/bin/python benchmarks/share/speed.py            # about a minute
    .venv/bin/python benchmarks/share/speed.py --profile  # also: where our time goes, and which batch is fastest

A task-step is one task in one step: seeds x tasks x horizon, the same for everyone, at 60 tasks of the preset "described".
SimPy runs DescribedUniform (benchmarks/peers/players/simpy_site.py); it draws no noise and fits no curve. Its completions
must equal ours, task by task, or nothing is measured. Tasks are drawn beforehand for all. Ours includes the noise of every
observed error for policies that look at errors, and the fits of those that fit. Kernels are compiled before; contestants
take turns, so that a busy machine slows all of them; times are processor times of this one thread; the ratio is the
median over the turns. Targets: the authors' policies and those described 15 x SimPy, Hybrid 3 x, a policy in plain
NumPy 4 x.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

PEERS = Path(__file__).resolve().parents[1] / "peers"
sys.path += [str(PEERS), str(PEERS / "players")]
from numpy_policies import in_order  # noqa: E402
from simpy_site import simulate_with_simpy  # noqa: E402

from equipoise.share import (  # noqa: E402
    Decision,
    Policy,
    View,
    Workload,
    policies,
    simulate,
    step as engine,
)
from equipoise.share.simulate import play  # noqa: E402
from equipoise.share.view import name_of  # noqa: E402
from equipoise.share.workload import Batch  # noqa: E402

TASKS, SIMPY_SEEDS = 60, 40
TARGETS = {"authors": 15.0, "described": 15.0, "ours": 3.0, "NumPy": 4.0}
DESCRIBED = ("DescribedUniform", "DescribedLARA", "DescribedUARA", "DescribedUARA+LARA")


def contestants() -> list[tuple[Policy, str]]:
    """Policies, and whose they are."""
    return [
        *((kind(), "authors") for kind in policies.PUBLISHED),
        *((policies.named(name), "described") for name in DESCRIBED),
        (policies.Hybrid(), "ours"),
        (ShortestFirst(), "NumPy"),
    ]


@dataclass(frozen=True)
class ShortestFirst:
    """What a user writes who knows NumPy and nothing of us: least data, then least computed, goes first."""

    def decide(self, view: View) -> Decision:
        return Decision(
            bandwidth=in_order(view.data_left, view.sending, view.data_left, view.bandwidth),
            compute=in_order(view.samples, view.computing, view.task_cap, view.capacity),
        )


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def with_simpy(batch: Batch, *, lean: bool = False) -> tuple[list[list[int]], list[float]]:
    """DescribedUniform on the described site."""
    return simulate_with_simpy(vars(batch), batch.horizon, "Uniform", lean=lean)


def refuse_different_answers(workload: Workload) -> None:
    """SimPy and we must tell the same story, or the comparison means nothing."""
    batch = workload.draw(TASKS, SIMPY_SEEDS)
    ours = simulate(policies.DescribedUniform(), workload, load=TASKS, seeds=SIMPY_SEEDS)
    for lean in (False, True):
        done, energy = with_simpy(batch, lean=lean)
        if not np.array_equal(done, ours.done_at) or not np.allclose(energy, ours.energy):
            raise SystemExit("SimPy and the engine do not agree: nothing to compare")
    print(f"the same completions and energy as SimPy: {SIMPY_SEEDS} seeds, {int(ours.successes.sum())} successes\n")


def compare(workload: Workload, seeds: int, turns: int) -> None:
    batch = workload.draw(TASKS, SIMPY_SEEDS)
    many, site, ours = workload.draw(TASKS, seeds), workload.site, contestants()
    rates: dict[str, list[float]] = {}

    def turn(name: str, size: int, work: Callable[[], object]) -> None:
        rates.setdefault(name, []).append(size * TASKS * workload.horizon / seconds(work))

    for _ in range(turns):
        turn("SimPy", SIMPY_SEEDS, lambda: with_simpy(batch))
        turn("SimPy (lean)", SIMPY_SEEDS, lambda: with_simpy(batch, lean=True))
        for policy, _ in ours:
            turn(name_of(policy), seeds, partial(play, policy, many, site, workload.prior))

    print(f"{'':20}{'task-steps/s':>14}{'x SimPy':>10}{'x lean':>9}{'target':>9}")
    for name, kind in [("SimPy", ""), ("SimPy (lean)", ""), *((name_of(p), kind) for p, kind in ours)]:
        over, lean = (
            statistics.median(a / b for a, b in zip(rates[name], rates[base], strict=True))
            for base in ("SimPy", "SimPy (lean)")
        )
        target = f"{TARGETS[kind]:>7.0f} {'+' if over >= TARGETS[kind] else '-'}" if kind else ""
        print(f"{name:20}{statistics.median(rates[name]):>14.3g}{over:>10.1f}{lean:>9.1f}{target:>9}")


def profile(workload: Workload) -> None:
    """Nanoseconds a task-step in every part of the loop, and speed against batch size."""
    spent: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            answer = function(*arguments, **named)
            spent[name] = spent.get(name, 0.0) + time.process_time() - start
            return answer

        return call

    class Timed:
        def __init__(self, policy: Policy) -> None:
            self.policy = policy

        def decide(self, view: View) -> Decision:
            raise AssertionError("a run starts it first")

        def start(self, scene: Any) -> Any:
            inner = self.policy.start(scene) if hasattr(self.policy, "start") else self.policy
            self.decide = timed("decide", inner.decide)
            return self

    parts = ("close_step",)  # which opens the next step too
    kept = {name: getattr(engine, name) for name in parts}
    site = workload.site
    for ours, _ in contestants():
        for seeds in (25, 50, 100, 200, 400, 1000):
            spent.clear()
            for name in parts:
                setattr(engine, name, timed(name, kept[name]))
            batch = timed("draw", workload.draw)(TASKS, seeds, site)
            policy: Any = Timed(ours)
            whole = seconds(partial(play, policy, batch, site, workload.prior)) + spent["draw"]
            for name in parts:
                setattr(engine, name, kept[name])
            size = seeds * TASKS * workload.horizon
            shown = "  ".join(f"{name} {value / size * 1e9:.1f}" for name, value in sorted(spent.items()))
            print(f"{name_of(ours):20}{seeds:>6} seeds {size / whole:>10.3g}/s {whole / size * 1e9:>7.1f} ns:  {shown}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=200, help="seeds in a batch of ours (200)")
    options.add_argument("--turns", type=int, default=9, help="turns of every contestant (9)")
    options.add_argument("--profile", action="store_true", help="where the time goes")
    given = options.parse_args()
    paper = Workload.described()
    for contestant, _ in contestants():
        simulate(contestant, paper, load=TASKS, seeds=2)  # compile
    refuse_different_answers(paper)
    compare(paper, given.seeds, given.turns)
    if given.profile:
        profile(paper)
