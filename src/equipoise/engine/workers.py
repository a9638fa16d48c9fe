"""Where the rounds of a training run are played, as its spec says: check it, and start the workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.train.spec import TrainSpec

if TYPE_CHECKING:
    from equipoise.engine.shards.workers import Workers

COUPLED_CENTRES = 20  # of --couple, whose centres are drawn by the study


def check_engine(spec: TrainSpec) -> None:
    """Refuse before any work an address where nobody answers, more workers than centres, a share above the machine."""
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
def engine_of(spec: TrainSpec) -> Iterator[Workers | None]:
    """Workers, held to their shares where CPU buys samples; None where rounds are played in this process."""
    if spec.engine == "embedded":
        yield None
        return
    from equipoise.engine import Hold, Workers

    hold = Hold(spec.cpus, spec.limiter) if spec.couple else None
    with Workers(spec.workers, on=spec.engine, address=spec.address, hold=hold) as workers:
        yield workers
