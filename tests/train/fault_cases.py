"""Random schedules of faults, and a watch that checks every round of a run by arithmetic of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.train import (
    Bursts,
    Exact,
    Faults,
    Latency,
    LeastSquares,
    LogQuantizer,
    Method,
    Network,
    Partition,
    Problem,
    Quadratic,
    solve,
)

LAST_ROUND = 150  # of events
QUIET = 2500  # rounds after them
GOOD, DONE = 1e-8, 1e-9  # own gaps as parts of that of equal shares and models of 0 (or of a thousandth of the optimum)
AWAY = 1e-5  # of the largest gap since the last event: what a certificate must not pass
CLOSE = 1e-9  # models, as a part of the largest number in their sums
SCRIPTS = (
    ("crash",),
    ("crash",),
    ("leave",),
    ("join",),
    ("crash", "join"),
    ("leave", "join"),
    ("join", "crash"),
    ("join", "leave"),
    ("crash", "join", "crash"),
    ("leave", "join", "leave"),
)


class Seeded:
    """Choices by a random generator."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 77])

    def integer(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        return float(self._rng.uniform(low, high))

    def one_of(self, options: Any) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)


class Drawn(Seeded):
    """Choices by Hypothesis, which makes a failing schedule smaller."""

    def __init__(self, draw: Any) -> None:
        from hypothesis import strategies

        self._draw, self._strategies = draw, strategies

    def integer(self, low: int, high: int) -> int:
        return self._draw(self._strategies.integers(low, high))

    def real(self, low: float, high: float) -> float:
        return self._draw(self._strategies.floats(low, high))

    def chance(self, probability: float) -> bool:
        return self.integer(0, 99) >= 100 - 100 * probability


@dataclass(frozen=True)
class Case:
    """One schedule: what is solved, where, and what goes wrong."""

    problem: Problem
    network: Network
    method: Method
    faults: Faults
    shards: list[tuple[np.ndarray, np.ndarray]] | None
    kinds: tuple[str, ...]  # of network, cost and faults, for the summary

    @property
    def last(self) -> int:
        """The round of the last event, or of its notice."""
        faults = self.faults
        ends = [at + faults.notice * (kind == "crash") for kind, _, at in faults.deeds]
        return max([*ends, *(part.end for part in faults.partitions), 0])


def draw_case(pick: Seeded, **fixed: Any) -> Case:
    """A schedule with all events in the first rounds. `fixed` may name n, cost, loss, delay, model."""
    n = fixed.get("n") or (20 if pick.chance(0.06) else pick.integer(2, 12))
    network, kind = draw_network(pick, n)
    n = network.n
    rng = np.random.default_rng([pick.integer(0, 99_999), 5])
    faults, kinds = draw_faults(pick, n, fixed)
    halves = fixed.get("halves") or pick.one_of(("both", "both", "cpu", "model"))
    shards = draw_shards(rng, n, pick.integer(1, 4)) if halves != "cpu" else None
    cost = budget = None
    if halves != "model":
        cost, budget, label = draw_cost(pick, rng, n, fixed.get("cost"), gone=len({who for _, who, _ in faults.deeds}))
        kinds.append(label)
    chosen = pick.one_of(("default", "log", "exact"))
    quantizer = {"default": LogQuantizer(), "log": LogQuantizer(rho=pick.real(0.05, 0.5)), "exact": Exact()}[chosen]
    problem = Problem(cost, budget, None if shards is None else LeastSquares(shards))
    return Case(problem, network, Method(quantizer=quantizer), faults, shards, (kind, *kinds, chosen))


def draw_network(pick: Seeded, n: int) -> tuple[Network, str]:
    kinds = ["path", "star", "complete"] + (["ring", "erdos_renyi", "geometric", "grid"] if n > 2 else [])
    kind = pick.one_of(kinds)
    switching = pick.one_of((0, 0, 3, 4)) if n >= 5 and kind != "complete" else 0
    options: dict[str, Any] = {"seed": pick.integer(0, 999)}
    if kind != "complete":
        options["switching"] = switching
    if kind == "erdos_renyi":
        options["p"] = 0.5
    if kind == "grid":
        options["rows"] = 2
        n -= n % 2
    if kind == "grid" and n < 6:
        options["switching"] = switching = 0
    return Network.by_name(kind, n, **options), f"{kind}" + (f" {switching}" if switching else "")


