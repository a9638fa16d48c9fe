"""Five messy files, a centre each: made, trained on without pooling a row, and used from scikit-learn on new rows.

Text, ids, missing values, 3 % positives, two centres that know one class only; a `;` with decimal commas, a byte-order mark.
python examples/train_on_your_files.py --quick
The same from the command line: equipoise train messy --label churn --drop id --class-weight balanced
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from equipoise.train import TrainSpec

SIZES = {"oslo": 25_000, "lima": 12_000, "pune": 8_000, "bonn": 4_000, "kiel": 1_000}
ONE_CLASS = ("pune", "kiel")  # nobody churned there
CHURNED = 1_500 / 41_000  # elsewhere: 3 % of all


def customers(count: int, churned: int, rng: np.random.Generator) -> pd.DataFrame:
    """So many of them, of whom so many churned: those with the highest score."""
    weights = 1.0 / np.arange(1, 61)
    frame = pd.DataFrame({"id": rng.permutation(10 * count)[:count], "age": rng.normal(45, 15, count).round(1)})
    frame["income"], frame["visits"] = rng.lognormal(10, 0.7, count).round(2), rng.poisson(6, count)
    frame["plan"] = rng.choice(["basic", "plus", "pro", "trial"], count, p=[0.5, 0.3, 0.15, 0.05])
    frame["city"] = rng.choice([f"city {k}" for k in range(60)], count, p=weights / weights.sum())
    score = 3 * (frame.plan == "trial") + (frame.city < "city 3") - 0.4 * frame.visits - 0.03 * frame.age
    order = np.argsort(-(score + rng.logistic(0, 1, count)))
    frame["churn"] = np.where(np.isin(np.arange(count), order[:churned]), "yes", "no")
    for name in ("age", "income", "visits", "plan", "city"):
        frame.loc[rng.random(count) < 0.04, name] = None
    return frame


def write(folder: Path, scale: float = 1.0) -> list[str]:
    """The five files, with 50,000 rows at scale 1."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, (name, count) in enumerate(SIZES.items()):
        churned = 0 if name in ONE_CLASS else round(CHURNED * count * scale)
        frame = customers(round(count * scale), churned, np.random.default_rng(at))
        way = {"sep": ";", "decimal": ","} if name == "bonn" else {"encoding": "utf-8-sig"} if name == "lima" else {}
        frame.to_csv(folder / f"{name}.csv", index=False, **way)
    return [str(path) for path in sorted(folder.glob("*.csv"))]


if __name__ == "__main__":
    files = write(Path("messy"), scale=0.1 if "--quick" in sys.argv else 1.0)
    run = TrainSpec(files=files, label="churn", drop=["id"], class_weight="balanced").build().run()
    print(run.to_frame("scores").to_string(index=False, float_format="{:.3f}".format))
    model, new = run.to_sklearn(), customers(20_000, 600, np.random.default_rng(99))
    print(f"balanced accuracy on new rows: {balanced_accuracy_score(new.churn, model.predict(new)):.3f}")
    print(f"certificate passed: {run.certificate().passed}")
