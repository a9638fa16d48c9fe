"""Gradient tracking in sparse NumPy/SciPy, what a competent user writes in an afternoon: no CPU, no codes, no audit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from line import Request, listen, timed
from scipy.sparse import csr_array

sys.path.append(str(Path(__file__).resolve().parents[2] / "train"))
from bare import fastest_product, gradient_tracking

ready: dict[str, Any] = {}


def play(request: Request) -> Request:
    """`rounds` rounds from zero, `times` times; models go to `answer`. The fastest product was found beforehand."""
    if ready.get("file") != request["file"]:
        given = np.load(request["file"])
        W = csr_array((given["data"], given["indices"], given["indptr"]))
        _, product = fastest_product(given["H"], given["s"])
        ready.update(file=request["file"], H=given["H"], s=given["s"], W=W, rate=float(given["rate"]), product=product)
    rate, rounds = ready["rate"], request["rounds"]

    def again() -> Any:
        for _ in range(request["times"]):
            models, _ = gradient_tracking([ready["W"]], ready["H"], ready["s"], rate, rounds, ready["product"])
        return models

    models, spent = timed(again)
    np.save(request["answer"], models)
    return {**spent, "start": 0.0}


if __name__ == "__main__":
    listen(play)
