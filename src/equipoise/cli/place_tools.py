"""What `equipoise place bound`, `explain`, `calibrate` and `import` do once their settings are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from equipoise import __version__
from equipoise.certificate import Certificate
from equipoise.cli import place_tables
from equipoise.cli.output import metered
from equipoise.cli.place_config import BoundConfig, PlaceConfig, Priced, Scene
from equipoise.cli.place_policies import needs_history, placer, players, write_prices
from equipoise.cli.place_run import play
from equipoise.cli.place_scene import Ready, read_cluster, read_jobs, ready, skipped_lines
from equipoise.cli.run_folder import document, to_json
from equipoise.errors import InputError
from equipoise.place.bound import bound
from equipoise.place.comparison import CALIBRATING, trial_rows
from equipoise.place.execution import Execution
from equipoise.place.prices import PRICES
from equipoise.place.read import write_cluster, write_jobs
from equipoise.place.traces import format_of
from equipoise.present.terminal import key_numbers
from equipoise.present.text import count, number, percent


def _settings(config: Scene) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    return values


def _show(verb: str, config: Scene, result: dict[str, Any]) -> None:
    """JSON of a command that certifies nothing."""
    content = document(verb, _settings(config), result, Certificate(()))
    del content["certificate"]
    print(to_json(content))


def run_bound(config: BoundConfig, *, quiet: bool) -> None:
    """The bound to the end of the run, as `place` compares policies with."""
    scene = ready(config, history=False)
    end = Execution(scene.cluster, scene.jobs, scene.slots, scene.horizon).end
    with metered("solving", "program", 1, quiet=quiet):
        found = bound(
            scene.cluster,
            scene.jobs,
            slots=end,
            exact=config.exact,
            coarsen=config.coarsen,
            time_limit=config.time_limit,
        )
    complete = float(found.completion.sum())
    if quiet:
        result = {
            "utility": found.utility,
            "kind": found.kind,
            "status": found.status,
            "coarsen": found.coarsen,
            "note": found.note,
            "jobs": len(scene.jobs),
            "end": end,
            "completed": complete,
            "notes": list(scene.notes),
        }
        _show("place bound", config, result)
        return
    kind = {"lp": "linear program", "milp": "the optimum", "trivial": "no job can finish"}[found.kind]
    Console().print(
        key_numbers(
            {
                "jobs": f"{len(scene.jobs):,} on {count(scene.cluster.size, 'machine')}, to slot {end:,}",
                "no schedule earns more than": f"{number(found.utility, 6)} ({kind}, {found.status})",
                "it completes": f"{complete:,.1f} jobs" if found.kind == "lp" else f"{complete:,.0f} jobs",
                "time": f"{found.seconds:.1f} s",
            }
            | ({"note": found.note} if found.note else {})
        )
    )
    for line in scene.notes:
        print(f"- {line}")


def run_explain(config: PlaceConfig, job: str, *, quiet: bool) -> None:
    """Run the first of the policies again (a run repeats exactly), and say what it did with one job."""
    scene = ready(config, history=needs_history(config))
    ids = {given.id for given in scene.jobs}
    if job not in ids:
        raise InputError(_unknown_job(job, scene))
    one = config.model_copy(update={"policy": config.policy[:1], "bound": False, "baseline": None})
    found = play(one, scene, players(one, scene), quiet=quiet)
    from equipoise.place.explain import explain

    told = explain(found.results[0], job)
    if quiet:
        _show("place explain", one, told.as_dict())
    else:
        print(told.text())


def _unknown_job(job: str, scene: Ready) -> str:
    import difflib

    ids = [given.id for given in scene.jobs]
    near = difflib.get_close_matches(job, ids, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; the first is {ids[0]!r}"
    if any(past.id == job for jobs in scene.pasts for past in jobs):
        hint = "; it is history, which prices are calibrated on. Give --history FILE, and every job is scored"
    return f"no job {job!r} among the {len(ids):,} scored{hint}"


def run_calibrate(config: Priced, out: Path, *, quiet: bool) -> None:
    """Replay every candidate on history, and write the best."""
    known = [kind for kind in PRICES.names() if hasattr(PRICES.load(kind), "trials")]
    if config.prices not in known:
        raise InputError(f"--prices {config.prices}: nothing to calibrate; expected {', '.join(known)}")
    if out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out {out}: expected a file that ends in .yaml")
    if out.exists():
        raise InputError(f"--out {out}: there is such a file already; name another, or remove it")
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: {out.absolute().parent} is not a folder")
    scene = _history_scene(config)
    policy: Any = placer(config, scene, "pdors")
    with metered(CALIBRATING, "replay", None, quiet=quiet) as meter:
        rows = trial_rows(
            scene.cluster,
            scene.jobs,
            policy,
            **scene.window,
            replayed=lambda count: meter.bar.update(meter.task, completed=count),
        )
        trials = policy.prices.trials(Execution(scene.cluster, scene.jobs, scene.slots, scene.horizon), policy)
    chosen = next(k for k, row in enumerate(rows) if row["chosen"])
    pasts = [past.source for past in scene.pasts]
    said = {
        "history": pasts,
        "jobs": sum(map(len, scene.pasts)),
        "slot": float(scene.jobs.slot),
        **scene.window,
        "backfill": config.backfill,
        "utility": float(trials[chosen].utility),
        "version": __version__,
    }
    write_prices(out, trials[chosen], scene.cluster, said)
    if quiet:
        _show("place calibrate", config, {"trials": rows, "out": str(out), "calibrated": said})
        return
    console = Console()
    for line in scene.notes:
        print(f"- {line}")
    console.print(place_tables.trial_table(rows))
    print(f"{out}: use it with --prices {out}")


def _history_scene(config: Priced) -> Ready:
    """History as the jobs of a scene; without files the built-in example's."""
    if config.history is None:
        if config.cluster is not None or config.slot is not None:
            raise InputError("no history: say --history FILE of past jobs")
        scene = ready(config, history=True)
        return replace(scene, jobs=scene.pasts[0])
    first = config.model_copy(update={"jobs": config.history[0], "format": config.history_format or config.format})
    scenes = [ready(first.model_copy(update={"jobs": name, "history": None}), history=False) for name in config.history]
    notes = tuple(dict.fromkeys(note for scene in scenes for note in scene.notes))
    return replace(scenes[0], pasts=tuple(scene.jobs for scene in scenes), notes=notes)


