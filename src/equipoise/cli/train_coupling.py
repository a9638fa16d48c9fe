"""--couple: CPU buys samples. One run of unequal centres, and what each way to divide the CPU costs on a few seeds."""

from __future__ import annotations

from typing import Any

from equipoise.cli.output import metered
from equipoise.cli.train_build import Job
from equipoise.cli.train_config import TrainConfig
from equipoise.cli.train_faults import flag
from equipoise.errors import InputError

ITS_OWN = (
    "couple",
    "seeds",
    "seed",
    "rounds",
    "model",
    "every",
    "patience",
    "target",
    "engine",
    "workers",
    "address",
    "cpus",
    "limiter",
)
STUDIED = {"auto": "softmax", "softmax": "softmax", "mlp": "mlp"}


def coupled_job(config: TrainConfig) -> Job:
    """The study's instance of this seed, its shares and batches moving each other."""
    from equipoise.train import Network, Problem
    from equipoise.train.coupling.play import LINK_CHANCE, Pace
    from equipoise.train.coupling.study import SETTINGS

    name = _studied(config)
    setting = SETTINGS[name]
    instance = setting.draw(config.seed)
    n = len(instance.speed)
    return Job(
        Problem(cost=instance.cost(), budget=instance.budget, model=instance.model),
        Network.erdos_renyi(n, LINK_CHANCE, seed=config.seed),
        setting.paces.get("coupled", Pace()).method(instance),
        (instance.X_test, instance.y_test),
        f"{n} unequal centres trained {name} on digits with batches that follow shares of {instance.budget:g} CPUs",
        config.rounds,
        start=instance.start,
    )


def _studied(config: TrainConfig) -> str:
    plain = TrainConfig(couple=True, model=config.model)
    for name in TrainConfig.model_fields:
        if name not in ITS_OWN and getattr(config, name) != getattr(plain, name):
            raise InputError(
                f"{'--budget-at' if name == 'budgets' else flag(name)} has no effect: --couple draws its own centres "
                "(digits, unequal speeds, shards and noise)"
            )
    if config.model not in STUDIED:
        raise InputError(f"--couple studies softmax and mlp, not {config.model}: drop --model or name one of them")
    return STUDIED[config.model]


def allocations(config: TrainConfig, *, quiet: bool) -> dict[str, Any]:
    """CPU-seconds to the target accuracy for each allocation, over the seeds, with standard errors: of unequal centres, and
    of equal ones, where little can be gained."""
    from equipoise.train.coupling.study import SETTINGS, study

    name, seeds = _studied(config), range(config.seed, config.seed + config.seeds)
    done, found = 0, {}
    with metered("comparing allocations", "seed", 2 * config.seeds, quiet=quiet) as meter:

        def show(text: str) -> None:
            nonlocal done
            done += 1
            meter.show(done, 2 * config.seeds, note=text)

        meter.show(0, 2 * config.seeds)
        for key, equal in (("rows", False), ("rows_of_equal_centres", True)):
            rows = study(name, seeds, equal, progress=show)
            found[key] = [_plain(row) for row in sorted(rows, key=lambda row: row.mean)]
    return {"seeds": list(seeds), "target": SETTINGS[name].target} | found


def _plain(row: Any) -> dict[str, Any]:
    """One allocation as plain values."""
    found = {
        "allocation": row.allocation,
        "label": row.label,
        "cpu_seconds": row.cpu_seconds.tolist(),
        "mean": row.mean,
        "error": row.error,
        "missed": int(row.missed),
        "saved_against_equal": row.saved_against_equal,
        "saved_against_equal_error": row.saved_against_equal_error,
        "saved_against_data": row.saved_against_data,
        "saved_against_data_error": row.saved_against_data_error,
    }
    return {key: None if isinstance(value, float) and value != value else value for key, value in found.items()}
