"""The authors' own run, to the digit: their generator, their order of runs, and the table that they printed.

Hasan and Peña, "Robustness–Efficiency Trade-offs in Learning-Aware Distributed Scheduling". One generator with seed 42
draws everything and is never seeded again: an opening test of the five policies, then the loads 10 to 60. Every run draws
its own tasks, so that no two policies in the paper's table met the same ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from equipoise.certificate import Certificate, Check
from equipoise.document import Document, Row, look_of
from equipoise.result import Result
from equipoise.share import policies
from equipoise.share.plain import Draws, Plain, Played, Streams
from equipoise.share.simulate import fresh
from equipoise.share.site import Site
from equipoise.share.step import empty_view, rules
from equipoise.share.task import COMPUTING, PENDING, SENDING
from equipoise.share.view import Policy, Prior, name_of
from equipoise.share.workload import Batch, Workload

SEED = 42
OPENING, OPENING_STEPS = 10, 80  # tasks and horizon of the opening test
LOADS = (10, 20, 30, 40, 50, 60)
PUBLISHED_LOAD = 60  # of Table 1


class Published(NamedTuple):
    """A row of the paper's Table 1, as it is printed."""

    success: float  # percent of 60 tasks
    latency: float  # steps, mean over successes
    energy: float
    efficiency: float  # success percent per energy


DIGITS = Published(1, 1, 0, 4)  # of each column in print
PUBLISHED_TABLE = {
    "Uniform": Published(50.0, 27.4, 1852.0, 0.0270),
    "SDF": Published(48.3, 32.6, 3080.0, 0.0157),
    "LARA": Published(30.0, 29.0, 2485.0, 0.0121),
    "UARA": Published(46.7, 28.5, 1940.0, 0.0241),
    "UARA+LARA": Published(33.3, 32.2, 1101.0, 0.0303),
}
LAST_DRAW = 0.550892860405  # what the generator would give next, at the end


@dataclass(frozen=True)
class PublishedRun(Result):
    """What the authors' sequence gives here: a row for each load and policy, the opening test first."""

    rows: list[Row]
    next_draw: float  # that the generator would give at the end

    @property
    def beside(self) -> list[Row]:
        """Table 1 cell by cell: policy, column, the paper's number, ours, and whether they print alike."""
        ours = {row["policy"]: row for row in self.rows if row["load"] == PUBLISHED_LOAD}
        found = []
        for name, column in product(PUBLISHED_TABLE, DIGITS._fields):
            paper, value = getattr(PUBLISHED_TABLE[name], column), ours[name][column]
            same = round(value, getattr(DIGITS, column)) == paper
            found.append({"policy": name, "column": column, "paper": paper, "ours": value, "same": same})
        return found

    def certificate(self) -> Certificate:
        """Every printed cell, and the generator after the last draw."""
        wrong, apart = sum(not cell["same"] for cell in self.beside), abs(self.next_draw - LAST_DRAW)
        cells = f"cells of the paper's Table 1, of {len(self.beside)}, that differ"
        draw = "difference of the generator's next draw from the one after the authors' own run"
        return Certificate((Check.at_most("table-1", wrong, 0, cells), Check.at_most("generator", apart, 1e-11, draw)))

    def document(self, *, certify: bool = True) -> Document:
        result = {"rows": self.rows, "table": self.beside, "next_draw": self.next_draw}
        certificate, given = self.certificate() if certify else None, {"seed": SEED, "loads": list(LOADS)}
        looks = {name: look_of(policies.named(name)) for name in PUBLISHED_TABLE}
        return Document("share published", result, certificate, given, {"history": self.rows}, looks=looks)


def published_run(
    progress: Callable[[int, int], None] | None = None, players: Sequence[Policy] | None = None
) -> PublishedRun:
    """Play the opening test and the six loads as the authors' code did; some seconds.

    Parameters
    ----------
    progress
        Called with runs done and runs in all.
    players
        The five policies; those of the authors if None.
    """
    generator, rows, workload = RandomState(SEED), list[Row](), Workload.authors()
    players = [kind() for kind in policies.PUBLISHED] if players is None else players
    runs = [(0, OPENING, OPENING_STEPS), *((n, n, 60 + 2 * n) for n in LOADS)]
    for (told, load, horizon), policy in product(runs, players):
        batch = workload.but(horizon=horizon, horizon_per_task=0).draw_from(generator, load)
        played = play_plainly(policy, batch, workload.site, workload.prior, Streams(generator, generator))
        row: Row = {"policy": name_of(policy), "load": told}
        row |= {column: getattr(played, column) for column in Published._fields}
        row["network"] = 100.0 * played.sent / (workload.site.bandwidth * horizon)
        rows.append(row | {"next_draw": _peek(generator)})
        if progress is not None:
            progress(len(rows), len(runs) * len(players))
    return PublishedRun(rows, _peek(generator))


def _peek(generator: RandomState) -> float:
    """What it would give next; a copy is asked."""
    copy = RandomState()
    copy.set_state(generator.get_state())
    return float(copy.random_sample())


def play_plainly(policy: Policy, batch: Batch, site: Site, prior: Prior, draws: Draws) -> Played:
    """The first seed of a batch under a policy, step by step; errors are seen of all who are ready."""
    plain, decider = Plain(batch, 0, site, draws), fresh(policy, batch.rows(0, 1), site, prior)
    nothing = empty_view((1, batch.shape[1]), rules(site))
    for step in range(batch.horizon):
        plain.open(step)
        if not any(SENDING <= state <= COMPUTING for state in plain.state):
            continue
        decision = decider.decide(nothing._replace(step=step, **_shown(plain)))
        compute, bandwidth = np.asarray(decision.compute)[0].tolist(), np.asarray(decision.bandwidth)[0].tolist()
        ranks = np.arange(len(compute)) if decision.order is None else np.asarray(decision.order)[0]
        plain.close(step, compute, bandwidth, np.argsort(ranks, kind="stable").tolist())
    return plain.played


def _shown(plain: Plain) -> dict[str, Any]:
    """What the policy is shown of the tasks of one seed."""
    here = np.array(plain.state) != PENDING
    data = np.where(here, plain.of["data"], 0.0)
    looks = np.array(plain.looks)
    columns = {"state": np.array(plain.state, np.int8), "observed": np.array(plain.state) == COMPUTING}
    columns |= {name: np.where(here, plain.of[name], 0) for name in ("arrival", "deadline")}
    columns |= {"data": data, "data_left": np.maximum(data - plain.sent, 0.0)}
    columns |= {"target": np.where(here, plain.of["target"], 1.0), "samples": np.array(plain.samples)}
    columns |= {"error": np.array(plain.errors), "first_error": np.array(plain.firsts), "ready": np.array(plain.ready)}
    columns["observations"] = np.where(looks > 0, looks + 1, 0)
    columns["task_cap"] = np.where(here, plain.cap, plain.site.most_per_task)
    return {name: values[None] for name, values in columns.items()}