def run_import(config: Scene, out: Path, cluster_out: Path | None, *, quiet: bool) -> None:
    """A trace to our own format, with counts and what was skipped."""
    for name in ("restart", "draw", "horizon", "slots", "window"):
        if getattr(config, name) is not None:
            raise InputError(f"--{name} has no effect on import; give it to `place`")
    if config.wrong:
        raise InputError("--wrong has no effect on import; give it to `place`")
    path = Path(str(config.jobs))
    kind = config.format if config.format != "auto" else format_of(path)
    for file in filter(None, (out, cluster_out)):
        if file.suffix.lower() not in (".yaml", ".yml", ".json", ".csv"):
            raise InputError(f"{file}: expected a name that ends in .yaml, .json or .csv")
    if cluster_out is None and (config.machines or config.cluster):
        raise InputError("--machines and --cluster have no effect without --cluster-out FILE")
    cluster = None if cluster_out is None else read_cluster(config, kind)
    jobs = read_jobs(config, path, kind, None)
    write_jobs(jobs, out)
    if cluster is not None and cluster_out is not None:
        write_cluster(cluster, cluster_out)
    skipped = [{"line": row.line, "reason": row.reason} for row in jobs.skipped]
    last = max(job.arrival for job in jobs)
    if quiet:
        result = {
            "format": kind,
            "jobs": len(jobs),
            "skipped": skipped,
            "slot": jobs.slot,
            "last_arrival": last,
            "note": jobs.note,
            "start": jobs.start,
            "out": str(out),
        }
        _show("place import", config, result)
        return
    slots = f"slots 0 to {last:,} of {place_tables.span(jobs.slot)}"
    print(
        f"{out}: {len(jobs):,} jobs from {path.name} ({kind}), {slots}" + (f" from {jobs.start}" if jobs.start else "")
    )
    if jobs.note:
        print(f"- {jobs.note}")
    for line in skipped_lines(jobs):
        print(f"- {line}")
    if skipped:
        print(f"- {percent(len(skipped) / (len(jobs) + len(skipped)))} of the rows skipped in all")
    if cluster is not None:
        print(f"{cluster_out}: {count(cluster.size, 'machine')}")