def draw_cost(
    pick: Seeded, rng: np.random.Generator, n: int, which: str | None, gone: int
) -> tuple[Quadratic | Latency, float, str]:
    """Some nodes end at a bound, some are pinned; room for the CPU of those who go, mostly."""
    which = which or pick.one_of(("quadratic", "quadratic", "latency"))
    scale, part = 10.0 ** pick.integer(-3, 3), pick.one_of((0.0, 0.3, 0.6, 0.8))
    tight = pick.chance(0.1)
    grow = 1.0 if tight else 1.3 * n / max(1, n - gone)
    saturated, at_hi, pinned = rng.random(n) < part, rng.random(n) < 0.5, rng.random(n) < pick.one_of((0.0, 0.0, 0.2))
    saturated[rng.integers(n)] = False
    label = f"{which} {int(100 * part)}% full" + (" tight" if tight else "") + (" pins" if pinned.any() else "")
    if which == "quadratic":
        spread = pick.one_of((0.7, 0.7, 2.3))
        a, c = scale * np.exp(spread * rng.uniform(-1, 1, n)), rng.uniform(10, 60, n)
        wish = np.maximum(c + scale * rng.uniform(-20, 20) / a, 2.0)
        near, far = rng.uniform(0.5, 15, n), rng.uniform(1, 40, n)
        lo = np.where(saturated, np.where(at_hi, wish - near - far, wish + near), wish - far)
        hi = np.where(saturated, np.where(at_hi, wish - near, wish + near + far), wish + rng.uniform(1, 40, n))
        lo, hi = np.maximum(lo, 0.0), np.maximum(hi, 0.5)
        free = pick.chance(0.1)
        budget = float(np.clip(wish, lo, hi).sum())
        hi = np.where(at_hi & saturated, hi, hi * grow)
        hi = np.where(pinned, lo, hi)
        hi[int(rng.integers(n))] += 60.0 * (grow - 1.0) * n
        if free:
            lo, hi = np.full(n, -np.inf), np.full(n, np.inf)
        budget = min(max(budget, float(lo.sum())), float(hi.sum()))
        return Quadratic(a, c, lo=lo, hi=hi), budget, "quadratic free" if free else label + " spread" * (spread > 1)
    work, speed = scale * np.exp(0.5 * rng.standard_normal(n)), np.exp(0.5 * rng.standard_normal(n))
    wish = np.sqrt(work / (speed * scale)) * rng.uniform(0.5, 20)
    near, far = rng.uniform(0.5, 0.95, n), rng.uniform(0.1, 0.8, n)
    lo = np.where(saturated, np.where(at_hi, wish * near * far, wish / near), wish * far)
    hi = np.where(saturated, np.where(at_hi, wish * near, wish / near / far), wish / rng.uniform(0.2, 0.9, n))
    budget = float(np.clip(wish, lo, hi).sum())
    hi = np.where(at_hi & saturated, hi, hi * grow)
    hi = np.where(pinned, lo, hi)
    budget = min(max(budget, float(lo.sum())), float(hi.sum()))
    return Latency(work, speed, lo=lo, hi=hi), budget, label


def draw_shards(rng: np.random.Generator, n: int, m: int) -> list[tuple[np.ndarray, np.ndarray]]:
    truth, shards = rng.standard_normal(m), []
    for _ in range(n):
        X = rng.standard_normal((int(rng.integers(6, 20)), m)) * np.exp(0.3 * rng.standard_normal(m))
        shards.append((X, X @ (truth + 0.3 * rng.standard_normal(m)) + 0.1 * rng.standard_normal(len(X))))
    return shards


