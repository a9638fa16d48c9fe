"""Models where every message arrives and links return: relaxed ADMM in summed form, one row of codes per node and round.

    say    w_i y_i, one row of codes for all neighbours;   rho_ij = w_i w_j
    hear   a_i = D y_i - w_i sum_j w_j y_j;   V_i -= relax a_i;   S_i = (1 - 2 relax) S_i + 2 relax (D y_i - a_i / 2)
           y_i = argmin g_i(y) + D |y|^2 / 2 - (V_i + S_i) y

No link keeps state. T graphs in turn have a table of messages and an S each. Least squares answers exactly, by a matrix
that each node makes once; any other model by a few steps of its own gradient, which cost no messages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equipoise.kernels import Floats, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import MANTISSA, bits_per_number, first_floor, mantissa_bits
from equipoise.train.dynamics._layout import Layout
from equipoise.train.dynamics._packets import ModelRows
from equipoise.train.dynamics._sum_kernels import (
    STRAIGHT,
    Pulls,
    Table,
    answer_all,
    finite_rows,
    gather,
    look_ahead,
    player,
    say_codes,
    say_plain,
    step_down,
)
from equipoise.train.exchange.rows import Round
from equipoise.train.models._base import Model
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.quantize import FLOAT_BITS, Quantizer
from equipoise.train.sampler import Sampler

RELAX = 0.8
STIFF = 0.55  # of L: curvature of a single gradient step; half of L is the least that is stable
USUAL, SLOW = (
    0.5,
    0.13,
)  # theta = D / L where nothing is known of the model: at least; over the root of the network's gap
IN_TURN = 1.5  # times theta where graphs take turns
WORST = 1e4  # conditioning that theta follows at most
MATRIX_COLUMNS = 128  # up to which least squares keeps a matrix per node


def choose_theta(gap: float, L: float, model: Model, graphs: int) -> float:
    """D / L: how hard neighbours pull, as a part of the steepest curvature.

    About 1 / sqrt(conditioning x gap) is best: measured on least squares, conditioning 1e2 to 1e4, on rings, grids and
    random graphs. Where no ridge tells the conditioning, it is what a well-conditioned model wants.
    """
    usual = max(USUAL, SLOW / math.sqrt(max(gap, 1e-12)))
    turns = 1.0 if graphs == 1 else IN_TURN
    flattest = model.convexity or model.flattest
    if not flattest > 0:
        return usual
    conditioning = min(WORST, max(1.0, model.nodes * L / flattest))
    return min(usual, turns / math.sqrt(conditioning * max(gap, 1e-12)))


def conditioning_root(step: float, total: float) -> float:
    """Root of the conditioning of an answer: how many steps of its gradient with momentum it takes, roughly."""
    return math.sqrt((step + total) / total)


class Summed:
    """The learning half of the nodes of a layout."""

    needs = frozenset({"symmetric", "reliable", "repeating"})
    exchanges = 1

    def __init__(
        self,
        layout: Layout,
        sampler: Sampler,
        quantizer: Quantizer,
        L: float,
        theta: float,
        start: Floats,
        pace: tuple[int, float, float] | None = None,
    ) -> None:
        """The sampler's model and `start`, the first models, are those of the nodes that live here, in their order; `pace`
        are local steps, their momentum and curvature in the whole network, where this is a part of it."""
        model = sampler.model
        self.L, self.theta = L, theta
        self.layout, self.sampler, self.model, self.mantissa = layout, sampler, model, mantissa_bits(quantizer)
        self.played = np.zeros(layout.graphs, dtype=np.int64)  # rounds, per graph
        graphs, own, rows, m = layout.graphs, layout.own, layout.rows, model.size
        contacts = np.asarray(np.bincount(layout.table.senders, sum(map(np.int64, layout.table.turns)), layout.table.n))
        weight = np.sqrt(theta * L / np.maximum(contacts, 1.0))[layout.nodes]
        around = np.zeros((graphs, own))
        for t, links in enumerate(layout.paths.links):
            around[t] = np.bincount(layout.paths.owner[t, :links], weight[layout.paths.node[t, :links]], own)
        place = np.empty(own, dtype=np.int64)
        place[layout.by_node] = np.arange(own)
        zeros = np.zeros((own, m))
        self.pulls = Pulls(start[place], zeros, np.zeros((graphs, own, m)), zeros.copy(), weight, around, RELAX)
        codes = np.zeros((own if rows > own else 0, m), dtype=np.int32)
        self.table = Table(np.zeros((graphs, rows, m)), np.zeros((graphs, rows), dtype=np.int64), codes, self.mantissa)
        self.pull, self.total = np.zeros((own, m)), weight[:own] * around.sum(axis=0)  # D
        self.matrix: Floats | None = None
        if (type(model) is LeastSquares or model.quadratic) and m <= MATRIX_COLUMNS:  # a subclass may differ
            squares: Any = model
            H, eye = squares.hessian[place], np.eye(m)
            self.matrix, self.slope = np.linalg.inv(H + self.total[:, None, None] * eye), squares.slope[place]
        self.pace = pace or self._pace(L)
        self.local_steps, self.momentum, self.step = self.pace
        self.last, self.place = self.pulls.models.copy(), place

    def _pace(self, L: float) -> tuple[int, float, float]:
        """Steps of the own gradient in a round, their momentum, and the curvature that they reckon with."""
        least = float(self.total.min(initial=np.inf))
        if self.matrix is not None or round(conditioning_root(STIFF * L, least)) == 1:
            return 1, 0.0, STIFF * L
        root = conditioning_root(L, least)  # with momentum half of L is too little
        return round(root), (root - 1.0) / (root + 1.0), L

    # a round

    def play(self, number: int) -> Round:
        """One round; False when models are no numbers."""
        self.say(number)
        if self.layout.rows > self.layout.own:
            yield (ModelRows(self),)
        return self.hear(number)

    def say(self, number: int) -> None:
        """Own models become codes."""
        t = number % self.layout.graphs
        if number < self.layout.graphs or self.mantissa == MANTISSA:
            say_plain(self.table, self.pulls, t)
        else:
            say_codes(self.table, self.pulls, t)
        self.played[t] += 1

    def hear(self, number: int) -> bool:
        """What was heard becomes models; False when they are no numbers."""
        t, models = number % self.layout.graphs, self.pulls.models
        gather(self.layout.paths, self.table, self.pulls, t, number < self.layout.graphs, self.pull)
        if self.matrix is not None:
            answer_all(self.matrix, self.slope, self.pull, models)
        else:
            self._descend()
        return finite_rows(models)

    def _descend(self) -> None:
        """Steps of the own gradient towards the answer, with the momentum that its conditioning bears."""
        models = self.pulls.models
        ahead = np.empty((len(models), self.model.size))  # by node, as the model has them
        for _ in range(self.local_steps):
            look_ahead(models, self.last, self.momentum, self.place, ahead)
            with np.errstate(all="ignore"):
                gradient = np.ascontiguousarray(self.model.gradients(ahead))
            step_down(models, self.last, self.place, ahead, gradient, self.pull, self.total, self.step)

    def burst(self, number: int, count: int) -> int:
        """`count` rounds of least squares in compiled code; how many were played before models were no numbers."""
        assert self.matrix is not None
        # Whatever wraps least squares comes in many sizes, each for a few runs: not worth compiling each of them.
        columns = self.model.size if type(self.model) is LeastSquares else STRAIGHT + 1
        play = player(columns, self.layout.graphs == 1)
        done = play(self.layout.paths, self.table, self.pulls, self.matrix, self.slope, number, count)
        rounds = np.arange(number, number + min(done + 1, count)) % self.layout.graphs
        self.played += np.bincount(rounds, minlength=self.layout.graphs)
        return done

    # what others look at

    def believed(self, number: int) -> Floats:
        """What neighbours in this round's graph believe of own rows."""
        return np.asarray(self.table.said[number % self.layout.graphs, : self.layout.own])

    def plain(self, number: int) -> bool:
        """Whether numbers are told as they are in this round."""
        return number < self.layout.graphs or self.mantissa == MANTISSA

    @property
    def code_bits(self) -> int:
        """Bits of one code."""
        return bits_per_number(self.mantissa)

    def set_first_floors(self, t: int, rows: Ints) -> None:
        """After numbers that came as they are."""
        for row in rows:
            self.table.floors[t, row] = first_floor(self.table.said[t, row], self.mantissa)

    @property
    def models(self) -> Floats:
        """Parameters, by node."""
        return np.asarray(self.pulls.models[self.layout.by_node])

    def link_bits(self) -> Ints:
        """Bits sent over each link that leaves a node here."""
        total = np.zeros(len(self.layout.links), dtype=np.int64)
        for t, entries in enumerate(self.layout.entry_links):
            rounds = int(self.played[t])
            bits = ((rounds - 1) * bits_per_number(self.mantissa) + FLOAT_BITS) * self.model.size if rounds else 0
            total += self.layout.spread_links(t, np.full(len(entries), bits))
        return total

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep, by node."""
        layout, own, pulls = self.layout, self.layout.own, self.pulls
        kept = {name: getattr(pulls, name) for name in self.NODE} | {"last": self.last}
        kept = {f"node/{name}": layout.keep(array, axis=-2) for name, array in kept.items()}
        kept["said/said"] = layout.keep(self.table.said[:, :own], axis=-2)
        return kept | {"said/floors": layout.keep(self.table.floors[:, :own]), "played": self.played}

    NODE = ("models", "flow", "mean", "mean_sum")

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint of the whole network."""
        layout = self.layout
        for name in self.NODE:
            getattr(self.pulls, name)[:] = layout.take(memory[f"node/{name}"], axis=-2)
        self.last[:] = layout.take(memory["node/last"], axis=-2)
        self.table.said[:] = layout.take(memory["said/said"], axis=-2, ghosts=True)
        self.table.floors[:] = layout.take(memory["said/floors"], ghosts=True)
        self.played = memory["played"].copy()
