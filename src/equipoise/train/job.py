"""What a spec builds: a job that runs, and measures beside the run what the spec asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.baselines._track import Entrant
from equipoise.train.comparison import MethodComparison, compare
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.run import HostileRun
from equipoise.train.instances import Instances
from equipoise.train.method import Method
from equipoise.train.models import LeastSquares
from equipoise.train.network import Network
from equipoise.train.own_data import OwnData
from equipoise.train.prediction import scores_of
from equipoise.train.problem import Problem
from equipoise.train.run import DEFAULT_TARGET, Run, message_of
from equipoise.train.scores import HeldOut
from equipoise.train.solve import Engine, Moment, solve
from equipoise.train.spec import CompareSpec, TrainSpec
from equipoise.train.studies import Study, alpha_study, density_study, rho_study
from equipoise.train.theory import analysis as theory
from equipoise.train.theory.analysis import Analysis
from equipoise.train.theory.predict import DENSE_STATE

if TYPE_CHECKING:
    from equipoise.document import Plain, Row
    from equipoise.train.deep.rivals import Plan
    from equipoise.train.models.torch_model import TorchModel

# Called with what is counted ("round", "seed", "way"), how many are done and how many there are, and a note. True stops
# the rounds.
Progress = Callable[[str, int, int, str], bool | None]
WAYS = {
    "tracking": "gradient tracking (ours)",
    "decentralised": "decentralised SGD",
    "local": "local steps and a server",
    "centralised": "centralised SGD",
}


@dataclass(frozen=True, eq=False, repr=False)
class TrainJob:
    """A TrainSpec made real; `run()` plays it. `test` are held-out samples and answers."""

    spec: TrainSpec
    problem: Problem
    network: Network
    method: Method
    test: tuple[Floats, AnyArray] | None
    rounds: int
    faults: Faults | None = None
    batch: int | None = None
    start: str | ArrayLike = "zeros"
    studied: str = ""  # the model of the coupling study
    rival: Method | None = None  # plays the same problem beside the run
    own: OwnData | None = None  # of own files: what their centres agreed on
    held_out: HeldOut | None = None  # `test`, with the answer that knows nothing

    def __repr__(self) -> str:
        return f"<TrainJob: {self.rounds:,} rounds of {self.problem!r} on {self.network!r}>"

    def run(
        self,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
        engine: Engine | None = None,
    ) -> Run:
        """Play the rounds, score the models on held-out data, and measure what else the spec asks for.

        Parameters
        ----------
        progress
            Called after each round with ("round", done, total, note), and while allocations or rivals are compared.
            It returns True to stop the rounds.
        checkpoint
            File that keeps the run, so that it can go on after an interruption.
        resume
            File to go on from.
        engine
            Where rounds are played, such as `equipoise.engine.Workers(4)`; in this process unless given.
        """
        where = {"checkpoint": checkpoint, "resume": resume, "engine": engine}
        run = self._play(self.method, "round", progress, **where)
        run = replace(run, own=self.own, held_out=self.held_out)
        beside = {} if run.status == "stopped" else self._scores(run) | self._table(run) | self._beside(run, progress)
        report = getattr(engine, "report", None)  # an engine of one's own may have none
        played = {} if report is None else {"engine": report()}
        rows: list[Row] = []
        if self.rival is not None and run.status != "stopped":
            other = self._play(self.rival, "beside", progress)
            beside, rows = beside | {"beside_run": self._told(other)}, other.history_rows()
        return replace(
            run, beside=played | beside, beside_history=rows, spec=self.spec, own=self.own, held_out=self.held_out
        )

    def analyse(self, *, sweep: bool = False) -> Analysis:
        """What theory says of this job before it is run.

        Parameters
        ----------
        sweep
            Whether to add the eigenvalues over alpha, to past where they cross; for small problems only.
        """
        spec, parts = self.spec, (self.problem, self.network, self.method)
        if sweep:
            self._refuse_large_sweep()
        return replace(
            theory.analyse(*parts, target=spec.target or DEFAULT_TARGET),
            description=self.network.description,
            node_residual=theory.relative_residual(*parts),
            swept=theory.sweep(*parts) if sweep else None,
            spec=spec,
        )

    def _refuse_large_sweep(self) -> None:
        """Before anything is computed: what a sweep cannot do, and the largest network that it can."""
        model, nodes = self.problem.model, self.network.n
        if model is None:
            raise InputError("--sweep needs a model: it varies alpha, the step of learning", code="problem.model")
        most = DENSE_STATE // model.size
        if nodes > most:
            way_out = f"at most {most} nodes with {model.size:,} parameters, not {nodes:,}"
            if most < 2:
                way_out = f"no network with {model.size:,} parameters; --data breast_cancer has 62 and allows 4 nodes"
            raise InputError(f"--sweep takes nodes x parameters up to {DENSE_STATE}: {way_out}")

    def _play(self, method: Method, unit: str, progress: Progress | None, **where: Any) -> Run:
        """The rounds of this job by a method; `where` they are kept and played."""
        spec = self.spec
        kind = "gap" if self.problem.model is None or self.problem.model.convex else "loss, or gap,"

        def show(moment: Moment) -> bool:
            note = f"{kind} {moment.relative_gap:.1e}"
            return bool(progress and progress(unit, moment.number, moment.rounds, note))

        return solve(
            self.problem,
            self.network,
            method,
            rounds=self.rounds,
            seed=spec.seed,
            target=spec.target,
            patience=spec.patience,
            every=spec.every,
            budgets=spec.budgets,
            callback=None if progress is None else show,
            start=self.start,
            batch=self.batch,
            faults=self.faults,
            **where,
        )

    def _told(self, other: Run) -> dict[str, Plain]:
        """What the run beside came to, as plain numbers."""
        summary = other.summary()
        kept = ("status", "reason", "rounds", "gap", "relative_gap", "bits", "bits_for")
        return {
            "name": self.spec.beside,
            **{key: summary[key] for key in kept},
            "dynamics": other.dynamics(),
            "message": message_of(other.method, other.network, other.problem),
            "passed": other.certificate().passed,
        }

    def _scores(self, run: Run) -> dict[str, Plain]:
        """On held-out data, every node's own model (None for those who are gone) beside the centralised one's: accuracy,
        or root mean square error."""
        model = run.problem.model
        if model is None or run.models is None:
            return {}
        if not model.convex:
            return {} if run.status == "diverged" else self._net_scores(run.models)
        if self.test is None or run.model_optimum is None:
            return {}
        there = run.present.tolist() if isinstance(run, HostileRun) else [True] * len(run.models)
        name, score, worst = "accuracy", model.accuracy, min
        if isinstance(model, LeastSquares):
            name, score, worst = "test_error", model.error, max
        found = [score(y, *self.test) for y in (*run.models, run.model_optimum.parameters)]
        if None in found:
            return {}
        own = [value if here else None for value, here in zip(found[:-1], there, strict=True)]
        return {name: {"nodes": own, "worst": worst(v for v in own if v is not None), "centralised": found[-1]}}

    def _table(self, run: Run) -> dict[str, Plain]:
        """How useful models are, beside the answer that knows nothing."""
        scores = [] if run.status == "diverged" else run.held_out_scores()
        if self.held_out is None or not scores or run.problem.model is None:
            return {}
        best, names = run.model_optimum, () if self.own is None else self.own.schema.classes
        central = None if best is None else scores_of(run.problem.model, best.parameters, self.held_out.X)
        return {"scores": self.held_out.table(scores, central, names)}

    def _net_scores(self, models: Floats) -> dict[str, Plain]:
        """Each centre's own net: its loss on everybody's data and its accuracy on held-out data."""
        losses, right = self._own(models)
        found: dict[str, Plain] = {"losses": {"nodes": [*losses], "worst": max(losses)}}
        if right:
            found["accuracy"] = {"nodes": [*right], "worst": min(right)}
        return found

    def _own(self, models: Floats) -> tuple[list[float], list[float]]:
        """Loss of each centre's own net on everybody's data, and its accuracy where there is held-out data."""
        model, test = self._net(), self.test
        losses: list[float] = model.totals(np.ascontiguousarray(models)).tolist()
        return losses, [] if test is None else [model.accuracy(y, *test) or 0.0 for y in models]

    def _net(self) -> TorchModel:
        return cast("TorchModel", self.problem.model)

    def _beside(self, run: Run, progress: Progress | None) -> dict[str, Plain]:
        """What was asked for besides the run: other ways to divide the CPU, other ways to train the net."""
        if self.spec.couple:
            return {"allocations": self._allocations(progress)}
        if self.spec.rivals and run.models is not None and run.status != "diverged":
            return {"rivals": self._rivals(run, progress)}
        return {}

    def _allocations(self, progress: Progress | None) -> dict[str, Plain]:
        """CPU-seconds to the target accuracy for each allocation, over the seeds, with standard errors: of unequal
        centres, and of equal ones, where little can be gained."""
        from equipoise.train.coupling.study import SETTINGS, study

        seeds = range(self.spec.seed, self.spec.seed + self.spec.seeds)
        done, total = 0, 2 * len(seeds)

        def show(note: str) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress("seed", done, total, note)

        if progress is not None:
            progress("seed", 0, total, "")
        found: dict[str, Plain] = {"seeds": list(seeds), "target": SETTINGS[self.studied].target}
        for key, equal in (("rows", False), ("rows_of_equal_centres", True)):
            rows = study(self.studied, seeds, equal, progress=show)
            found[key] = [row.as_dict() for row in sorted(rows, key=lambda row: row.mean)]
        return found

    def deep_plan(self, way: str) -> Plan:
        """As long and with as many samples as the run, at the rate that suits this way to train best."""
        from equipoise.train.deep.rivals import RATES, Plan

        spec = self.spec
        assert spec.batch is not None
        return Plan(self.rounds, spec.batch, RATES[spec.model][way], spec.fade, spec.seed)

    def _rivals(self, run: Run, progress: Progress | None) -> list[Plain]:
        """A row for every way to train the same net on the same batches, ours first; each at a rate tuned for it."""
        from equipoise.train.deep.rivals import WAYS as TRAIN_BY

        assert run.models is not None
        rows: list[Plain] = [self._rival_row("tracking", run.models, run.bits)]
        others = [name for name in TRAIN_BY if name != "tracking"]
        for k, name in enumerate(others):
            if progress is not None:
                progress("way", k, len(others), WAYS.get(name, name))
            outcome = TRAIN_BY[name](self._net(), self.network, self.deep_plan(name))
            rows.append(self._rival_row(name, outcome.models, outcome.bits))
        return rows

    def _rival_row(self, name: str, models: Floats, bits: int) -> dict[str, Plain]:
        losses, right = self._own(models)
        row: dict[str, Plain] = {"way": name, "label": WAYS.get(name, name), "worst_loss": max(losses), "bits": bits}
        if right:
            row |= {"accuracy": float(np.mean(right)), "worst_accuracy": min(right)}
        return row


@dataclass(frozen=True, eq=False, repr=False)
class CompareJob:
    """A CompareSpec made real: a family of instances and who plays them. `left_out` says who does not, and why."""

    spec: CompareSpec
    kind: Instances
    entrants: tuple[Entrant, ...]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        who = ", ".join(one.name for one in self.entrants) or f"study {self.spec.study}"
        return f"<CompareJob: {who}; {self.spec.seeds} instances>"

    def run(self, *, progress: Callable[..., None] | None = None) -> MethodComparison | Study:
        """Play everything. `progress` is called with (done, total) after each play."""
        spec, kind = self.spec, self.kind
        play: Callable[..., MethodComparison | Study] = partial(
            compare, kind, entrants=self.entrants, rounds=spec.rounds
        )
        if spec.study == "alpha":
            play = partial(alpha_study, kind, rho=spec.rho)
        elif spec.study == "rho":
            play = partial(rho_study, kind, rounds=spec.rounds)
        elif spec.study == "density":
            play = partial(density_study, kind, self.entrants, rounds=spec.rounds)
        found = play(seeds=spec.seeds, first_seed=spec.first_seed, progress=progress)
        return replace(found, target=spec.target, left_out=self.left_out, spec=spec)
