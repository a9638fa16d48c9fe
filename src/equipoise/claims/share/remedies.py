"""The paper's remedies for UARA+LARA: do they win back what it lost against Uniform?"""

from functools import partial

from equipoise.claims import Measured, Scale, at_least, claim
from equipoise.claims.share._published import BEHIND, SOURCE, SUCCESS, by_name, mean_of, paired, played, points, told
from equipoise.present.figures import Axis, Figure, Mark, Series, bars
from equipoise.share import Sweep, Workload, policies
from equipoise.share.policies.described_uara_lara import DescribedUARALARA
from equipoise.share.policies.uara_lara import UARALARA

TEXT, HONEST, OURS = "DescribedUARA+LARA", "Uniform", "Hybrid"
CORRECTED, FLOOR = f"{TEXT}:corrected", f"{TEXT}:floor"
NAMES = (TEXT, CORRECTED, FLOOR, "DescribedUniform", HONEST, OURS)
BOTH = "UARA+LARA, no price, matching caps"
FLOORS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # part of an equal share


@claim(
    "A corrected normalisation, minimum shares and hybrids that fall back to robust baselines would win back what "
    "UARA+LARA loses.",
    source=f"{SOURCE}, future work",
    effort=40,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=800, full=4000)
    described = Workload.described()
    found = played(NAMES, count, workload=described)
    shares = [DescribedUARALARA(corrected=True, floor=f, called=f"{f:g}") for f in FLOORS]
    floors = played(shares, count, workload=described)
    code = [policies.Uniform(), UARALARA(), UARALARA(price=False, matching=True, called=BOTH), policies.Hybrid()]
    theirs = played(code, count)
    over = paired(count)
    back = partial(points, found, "success minus that of Uniform", other="DescribedUniform", bound=at_least(0.0))
    ours = partial(points, found, over=over, about="ours")
    return Measured(
        protocol=f"What the text says, at 60 tasks of the preset described, {told(count)}: UARA+LARA with the right "
        "denominator, with half of an equal share as a minimum besides, and Hybrid. And on the authors' preset, where "
        "there is no denominator to correct: their UARA+LARA without its price and with caps of the tasks that LARA serves.",
        findings=(
            back(one=CORRECTED, over=over, when="corrected normalisation"),
            back(one=FLOOR, over=over, when="minimum share"),
            back(one=OURS, over=over, when="a hybrid that falls back (ours)"),
            *(ours(f"points that {name} wins over {TEXT}", name, TEXT) for name in (CORRECTED, FLOOR)),
            points(theirs, f"authors' preset: {BOTH} minus Uniform", BOTH, HONEST, BEHIND, over=over, about="ours"),
            points(theirs, "authors' preset: Hybrid minus Uniform", OURS, HONEST, over=over, about="ours"),
        ),
        figures=(_bars(found), _floors(found, floors)),
        notes=(
            "The paper names these remedies as future work and gives no numbers. Winning back means: not below the text's "
            "Uniform, which carries the same wrong denominator; the authors' Uniform does not.",
        ),
    )


def _bars(found: Sweep) -> Figure:
    success = bars("success", [mean_of(found, name, "success") for name in NAMES])
    caption = "From the text's UARA+LARA to Hybrid, with both Uniforms between them."
    return by_name("Remedies at 60 tasks", NAMES, success, caption=caption)


def _floors(found: Sweep, floors: Sweep) -> Figure:
    success, error = ([row[name] for row in floors.rows] for name in ("success", "success_se"))
    return Figure(
        "How large a minimum share?",
        x=Axis("minimum, part of an equal share"),
        y=Axis(SUCCESS),
        series=(Series("UARA+LARA, corrected, with a minimum", FLOORS, success, error=error),),
        marks=tuple(Mark("y", mean_of(found, name, "success"), name) for name in ("DescribedUniform", HONEST)),
        caption="With a minimum of one equal share it is the authors' Uniform with other transfers.",
    )
