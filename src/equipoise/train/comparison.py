"""Entrants side by side on the same instances: at equal rounds, at equal bits, and to a target.

Judged by the relative distance |x - x*| / |x(0) - x*|, which a method that breaks the budget cannot cheat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from equipoise.certificate import Certificate, Check
from equipoise.document import Document, Look, Plain, look_of, plain
from equipoise.errors import InputError
from equipoise.present.figures import thinned
from equipoise.result import Result
from equipoise.train import baselines
from equipoise.train.arrays import Floats
from equipoise.train.audit import kkt_violation
from equipoise.train.baselines._track import Entrant, Track
from equipoise.train.costs._base import curvature
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.solve import refuse_uncountable
from equipoise.train.spec import CompareSpec

Instance = tuple[Problem, Network]
Source = Problem | Callable[[int], Instance]
Progress = Callable[..., None]

OURS = "Ours"
ARRIVED = 1e-9  # distances below it all count as this: what is left there is rounding
RESAMPLES = 2000  # of the bootstrap
CHECKPOINTS = (0.05, 0.1, 0.25, 0.5, 1.0)  # of the rounds
TARGETS = (1e-3, 1e-6)
OPTIMUM_LIMIT = 1e-9  # of the spread of prices at the start
ROWS_KEPT = 1000  # of each track in a document
COLUMNS: dict[str, Callable[[float], Plain]] = {  # of the history, and what their numbers are
    "round": int,
    "distance": float,
    "gap": float,
    "relative_gap": float,
    "bits": int,
    "messages": int,
    "violation": float,
    "box_violation": float,
}


def compare(
    problem: Source,
    network: Network | None = None,
    entrants: Sequence[str | Entrant] | None = None,
    *,
    rounds: int = 200,
    seeds: int = 20,
    first_seed: int = 0,
    targets: Sequence[float] = TARGETS,
    every: int = 1,
    progress: Progress | None = None,
) -> MethodComparison:
    """Every entrant plays every instance.

    problem    a Problem (then `network` too: one instance), or a function from a seed to (problem, network)
    entrants   names of `baselines.ALL`, or objects with a name and play(); all that do not refuse, unless given
    targets    relative distances to which rounds and bits are counted
    progress   told (done, total) after every play
    """
    for name, value in (("rounds", rounds), ("seeds", seeds), ("every", every)):
        refuse_uncountable(name, value)
    drawn, numbers_of = _instances(problem, network, seeds, first_seed)
    if min(net.n for _, net in drawn) < 2:
        raise InputError(
            "a comparison needs at least 2 nodes: one alone has nobody to share with", code="comparison.nodes"
        )
    players = _players(entrants, drawn[0])
    tracks: dict[str, list[Track]] = {player.name: [] for player in players}
    for k, (one, net) in enumerate(drawn):
        for j, player in enumerate(players):
            tracks[player.name].append(_played(player, player.play(one, net, rounds, every)))
            if progress is not None:
                progress(k * len(players) + j + 1, len(drawn) * len(players))
    return MethodComparison(tuple(players), tuple(numbers_of), rounds, tuple(targets), tuple(drawn), tracks)


def _instances(problem: Source, network: Network | None, seeds: int, first: int) -> tuple[list[Instance], list[int]]:
    if isinstance(problem, Problem):
        if network is None:
            raise InputError(
                "compare(problem, network): a problem needs its network; or pass a function of a seed",
                code="network.missing",
            )
        return [(problem, network)], [first]
    if not callable(problem):
        raise InputError(f"compare takes a Problem or a function from a seed to one, not {type(problem).__name__}")
    if network is not None:
        raise InputError("a function of a seed brings its own networks: drop the network", code="network.unused")
    chosen = list(range(first, first + seeds))
    return [problem(seed) for seed in chosen], chosen


def _played(player: Entrant, found: object) -> Track:
    if isinstance(found, Track):
        return found
    given = "None" if found is None else type(found).__name__
    raise InputError(
        f"play() of entrant {player.name!r} returned {given}, not a Track: end it with return book.track()",
        code="entrant.track",
    )


def _entrant(one: Any) -> Entrant:
    """A name becomes the rival it names; anything else must have what an entrant needs."""
    if isinstance(one, str):
        return baselines.named(one)
    kind = one.__name__ if isinstance(one, type) else type(one).__name__
    if isinstance(one, type):
        raise InputError(f"entrant {kind} is a class: give an instance, {kind}()", code="entrant.class")
    name = getattr(one, "name", None)
    if not (isinstance(name, str) and name):
        given = f"not {name!r}" if hasattr(one, "name") else "and this one has none"
        raise InputError(f"entrant {kind}: every entrant needs a name, a text, {given}", code="entrant.name")
    if not callable(getattr(one, "play", None)):
        raise InputError(
            f"entrant {name!r} has no play(problem, network, rounds, every) (docs/compare-methods.md)",
            code="entrant.play",
        )
    player: Entrant = one
    return player


def _players(entrants: Sequence[str | Entrant] | None, instance: Instance) -> list[Entrant]:
    if entrants is None:
        able = [one() for one in baselines.CLASSES]
        return [one for one in able if not refusal(one, *instance)]
    if isinstance(entrants, str) or not isinstance(entrants, Iterable):
        raise InputError(
            f"entrants is a list of names and entrants, not {type(entrants).__name__}: put it in brackets",
            code="entrant.list",
        )
    found = [_entrant(one) for one in entrants]
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not found:
        raise InputError("no entrants given", code="entrant.none")
    if twice is not None:
        raise InputError(f"two entrants are called {twice!r}: give one another name", code="entrant.twice")
    return found


def refusal(entrant: Any, problem: Problem, network: Network) -> str | None:
    """Why an entrant cannot play this instance, where it says so beforehand."""
    ask = getattr(entrant, "refuses", None)
    return None if ask is None else ask(problem, network)


@dataclass(frozen=True, eq=False, repr=False)
class MethodComparison(Result):
    """All tracks, and the tables made from them. `reference` is ours if it takes part, else the first entrant."""

    entrants: tuple[Entrant, ...]
    seeds: tuple[int, ...]
    rounds: int
    targets: tuple[float, ...]
    instances: tuple[Instance, ...]
    tracks: dict[str, list[Track]]  # by name, a track per seed
    target: float | None = None  # relative gap at which ours must end; the smallest of `targets` unless given
    left_out: tuple[str, ...] = ()  # who does not play, and why
    spec: CompareSpec | None = None  # what it was built from

    def __repr__(self) -> str:
        return f"<MethodComparison of {', '.join(self.names)}: {len(self.seeds)} instances, {self.rounds} rounds>"

    @property
    def names(self) -> list[str]:
        return list(self.tracks)

    @property
    def reference(self) -> str:
        return OURS if OURS in self.tracks else self.names[0]

    @property
    def checkpoints(self) -> list[int]:
        """Rounds at which tables look."""
        return sorted({max(1, round(part * self.rounds)) for part in CHECKPOINTS})

    @cached_property
    def telling(self) -> int:
        """The last checkpoint before the reference has arrived in most seeds, where there is still a race to see."""
        return max(self._race, default=self.checkpoints[0])

    @cached_property
    def _race(self) -> list[int]:
        return [k for k in self.checkpoints if np.median(self.after_rounds(self.reference, k)) > ARRIVED]

    @property
    def why_telling(self) -> str:
        """A sentence on how that round was chosen."""
        looked, arrived = ", ".join(map(str, self.checkpoints)), f"{ARRIVED:.0e}".replace("e-0", "e-")
        return (
            f"Round {self.telling} is the last of {looked} after which the median distance of {self.reference} is still "
            f"above {arrived}, which counts as arrived."
            if self._race
            else f"Round {self.telling} is the first of {looked}: {self.reference} has arrived ({arrived}) by then."
        )

    def after_rounds(self, name: str, number: int, measure: str = "distance") -> Floats:
        """The measure after so many rounds, one number per seed."""
        return np.array([track.at_round(number, measure) for track in self.tracks[name]])

    def after_bits(self, name: str, number: int, measure: str = "distance", payer: str | None = None) -> Floats:
        """The measure with the bits that the payer (the reference) had spent after so many rounds, per seed."""
        budgets = [track.at_round(number, "bits") for track in self.tracks[payer or self.reference]]
        return np.array([t.at_bits(bits, measure) for t, bits in zip(self.tracks[name], budgets, strict=True)])

    def needed(self, name: str, target: float, column: str = "round") -> Floats:
        """Rounds, bits or messages until the distance stays below the target, per seed; infinite where it never does."""
        return np.array([track.first(target, column) for track in self.tracks[name]])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row per protocol, checkpoint and entrant: the distance over seeds, and how often the reference is nearer."""
        return [
            self._row(protocol, number, name)
            for protocol in ("rounds", "bits")
            for number in self.checkpoints
            for name in self.names
        ]

    def _row(self, protocol: str, number: int, name: str) -> dict[str, Any]:
        look = self.after_rounds if protocol == "rounds" else self.after_bits
        distance, own = look(name, number), look(self.reference, number)
        low, high = median_interval(distance)
        return {
            "protocol": protocol,
            "checkpoint": number,
            "entrant": name,
            "distance": plain(np.median(distance)),
            "distance_low": plain(low),
            "distance_high": plain(high),
            "distance_mean": plain(geometric_mean(distance)),
            "gap": plain(np.median(look(name, number, "relative_gap"))),
            "bits": float(np.median(look(name, number, "bits"))),
            "messages": float(np.median(look(name, number, "messages"))),
            "violation": float(np.max(look(name, number, "violation"))),
            "reference_better": None if name == self.reference else better_share(own, distance),
            "reference_tied": None
            if name == self.reference
            else 1 - better_share(own, distance) - better_share(distance, own),
        }

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """A row per entrant: what it needs to each target, and the worst it did to the constraints on the way."""
        return [self._summary_row(name) for name in self.names]

    def _summary_row(self, name: str) -> dict[str, Any]:
        tracks = self.tracks[name]
        row: dict[str, Any] = {
            "entrant": name,
            "largest_violation": max(t.largest_violation for t in tracks),
            "largest_box_violation": max(t.largest_box_violation for t in tracks),
            "diverged": sum(t.diverged for t in tracks),
        }
        for target in self.targets:
            reached = self.needed(name, target)
            row[f"reached_{target:g}"] = float(np.isfinite(reached).mean())
            for column in ("round", "bits", "messages"):
                row[f"{column}_to_{target:g}"] = plain(np.median(self.needed(name, target, column)))
        return row

    def band(self, name: str, axis: str, places: Floats, measure: str = "distance") -> Floats:
        """Quartiles over seeds of the measure at these rounds or bits: three rows, the median in the middle.

        Parameters
        ----------
        name
            The entrant.
        axis
            "rounds" or "bits".
        places
            Where to look along this axis.
        measure
            A column of `Track`.
        """
        look = Track.at_round if axis == "rounds" else Track.at_bits
        values = np.array([[look(track, place, measure) for place in places] for track in self.tracks[name]])
        return np.asarray(np.quantile(values, (0.25, 0.5, 0.75), axis=0, method="nearest"))

    def table(self) -> str:
        """Plain text: the tables of the command line, with how the telling checkpoint was chosen."""
        from equipoise.present.train_compare import comparison_tables

        return "\n\n".join(table.text() for table in comparison_tables(self.as_dict()))

    def document(self, *, certify: bool = True) -> Document:
        """Plain values: the tables, and recorded rounds of every track."""
        first = self.instances[0][1]
        words = {"nodes": first.n, "network": first.description, "seeds": list(self.seeds), "rounds": self.rounds}
        target = min(self.targets) if self.target is None else self.target
        return Document(
            "train compare",
            self.as_dict() | {"left_out": list(self.left_out)},
            certificate_of(self, target) if certify else None,
            self.settings() or words,
            {"history": self._history()},
            looks={one.name: look_of_entrant(one) for one in self.entrants},
        )

    def _history(self) -> list[dict[str, Plain]]:
        """A row per entrant, seed and recorded round; of long plays rounds in even steps."""
        return [
            {"entrant": name, "seed": seed} | {column: COLUMNS[column](getattr(track, column)[k]) for column in COLUMNS}
            for name, tracks in self.tracks.items()
            for seed, track in zip(self.seeds, tracks, strict=True)
            for k in thinned(len(track.round), ROWS_KEPT)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in result.json; numbers that are not finite are None."""
        prices = [tracks.optimum.price for tracks in self.tracks[self.reference]]
        return {
            "reference": self.reference,
            "seeds": list(self.seeds),
            "rounds": self.rounds,
            "telling": self.telling,
            "why_telling": self.why_telling,
            "targets": list(self.targets),
            "price": {"smallest": min(prices), "median": float(np.median(prices)), "largest": max(prices)},
            "summary": self.summary,
            "rows": self.rows,
        }


def look_of_entrant(entrant: Entrant) -> Look:
    """Colour and label, and whether it is a tool of analysis only."""
    label = getattr(entrant, "label", "")
    tool = {"analysis": "yes"} if getattr(entrant, "analysis", False) else {}
    return look_of(entrant) | ({"label": str(label)} if label else {}) | tool


def median_interval(values: Floats) -> tuple[float, float]:
    """A 95% bootstrap interval of the median over seeds; always the same resamples."""
    if len(values) < 2:
        return float(values[0]), float(values[0])
    picks = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[picks], axis=1), (0.025, 0.975), method="nearest")
    return float(low), float(high)


def geometric_mean(values: Floats) -> float:
    """Of distances, none below what counts as arrived; infinite if one is."""
    if not np.isfinite(values).all():
        return math.inf
    return float(np.exp(np.mean(np.log(np.maximum(values, ARRIVED)))))


def better_share(one: Floats, other: Floats) -> float:
    """In which part of the seeds `one` is nearer; two that have arrived are equal."""
    return float((np.maximum(one, ARRIVED) < np.maximum(other, ARRIVED)).mean())


# The certificate: was it fair, and did our own method keep what it promises?


def certificate_of(result: MethodComparison, target: float) -> Certificate:
    """Recomputed from instances and tracks. What is said of ours is checked only where ours takes part."""
    checks = [_same(result), _optimum(result), _ledger(result)]
    if OURS in result.tracks:
        checks += _promises(result, target)
    return Certificate(tuple(checks))


def worst_of(comparisons: Sequence[MethodComparison], target: float) -> Certificate:
    """Every check once, with the worst value of several comparisons."""
    found = [certificate_of(one, target) for one in comparisons]
    worst = [max((each[check.name] for each in found), key=_badness) for check in found[0]]
    return Certificate(tuple(replace(check, meaning=f"{check.meaning} (the worst of all settings)") for check in worst))


def _badness(check: Check) -> tuple[bool, float]:
    return check.passed is not True, math.inf if check.value is None else check.value


def _same(result: MethodComparison) -> Check:
    apart = 0.0
    for tracks in zip(*result.tracks.values(), strict=True):
        for track in tracks[1:]:
            for one, other in ((track.start, tracks[0].start), (track.optimum.shares, tracks[0].optimum.shares)):
                apart = max(apart, float(np.abs(one - other).max()))
    meaning = "largest difference between entrants in where they start and in the optimum they are held against, CPUs"
    return Check.at_most("same instances", apart, 0.0, meaning)


def _optimum(result: MethodComparison) -> Check:
    worst = 0.0
    for (problem, network), track in zip(result.instances, result.tracks[result.reference], strict=True):
        market = problem.market(network.n)
        assert market is not None
        _, steepest = curvature(market.cost, market.lo, market.hi)
        best, slope = track.optimum.shares, market.cost.derivative
        off = kkt_violation(best, slope(best), steepest, market.lo, market.hi)
        worst = max(worst, off / max(float(np.ptp(slope(track.start))), 1e-300))
    meaning = "KKT violation of the centralised optimum, as a part of the spread of prices at the start"
    return Check.at_most("optimum", worst, OPTIMUM_LIMIT, meaning)


def _ledger(result: MethodComparison) -> Check:
    wrong = 0
    for tracks in result.tracks.values():
        for t in tracks:
            wrong += int((np.diff(t.bits) < 0).sum() + (np.diff(t.messages) < 0).sum() + (t.bits < t.messages).sum())
    meaning = "recorded rounds in which sums of bits or messages fell, or a message had less than one bit"
    return Check.at_most("ledger", wrong, 0.0, meaning)


def _promises(result: MethodComparison, target: float) -> list[Check]:
    budget = box = gap = 0.0
    for (problem, network), track in zip(result.instances, result.tracks[OURS], strict=True):
        market = problem.market(network.n)
        assert market is not None
        x = track.shares
        off = abs(float(np.sum(x)) - market.budget * market.grid.unit)
        outside = float(np.maximum(market.lo - x, x - market.hi).max())
        budget = max(budget, off, track.largest_violation, float(track.violation.max()))
        box = max(box, outside, track.largest_box_violation, float(track.box_violation.max()))
        gap = max(gap, np.inf if track.diverged else float(track.relative_gap[-1]))
    return [
        Check.at_most("budget", budget, 0.0, "ours: largest |sum of shares - budget| in any round of any seed, CPUs"),
        Check.at_most("box", max(box, 0.0), 0.0, "ours: farthest any share ever was outside its box, CPUs"),
        Check.at_most("gap", gap, target, "ours: |F - F*| in the last round as a part of the first, the worst seed"),
    ]
