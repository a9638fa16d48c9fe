"""What `equipoise train` does once its settings are known: run with progress, write the folder, print the tables."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from equipoise.cli import train_tables as tables
from equipoise.cli.output import metered
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.cli.train_build import Job, build
from equipoise.cli.train_config import PLACES, TrainConfig
from equipoise.cli.train_engine import check_engine, engine_of, told
from equipoise.cli.train_faults import flag
from equipoise.errors import InputError
from equipoise.train.hostile.run import HostileRun
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.run import Run
from equipoise.train.solve import Moment, solve

CHECKPOINT = "checkpoint.npz"


def run_train(config: TrainConfig, out: Path, resume: Path | None, *, quiet: bool) -> bool:
    """One run from settings to folder; True when its certificate passes."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True, exclude=set(PLACES)))
    check_engine(config)
    job = build(config)
    folder = resume or run_folder(out, "train", settings)
    if resume is not None and not (resume / CHECKPOINT).exists():
        raise InputError(f"{resume} has no {CHECKPOINT}: that run has ended, or was never begun")
    with engine_of(config) as engine:
        run = _play(job, config, folder, resume, settings, quiet, engine)
        spread = {} if engine is None else {"engine": told(engine)}
    if run.status == "stopped":
        _say_resume(folder, config)
        return False
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what follows has no checkpoint
    result = run.summary() | spread | _test_scores(run, job) | _beside(run, job, config, quiet)
    certificate = run.certificate()
    content = document("train", settings, result, certificate)
    _write(folder, run, job, content, settings)
    if quiet:
        print(to_json(content))
    else:
        from equipoise.present.terminal import certificate_table, key_numbers

        console = Console()
        console.print(f"[bold]{job.title}[/]: {run.reason}")
        console.print(key_numbers(tables.key_lines(run, result, config)))
        if "allocations" in result:
            for equal in (False, True):
                console.print(tables.allocation_table(result["allocations"], equal))
        if "rivals" in result:
            console.print(tables.rivals_table(result["rivals"]))
        console.print(certificate_table(certificate))
        if not certificate.passed:
            console.print(tables.advice(run, certificate))
        console.print(f"{folder / 'report.html'}")
    return certificate.passed


def _play(
    job: Job, config: TrainConfig, folder: Path, resume: Path | None, settings: dict[str, Any], quiet: bool, engine: Any
) -> Run:
    """Solve with a progress bar on standard error; the folder appears with the first round."""
    checkpoint = folder / CHECKPOINT
    stop = _stop_on_signal()
    kind = "gap" if job.problem.model is None or job.problem.model.convex else "loss, or gap,"
    with metered("solving centrally", "round", job.rounds, quiet=quiet) as meter:

        def show(moment: Moment) -> bool:
            if moment.number == 1:
                make_folder(folder)
                write_config(folder, settings)
            meter.show(moment.number, moment.rounds, doing="training", note=f"{kind} {moment.relative_gap:.1e}")
            return stop.is_set()

        return solve(
            job.problem,
            job.network,
            job.method,
            rounds=job.rounds,
            seed=config.seed,
            target=config.target,
            patience=config.patience,
            every=config.every,
            budgets=config.budgets,
            callback=show,
            start=job.start,
            batch=job.batch,
            faults=job.faults,
            checkpoint=checkpoint,
            resume=None if resume is None else checkpoint,
            engine=engine,
        )


def _beside(run: Run, job: Job, config: TrainConfig, quiet: bool) -> dict[str, Any]:
    """What was asked for besides the run: other ways to divide the CPU, other ways to train the net."""
    if config.couple:
        from equipoise.cli.train_coupling import allocations

        return {"allocations": allocations(config, quiet=quiet)}
    if config.rivals and run.models is not None and run.status != "diverged":
        from equipoise.cli.train_deep import rivals

        return {"rivals": rivals(run.models, run.bits, job, config, quiet=quiet)}
    return {}


def _stop_on_signal() -> threading.Event:
    """Ctrl-C or a termination ends the run after the current round, with a checkpoint; a second one kills it."""
    stop = threading.Event()

    def note(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return stop


def _test_scores(run: Run, job: Job) -> dict[str, Any]:
    """On held-out data, every node's own model (None for those who are gone) beside the centralised one's: accuracy, or
    root mean square error."""
    model = run.problem.model
    if model is not None and not model.convex and run.models is not None and run.status != "diverged":
        from equipoise.cli.train_deep import scores

        return scores(run.models, job)
    if job.test is None or model is None or run.models is None or run.model_optimum is None:
        return {}
    X, answers = job.test
    there = run.present.tolist() if isinstance(run, HostileRun) else [True] * len(run.models)
    best = run.model_optimum.parameters
    if isinstance(model, LeastSquares):
        errors = [model.error(y, X, answers) for y in run.models]
        own = [error if here else None for error, here in zip(errors, there, strict=True)]
        worst = max(error for error in own if error is not None)
        return {"test_error": {"nodes": own, "worst": worst, "centralised": model.error(best, X, answers)}}
    found = [model.accuracy(y, X, answers) for y in (*run.models, best)]
    scored = [score for score in found if score is not None]
    if len(scored) < len(found):
        return {}
    right = [score if here else None for score, here in zip(scored[:-1], there, strict=True)]
    worst = min(score for score in right if score is not None)
    return {"accuracy": {"nodes": right, "worst": worst, "centralised": scored[-1]}}


def _write(folder: Path, run: Run, job: Job, content: dict[str, Any], settings: dict[str, Any]) -> None:
    from equipoise.report.train import train_page

    make_folder(folder)
    write_config(folder, settings)
    (folder / "result.json").write_text(to_json(content) + "\n")
    run.save_history(folder / "history.csv")
    arrays: dict[str, Any] = {"shares": run.shares, "models": run.models, "share_history": run.share_history}
    if run.market is not None:
        arrays |= {"lo": run.market.lo, "hi": run.market.hi}
        arrays |= {
            f"cost_{name}": value for name, value in vars(run.market.cost).items() if isinstance(value, np.ndarray)
        }
    if run.model_optimum is not None:
        arrays["optimal_model"] = run.model_optimum.parameters
    np.savez_compressed(folder / "arrays.npz", **{k: v for k, v in arrays.items() if v is not None})
    (folder / "report.html").write_text(train_page(run, content), encoding="utf-8")
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _say_resume(folder: Path, config: TrainConfig) -> None:
    where = "".join(
        f" {flag(name)} {value}"
        for name in PLACES
        if (value := getattr(config, name)) != TrainConfig.model_fields[name].default
    )
    print(f"interrupted; go on with: equipoise train --resume {folder}{where}", file=sys.stderr)
