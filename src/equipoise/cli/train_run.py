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

from equipoise.certificate import Certificate
from equipoise.cli.progress import metered
from equipoise.cli.run_folder import document, make_folder, run_folder, to_json, write_config
from equipoise.cli.train_config import Job, TrainConfig, build
from equipoise.errors import InputError
from equipoise.train.models.least_squares import LeastSquares
from equipoise.train.run import Run
from equipoise.train.solve import Moment, solve

CHECKPOINT = "checkpoint.npz"


def run_train(config: TrainConfig, out: Path, resume: Path | None, *, quiet: bool) -> bool:
    """One run from settings to folder; True when its certificate passes."""
    settings: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    job = build(config)
    folder = resume or run_folder(out, "train", settings)
    if resume is not None and not (resume / CHECKPOINT).exists():
        raise InputError(f"{resume} has no {CHECKPOINT}: that run has ended, or was never begun")
    run = _play(job, config, folder, resume, settings, quiet)
    result = run.summary() | _test_scores(run, job)
    certificate = run.certificate()
    content = document("train", settings, result, certificate)
    if run.status == "stopped":
        _say_resume(folder)
        return False
    _write(folder, run, job, content, settings)
    if quiet:
        print(to_json(content))
    else:
        from equipoise.report.terminal import certificate_table, key_numbers

        console = Console()
        console.print(f"[bold]{job.title}[/]: {run.reason}")
        console.print(key_numbers(_numbers(run, result)))
        console.print(certificate_table(certificate))
        if not certificate.passed:
            console.print(_advice(run, certificate))
        console.print(f"{folder / 'report.html'}")
    return certificate.passed


def _play(
    job: Job, config: TrainConfig, folder: Path, resume: Path | None, settings: dict[str, Any], quiet: bool
) -> Run:
    """Solve with a progress bar on standard error; the folder appears with the first round."""
    checkpoint = folder / CHECKPOINT
    stop = _stop_on_signal()
    with metered("solving centrally", "round", config.rounds, quiet=quiet) as meter:

        def show(moment: Moment) -> bool:
            if moment.number == 1:
                make_folder(folder)
                write_config(folder, settings)
            meter.show(moment.number, moment.rounds, doing="training", note=f"gap {moment.relative_gap:.1e}")
            return stop.is_set()

        return solve(
            job.problem, job.network, job.method, rounds=config.rounds, seed=config.seed, target=config.target,
            patience=config.patience, every=config.every, budgets=config.budgets, callback=show,
            checkpoint=checkpoint, resume=None if resume is None else checkpoint,
        )  # fmt: skip


def _stop_on_signal() -> threading.Event:
    """Ctrl-C or a termination ends the run after the current round, with a checkpoint; a second one kills it."""
    stop = threading.Event()

    def note(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return stop


def _advice(run: Run, certificate: Certificate) -> str:
    """What a user can do about a failed certificate."""
    if run.status == "diverged":
        return "[yellow]The run diverged: leave --step, --alpha and --cap at auto, or lower --rho.[/]"
    if "box" in certificate and not certificate["box"].passed:
        return "[yellow]Shares left their boxes: a penalty cannot hold them; use --box price.[/]"
    if run.status == "finished" and run.method.quantizer.mode == "innovation":
        return "[yellow]The rounds ran out: raise --rounds, or ask for less with --target.[/]"
    return (
        "[yellow]The gap does not close: these messages leave a residual; the default, --mode innovation, does not.[/]"
    )


def _test_scores(run: Run, job: Job) -> dict[str, Any]:
    """On held-out data, every node's own model beside the centralised one's: accuracy, or root mean square error."""
    model = run.problem.model
    if job.test is None or model is None or run.models is None or run.model_optimum is None:
        return {}
    X, answers = job.test
    best = run.model_optimum.parameters
    if isinstance(model, LeastSquares):
        errors = [model.error(y, X, answers) for y in run.models]
        return {"test_error": {"nodes": errors, "worst": max(errors), "centralised": model.error(best, X, answers)}}
    found = [model.accuracy(y, X, answers) for y in (*run.models, best)]
    scores = [score for score in found if score is not None]
    if len(scores) < len(found):
        return {}
    return {"accuracy": {"nodes": scores[:-1], "worst": min(scores[:-1]), "centralised": scores[-1]}}


def _numbers(run: Run, result: dict[str, Any]) -> dict[str, str]:
    """The few numbers worth a line each."""
    bits, links = run.method.quantizer.bits, len(run.link_bits.bits)
    numbers = {
        "network": run.network.description,
        "rounds": f"{run.rounds:,} in {run.seconds:.1f} s",
        "gap": f"{run.relative_gap:.2e} of the gap at the start"
        + (" (the worse half)" if run.shares is not None and run.models is not None else ""),
        "messages": f"{bits} bits a number, {run.bits / 8e6:,.1f} MB over {links} directed links",
    }
    if run.shares is not None:
        numbers["shares"] = f"{run.shares.min():.2f} to {run.shares.max():.2f} CPUs, sum {np.sum(run.shares):.10g}"
    if "accuracy" in result:
        worst, best = result["accuracy"]["worst"], result["accuracy"]["centralised"]
        numbers["test accuracy"] = f"{worst:.2%} at the worst centre, {best:.2%} centralised"
    if "test_error" in result:
        worst, best = result["test_error"]["worst"], result["test_error"]["centralised"]
        numbers["test error"] = f"{worst:.4g} at the worst centre, {best:.4g} centralised (root mean square)"
    lost = {name: t for name, t in run.tallies.items() if t.saturated}
    if lost:
        numbers["out of range"] = ", ".join(
            f"{t.saturated:,} of {t.sent:,} {name} were clipped" for name, t in lost.items()
        )
    return numbers


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


def _say_resume(folder: Path) -> None:
    print(f"interrupted; go on with: equipoise train --resume {folder}", file=sys.stderr)
