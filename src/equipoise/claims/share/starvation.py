"""What starves UARA+LARA in the authors' code: the price of the network, caps of other tasks than LARA's, estimates."""

import math

from equipoise.claims import Finding, Measured, Scale, between, claim
from equipoise.claims.share._published import SEED_BY_SEED, SOURCE, by_name, paired, same_tasks
from equipoise.present.figures import bars
from equipoise.share import policies

# A change of UARA+LARA: the points that it wins by an implementation of others, and their standard error (400 seeds).
WON = {
    "no price": (4.10, 0.18),
    "caps of the tasks that LARA serves": (4.92, 0.18),
    "both": (10.04, 0.22),
    "true work": (0.03, 0.04),
}
SURE, THEIRS = 2.0, 400  # standard errors, and seeds of theirs


@claim(
    "What starves UARA+LARA is that network congestion throttles its compute, and that it takes the lesser of two "
    "allocations over different tasks; its estimates play no part.",
    source=f"{SOURCE}, the authors' notebook, measured by an independent implementation",
    effort=40,
)
def measure(scale: Scale) -> Measured:
    count = scale.pick(quick=60, full=400)
    players = [
        policies.UARALARA(),
        policies.UARALARA(price=False, called="no price"),
        policies.UARALARA(matching=True, called="caps of the tasks that LARA serves"),
        policies.UARALARA(price=False, matching=True, called="both"),
        policies.clairvoyant(policies.UARALARA(called="true work")),
        policies.LARA(),
    ]
    found = {name.removesuffix(" (clairvoyant)"): cell for name, cell in same_tasks(players, count).items()}
    won = {name: float((found[name]["success"] - found["UARA+LARA"]["success"]).mean()) for name in WON}
    wide = SURE * math.sqrt(THEIRS / count)
    bound = {name: between(theirs - wide * error, theirs + wide * error) for name, (theirs, error) in WON.items()}
    names = ("UARA+LARA", *WON, "LARA")
    figure = by_name(
        "UARA+LARA at 60 tasks with one thing changed",
        names,
        bars("success", [float(found[name]["success"].mean()) for name in names]),
        x="changed",
        caption="Without the price and with caps of the tasks that LARA serves, nearly all of LARA is back.",
    )
    return Measured(
        protocol=f"UARA+LARA of the authors' code with one thing changed, at 60 tasks, seeds 0-{count - 1}: {SEED_BY_SEED}. "
        "A finding holds within two standard errors, of so many seeds, of what the independent implementation measured.",
        findings=[
            Finding(f"points won by {name}", won[name], bound[name], "points", over=paired(count), when=name)
            for name in WON
        ],
        figures=(figure,),
        notes=(
            "The price is 1 + 2 (tasks that still send) / (tasks in the site): near 3 in the first 30 steps. It divides all "
            "caps, so that their sum is a third to a half of the site, and relieves no uplink.",
            "In the mean LARA serves some of the computing tasks, and the caps are shares of all: the lesser wastes both.",
        ),
    )
