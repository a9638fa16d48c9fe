"""Your machines and jobs from two files: three policies on the same arrivals, the bound, and what one job was told.

python examples/place_your_cluster.py
python examples/place_your_cluster.py my-jobs.yaml my-cluster.yaml --slots 48
"""

import argparse
from pathlib import Path

from equipoise.place import compare, explain, placers, prices, read_cluster, read_jobs, verify

HERE = Path(__file__).parent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("jobs", nargs="?", default=HERE / "jobs.yaml", help="YAML, JSON or CSV")
    options.add_argument("cluster", nargs="?", default=HERE / "cluster.yaml")
    options.add_argument("--slots", type=int, default=24, help="how many slots there are")
    asked = options.parse_args()

    cluster = read_cluster(asked.cluster)
    jobs = read_jobs(asked.jobs, cluster)
    planner = placers.PDORS(prices=prices.Fixed({"gpu": 0.05}))  # utility per GPU and slot on an empty machine
    found = compare(cluster, jobs, [planner, placers.SRTF(), placers.FIFO()], slots=asked.slots)
    for result in found.results:
        print(f"{result.policy.label:8}utility {result.utility:6.1f}, {result.completed} of {len(jobs)} jobs done")
    print(f"bound   utility {found.bound.utility:6.1f}: no schedule is worth more")

    first = found.results[0]
    print(explain(first, jobs[-1].id).text())
    print("every cell, recomputed:", verify(first).passed)
    print("certificate passed:", found.certificate.passed)


if __name__ == "__main__":
    main()
