"""--engine: where the rounds of a run are played, and what is told of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from equipoise.cli.train_config import TrainConfig
from equipoise.errors import InputError

COUPLED_CENTRES = 20  # of --couple, whose centres are drawn by the study


def check_engine(config: TrainConfig) -> None:
    """What can be told before any work: an address where nobody answers, more workers than centres, a share above the
    machine."""
    if config.engine == "embedded":
        return
    from equipoise.engine.shards.keeper import Hold

    centres = COUPLED_CENTRES if config.couple else config.nodes
    if config.workers is not None and config.workers > centres and config.network != "file":
        raise InputError(f"--workers {config.workers}: there are {centres} centres, and each belongs to one worker")
    if config.couple:
        Hold(config.cpus, config.limiter)
    if config.engine == "ray":
        from equipoise.engine.ray_cluster import check_address

        check_address(config.address)


@contextmanager
def engine_of(config: TrainConfig) -> Iterator[Any]:
    """Workers, held to their shares where CPU buys samples; None where rounds are played here."""
    if config.engine == "embedded":
        yield None
        return
    from equipoise.engine import Hold, Workers

    hold = Hold(config.cpus, config.limiter) if config.couple else None
    with Workers(config.workers, on=config.engine, address=config.address, hold=hold) as workers:
        yield workers


def told(workers: Any) -> dict[str, Any]:
    """Where rounds were played, what crossed between workers, and what CPU each was given and got."""
    from equipoise.engine.shards.keeper import told as told_of_usage

    sent = workers.wire_bytes
    found: dict[str, Any] = {
        "where": workers.says,
        "bytes_between_workers": sum(sent),
        "bytes_a_round": sum(sent) / max(1, len(sent)),
    }
    if workers.losses:
        found["lost"] = workers.losses
    if workers.keeper is not None:
        found["held"] = {"limiter": workers.keeper.says} | told_of_usage(workers.usage())
    return found


def lines(engine: dict[str, Any]) -> dict[str, str]:
    """The same for the terminal."""
    found = {"engine": f"{engine['where']}, {engine['bytes_a_round']:,.0f} bytes a round between them"}
    if "lost" in engine:
        found["lost"] = "\n".join(
            f"worker {row['worker']} (process {row['process']}) died in round {row['round']}, and its "
            f"{len(row['centres'])} centres with it"
            for row in engine["lost"]
        )
    if "held" in engine:
        workers = engine["held"]["workers"]
        each = ", ".join(
            f"{row['cpu_seconds'] / row['wall_seconds']:.2f} of {row['asked_cpu_seconds'] / row['wall_seconds']:.2f}"
            for row in workers
            if row["wall_seconds"] > 0
        )
        found["held"] = f"{engine['held']['limiter']}\ntook, of the cores each was given: {each}"
    return found
