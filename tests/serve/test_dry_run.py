"""A dry run with its reasons: what the page's form shows."""

import pytest
from live import JOB, Live

from equipoise.place import Cluster, Machine
from equipoise.serve.service import Settings


@pytest.fixture
def live(tmp_path):
    boxes = Cluster((Machine({"gpu": 4}, 1, "box"),))
    one = Live(f"sqlite:///{tmp_path}/e.db", boxes, Settings(clock="virtual", horizon=12), {})
    yield one
    one.close()


def test_an_explained_dry_run_says_what_would_help_and_stores_nothing(live):
    """One box of 4 GPUs is promised away for 10 of 12 slots. A job of 8 GPU-slots fits the rest; one of 16 does not, and is
    told that half of it would: by hand, 2 slots of 4 GPUs."""
    client = live.client()
    client.post("/v1/jobs", json=JOB | {"worker": {"gpu": 1}, "workers": 4, "duration": "100m"})
    seq = client.get("/v1/status").json()["seq"]
    asked = {"name": "more", "worker": {"gpu": 1}, "workers": 4, "value": 10}
    fits = client.post("/v1/jobs?dry_run=true&explain=true", json=asked | {"duration": "20m"}).json()
    assert (fits["state"], fits["start"], fits["end"]) == ("admitted", 10, 11)
    assert fits["explain"]["best"]["first"] == 10 and fits["explain"]["smaller"] is None
    more = client.post("/v1/jobs?dry_run=true&explain=true", json=asked | {"duration": "40m"}).json()
    assert (more["state"], more["reason"]) == ("pending", "no_capacity")
    assert more["explain"]["earliest_start"] == 10 and more["explain"]["earliest_finish"] is None
    assert "50 % of the work" in more["explain"]["text"]
    assert client.get("/v1/status").json()["seq"] == seq
