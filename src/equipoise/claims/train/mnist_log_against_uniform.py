"""Softmax on MNIST: what is left with log and with uniform codes of the same bits, as rho grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_most, claim
from equipoise.data import Dataset, digits, mnist, split
from equipoise.data.split import stratified
from equipoise.present.figures import Axis, Figure, Series
from equipoise.train import LogQuantizer, Method, Network, Problem, Run, Softmax, UniformQuantizer, solve
from equipoise.train.quantize import Quantizer

REACHES = (1.0, 4.0, 16.0)  # largest levels that the uniform code may choose among: it gets its best
RIDGE = 1.0  # strong enough for the paper's steps to arrive in the rounds that are played
DESCENT = 0.5  # alpha in units of 1/L
LESS = 0.9  # times: what counts as a smaller residual
KINDS = {"uniform": "uniform, same bits", "log": "log, node by node", "ours": "ours"}
EXACT = 1e-6  # a gap that is none
SIDE = 28  # pixels of an MNIST image; means of 2 x 2 of them are taken (quick: 4 x 4), so that steps arrive in time


@dataclass(frozen=True)
class Row:
    """What is left at one rho: gaps of the worst centre's own model, in nats."""

    rho: float
    log: float
    uniform: float
    ours: float


def _data(scale: Scale) -> tuple[Dataset, str]:
    if scale.mnist is None:
        return digits(), "scikit-learn's digits (MNIST was not found)"
    return mnist(scale.mnist), "MNIST in means of pixels"


def _model(data: Dataset, samples: int, nodes: int, shrink: int) -> Softmax:
    """Label-sorted shards of a stratified part, images shrunk by means of blocks."""
    rows = stratified(data.y, samples, 0)
    X, y = data.X[rows], data.y[rows]
    if X.shape[1] == SIDE * SIDE and shrink > 1:
        small = SIDE // shrink
        X = X.reshape(-1, small, shrink, small, shrink).mean((2, 4)).reshape(len(X), -1)
    return Softmax(split(X, y, nodes, "label"), classes=data.classes, reg=RIDGE)


@claim(
    "On MNIST log-scale quantisation leaves a smaller residual than uniform quantisation, at every coarseness rho.",
    source="arXiv 2510.25176",
    effort=400.0,
)
def measure(scale: Scale) -> Measured:
    rhos = scale.pick((0.125, 1.0), (0.05, 0.125, 0.25, 0.5, 1.0))
    nodes, rounds, samples = scale.pick(10, 20), scale.pick(200, 300), scale.pick(600, 3000)
    data, name = _data(scale)
    samples = min(samples, len(data.y))
    model = _model(data, samples, nodes, scale.pick(4, 2))
    network = Network.erdos_renyi(nodes, 0.4, switching=5, seed=0)
    alpha = DESCENT / float(model.smoothness().max())

    def left(quantizer: Quantizer | None, rho: float = 0.125) -> float:
        method = (
            Method(quantizer=LogQuantizer(rho))
            if quantizer is None
            else Method(quantizer=quantizer, momentum=False, alpha=alpha)
        )
        return _gap(solve(Problem(model=model), network, method, rounds=rounds, every=rounds // 20))

    rows = []
    for rho in rhos:
        log = LogQuantizer(rho, mode="node")
        uniform = min(left(UniformQuantizer(bits=log.bits, largest=reach)) for reach in REACHES)
        rows.append(Row(rho, left(log), uniform, left(None, rho)))
    against, innovations = "gap left by the log code against the uniform one", max(row.ours for row in rows)
    findings = [
        Finding(against, row.log / max(row.uniform, 1e-15), at_most(LESS), "times", when=f"rho = {row.rho:g}")
        for row in rows
    ]
    worst = f"worst of {len(rhos)} values of rho"
    ours = Finding(
        "largest gap left by innovations, ours", innovations, at_most(EXACT), "nats", over=worst, about="ours"
    )
    figure = Figure(
        "What quantisation leaves",
        x=Axis("rho", log=True),
        y=Axis("gap of the worst centre's model, nats", log=True),
        series=[Series(label, rhos, [max(getattr(row, kind), 1e-15) for row in rows]) for kind, label in KINDS.items()],
        caption="The log code leaves less than the uniform one at every rho, and more the coarser it is.",
    )
    return Measured(
        protocol=f"Softmax on {samples:,} images of {name}, sorted by label over {nodes} centres on five graphs "
        f"in turn; the paper's gradient tracking, {rounds} rounds. Gaps of the worst centre's own model against Newton on "
        f"the pooled data (median of the last quarter). The uniform code has the same bits and the best of {len(REACHES)} "
        "ranges.",
        findings=[*findings, ours],
        figures=(figure,),
    )


def _gap(run: Run) -> float:
    gaps = run.history["gap"]
    return float(np.median(np.abs(gaps[-len(gaps) // 4 :])))