def draw_faults(pick: Seeded, n: int, fixed: dict[str, Any]) -> tuple[Faults, list[str]]:
    notice, kinds = pick.integer(0, 8), []
    loss: float | Bursts = fixed.get("loss", 0.0)
    if "loss" not in fixed:
        weather = pick.one_of(("none", "even", "even", "bursts"))
        if weather == "even":
            loss = pick.real(0.01, 0.6)
        if weather == "bursts":
            loss = Bursts(enter=pick.real(0.02, 0.3), leave=pick.real(0.2, 0.9), bad=pick.real(0.5, 1.0))
        kinds += [f"loss {weather}"] if weather != "even" else [f"loss {'<' if loss < 0.35 else '>'} .35"]
    delay = fixed.get("delay", pick.one_of((0, 0, 1, 2, 4)))
    jitter = pick.chance(0.7)
    kinds += [f"delay {'to ' if jitter else ''}{delay}"] * (delay > 0)
    pool = [pick.integer(0, LAST_ROUND - 20) for _ in range(3)]
    pool += [pool[0] + notice, pool[0] + notice + 1]  # when the first is noticed, and just after
    deeds: dict[str, list[tuple[int, int]]] = {"crash": [], "leave": [], "join": []}
    for node in _some(pick, n, pick.integer(0, min(4, n - 1))):
        at = pick.one_of(pool)
        for kind in pick.one_of(SCRIPTS):
            deeds[kind].append((node, at))
            at += 1 + (notice if kind == "crash" else 0) + pick.one_of((0, 0, pick.integer(0, 30)))
    parts, begin = [], 0
    for _ in range(pick.one_of((0, 0, 1, 2)) if n > 1 else 0):
        begin += pick.integer(0, 60)
        end = begin + pick.integer(1, 40)
        parts.append(Partition(frozenset(_some(pick, n, pick.integer(1, n - 1))), begin, end))
        begin = end
    straggle = {node: pick.integer(2, 4) for node in _some(pick, n, pick.one_of((0, 0, 1, 2)))}
    kinds += sorted(kind for kind, found in deeds.items() if found)
    kinds += ["split"] * bool(parts) + ["straggle"] * bool(straggle)
    if parts and any(part.begin <= at < part.end for part in parts for _, at in deeds["crash"]):
        kinds.append("crash in split")
    if loss == 0.0 and not (delay or any(deeds.values()) or parts or straggle):
        loss = 0.1  # without any fault another engine plays
    return Faults(
        loss=loss,
        delay=delay,
        jitter=jitter,
        **deeds,
        straggle=straggle,
        partition=parts,
        notice=notice,
        seed=pick.integer(0, 9999),
    ), kinds


def _some(pick: Seeded, n: int, many: int) -> list[int]:
    """Different centres."""
    left, found = list(range(n)), []
    for _ in range(min(many, n)):
        found.append(left.pop(pick.integer(0, len(left) - 1)))
    return found


# the truth, by other means than the package's


def of(value: np.ndarray, who: np.ndarray) -> np.ndarray:
    """The numbers of some centres, of one for all or one for each."""
    return np.broadcast_to(value, who.shape)[who]


def best_shares(cost: Quadratic | Latency, budget: float, who: np.ndarray) -> tuple[np.ndarray, float]:
    """Shares of `who` and their price, by bisection; where the boxes are too small, all are full."""
    lo, hi = of(cost.lo, who), of(cost.hi, who)
    if hi.sum() <= budget:
        return hi.copy(), float(slopes(cost, hi, who).max())

    def wanted(price: float) -> np.ndarray:
        if isinstance(cost, Quadratic):
            return np.clip(price / of(cost.a, who) + of(cost.c, who), lo, hi)
        return np.clip(np.sqrt(of(cost.work, who) / of(cost.speed, who) / max(-price, 1e-300)), lo, hi)

    if isinstance(cost, Quadratic):
        reach = np.abs(budget) + np.abs(of(cost.c, who)).sum() + np.abs(np.where(np.isfinite(lo), lo, 0.0)).sum()
        low, high = (sign * 2.0 * float(of(cost.a, who).max()) * reach for sign in (-1.0, 1.0))
    else:
        low, high = 2.0 * float((-of(cost.work, who) / of(cost.speed, who) / lo**2).min()), 0.0
    for _ in range(2000):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if wanted(middle).sum() < budget else (low, middle)
    return wanted(high), high


