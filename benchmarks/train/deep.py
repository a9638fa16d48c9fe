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
import os
from pathlib import Path

import torch

from equipoise import data
from equipoise.train import Network
from equipoise.train.deep import NETS, RATES, WAYS, Row, compare_deep, net, tune_rate
from equipoise.train.deep.rivals import RISE
from equipoise.train.deep.study import GRID
from equipoise.train.models.torch_model import TorchModel

CENTRES = 20
QUICK = 6000  # samples


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
    plan = {"passes": passes, "batch": given.batch, "rise": None if given.even else RISE}
    for seed in seeds:
        if given.tune:
            for rate in given.rates:
                show(
                    tune_rate(given.tune, model, network, mnist.X_test, mnist.y_test, seed=seed, grid=[rate], **plan)[0]
                )
            continue
        found = []
        for way in given.ways.split(","):
            rows = compare_deep(
                model, network, mnist.X_test, mnist.y_test, rates=RATES[given.model], seed=seed, ways=[way], **plan
            )
            show(rows[0])
            found += rows
        best = [row for row in found if row.way == "centralised"]
        ours = [row for row in found if row.way == "tracking"]
        if best and ours:
            print(f"{'':27} tracking's worst centre against centralised: {100 * (ours[0].worst - best[0].worst):+.2f}")


if __name__ == "__main__":
    main()
