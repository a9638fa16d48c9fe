"""The communication constants are what the measured profiles give."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import median

import pytest

from equipoise.place.traces._rows import PROFILES, Profile


def distil(path: Path) -> Profile:
    """A profile from one placements file.

    tau: (step - sync) / batch at the largest batch one GPU was measured with. Then the synchronisation time over the
    ring's 2 (w - 1) / w, its median over all batch sizes and placements of two GPUs or more, on one node and on several.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = [
            (r["placement"], int(r["local_bsz"]), float(r["step_time"]), float(r["sync_time"]))
            for r in csv.DictReader(file)
        ]
    batch, step, sync = max((b, step, sync) for placement, b, step, sync in rows if placement == "1")
    return Profile(
        model=path.name.removesuffix("-placements.csv"),
        per_sample=(step - sync) / batch,
        inside=_exchange([(p, sync) for p, _, _, sync in rows if len(p) == 1 and p != "1"], path),
        between=_exchange([(p, sync) for p, _, _, sync in rows if len(p) > 1], path),
        local_batch=batch,
    )


def _exchange(measured: Sequence[tuple[str, float]], path: Path) -> float:
    if not measured:
        raise ValueError(f"{path}: no placements on one node and on several; expected both")
    widths = [sum(map(int, placement)) for placement, _ in measured]
    return median(sync / (2.0 * (w - 1) / w) for w, (_, sync) in zip(widths, measured, strict=True))


def test_a_profile_by_hand(tmp_path):
    """One GPU: (2.1 - .1) / 10 at the larger batch. Two on a node: 2 (w - 1) / w is 1; four on two nodes: 1.5."""
    path = tmp_path / "net-placements.csv"
    path.write_text(
        "placement,local_bsz,step_time,sync_time\n1,5,1.0,0.1\n1,10,2.1,0.1\n2,10,2.5,0.3\n22,10,4.0,1.5\n11,10,3.0,2.0\n"
    )
    assert distil(path).model == "net"
    assert astuple(distil(path))[1:] == pytest.approx((0.2, 0.3, 1.5, 10))


def test_a_file_without_both_placements_is_refused(tmp_path):
    """Nothing between nodes, nothing to distil."""
    path = tmp_path / "net-placements.csv"
    path.write_text("placement,local_bsz,step_time,sync_time\n1,5,1.0,0.1\n2,10,2.5,0.3\n")
    with pytest.raises(ValueError, match="placements"):
        distil(path)


def test_the_constants_are_recomputed_from_the_files(shared_data: Path):
    """Every constant to its five digits."""
    folder = shared_data / "traces" / "profiles"
    if not folder.is_dir():
        pytest.skip(f"no measured profiles: {folder} is not a folder; set EQUIPOISE_DATA to the one that holds traces/")
    measured = {profile.model: profile for profile in map(distil, folder.glob("*-placements.csv"))}
    assert measured.keys() == {profile.model for profile in PROFILES}
    for profile in PROFILES:
        assert astuple(profile)[1:] == pytest.approx(astuple(measured[profile.model])[1:], rel=1e-4)


def test_synchronising_between_nodes_costs_three_to_seventeen_times_as_much():
    """The spec's 2.8 to 16 times, by medians."""
    ratios = sorted(profile.between / profile.inside for profile in PROFILES)
    assert (math.floor(ratios[0] * 10) / 10, math.floor(ratios[-1])) == (2.9, 16)
