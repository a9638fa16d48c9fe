"""A placer of your own: each slot whoever loses most by waiting goes first; verified, and beside three others.

python examples/place_your_placer.py             eight draws of the jobs
python examples/place_your_placer.py --quick     three draws
"""

import argparse

import numpy as np

from equipoise.place import Case, placers, sweep, traces
from equipoise.place.placers import Slotwise


class LosesMost:
    """Bad at promises, of which it makes none, and at restarts: it moves a job whenever another loses more."""

    label, colour = "LosesMost", "#9333ea"

    def start(self, run, seed):
        return AtWork(run)


class AtWork(Slotwise):
    """`Slotwise` keeps the queue and finds machines; what is ours is the order."""

    def seats(self, queue):
        return self.undisturbed(queue[np.argsort([-self.loss(job) for job in queue], kind="stable")])

    def loss(self, job):
        """What finishing as soon as possible is worth, less the worth a tenth of its time later, per slot it takes."""
        run = self.run
        slots = max(1.0, (run.work[job] - run.done[job]) / self.speed[job])
        end = run.now + slots - 1 - run.arrival[job]
        worth, later = run.jobs[job].utility(end), run.jobs[job].utility(end + max(1.0, slots / 10))
        return (worth - later + 0.1 * worth) / slots


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer draws")
    draws = 3 if options.parse_args().quick else 8

    players = (LosesMost(), placers.SRTF(), placers.DRF(), placers.FIFO())
    cases = []
    for seed in range(500, 500 + draws):
        cluster, jobs, slots = traces.regime("20x100-small", seed=seed)
        cases.append(Case(seed, cluster, jobs, players, slots=slots))
    found = sweep(cases, bound=False)
    for row in found.paired("FIFO"):
        print(f"{row['policy']:10}{row['utility']:+8.0f} over FIFO, ahead on {row['ahead']} of {draws} draws")
    print("certificate passed:", found.certificate.passed)


if __name__ == "__main__":
    main()
