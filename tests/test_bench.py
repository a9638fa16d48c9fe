"""`make bench` in its quick form: everybody has figures, everybody did the same work, and who is missing says why."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "benchmarks" / "peers"
sys.path.append(str(BENCH))

from installing import why  # noqa: E402
from table import END, START, rewrite  # noqa: E402
from turns import PeerFailed, Row, Spent, figures, in_turns  # noqa: E402


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One turn of the quick form: the folder it wrote."""
    folder = tmp_path_factory.mktemp("bench")
    command = [sys.executable, str(BENCH / "bench.py"), "--quick", "--turns", "1", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


def test_every_row_has_its_figures_and_did_the_same_work(bench):
    """Whoever plays has rates and ratios by both clocks and a check that it did the same work; who does not, a reason."""
    kept = json.loads((bench / "bench.json").read_text())
    assert {row["part"] for row in kept["rows"]} == {"train", "share", "place"}
    for row in kept["rows"]:
        if row["rate_cpu"] is None:
            assert row["check"].startswith("not installed: ") and not row["ours"], row
            continue
        shown = [row[name] for name in ("rate_cpu", "rate_wall", "faster_cpu", "faster_wall")]
        assert all(math.isfinite(value) and value > 0 for value in shown), row
        assert row["same"] is True and row["check"], row


def test_every_peer_that_is_installed_plays_and_every_other_is_listed_with_the_reason(bench):
    """The names are those that the page promises."""
    kept = json.loads((bench / "bench.json").read_text())
    label = {
        "simpy": "SimPy",
        "leafsim": "LEAF",
        "tvopt": "tvopt",
        "highspy": "HiGHS",
        "cvxpy": "CVXPY",
        "disropt": "disropt",
    }
    assert set(kept["peers"]) == {*label, "decent-bench"}
    played = {row["who"] for row in kept["rows"] if row["rate_cpu"] is not None}
    table = (bench / "table.md").read_text()
    for name, peer in kept["peers"].items():
        if peer["version"] is None:
            assert peer["reason"] and f"- {name}: {peer['reason']}" in table
        else:
            assert any(who.startswith(label[name]) for who in played), name


def test_growth_is_over_sizes_and_the_machine_is_described(bench):
    """Several sizes of train and share even in the quick form; cores, memory and versions beside the figures; a picture."""
    kept = json.loads((bench / "bench.json").read_text())
    for part, least in (("train", 3), ("share", 2), ("place", 2)):
        assert len({row["work"] for row in kept["rows"] if row["part"] == part}) >= least
    assert (
        kept["machine"]["cores"] >= 1 and kept["machine"]["memory_gb"] > 0 and "numpy" in kept["machine"]["libraries"]
    )
    assert (bench / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert str(Path.home()) not in (bench / "bench.json").read_text()


def test_ratios_are_medians_of_turns():
    """By hand: ours 10, 20, 40 a second, theirs 5, 5, 8: ratios 2, 4, 5, median 4."""
    ours, theirs = ([Spent(1.0, 1.0, work) for work in rates] for rates in ((10, 20, 40), (5, 5, 8)))
    found = figures({"ours": ours, "theirs": theirs}, "theirs", "ours")
    assert found["faster_cpu"] == found["faster_wall"] == 4.0
    assert found["rate_cpu"] == 5.0 and found["spread_cpu"] == (2.0, 5.0)


def test_the_slow_sit_out_and_the_failed_are_out():
    """Who used its patience plays no more; who fails has no figures but a reason; the others go on."""

    def fails():
        raise PeerFailed("out of memory")

    contestants = {"quick": lambda: Spent(1.0, 1.0, 1.0), "slow": lambda: Spent(9.0, 9.0, 1.0), "ill": fails}
    absent: dict[str, str] = {}
    spent = in_turns(contestants, 3, absent, patience=8.0)
    assert {who: len(turns) for who, turns in spent.items()} == {"quick": 3, "slow": 1}
    assert absent == {"ill": "failed: out of memory"}


def test_a_reason_is_one_line_without_addresses():
    """What pip says of another Python, of no network, and of anything else."""
    other = (
        "ERROR: Ignored the following versions: 0.1.0 Requires-Python >=3.13; 0.3.0 Requires-Python >=3.13\nERROR: none"
    )
    assert why(other).startswith("needs Python >=3.13, this is ")
    assert (
        why("WARNING: Retrying after connection broken by 'NewConnectionError'")
        == "the package index cannot be reached"
    )
    assert why("ERROR: no file https://host.example/x in /some/where/y\n") == "no file ... in ..."


def test_other_work_is_noticed():
    """A task that ends a step later, energy a thousandth off, a machine overfilled, work left undone: all are seen."""
    import numpy as np
    import on_place
    import on_share

    from equipoise.share import Workload, policies, simulate

    run = simulate(policies.SDF(), Workload.described(), load=20, seeds=2)
    later = run.done_at.copy()
    later[0, np.argmax(later[0])] += 1
    assert on_share.agreement(run, run.done_at, run.energy)[0]
    assert not on_share.agreement(run, later, run.energy)[0]
    assert not on_share.agreement(run, run.done_at, run.energy * 1.001)[0]

    question = {
        "free": [[[4.0], [4.0]]] * 2,
        "worker": [1.0],
        "server": [1.0],
        "price_worker": [[1.0, 2.0]] * 2,
        "price_server": [[0.5, 0.5]] * 2,
        "widest": 6,
        "per_server": 3,
        "together": 2.0,
        "apart": 1.0,
        "work": 6.0,
        "value": [20.0, 10.0],
    }
    assert on_place.earned([[0, 0, 3, 1]], question) == 20.0 - 3.5  # three workers and a server on one machine
    assert on_place.earned([[0, 0, 4, 2]], question) == -np.inf  # six units where there are four
    assert on_place.earned([[0, 0, 3, 0]], question) == -np.inf  # no server
    assert on_place.earned([[0, 0, 2, 1], [0, 1, 1, 0]], question) == -np.inf  # spread, three samples of six
    assert on_place.earned([], question) == 0.0


def test_a_peer_that_ends_early_says_so():
    """Its last word is the reason; and a row without figures is no figure."""
    from player import Players

    with Players(Path(sys.executable)) as players, pytest.raises(PeerFailed, match="no_such_script"):
        players.of("no_such_script.py").ask(rounds=1)
    assert Row("train", "work", 1, "peer", False, "rounds").rate_cpu is None


def test_the_block_between_the_markers_is_rewritten_and_nothing_else(tmp_path):
    """A page without markers stays as it is."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    assert rewrite(page, "new") and page.read_text() == f"before\n{START}\nnew\n{END}\nafter\n"
    page.write_text("no markers\n")
    assert not rewrite(page, "new") and page.read_text() == "no markers\n"
