"""The normalisation of UARA+LARA: the paper says that its cap counts tasks which cannot compute. Its code does not."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.share._published import SOURCE, Floats, by_name, mean_of, paired, played, points, told
from equipoise.present.figures import bars
from equipoise.share import Task, View, Workload, policies, simulate
from equipoise.share.estimators import Estimate
from equipoise.share.policies._authors import EVERYBODY, LEARNED, decision
from equipoise.share.policies.uara_lara import UARALARA
from equipoise.share.published import DIGITS, published_run
from equipoise.share.view import Decision

CODE, TEXT = "UARA+LARA", "DescribedUARA+LARA"
CORRECTED = f"{TEXT}:corrected"
COMPUTING, SENDING = 5, 20  # tasks of the example
EACH, WHOLE = 6.0, 150.0  # samples per step: 150 / 25 each, and the site


@dataclass(frozen=True)
class WithTheBug(UARALARA):
    """The authors' policy with weights summed over all tasks of the site: what the text says."""

    label: ClassVar[str] = "UARA+LARA with the bug"

    def given(self, view: View, estimate: Estimate) -> Decision:
        return decision(view, LEARNED, estimate.left, capped=EVERYBODY)


@claim(
    "UARA+LARA divides the site by tasks that cannot compute yet; this starves the cluster and is why it collapses.",
    source=f"{SOURCE}, section 6.1",
    effort=10,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=400, full=4000)
    code = played((CODE, WithTheBug()), count)
    text = played((TEXT, CORRECTED), count, workload=Workload.described())
    starved, corrected = (starving(name) for name in (TEXT, CORRECTED))
    ours = partial(points, over=paired(count), about="ours")
    rates = partial(Finding, unit="samples per step", about="ours")
    cells = "cells of UARA+LARA in the paper's Table 1 that its own run gives with the bug put in"
    same, all_, most, whole = float(_cells_with_the_bug()), len(DIGITS), float(starved.max()), float(corrected.sum())
    success = [mean_of(found, name, "success") for found in (code, text) for name in found.names]
    figure = by_name(
        "UARA+LARA at 60 tasks, with the denominator of the code and of the text",
        ("code", "code, with the bug", "text", "text, corrected"),
        bars("success", success),
        caption="The bug would cost the authors' policy six points; its code does not have it.",
    )
    return Measured(
        protocol=f"The authors' code at 60 tasks, {told(count)}, as it is and with weights summed over all tasks in the "
        f"site. Then what the text says (preset described): {COMPUTING} tasks that can compute and {SENDING} that still "
        "send, by hand; and 60 tasks with both denominators.",
        findings=(
            Finding(cells, same, at_least(all_), f"of {all_}; without it all of them", when="in the authors' code"),
            ours(code, "points that it would cost them", CODE, WithTheBug.label),
            rates("most that one of five computing tasks gets while twenty send, by the text", most, at_most(EACH)),
            rates("compute of the five together with the right denominator", whole, at_least(WHOLE)),
            ours(text, "points that the right denominator wins, by the text", CORRECTED, TEXT),
        ),
        figures=(figure,),
        notes=("We had taken the text for the code, and told that the bug explains a part of the collapse.",),
    )


def starving(name: str) -> Floats:
    """Samples per step of tasks that can compute, in the first step, while others are sending."""
    ready = [Task(arrival=0, deadline=40, data=0, delay=0, target=0.15)] * COMPUTING
    sending = [Task(arrival=0, deadline=40, data=1000, target=0.15)] * SENDING
    run = simulate(policies.named(name), Workload.of([*ready, *sending]), trace=True)
    return np.asarray(run.kept.compute[0, 0, :COMPUTING])


def _cells_with_the_bug() -> int:
    """The authors' sequence with the bug in UARA+LARA: cells of its row that print as in the paper."""
    players = [*(kind() for kind in policies.PUBLISHED[:-1]), WithTheBug(called=CODE)]
    return sum(cell["same"] for cell in published_run(players=players).beside if cell["policy"] == CODE)
