"""Plain ways to train the same model on the same batches: the loops that gradient tracking is held against.

A rate is the step along the gradient of the mean loss over all data; a centre's own gradient of g_i counts n-fold, so that
one rate means the same to all. Batches are those of `Sampler`: the same seed, round and node draw the same samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from equipoise.errors import InputError
from equipoise.train.arrays import Floats
from equipoise.train.dynamics.mixing import mix
from equipoise.train.exchange.rows import NO_CODER, Meter, Site, Voice
from equipoise.train.method import AUTO_STEP, Method, ramped
from equipoise.train.models.torch_model import TorchModel
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.run import Run
from equipoise.train.sampler import Sampler
from equipoise.train.solve import solve
from equipoise.train.steps import choose_steps, known_smoothness

LOCAL_STEPS = 5
MOMENTUM = 0.9  # of tracking: less lets shards that differ pull their centres apart, more lags behind
RISE = 0.2  # part of all rounds in which rates rise
FLOAT32 = 32  # bits of a parameter as a server sends it
# The most accurate rates tried on seed 100, `python benchmarks/train/deep.py [--model cnn] --tune WAY --rates R --seeds 100`
# (MNIST by label, 20 centres, 4 passes, batches of 8, Network.erdos_renyi(20, 0.3, seed=0), rates that rise and fall; mlp
# of 32 ReLUs). mlp: tracking 1.2 alone (0.8 with 64 ReLUs); centralised 0.8, 1.2, 1.6; local 0.4, 1.2; decentralised 0.05,
# 0.2, so its best may lie above. cnn: tracking and centralised 0.4, 0.8, as may theirs; the others' are not tuned.
RATES: dict[str, dict[str, float]] = {
    "mlp": {"tracking": 1.2, "decentralised": 0.2, "local": 0.4, "centralised": 1.2},
    "cnn": {"tracking": 0.8, "decentralised": 0.2, "local": 0.4, "centralised": 0.8},
}


@dataclass(frozen=True)
class Plan:
    """How long, with how many samples per centre and round, and how fast at most.

    The rate rises evenly in the first `rise` of all rounds and falls evenly to a fiftieth in the rest; None: it stays. With
    `fade` it has halved after so many rounds instead.
    """

    rounds: int
    batch: int
    rate: float
    fade: float | None = None
    seed: int = 0
    rise: float | None = RISE

    def __post_init__(self) -> None:
        if self.rise is not None and not 0 < self.rise < 1:
            raise InputError(
                f"rise must be a part of all rounds, between 0 and 1, not {self.rise!r}", code="rise.range"
            )

    @property
    def ramp(self) -> tuple[float, float] | None:
        """In rounds: where the rate is highest, and where it ends."""
        return None if self.rise is None or self.fade is not None else (self.rise * self.rounds, float(self.rounds))

    def rate_at(self, number: int) -> float:
        if self.ramp is not None:
            return self.rate * ramped(number, *self.ramp)
        return self.rate if self.fade is None else self.rate / (1.0 + number / self.fade)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Every centre's model at the end, what was sent for it, and the run where there was one."""

    models: Floats
    bits: int
    seconds: float
    run: Run | None = None


def tracking(model: TorchModel, network: Network, plan: Plan, method: Method | None = None) -> Outcome:
    """Ours: gradient tracking over quantised messages, by `solve`; alpha / (n (1 - cap)) is the plan's rate. A rate that
    fades takes the paper's form along edges, which alone knows `fade`."""
    run = solve(
        Problem(model=model),
        network,
        tracking_method(model, network, plan, method),
        rounds=plan.rounds,
        every=plan.rounds,
        seed=plan.seed,
        batch=plan.batch,
        start=model.start(plan.seed),
    )
    assert run.models is not None
    return Outcome(run.models, run.bits, run.seconds, run)


def tracking_method(model: TorchModel, network: Network, plan: Plan, method: Method | None = None) -> Method:
    """The method whose models on average descend at the plan's rate."""
    method = Method() if method is None else method
    if plan.fade is not None:
        step = AUTO_STEP / method.sector
        return replace(method, step=step, alpha=plan.rate * model.nodes / step, fade=plan.fade)
    alpha = choose_steps(None, model, known_smoothness(model), network, method).alpha
    assert alpha is not None
    return replace(
        method,
        cap=MOMENTUM,
        descent=(1.0 - MOMENTUM) * model.nodes * plan.rate / alpha * method.descent,
        ramp=plan.ramp,
    )


def centralised(model: TorchModel, network: Network, plan: Plan) -> Outcome:
    """y <- y - rate sum_i g_i(y): one machine that has all data. What the others are to reach; it sends nothing."""
    began, sampler, y = time.perf_counter(), Sampler(model, plan.batch, plan.seed), model.start(plan.seed)
    assert sampler.batch is not None
    for number in range(plan.rounds):
        y = y - plan.rate_at(number) * model.pooled(y, sampler.rows(number, sampler.batch))
    return Outcome(np.tile(y, (model.nodes, 1)), 0, time.perf_counter() - began)


def decentralised(model: TorchModel, network: Network, plan: Plan, method: Method | None = None) -> Outcome:
    """y_i <- sum_j w_ij y_j - rate n g_i(y_i), models told by the same codes; no trackers, so half the bits of ours.

    Bad at shards that differ: where the sum of gradients is zero, each centre's own is not.
    """
    began, method = time.perf_counter(), Method() if method is None else method
    site, sampler = Site(network), Sampler(model, plan.batch, plan.seed)
    voice, meter = Voice(site, method.quantizer, model.size), Meter(site)
    Y, rule = np.tile(model.start(plan.seed), (model.nodes, 1)), (1.0 / method.sector, False)
    for number in range(plan.rounds):
        gradients = sampler.at(Y, number)
        voice.say(Y, number)
        meter.add(number, voice.bits(number))
        weights = site.weights(number, method.model_weights)
        mix(site.near(number), site.own, voice.at(number), weights, rule, NO_CODER, voice.tally, Y)
        Y -= plan.rate_at(number) * model.nodes * gradients
    return Outcome(Y, meter.total, time.perf_counter() - began)


def local_averaging(model: TorchModel, network: Network, plan: Plan) -> Outcome:
    """Every centre takes 5 steps of its own, then a server averages all models exactly (FedAvg): no links, float32 up and
    down. Bad at shards that differ: in between, models drift to their own optima."""
    began, sampler = time.perf_counter(), Sampler(model, plan.batch, plan.seed)
    Y, bits = np.tile(model.start(plan.seed), (model.nodes, 1)), 0
    for number in range(plan.rounds):
        Y = Y - plan.rate_at(number) * model.nodes * sampler.at(Y, number)
        if (number + 1) % LOCAL_STEPS == 0 or number + 1 == plan.rounds:
            Y[:] = Y.mean(axis=0)
            bits += 2 * FLOAT32 * Y.size
    return Outcome(Y, bits, time.perf_counter() - began)


WAYS: dict[str, Callable[[TorchModel, Network, Plan], Outcome]] = {
    "tracking": tracking,
    "decentralised": decentralised,
    "local": local_averaging,
    "centralised": centralised,
}