def values(cost: Quadratic | Latency, x: np.ndarray, who: np.ndarray) -> np.ndarray:
    if isinstance(cost, Quadratic):
        return 0.5 * of(cost.a, who) * (x - of(cost.c, who)) ** 2
    return of(cost.work, who) / (of(cost.speed, who) * x)


def slopes(cost: Quadratic | Latency, x: np.ndarray, who: np.ndarray) -> np.ndarray:
    if isinstance(cost, Quadratic):
        return of(cost.a, who) * (x - of(cost.c, who))
    return -of(cost.work, who) / (of(cost.speed, who) * x**2)


class CpuTruth:
    """How far shares are from the best of those who are there."""

    def __init__(self, cost: Quadratic | Latency, budget: float, who: np.ndarray) -> None:
        self.cost, self.who = cost, who
        self.best, self.price = best_shares(cost, budget, who)
        lo, hi = of(cost.lo, who), of(cost.hi, who)
        low, high = -1e6 * abs(budget) - 1e6, 1e6 * abs(budget) + 1e6
        for _ in range(200):
            level = 0.5 * (low + high)
            low, high = (level, high) if np.clip(level, lo, hi).sum() < budget else (low, level)
        size = np.abs(values(cost, self.best, who)).sum()
        self.scale = max(self.gap_of(np.clip(high, lo, hi)), 1e-3 * float(size), 1e-300)

    def gap_of(self, x: np.ndarray) -> float:
        """f(x) - f(x*) - price (x - x*), each of which is >= 0 up to rounding."""
        if isinstance(self.cost, Latency) and not (x > 0).all():
            return np.inf
        each = values(self.cost, x, self.who) - values(self.cost, self.best, self.who) - self.price * (x - self.best)
        return float(each.sum())

    def relative(self, x: np.ndarray) -> float:
        return abs(self.gap_of(x[self.who])) / self.scale


class ModelTruth:
    """How far models are from the best of those who are there."""

    def __init__(self, shards: list[tuple[np.ndarray, np.ndarray]], who: np.ndarray) -> None:
        self.samples = sum(len(answers) for _, answers in shards)
        X = np.concatenate([shards[i][0] for i in np.flatnonzero(who)])
        answers = np.concatenate([shards[i][1] for i in np.flatnonzero(who)])
        self.best = np.linalg.lstsq(X, answers, rcond=None)[0]
        self.root = np.linalg.qr(X, mode="r")
        loss = float(((X @ self.best - answers) ** 2).sum()) / (2 * self.samples)
        self.scale = max(self.gaps(np.zeros((1, len(self.best))))[0], 1e-3 * loss, 1e-300)
        self.who = who

    def gaps(self, Y: np.ndarray) -> np.ndarray:
        """|X (y - y*)|^2 / 2N: residuals are at right angles to X."""
        return (((Y - self.best) @ self.root.T) ** 2).sum(axis=1) / (2 * self.samples)

    def relative(self, Y: np.ndarray) -> float:
        return float(self.gaps(Y[self.who]).max()) / self.scale


# who is there


