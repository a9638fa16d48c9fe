"""--engine: where the rounds of a run are played, and what is told of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from equipoise.errors import InputError
from equipoise.train.spec import TrainSpec

COUPLED_CENTRES = 20  # of --couple, whose centres are drawn by the study


def check_engine(spec: TrainSpec) -> None:
    """What can be told before any work: an address where nobody answers, more workers than centres, a share above the
    machine."""
    if spec.engine == "embedded":
        return
    from equipoise.engine.shards.keeper import Hold

    centres = COUPLED_CENTRES if spec.couple else spec.nodes
    if spec.workers is not None and spec.workers > centres and spec.network != "file":
        raise InputError(f"--workers {spec.workers}: there are {centres} centres, and each belongs to one worker")
    if spec.couple:
        Hold(spec.cpus, spec.limiter)
    if spec.engine == "ray":
        from equipoise.engine.ray_cluster import check_address

        check_address(spec.address)


@contextmanager
def engine_of(spec: TrainSpec) -> Iterator[Any]:
    """Workers, held to their shares where CPU buys samples; None where rounds are played here."""
    if spec.engine == "embedded":
        yield None
        return
    from equipoise.engine import Hold, Workers

    hold = Hold(spec.cpus, spec.limiter) if spec.couple else None
    with Workers(spec.workers, on=spec.engine, address=spec.address, hold=hold) as workers:
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
