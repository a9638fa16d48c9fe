"""Us and our peers on the same work, in one run: what `make bench` does.

    make bench                                            # the full form, about a quarter of an hour on a quiet machine
    make bench QUICK=1                                    # small sizes, what CI runs
    .venv/bin/python benchmarks/peers/bench.py --keep     # and the tables of docs/benchmarks.md
    .venv/bin/python benchmarks/peers/bench.py --only share place --turns 3

Peers are installed by name into .venv-peers; one that cannot be is listed with the reason. Contestants take turns; ratios
are medians over the turns, of CPU time and of wall time. Everybody's answer is checked to be the same work. Writes a
table, a picture and JSON to runs/bench-.../, with --keep to benchmarks/peers/results/ and into the docs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from installing import HOME, ROOT, Installed, installed_peers, python_of
from player import ONE_CORE, Players

RESULTS = Path(__file__).with_name("results")
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.png"
Kept = dict[str, Any]
PARTS = ("train", "share", "place")
FULL_TURNS, QUICK_TURNS = 5, 2


def measured(parts: list[str], turns: int, quick: bool) -> Kept:
    """Everybody on everything: what is kept of it."""
    import on_place
    import on_share
    import on_train
    from machine import described, load
    from turns import Row

    machine, began, peers = described(), time.time(), installed_peers()
    played = {"train": on_train, "share": on_share, "place": on_place}
    rows: list[Row] = []
    with Players(python_of(HOME)) as players:
        for part in parts:
            for row in played[part].rows(peers, players, turns, quick):
                rows.append(row)
                rate = "-" if row.rate_cpu is None else f"{row.rate_cpu:,.4g} {row.unit}/s, ours {row.faster_cpu:.3g}x"
                print(f"{row.part}: {row.work}: {row.who}: {rate}; {row.check}", flush=True)
    return {
        "form": f"{'Quick' if quick else 'Full'} form, {turns} turns at most",
        "seconds": round(time.time() - began),
        "machine": {**machine, "load_at_the_end": round(load(), 2)},
        "peers": {name: asdict(one) for name, one in peers.items()},
        "rows": [asdict(row) for row in rows],
    }


def written(kept: Kept, folder: Path, keep: bool) -> bool:
    """Tables to the terminal, results to the folder, with `keep` also into the pages; whether all work was the same."""
    from machine import sentence
    from table import block, missing, rewrite, tables
    from turns import Row

    rows = [Row(**row) for row in kept["rows"]]
    peers = {name: Installed(**one) for name, one in kept["peers"].items()}
    where = sentence(kept["machine"])
    print(f"\n{where}\n")
    for table in tables(rows, peers):
        print(table.text(), end="\n\n")
    for note in missing(rows, peers):
        print(f"not measured: {note}")
    folder.mkdir(parents=True, exist_ok=True)
    whole = block(rows, peers, where, kept["form"])
    (folder / "table.md").write_text(whole + "\n")
    (folder / "bench.json").write_text(json.dumps(kept, indent=1) + "\n")
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is missing; pip install -c constraints.txt -e '.[plots]'")
    else:
        from picture import draw

        draw(rows, PICTURE if keep else folder / "bench.png", where)
    if keep and rewrite(PAGE, whole):
        print(f"rewrote {PAGE.relative_to(ROOT)}")
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    print(f"{len(rows)} rows in {kept['seconds']} s: {shown}")
    return all(row.same is not False for row in rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="small sizes, about a minute of CPU time")
    options.add_argument("--turns", type=int, help=f"of every contestant ({FULL_TURNS}; quick: {QUICK_TURNS})")
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="which verbs (all)")
    options.add_argument("--keep", action="store_true", help="write the tracked results, and the tables in docs")
    options.add_argument("--out", type=Path, help="where results go instead of runs/bench-<time>")
    options.add_argument("--again", type=Path, metavar="JSON", help="measure nothing: write these results' tables anew")
    given = options.parse_args()
    os.environ.update(ONE_CORE)  # before NumPy is loaded: everybody has one core
    if given.again:
        kept = json.loads(given.again.read_text())
    else:
        kept = measured(given.only, given.turns or (QUICK_TURNS if given.quick else FULL_TURNS), given.quick)
    folder = given.out or (RESULTS if given.keep else ROOT / "runs" / time.strftime("bench-%Y%m%d-%H%M%S"))
    if not written(kept, folder, given.keep):
        sys.exit(1)


if __name__ == "__main__":
    main()
