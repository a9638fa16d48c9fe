"""A policy of your own for a crowded site: least slack first, checked, and beside two others on the same seeds.

python examples/share_your_policy.py             200 seeds
python examples/share_your_policy.py --quick     40 seeds
"""

import argparse

import numpy as np

from equipoise.share import Decision, View, check_policy, greedy, policies, sweep


class LeastSlack:
    """Who has least time left beyond its transfer goes first; tasks that cannot make their deadline come last."""

    label, colour, marker = "LeastSlack", "#9333ea", "diamond"

    def decide(self, view: View) -> Decision:
        slack = view.time_left - view.data_left / view.bandwidth
        turn = np.where(slack > 0, slack, np.inf)
        return Decision(
            bandwidth=greedy(turn, view.sending, view.data_left, view.bandwidth),
            compute=greedy(turn, view.computing, view.task_cap, view.capacity),
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer seeds")
    seeds = 40 if options.parse_args().quick else 200

    for check in check_policy(LeastSlack()):
        print(f"  {check.name:12}{'passed' if check.passed else 'FAILED':8}{check.meaning}")
    players = [policies.Uniform(), LeastSlack(), policies.Hybrid()]
    result = sweep(players, loads=[20, 60], seeds=seeds)
    print(result.table())
    print(*result.paired("Hybrid", "LeastSlack"), sep="\n")
    print("certificate passed:", result.certificate().passed)


if __name__ == "__main__":
    main()
