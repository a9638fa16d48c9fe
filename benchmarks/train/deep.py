"""A net on label-sorted MNIST over 20 centres: gradient tracking against plain ways to train the same net.

    python benchmarks/train/deep.py [--quick] [--model mlp|cnn] [--passes 4] [--seeds 0,1,2] [--ways tracking,centralised]
    python benchmarks/train/deep.py --tune tracking --rates 0.4,0.8,1.2 --seeds 100

Data: EQUIPOISE_DATA, or ../shared/data beside the repository. Rates rise over the first fifth of all rounds and fall after
it, alike for all ways (--even: they stay); they are tuned on seed 100 and reported on 0, 1, 2. Printed by

    python benchmarks/train/deep.py --ways tracking,centralised

    way               rate  seed   worst    mean     loss        MB
    tracking           1.2     0   96.62   96.64   0.0912      8624
    centralised        1.2     0   96.90   96.90   0.0871         0
    tracking           1.2     1   96.90   96.92   0.0924      8624
    centralised        1.2     1   96.81   96.81   0.0911         0
    tracking           1.2     2   96.54   96.56   0.0931      8624
    centralised        1.2     2   96.46   96.46   0.0924         0

with --model cnn

    tracking           0.8     0   97.98   98.00   0.0606      3820
    centralised        0.8     0   98.30   98.30   0.0399         0
    tracking           0.8     1   98.35   98.36   0.0408      3820
    centralised        0.8     1   98.37   98.37   0.0396         0
    tracking           0.8     2   98.24   98.27   0.0526      3820
    centralised        0.8     2   98.51   98.51   0.0370         0

with --ways local,decentralised --seeds 0

    local              0.4     0   92.70   92.70   0.2592      1222
    decentralised      0.2     0   88.49   89.81   0.3927      4312

and on seed 100 by --tune, the better of the rates tried (0.4 and 1.2; 0.05 and 0.2):

    local              0.4   100   92.61   92.61   0.2596      1222
    decentralised      0.2   100   89.21   89.96   0.3858      4312
    tracking           1.2   100   96.74   96.75   0.0926      8624
    centralised        1.2   100   96.73   96.73   0.0931         0
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from equipoise import data
from equipoise.train import Network
from equipoise.train.book import worst_loss
from equipoise.train.deep import NETS, RATES, WAYS, Plan, net
from equipoise.train.deep.rivals import RISE
from equipoise.train.models.torch_model import TorchModel

CENTRES = 20
QUICK = 6000  # samples
GRID = (0.0125, 0.05, 0.2, 0.4, 0.8, 1.2, 1.6)  # rates to tune over


@dataclass(frozen=True)
class Row:
    """How one way of training ended."""

    way: str
    rate: float
    seed: int
    worst: float  # test accuracy of the worst centre's model
    mean: float  # over the centres
    loss: float  # the worst centre's, on all training data
    megabytes: float  # sent over all links
    seconds: float
    certified: bool | None  # of ours; rivals have no certificate


def rounds_of(model: TorchModel, passes: float, batch: int) -> int:
    """Rounds in which `passes` times as many samples are drawn as there are."""
    return max(1, round(passes * model.samples / (model.nodes * batch)))


def played(way: str, model: TorchModel, network: Network, dataset: data.Dataset, plan: Plan) -> Row:
    """One way, by this plan; every way has the same start and the same batches."""
    outcome = WAYS[way](model, network, plan)
    Y, run = outcome.models, outcome.run
    scores, loss = [0.0], math.inf
    if np.isfinite(Y).all():
        Y = Y if np.ptp(Y, axis=0).any() else Y[:1]  # one model for all: scored once
        scores = [float(model.accuracy(y, dataset.X_test, dataset.y_test) or 0.0) for y in Y]
        loss = worst_loss(model, Y) if run is None else float(run.history["loss"][-1])
    certified = None if run is None else run.certificate().passed
    sent = outcome.bits / 8e6, outcome.seconds
    return Row(way, plan.rate, plan.seed, min(scores), float(np.mean(scores)), loss, *sent, certified)


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def show(row: Row) -> None:
    print(
        f"{row.way:14} {row.rate:7g} {row.seed:5d} {100 * row.worst:7.2f} {100 * row.mean:7.2f} {row.loss:8.4f} "
        f"{row.megabytes:9.0f} {row.seconds:8.1f}  {'' if row.certified is None else row.certified}",
        flush=True,
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help=f"{QUICK} samples, seed 0 and 2 passes unless given")
    ask.add_argument("--model", choices=NETS, default="mlp")
    ask.add_argument("--hidden", type=int, default=32, help="ReLUs of the mlp")
    ask.add_argument("--passes", type=float)
    ask.add_argument("--batch", type=int, default=8, help="samples per centre and round")
    ask.add_argument("--even", action="store_true", help="rates that neither rise nor fall")
    ask.add_argument("--seeds", type=numbers)
    ask.add_argument("--ways", default=",".join(WAYS))
    ask.add_argument("--rates", type=numbers, default=list(GRID))
    ask.add_argument("--tune", choices=list(WAYS), help="play one way at every rate instead")
    given = ask.parse_args()
    passes = given.passes or (2.0 if given.quick else 4.0)
    seeds = [int(s) for s in given.seeds or ([0.0] if given.quick else [0.0, 1.0, 2.0])]
    torch.set_num_threads(1)  # nets this small are slower on more

    folder = Path(os.environ.get("EQUIPOISE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    mnist = data.load("mnist", folder=folder / "mnist")
    X, y = (mnist.X[:QUICK], mnist.y[:QUICK]) if given.quick else (mnist.X, mnist.y)
    model = TorchModel(net(given.model, X.shape[1], mnist.classes, given.hidden), data.split(X, y, CENTRES, "label"))
    network = Network.erdos_renyi(CENTRES, 0.3, seed=0)
    print(
        f"{given.model}, {model.size} parameters; {len(X)} samples by label over {CENTRES} centres; {passes:g} passes"
    )
    print("way               rate  seed   worst    mean     loss        MB  seconds  certified")
    rounds, rise = rounds_of(model, passes, given.batch), None if given.even else RISE
    tried = [(way, RATES[given.model][way]) for way in given.ways.split(",")]
    for seed in seeds:
        found = []
        for way, rate in [(given.tune, rate) for rate in given.rates] if given.tune else tried:
            plan = Plan(rounds, given.batch, rate, seed=seed, rise=rise)
            found.append(played(way, model, network, mnist, plan))
            show(found[-1])
        best = [row for row in found if row.way == "centralised"]
        ours = [row for row in found if row.way == "tracking"]
        if best and ours:
            print(f"{'':27} tracking's worst centre against centralised: {100 * (ours[0].worst - best[0].worst):+.2f}")


if __name__ == "__main__":
    main()
