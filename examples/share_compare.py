"""Published policies and ours on one crowded site, beside a bound that nobody can beat; the rows go to a CSV file.

python examples/share_compare.py                      five loads, 200 seeds
python examples/share_compare.py --quick              two loads, 40 seeds
python examples/share_compare.py --csv compared.csv
"""

import argparse

from equipoise.share import Server, Site, policies, sweep


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer loads and seeds")
    options.add_argument("--csv", help="where to write the rows")
    asked = options.parse_args()
    loads, seeds = ([20, 60], 40) if asked.quick else ([10, 20, 40, 60, 100], 200)

    servers = (Server(30), Server(30), Server(30), Server(60))  # samples per step
    site = Site.authors(servers=servers, bandwidth=100)
    players = [policies.Uniform(), policies.SDF(), policies.EDF(), policies.Hybrid()]
    result = sweep(players, loads=loads, seeds=seeds, site=site, oracle=10)
    print(result.table())
    for line in result.paired("Hybrid", "EDF"):
        print(line)
    print("certificate passed:", result.certificate().passed)
    if asked.csv:
        result.to_csv(asked.csv)
        print("written:", asked.csv)


if __name__ == "__main__":
    main()
