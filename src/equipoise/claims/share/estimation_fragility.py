"""Estimation: what hangs on it in the published policies, and what it takes not to."""

from dataclasses import replace
from typing import Any

from equipoise.claims import Finding, Measured, Scale, at_least, claim
from equipoise.claims.share._published import SOURCE, SUCCESS, lead, least_sure, mean_of, paired, played, points, told
from equipoise.present.figures import Axis, Figure, Series
from equipoise.share import Sweep, Workload

SHIFTS = (-0.2, -0.1, 0.0, 0.1)  # of the mean of b that policies are told
LEARNERS, ROBUST, OURS = ("LARA", "UARA+LARA"), "Uniform", "Hybrid"
FRAGILE = 1.0  # points that true work must win, or nothing hangs on estimates


@claim(
    "Policies that watch learning curves are fragile: they fail where their estimates do, and simple ones do not.",
    source=f"{SOURCE}, estimation",
    effort=40,
)
def measure(scale: Scale) -> Measured:
    count, shifts = scale.pick(quick=200, full=2000), scale.pick((-0.2, 0.0), SHIFTS)
    twins = tuple(f"{name}:clairvoyant" for name in LEARNERS)
    code = played((*LEARNERS, *twins), count)
    text = played([f"Described{name}" for name in (*LEARNERS, *twins)], count, workload=Workload.described())
    wrong = {shift: played((ROBUST, OURS), count, workload=_told(shift)) for shift in shifts}
    real = played((OURS, f"{OURS}:clairvoyant"), scale.pick(quick=40, full=300), workload=Workload.recorded())
    over = f"least sure of {len(shifts)} settings; {paired(count)}"
    worst = least_sure(found.gap(OURS, ROBUST, "success", 60) for found in wrong.values())
    x = Axis("shift of the mean of b that is told")
    caption = "A population learnt online stands in for a prior that is wrong."
    lines = [Series(n, shifts, [mean_of(wrong[x], n, "success") for x in shifts]) for n in (ROBUST, OURS)]
    return Measured(
        protocol=f"60 tasks, {told(count)}. The authors' learners, and those of the text, against their twins that know the "
        "true work; then Hybrid with the mean of b that it is told off by up to .2 (preset described); and real recorded "
        f"curves, {told(len(real.seeds))}. Fragile means that true work wins at least a point.",
        findings=(
            *(_wins(code, n, bound=at_least(FRAGILE), when=f"{n} of the code") for n in LEARNERS),
            *(_wins(text, f"Described{n}", about="ours", when=f"{n} of the text") for n in LEARNERS),
            lead(f"lead of {OURS} over {ROBUST} in success with wrong priors", worst, over=over, about="ours"),
            _wins(real, OURS, f" {OURS} on real curves", about="ours"),
        ),
        figures=(Figure("Success with a wrong prior, 60 tasks", x, Axis(SUCCESS), lines, caption=caption),),
        notes=(
            "In the authors' code estimates play no part: exploration has served nearly every task before they are asked.",
        ),
    )


def _wins(found: Sweep, name: str, whom: str = "", **more: Any) -> Finding:
    twin, over = f"{name} (clairvoyant)", paired(len(found.seeds))
    return points(found, f"points that true work would win{whom}", twin, name, over=over, **more)


def _told(shift: float) -> Workload:
    """Tasks as ever; policies are told another mean of b."""
    usual = Workload.described()
    log_a, b = usual.prior.mean
    return usual.but(prior=replace(usual.prior, mean=(log_a, b + shift)))
