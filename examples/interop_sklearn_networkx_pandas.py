"""Data of scikit-learn, a graph of NetworkX, results as a pandas frame, a figure and an estimator that predicts.

python examples/interop_sklearn_networkx_pandas.py                        needs equipoise[plots,pandas]
python examples/interop_sklearn_networkx_pandas.py --figure run.pdf
"""

import argparse

import networkx as nx
import numpy as np
from sklearn.datasets import load_breast_cancer

from equipoise.data import shards
from equipoise.train import Network, Problem, Quadratic, SmoothSVM, solve

HOSPITALS = ["Oslo", "Rome", "Lima", "Pune", "Cork", "Bonn"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--figure", help="where to draw the run")
    asked = options.parse_args()

    parts = shards(load_breast_cancer(), centres=len(HOSPITALS), how="dirichlet", standardise=True, signs=True)
    links = nx.relabel_nodes(nx.cycle_graph(len(HOSPITALS)), dict(enumerate(HOSPITALS)))
    links.add_edge("Oslo", "Pune")
    network = Network.from_networkx(links)

    cost = Quadratic(a=np.linspace(1, 3, len(HOSPITALS)), c=20.0, lo=2.0, hi=30.0)
    run = solve(Problem(cost=cost, budget=90.0, model=SmoothSVM(parts, reg=0.1)), network, rounds=2000, target=1e-4)

    print(dict(zip(network.labels, run.shares.round(2).tolist(), strict=True)))
    print(run.to_frame()[["round", "relative_gap", "bits"]].tail(3).to_string(index=False))
    X, y = load_breast_cancer(return_X_y=True)
    fitted = run.to_sklearn(classes=["malignant", "benign"])  # an estimator like any other
    right = np.mean((fitted.predict((X - X.mean(axis=0)) / X.std(axis=0)) == "benign") == y)
    print(f"{type(fitted).__name__}: {right:.1%} right")
    print("certificate passed:", run.certificate().passed)
    figure = run.plot(width="page")
    if asked.figure:
        figure.savefig(asked.figure)
    print("figure with", len(figure.axes), "panels")


if __name__ == "__main__":
    main()
