"""kill -9 a service under load, many times, and count what was lost: nothing may be.

    python benchmarks/serve/kills.py --kills 200 --store both

Clients submit, cancel, report, fail machines and move the clock; they write down every answer. The server is killed at
start, inside commits, between request and answer, while stopping; after each restart the witness of tests/serve/killing.py
compares log, state and answers with what clients were told, and machines with their capacity. Every ROUND kills a new store.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "serve"))

ROUND = 25  # kills on one store
ROWS = (
    "kills",
    "kills, start",
    "kills, commit",
    "kills, committed",
    "kills, sent",
    "kills, any",
    "kills, stop",
    "kills that came after the end",
    "kills that hit a request in flight",
    "kills that lost an unacknowledged request",
    "lives with a snapshot in every commit",
    "acknowledged",
    "submissions acknowledged",
    "unanswered",
    "retried",
    "in flight",
    "in flight, stored",
    "in flight, lost",
    "asked again",
    "asked otherwise",
    "503",
    "events",
    "jobs",
    "verify-log passes",
    "broken promises",
)


def rounds(store: str, kills: int, seed: int) -> Counter[str]:
    from killing import killing

    total: Counter[str] = Counter()
    for number in range(-(-kills // ROUND)):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="equipoise-kills-") as name:
            folder = Path(name)
            url = f"sqlite:///{folder}/store.db" if store == "sqlite" else _fresh_database()
            try:
                total += killing(url, folder, kills=min(ROUND, kills - number * ROUND), seed=seed + number, told=_told)
            except Exception:
                traceback.print_exc()
                total["broken promises"] += 1
        print(f"\n{store}, round {number + 1}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return total


def _told(number: int, moment: str) -> None:
    print(f"{number}:{moment}", end=" ", file=sys.stderr, flush=True)


def _fresh_database() -> str:
    from postgres import server

    found = server()
    if isinstance(found, str):
        raise SystemExit(found)
    return found.fresh()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200, help="in all")
    options.add_argument("--store", choices=("sqlite", "postgresql", "both"), default="both")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    stores = ("sqlite", "postgresql") if chosen.store == "both" else (chosen.store,)
    began = time.monotonic()
    tallies = {store: rounds(store, chosen.kills // len(stores), chosen.seed) for store in stores}
    print(f"{'':44}" + "".join(f"{store:>12}" for store in stores))
    for row in ROWS:
        print(f"{row:44}" + "".join(f"{tallies[store][row]:12,}" for store in stores))
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if any(tally["broken promises"] for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