class Standing:
    """Who is there, who is known to be there, and whether links of a split are in the books, round by round."""

    def __init__(self, faults: Faults, n: int) -> None:
        self.n, self.faults = n, faults
        self.scripts: dict[int, list[tuple[int, str]]] = {i: [] for i in range(n)}
        for kind, node, at in faults.deeds:
            self.scripts[node].append((at, kind))
        for script in self.scripts.values():
            script.sort()
        turns = {0} | {at for _, _, at in faults.deeds} | {at + faults.notice for _, at in faults.crash}
        for part in faults.partitions:
            turns |= {part.begin, part.begin + faults.notice, part.end}
        self._turns, self._kept = turns, {}
        self._now: Any = None

    def at(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """alive, known, side and whether the cut is noticed, as in the round of this number."""
        if number not in self._turns and self._now is not None and number == self._last + 1:
            self._last = number
            return self._now
        alive, known = np.ones(self.n, bool), np.ones(self.n, bool)
        for node, script in self.scripts.items():
            state = seen = not (script and script[0][1] == "join")
            for at, kind in script:
                if at <= number:
                    state = kind == "join"
                if at + (self.faults.notice if kind == "crash" else 0) <= number:
                    seen = kind == "join"
            alive[node], known[node] = state, seen
        side, cut = np.zeros(self.n, bool), False
        for part in self.faults.partitions:
            if part.begin <= number < part.end:
                side[list(part.nodes)] = True
                cut = number >= part.begin + self.faults.notice
        self._now, self._last = (alive, known, side, cut), number
        return self._now


class Watch:
    """A callback: whatever must hold in every round, and when both halves are done."""

    def __init__(self, case: Case) -> None:
        self.case, n = case, case.network.n
        self.standing = Standing(case.faults, n)
        self.violations: list[str] = []
        _, known, _, _ = self.standing.at(case.last)
        self.survivors = known
        problem = case.problem
        self.cpu = None if problem.cost is None else CpuTruth(problem.cost, problem.budget, known)
        self.model = None if case.shards is None else ModelTruth(case.shards, known)
        if case.shards is not None:
            N = sum(len(answers) for _, answers in case.shards)
            self.H = np.stack([X.T @ X / N for X, _ in case.shards])
            self.s = np.stack([X.T @ answers / N for X, answers in case.shards])
        self.largest = 0.0
        self.gaps = {"cpu": 0.0, "model": 0.0}
        self.outside = np.zeros(n, bool)
        self.peaks = {"cpu": 1.0, "model": 1.0}
        self.needed = {"cpu": 0, "model": 0}  # the last round that was not yet good
        self.worst_model = 0.0
        self.last: np.ndarray | None = None
        self.there = np.ones(n, bool)
        self.rounds = 0
        self.hopeless = bool(self.why_not())

    def why_not(self) -> list[str]:
        """What keeps the survivors from their optimum, in the words a run should use."""
        found, cost = [], self.case.problem.cost
        room = math.inf if cost is None else of(cost.hi, self.survivors).sum()
        if cost is not None and room < self.case.problem.budget * (1 - 1e-12):
            found.append("infeasible")
        if self.case.network.period is not None and self.pieces() > 1:
            found.append("pieces")
        return found

    def pieces(self) -> int:
        """Of the survivors' graphs, taken together."""
        group = {int(i): int(i) for i in np.flatnonzero(self.survivors)}

        def root(i: int) -> int:
            while group[i] != i:
                i = group[i]
            return i

        straggle, used = self.case.faults.straggle, set()
        for k in range(math.lcm(self.case.network.period or 1, *straggle.values())):
            arcs = self.case.network.arcs(k)
            for i, j in zip(arcs.senders.tolist(), arcs.receivers.tolist(), strict=True):
                if i in group and j in group and k % straggle.get(i, 1) == 0:
                    used.add((i, j))
        for i, j in used:
            if (j, i) in used:  # a link on which one end never acts says nothing
                group[root(i)] = root(j)
        return len({root(i) for i in group})

    def refusal_expected(self) -> bool:
        """Whether those who are there need more than the budget at some time."""
        cost = self.case.problem.cost
        if cost is None:
            return False
        lo = np.broadcast_to(cost.lo, self.survivors.shape)
        turns = sorted(self.standing._turns)
        return any(lo[self.standing.at(t)[1]].sum() > self.case.problem.budget * (1 + 1e-12) for t in turns)

    def __call__(self, moment: Any) -> bool:
        number, state = moment.number, moment.state
        self.rounds = number
        alive, known, side, cut = self.standing.at(number - 1)
        late = np.zeros(len(alive), bool)
        late[state.members.arriving] = True  # comes back, and waits until what it held before was claimed
        self.outside = (late | self.outside) & (late | ~alive)  # or until it is gone again, having never been in
        alive, known = alive & ~late, known & ~self.outside
        self._same("alive", number, state.members.alive, alive)
        self._same("known", number, state.members.known, known)
        if state.allocation is not None:
            self._look_at_cpu(number, state, alive, known)
        if state.learning is not None:
            self._look_at_model(number, state, known, side, cut)
        if self.violations and len(self.violations) > 5:
            return True
        if number <= self.case.last:
            return False
        if self.cpu is not None:
            self._measure("cpu", number, self.cpu.relative(state.shares))
        if self.model is not None:
            self._measure("model", number, self.model.relative(state.models))
        if self.hopeless:
            return number > self.case.last + 300
        return all(gap <= DONE for gap in self.gaps.values())

    def _measure(self, half: str, number: int, gap: float) -> None:
        self.gaps[half] = gap
        if np.isfinite(gap):
            self.peaks[half] = max(self.peaks[half], gap)
        if not gap <= GOOD:
            self.needed[half] = number - self.case.last

    def _say(self, number: int, text: str) -> None:
        if len(self.violations) < 8:
            self.violations.append(f"round {number}: {text}")

    def _same(self, what: str, number: int, found: np.ndarray, expected: np.ndarray) -> None:
        if not np.array_equal(found, expected):
            self._say(number, f"{what} is {np.flatnonzero(found)}, not {np.flatnonzero(expected)}")

    def _look_at_cpu(self, number: int, state: Any, alive: np.ndarray, known: np.ndarray) -> None:
        books, market = state.allocation, state.allocation.market
        shares, escrow = books.shares.tolist(), books.escrow.tolist()
        budget = round(self.case.problem.budget / market.grid.unit)
        if abs(budget - market.budget) > len(shares) + 1:
            self._say(number, f"the budget became {market.budget}, not {budget} units")
        living = sum(books.shares[alive].tolist()) + sum(books.escrow[alive].tolist())
        i, j = state.cpu_exchange.table.senders, state.cpu_exchange.table.receivers
        sent, got = books.sent, books.received
        both, to, back = alive[i] & alive[j], alive[i] & ~alive[j], ~alive[i] & alive[j]
        links = sum(sent[both].tolist()) - sum(got[both].tolist())
        claims = sum(books.opening[~alive].tolist()) + sum(sent[to].tolist()) - sum(got[back].tolist())
        if living + links + claims != market.budget:
            self._say(
                number,
                f"budget off by {living + links + claims - market.budget} units of {market.budget} (living {living}, "
                f"links {links}, claims on the dead {claims})",
            )
        unsettled = (~alive & known) | np.isin(np.arange(len(alive)), state.members.waiting)
        adrift = sum(shares) + sum(escrow) + sum(sent.tolist()) - sum(got.tolist()) - market.budget
        if adrift and not (
            unsettled.any() and self.case.faults.leave
        ):  # a leaver's gifts to the dead are in their claims
            self._say(number, f"budget off by {adrift} units, the dead's own shares included")
        if claims and not unsettled.any():
            self._say(number, f"{claims} units of the dead were never claimed")
        living = sum(books.shares[alive].tolist())
        if np.isfinite(market.lo).all() and min(market.low) >= 0 and living > market.budget:
            self._say(number, f"shares exceed the budget by {living - market.budget} units")
        if (sent < got).any():
            self._say(number, "a link has received more than was sent")
        if (got < 0).any():
            self._say(number, "a link has received less than nothing")
        if min(escrow) < 0:
            self._say(number, f"escrow {min(escrow)} < 0")
        inside = alive & ~books.collecting
        x = books.shares[inside]
        if (x < market.low[inside]).any() or (x > market.high[inside]).any():
            self._say(number, "a share is outside its box")
        waits = books.collecting & alive
        if (books.shares[waits] != 0).any():
            self._say(number, "one that collects has a share")
        gone = ~alive & ~known
        gone[state.members.waiting] = False
        if books.shares[gone].any() or books.escrow[gone].any():
            self._say(number, "one that is gone and settled still holds CPU")

    def _look_at_model(self, number: int, state: Any, known: np.ndarray, side: np.ndarray, cut: bool) -> None:
        """Every model is what its own sums say: the last one, its gradient, and the links that both ends count on."""
        learning = state.learning
        i, j = state.cpu_exchange.table.senders, state.cpu_exchange.table.receivers
        open_ = known[i] & known[j]
        if cut:
            open_ &= side[i] == side[j]
        if learning.z[~open_].any():
            self._say(number, "a link that is closed is still in the sums")
        Y, last = learning.models, self.last
        self.last = Y.copy()
        if last is None:
            return
        every = np.ones(len(known), np.int64)
        for node, rounds in self.case.faults.straggle.items():
            every[node] = rounds
        acts = state.members.alive & known & self.there & ((number - 1) % every == 0)
        self.there = state.members.alive & known
        h, total = learning.stiffness, learning.stiffness * last - np.einsum("ijk,ik->ij", self.H, last) + self.s
        weight = np.full(len(known), h)
        np.add.at(total, i[open_], learning.z[open_])
        np.add.at(weight, i[open_], learning.rho[open_])
        self.largest = max(self.largest, float(np.abs(total).max()), float(np.abs(h * Y).max()))
        off = np.abs(weight[:, None] * Y - total)[acts]
        self.worst_model = max(self.worst_model, float(off.max(initial=0.0)) / max(self.largest, 1e-300))
        if not self.worst_model <= CLOSE:
            self._say(number, f"models off by {self.worst_model:.1e}")


@dataclass
class Outcome:
    """What a schedule came to."""

    verdict: str  # refused, reported, converged, slow, silent, violated, crashed
    notes: list[str] = field(default_factory=list)
    needed: dict[str, int] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)
    model_error: float = 0.0
    rounds: int = 0


