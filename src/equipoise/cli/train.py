"""equipoise train: centres train one model and negotiate their CPU. Parse, call, print."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import File, Json, Out, application, with_options
from equipoise.cli.output import (
    Meter,
    compiling_told,
    metered,
    run_folder,
    say_where,
    show,
    tell,
    warn_of_files,
    warnings_as_lines,
)
from equipoise.errors import InputError
from equipoise.spec import read_yaml
from equipoise.train.hostile.faults import EXAMPLES, HOSTILE, HOW
from equipoise.train.spec import PLACES, CompareSpec, TrainSpec, flag

if TYPE_CHECKING:
    from equipoise.document import Plain

DEFAULT = "run"
app = application(DEFAULT)
CHECKPOINT = "checkpoint.npz"
DOING = {
    "round": "training",
    "seed": "comparing allocations",
    "way": "training the same net in other ways",
    "beside": "playing beside",
}
FIRST = {"cpu": "markets", "learning": "averages"}  # what version 0.1.0 played where links are played now
COMPILING = 25.0  # seconds of one core for the kernels of the default run, measured with an empty cache


Files = Annotated[
    list[str] | None,
    typer.Argument(help="Own files (CSV, parquet) or folders of them: one centre for each file.", metavar="[FILES]"),
]


@app.callback()
def train() -> None:
    """Centres train one model together and negotiate a CPU budget, over quantised messages.

    With no options: softmax on scikit-learn's digits, 20 centres, a switching network, 10-bit messages, 500 CPUs.

    Your own data, a file for each centre: equipoise train a.csv b.csv c.csv --label answer

    Beside the paper's dynamics: equipoise train --beside paper

    A hostile network: equipoise train --loss 0.3 --delay 3 --crash 7@137 --join 9@300 --partition 0-4@500..600

    CPU that buys samples: equipoise train --couple. A net: equipoise train --model mlp --rivals
    """


@app.command(DEFAULT)
@with_options(TrainSpec)
def run(
    chosen: dict[str, object],
    files: Files = None,
    config: File = None,
    budget_at: Annotated[
        list[str] | None, typer.Option(help="Change the budget before a round; repeatable.", metavar="ROUND:CPUS")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted run, from its folder.")] = None,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """One run (the default: the word may be left out): on a built-in data set, or on your own files."""
    if files:
        chosen["files"] = files
        _note_skipped(files)
    if budget_at:
        chosen["budgets"] = _budgets(budget_at)
    if resume is not None:
        if config is not None:
            raise InputError("--resume brings its own config.yaml: drop --config")
        config = resume / "config.yaml"
    spec = TrainSpec.read(config, chosen)
    with warnings_as_lines():
        _run(spec, out, resume, quiet=json, old=config is not None and "cpu" not in read_yaml(config))


@app.command("analyse")
@with_options(TrainSpec)
def analyse(
    chosen: dict[str, object],
    files: Files = None,
    config: File = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also the eigenvalues over alpha, to past where they cross.")
    ] = False,
    json: Json = False,
) -> None:
    """What theory says of a run before it is made: spectra, limits, chosen steps, bits and predicted rounds."""
    chosen |= {"files": files} if files else {}
    spec = TrainSpec.read(config, chosen)
    with warnings_as_lines():
        found = spec.analyse(sweep=sweep)
    say_where("train analyse", dict(spec), json=json)
    if json:
        print(found.document().text(), end="")
        return
    from equipoise.present.train_terminal import theory_tables

    show(*theory_tables(vars(found)))


@app.command("verify")
def verify(
    folder: Annotated[Path, typer.Argument(help="A run folder of train.", metavar="FOLDER")], json: Json = False
) -> None:
    """Check the certificate of a run from its files alone: shares round by round, models, optima, and bits link by link."""
    from equipoise.present.train_terminal import verified_numbers
    from equipoise.train.verify import verify

    with warnings_as_lines():
        document = verify(folder)
    say_where("train verify", {}, json=json)
    tell(document, json, *verified_numbers(document))


def compare(chosen: dict[str, object], config: File = None, out: Out = Path("runs"), json: Json = False) -> None:
    """Our method beside its rivals: at equal rounds, at equal bits, and to a target; or one knob at a time (--study)."""
    spec = CompareSpec.read(config, chosen)
    if spec.study == "claim":
        from equipoise.cli.reproduce import app as reproduce

        print(
            "--study claim is now: equipoise reproduce fifty-percent-better (with its own instances)", file=sys.stderr
        )
        code = reproduce(["fifty-percent-better", "--out", str(out), *["--json"] * json], standalone_mode=False)
        raise typer.Exit(code or 0)
    from equipoise.present.train_compare import terminal_parts

    with warnings_as_lines():
        job = spec.build()
        with run_folder(out, "train-compare", spec) as folder:
            say_where("train compare", dict(spec), json=json)
            with metered("playing", "play", None, quiet=json) as meter:
                found = job.run(progress=meter.show)
            found.save(folder)
    document = found.document()
    tell(document, json, *terminal_parts(document), last=folder / "report.html")


def _run(spec: TrainSpec, out: Path, resume: Path | None, *, quiet: bool, old: bool) -> None:
    """One run from its spec to its folder; the exit code says whether its certificate passes. `old`: its config.yaml is
    from before it could name the dynamics."""
    from equipoise.engine.spread import check_engine, engine_of
    from equipoise.present.train_terminal import terminal_parts

    check_engine(spec)
    if resume is not None and not (resume / CHECKPOINT).exists():
        raise InputError(f"{resume} has no {CHECKPOINT}: that run has ended, or was never begun")
    job = spec.build()
    with run_folder(out, "train", spec) if resume is None else nullcontext(resume) as folder:
        say_where("train", dict(spec), json=quiet)
        if job.own is not None:
            warn_of_files(job.own.facts)
        checkpoint = folder / CHECKPOINT
        try:
            with (
                compiling_told(COMPILING, quiet=quiet),
                engine_of(spec) as engine,
                _Progress(folder, spec, job.rounds, quiet=quiet) as progress,
            ):
                run = job.run(
                    progress=progress, checkpoint=checkpoint, resume=resume and resume / CHECKPOINT, engine=engine
                )
            if run.status == "stopped" or progress.asked:
                raise KeyboardInterrupt
            run.save(folder)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_resuming(folder, spec)) from None
        checkpoint.unlink(missing_ok=True)
    document = run.document()
    if old and "auto" in (spec.cpu, spec.learning) and (words := _words_on_first(document.result["dynamics"])):
        print(f"note: {words}", file=sys.stderr)
    tell(document, quiet, *terminal_parts(document), last=folder / "report.html")


def _note_skipped(files: list[str]) -> None:
    """What of a folder is not read."""
    from equipoise.data.table import SUFFIXES

    for folder in [Path(name) for name in files if Path(name).is_dir()]:
        others = [path for path in folder.iterdir() if path.suffix.lower() not in SUFFIXES or path.is_dir()]
        names = sorted(f"{path.name}/" if path.is_dir() else path.name for path in others if path.name[0] != ".")
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            print(
                f"note: {folder}: {', '.join(names[:5])}{more} not read; tables end in {', '.join(SUFFIXES)}",
                file=sys.stderr,
            )


def _words_on_first(dynamics: dict[str, Plain]) -> str:
    """How to repeat the dynamics that version 0.1.0 played here; "" where it played the same."""
    changed = {half: name for half, name in FIRST.items() if dynamics[half] == "links"}
    if not changed:
        return ""
    keys = " and ".join(f"{half}: {name}" for half, name in changed.items())
    return f"version 0.1.0 played {' and '.join(changed.values())} here; --config with {keys} repeats its dynamics"


class _Progress:
    """Shows how far a run is. The first Ctrl-C (or SIGTERM) ends the rounds after the current one, with a checkpoint;
    at any other time, and the second one, it interrupts at once."""

    def __init__(self, folder: Path, spec: TrainSpec, rounds: int, *, quiet: bool) -> None:
        self.folder, self.spec, self.quiet, self.asked, self.unit = folder, spec, quiet, False, ""
        self.stack = ExitStack()
        self.meter = self._open("solving centrally", "round", rounds)

    def _open(self, doing: str, unit: str, total: int) -> Meter:
        self.stack.close()
        return self.stack.enter_context(metered(doing, unit, total, quiet=self.quiet))

    def __enter__(self) -> _Progress:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _interrupt(self, number: int, frame: object) -> None:
        if self.asked or self.unit not in ("", "round"):
            raise KeyboardInterrupt
        self.asked = True

    def __call__(self, unit: str, done: int, total: int, note: str) -> bool:
        if unit == "round" and self.unit != unit:
            (self.folder / "config.yaml").write_text(self.spec.to_yaml(), encoding="utf-8")  # for --resume
        elif unit != self.unit:
            if self.asked:
                raise KeyboardInterrupt
            self.meter = self._open(DOING[unit], "round" if unit == "beside" else unit, total)
        self.unit = unit
        doing = f"{DOING[unit]}: {self.spec.beside}" if unit == "beside" else DOING[unit]
        self.meter.show(done, total, doing=doing, note=note)
        return self.asked


def _resuming(folder: Path, spec: TrainSpec) -> str:
    """The command that goes on, on the same engine; none without a checkpoint, and then nothing is left."""
    if not (folder / CHECKPOINT).exists():
        (folder / "config.yaml").unlink(missing_ok=True)
        return ""
    fields = TrainSpec.model_fields
    where = {name: getattr(spec, name) for name in PLACES if getattr(spec, name) != fields[name].default}
    places = "".join(f" {flag(name)} {value}" for name, value in where.items())
    return f"equipoise train --resume {folder}{places}"


def _budgets(texts: list[str]) -> dict[int, float]:
    """ROUND:CPUS of every --budget-at."""
    found: dict[int, float] = {}
    for text in texts:
        number, _, cpus = text.partition(":")
        try:
            at, budget = int(number), float(cpus)
        except ValueError:
            raise InputError(f"--budget-at expects ROUND:CPUS, such as 300:600, not {text!r}") from None
        if at in found:
            raise InputError(f"--budget-at names a round twice: {' '.join(texts)}")
        found[at] = budget
    return found


def _refusing_faults(command: Callable[..., None]) -> Callable[..., None]:
    """Give compare the names of all faults, hidden, so that it can refuse them by name."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    hidden = [_hidden(fault) for fault in (*HOSTILE, *HOW)]

    def run(**given: object) -> None:
        asked = [flag(parameter.name) for parameter in hidden if given.pop(parameter.name)]
        if asked:
            raise InputError(f"compare knows no hostile networks: drop {', '.join(asked)}", code="option.hostile")
        command(**given)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature([*own, *hidden])  # type: ignore[attr-defined]
    return run


def _hidden(name: str) -> inspect.Parameter:
    kind: Any = bool if name in ("directed", "fixed_delay") else list[str] if name in EXAMPLES else str
    option = Annotated[kind | None, typer.Option(flag(name), hidden=True)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)


app.command("compare")(with_options(CompareSpec)(_refusing_faults(compare)))
