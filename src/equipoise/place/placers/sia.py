"""Sia (after Jayaram Subramanya et al., SOSP '23): each slot an integer program gives every job a width, or nothing.

Widths are 1, 2, 4, ... workers up to a machine, then whole machines. A width is good by its speed over the job's slowest;
what would be a restart counts less the more the job has been restarted for its age. Widths in all may hold no more than
the cluster; then the widest are seated first. From the artifact. It promises nothing, refuses nobody and
knows neither worth nor deadlines nor how much work is left: everybody has a little, long jobs as much as short ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from equipoise.errors import InputError, refuse_words
from equipoise.kernels import Floats, Int32s, Ints
from equipoise.linear_program import model_of, run as solve, solver_of
from equipoise.place.execution import Execution
from equipoise.place.placers._slotwise import WORKERS, Slotwise
from equipoise.place.planner.job_arrays import alone

POWER, IDLE = -0.5, 1.1  # p, and lambda_n: what a job without machines costs, more than any that has some (artifact)
GAP = 1e-4  # relative, of the integer program (artifact)


@dataclass(frozen=True)
class Sia:
    """Goodput by an integer program.

    Parameters
    ----------
    power
        p, below 0: a width costs (its speed over the slowest)^p.
    idle
        lambda_n: what a job without machines costs. Above 1 any width beats none.
    label
        What it is called.
    """

    power: float = POWER
    idle: float = IDLE
    label: str = "Sia"
    colour: ClassVar[str] = "#a21caf"
    rank: ClassVar[float] = 9.0
    named_only: ClassVar[bool] = True  # a program each slot takes its time

    def __post_init__(self) -> None:
        refuse_words("Sia", power=self.power, idle=self.idle)
        if not self.power < 0.0 < self.idle:
            raise InputError(
                f"Sia: power is {self.power!r}, idle {self.idle!r}; expected a power below 0 and an idle cost above it",
                code="sia.range",
            )

    def start(self, run: Execution, seed: int) -> SiaSession:
        return SiaSession(self, run)


class SiaSession(Slotwise):
    def __init__(self, policy: Sia, run: Execution) -> None:
        super().__init__(run)
        self.policy = policy
        self.restarts = np.zeros(len(run.jobs))
        self.begun = np.zeros(len(run.jobs), dtype=bool)
        every = [self._configurations(j) for j in range(len(run.jobs))]
        self.configurations = [[(kind, width) for kind, width, _ in found] for found in every]
        rates = [np.array([rate for _, _, rate in found]) for found in every]
        self.goodput = [rate / rate.min(initial=np.inf) for rate in rates]
        self.amounts = [self._amounts(j) for j in range(len(run.jobs))]
        self.ways = self.jobs.ways.copy()  # those of the type chosen are the table's

    def _configurations(self, j: int) -> list[tuple[int, int, float]]:
        """(type, workers, samples per slot): what is faster than all that is narrower on the type (its domain)."""
        arrays, found = self.run.arrays[j], list[tuple[int, int, float]]()
        for on in np.intersect1d(self.jobs.whole, arrays.taken).tolist():
            together, rates = alone(arrays, self.run.cluster, on)
            one, best = max(1, together), 0.0
            widths = [1 << k for k in range(one.bit_length()) if 1 << k < one]
            widths += [k * one for k in range(1, int(arrays.within[on].sum()) + 1) if k * one <= arrays.widest]
            for w in widths:
                if rates[w] > best:
                    best = float(rates[w])
                    found.append((on, w, best))
        return found

    def _amounts(self, j: int) -> Floats:
        """[configuration, type and resource] the milli-units that each holds."""
        arrays, types = self.run.arrays[j], np.unique(self.jobs.whole)
        out = np.zeros((len(self.configurations[j]), len(types), len(self.jobs.total)))
        for k, (on, width) in enumerate(self.configurations[j]):
            out[k, np.searchsorted(types, on)] = arrays.held(width)
        return out.reshape(len(out), len(types) * len(self.jobs.total))

    def seats(self, queue: Ints) -> Int32s:
        costs = [self._cost(int(j)) for j in queue]
        within, there = self.jobs.within, self.capacity
        total = [there[within[on]].sum(axis=0, dtype=float) for on in np.unique(self.jobs.whole)]
        room = np.maximum(np.concatenate(total), 1.0)  # of each type
        chosen = choose(costs, [self.amounts[j] / room for j in queue], self.policy.idle)
        widths = np.zeros_like(self.width)
        for j, k in zip(queue.tolist(), chosen.tolist(), strict=True):
            on, widths[j] = self.configurations[j][k] if k >= 0 else (-1, 0)
            self.jobs.ways[j] = np.where(self.jobs.whole[self.ways[j] // 2] == on, self.ways[j], -1)
            self.jobs.ways[j] = self.jobs.ways[j, np.argsort(self.jobs.ways[j] < 0, kind="stable")]
        order = queue[np.argsort(-widths[queue], kind="stable")]
        rows = self.undisturbed(order[: np.count_nonzero(widths)], widths=widths)
        for j in queue.tolist():
            now = rows[rows[:, 0] == j]
            self.restarts[j] += self.begun[j] and len(now) > 0 and not np.array_equal(now, self.held(j))
            self.begun[j] |= len(now) > 0
        return rows

    def _cost(self, j: int) -> Floats:
        """(r G)^p by configuration: r is 1 for the one it has, and for a job younger than a restart takes."""
        age, lost = float(self.run.now - self.run.arrival[j]), float(self.jobs.restart[j])
        good = self.goodput[j].copy()
        if age >= lost:
            held = self.held(j)
            has = [
                (on, int(held[:, WORKERS].sum()))
                for on in self.jobs.whole
                if len(held) and self.jobs.within[on, held[0, 1]]
            ]
            factor = max(age - self.restarts[j] * lost, 0.0) / (age + lost) if lost > 0.0 else 1.0
            good[[one not in has for one in self.configurations[j]]] *= factor
        with np.errstate(divide="ignore"):
            return np.asarray(good**self.policy.power)


def choose(costs: list[Floats], amounts: list[Floats], idle: float) -> Ints:
    """The configuration of each job (-1: none) at the least cost: that of those chosen, and `idle` for each job without.

    `amounts` are of each job, [configuration, resource], the part of the cluster it holds.
    """
    count = np.array([len(cost) for cost in costs])
    job, cost, amount = np.repeat(np.arange(len(costs)), count), np.concatenate(costs), np.concatenate(amounts)
    columns = np.flatnonzero(cost < idle)  # any other is worse than none
    picked = np.full(len(costs), -1)
    if not len(columns):
        return picked
    job, cost, amount = job[columns], cost[columns], amount[columns]
    one, every = np.ones(len(columns)), np.arange(len(columns))
    each = sparse.csc_matrix((one, (job, every)), shape=(len(costs), len(columns)))  # one configuration a job
    rows = sparse.vstack((each, amount.T), format="csc")
    limits = np.ones(rows.shape[0])
    solver = solver_of(model_of(cost - idle, one, rows, -np.inf, limits, one > 0.0), mip_rel_gap=GAP)
    solve(solver)
    taken = np.flatnonzero(np.asarray(solver.getSolution().col_value) > 0.5)
    first = np.cumsum(count) - count
    picked[job[taken]] = columns[taken] - first[job[taken]]
    return picked
