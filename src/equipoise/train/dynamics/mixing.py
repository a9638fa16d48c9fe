"""The paper's learning half: consensus on models and trackers, and gradient tracking (docs/train.md, 2 and 3.1).

say    y_i and z_i
hear   v_i += step sum_j w_ij (v_j - v_i) of both, and y_i -= step alpha z_i;   z_i += the change of grad g_i(y_i)
"""

from __future__ import annotations

from equipoise.kernels import Floats, Ints, kernel
from equipoise.train.dynamics.averages import Tracked
from equipoise.train.exchange.rows import NO_CODER, Near, Round, Site, Voice, quantise_counted
from equipoise.train.method import Method
from equipoise.train.quantize import Coder
from equipoise.train.sampler import Sampler


class Mixing(Tracked):
    """The learning half of the nodes of a site."""

    needs = frozenset({"symmetric", "reliable"})

    def __init__(
        self,
        site: Site,
        sampler: Sampler,
        method: Method,
        start: Floats,
        steps: tuple[float, float],
        calm: float | None = None,
    ) -> None:
        """`steps`: of consensus, and alpha."""
        super().__init__(site, sampler, method, start, calm)
        self.step, self.alpha = steps
        self.voice = Voice(site, method.quantizer, 2 * self.model.size)

    def voices(self) -> dict[str, Voice]:
        return {"yz": self.voice}

    def play(self, number: int) -> Round:
        """One round. False when models or trackers have run away: the run has diverged."""
        site, voice = self.site, self.voice
        voice.say(self.yz, number)
        first = site.degree_bits if site.first(number) and self.method.model_weights == "metropolis" else 0
        self.meter.add(number, voice.bits(number) + first)
        yield (voice,)
        weights = site.weights(number, self.method.model_weights)
        coder, quantised = voice.edge_coder or NO_CODER, voice.edge_coder is not None
        down = self.step * self.alpha * self.method.faded(number) * self.trackers
        rule = (self.step, quantised)
        mix(site.near(number), site.own, voice.at(number), weights, rule, coder, voice.tally, self.yz)
        self.models[:] -= down
        return self.track(number)


@kernel
def mix(
    near: Near,
    own: Ints,
    said: Floats,
    weights: Floats,
    rule: tuple[float, bool],
    coder: Coder,
    tally: Ints,
    rows: Floats,
) -> None:
    """v_i += step sum_j w_ij (v_j - v_i), or q(v_j - v_i): both ends compute the same with the other sign."""
    step, quantised = rule
    for r in range(len(own)):
        i = own[r]
        for e in range(near.first[i], near.first[i + 1]):
            j = near.node[e]
            for c in range(rows.shape[1]):
                difference = said[j, c] - said[i, c]
                if quantised:
                    difference = quantise_counted(coder, difference, tally)
                rows[r, c] += step * weights[e] * difference