def play(case: Case, quiet: int = QUIET) -> Outcome:
    """Run a schedule and judge it."""
    watch = Watch(case)
    try:
        run = solve(
            case.problem, case.network, case.method, faults=case.faults, rounds=case.last + 1 + quiet, callback=watch
        )
    except InputError as error:
        if watch.refusal_expected():
            return Outcome("refused", [str(error)])
        return Outcome("violated", [f"refused: {error}"])
    halves = [half for half in ("cpu", "model") if getattr(watch, half) is not None]
    outcome = Outcome(
        "converged",
        list(watch.violations),
        {half: watch.needed[half] for half in halves},
        {half: watch.gaps[half] for half in halves},
        watch.worst_model,
        watch.rounds,
    )
    certificate = run.certificate()
    failed = [check.name for check in certificate.checks if not check.passed]
    why = watch.why_not()
    if outcome.notes:
        outcome.verdict = "violated"
    elif run.status == "diverged":
        outcome.verdict = "diverged"
        outcome.notes.append(run.reason)
    elif why:
        outcome.verdict = "reported"
        if not all(any(word in text for text in run.trouble) for word in why) or certificate.passed:
            outcome.verdict = "silent"
            outcome.notes.append(f"{why} not reported: {run.trouble}")
    elif run.trouble:
        outcome.verdict = "violated"
        outcome.notes.append(f"false alarm: {run.trouble}")
    elif not all(gap <= AWAY * watch.peaks[half] for half, gap in outcome.gaps.items()) and not failed:
        outcome.verdict = "silent"
        outcome.notes.append(f"gaps {outcome.gaps} yet the certificate passed")
    elif not all(gap <= GOOD for gap in outcome.gaps.values()):
        outcome.verdict = "slow"
        outcome.notes.append(f"gaps {outcome.gaps}, certificate fails {failed}")
    elif failed:
        outcome.notes.append(f"certificate fails {failed}: {[c.value for c in certificate.checks if not c.passed]}")
    return outcome
