"""CPU where every message arrives and links return: relaxed ADMM on prices, one code per node and round.

    say    p_i, one code for all neighbours
    hear   g_ij = round(relax rho_ij (p_i - p_j)) in whole units, at both ends alike: g_ij = -g_ji
           plan_i -= sum_j g_ij;   h_i = (1 - 2 relax) h_i + 2 relax (D p_i - sum_j rho_ij (p_i - p_j) / 2),  D = sum_j rho
           x + D f'(x) = plan_i + h_i in the box, so p_i = (plan_i + h_i - x) / D

A gift follows from two prices that both ends have heard, so it costs no bits, and the sum of shares is the budget in every
round. With boxes a gift is pending until the next meeting; by then each end has said which part of its givings and receipts
it can bear, the smaller part moves, and the rest stays owed. T graphs in turn have a table of messages and an h each.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.kernels import Floats, Ints
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import MANTISSA, bits_per_number, first_floor, mantissa_bits
from equipoise.train.costs._kernels import OTHER, QUADRATIC, answer, curve_of, steepness
from equipoise.train.dynamics._layout import LANES, Layout
from equipoise.train.dynamics._packets import Decided, PriceRows
from equipoise.train.dynamics._price_kernels import (
    OCTAVE,
    PER_OCTAVE,
    QUANTUM,
    SECOND,
    STEPS,
    Boxes,
    Curves,
    Node,
    Rule,
    Talk,
    Watch,
    finite,
    follow,
    hear_gifts,
    hear_prices,
    make_all_ready,
    play,
    price_answers,
    say,
)
from equipoise.train.exchange.rows import Round
from equipoise.train.problem import Market
from equipoise.train.quantize import FLOAT_BITS, Quantizer

ELASTICITY_BITS, TWO_PART_BITS = 16, 20
LEAN = 7  # tenths: weights lean towards the more elastic end of a link
BOXED_RELAX = 0.7  # 0.9 takes half as many rounds again where boxes bind
IN_TURN = 2.0  # times theta where graphs take turns
UNITS = 2.0**50  # gifts of a node add up to less: floats hold their sums exactly


class Prices:
    """The CPU half of the nodes of a layout."""

    needs = frozenset({"symmetric", "reliable", "repeating"})
    exchanges = 1

    def __init__(
        self,
        layout: Layout,
        market: Market,
        quantizer: Quantizer,
        gap: float,
        start: Ints,
        *,
        ghosts: Ints | None = None,
        rule: Rule | None = None,
    ) -> None:
        """`market` and `start`, the first shares in units, are those of the nodes that live here, in their order; `ghosts`
        is what neighbours elsewhere have said of themselves: elasticities, and whether they are pinned; `rule` that of the
        whole network, where this is a part of it."""
        self.layout, self.market, self.mantissa = layout, market, mantissa_bits(quantizer)
        self.played = np.zeros(layout.graphs, dtype=np.int64)  # rounds, per graph
        graphs, own, rows, links = layout.graphs, layout.own, layout.rows, layout.paths.node.shape[1]
        unit, at = market.grid.unit, market.grid.floats(start)
        boxed = market.boxed if rule is None else rule.boxed
        slow = min(0.5, gap / 2.0)
        self.rule = rule or Rule(
            kind=curve_of(market.cost, market.lo, market.hi, market.curvature).kind,
            boxed=boxed,
            unit=unit,
            relax=BOXED_RELAX if boxed else 0.95 - 0.7 * slow,
            theta=(1.0 if graphs == 1 else IN_TURN) / (2.0 * math.sqrt(slow * (1.0 - slow))),
            lean=LEAN,
            cap=QUANTUM * math.floor(UNITS / QUANTUM / max(1, int(layout.paths.degree.max(initial=1)))),
            quantum=QUANTUM if boxed else 1,
            mantissa=self.mantissa,
        )
        self.whole = curve_of(market.cost, market.lo, market.hi, market.curvature, at)  # in the order of nodes
        place = np.empty(own, dtype=np.int64)
        place[layout.by_node] = np.arange(own)  # of each row among the nodes
        elastic = -np.log2(steepness(market.cost, self.whole, at))[place]
        told = np.round(PER_OCTAVE * (elastic - np.log2(layout.contacts))).astype(np.int64)
        pinned = (market.low == market.high)[place]
        first = np.column_stack([told, pinned])  # what is said at first contact
        said, self.pinned = (first if ghosts is None else np.concatenate([first, ghosts])).T

        def ints(*shape: int) -> Ints:
            return np.zeros(shape, dtype=np.int64)

        self.weights = np.zeros(layout.paths.lane_node.shape)
        weight = self._first_weights(said)
        price = np.asarray(market.cost.derivative(at))[place]
        shares = start[place]
        pull = weight * price
        self.node = Node(
            price=price,
            plan=shares.copy() if boxed else shares,
            shares=shares,
            pull=pull,
            pull_sum=pull.sum(axis=0),
            weight=weight,
            weight_sum=weight.sum(axis=0),
            inverse=np.zeros(own),
            level=np.zeros(own),
            answer=at[place],
            steep=np.zeros(own),
            settled=np.zeros(own),
            elastic=elastic,
            told=told,
            contacts=layout.contacts,
        )
        self.talk = Talk(
            price=np.zeros((graphs, rows + 1)),
            before=np.zeros((graphs, rows)),
            floors=ints(graphs, rows),
            elastic=np.repeat(said[None], graphs, axis=0),
            codes=np.zeros(own if rows > own else 0, dtype=np.int32),
            changed=ints(rows),
            limited=ints(rows),
            news=ints(5),
            bits=np.full((graphs, own), ELASTICITY_BITS),
        )
        kept = links if boxed else 0
        self.boxes = Boxes(
            low=market.low[place],
            high=market.high[place],
            net=ints(graphs, own),
            size=ints(graphs, own),
            owed=ints(graphs, kept),
            owing=np.zeros((graphs, kept), dtype=np.uint32),
            owing_count=ints(graphs),
            out_part=np.tile([1, 0], (rows, 1)),
            in_part=np.tile([1, 0], (rows, 1)),
            flags=np.zeros(rows, dtype=np.uint8),
            rows=ints(own),
            entries=np.zeros(kept, dtype=np.uint32),
            lefts=ints(kept),
            pending=ints(kept),
            moved=ints(kept),
            abroad=ints(kept if rows > own else 0),
            pinned=np.ascontiguousarray(self.pinned),
        )
        curve, quadratic = self.whole, self.rule.kind == QUADRATIC
        steep = np.maximum(curve.first, curve.flattest) if quadratic else curve.first
        ready = np.zeros(own if quadratic else 0)
        self.curves = Curves(
            slope=steep[place],
            centre=curve.second[place],
            flattest=curve.flattest[place],
            lo=curve.lo[place],
            hi=curve.hi[place],
            scale=ready,
            middle=ready.copy(),
        )
        self.sums = np.zeros((2, layout.paths.ids.shape[1], LANES))
        self.extra_bits = np.array([ELASTICITY_BITS, TWO_PART_BITS])
        make_all_ready(self.rule, self.node, self.curves)

    def _first_weights(self, said: Ints) -> Floats:
        """Weights of all links from what was said at first contact; their sum per graph and node."""
        rule, paths, own = self.rule, self.layout.paths, self.layout.own
        total = np.zeros((self.layout.graphs, own))
        for t, links in enumerate(paths.links):
            owner, heard, place = paths.owner[t, :links], paths.node[t, :links], paths.place[t, :links]
            one, other = said[owner], said[heard]
            e = rule.lean * np.maximum(one, other) + (10 - rule.lean) * np.minimum(one, other)
            lanes = self.weights[t].reshape(-1)
            rho = rule.theta * np.ldexp(OCTAVE[e % STEPS], e // STEPS) * (rule.relax / rule.unit)
            lanes[place] = np.where(self.pinned[owner] & self.pinned[heard], 0.0, rho)  # nothing can pass between two
            total[t] = np.bincount(owner, lanes[place], own) * (rule.unit / rule.relax)
        return total

    # a round

    def play(self, number: int) -> Round:
        """One round; False when prices are no numbers."""
        self.say(number)
        if self.layout.rows > self.layout.own:
            yield (PriceRows(self),)
            if self.rule.boxed and number >= self.layout.graphs:
                yield (Decided(self, number),)
        return self.hear(number)

    def say(self, number: int) -> None:
        """Own memory becomes messages."""
        say(self.rule, self.talk, self.node, self.boxes, number, self.extra_bits)
        self.played[number % self.layout.graphs] += 1

    def hear(self, number: int) -> bool:
        """What was heard becomes shares and prices; False when prices are no numbers."""
        parts = self.rule, self.layout.paths, self.talk, self.node, self.curves
        hear_gifts(*parts, self.boxes, self.weights, self.sums, number)
        hear_prices(*parts, self.sums, number)
        if self.rule.kind == OTHER:
            self._answer()
        return finite(self.node.price)

    def burst(self, number: int, count: int, watch: Watch) -> int:
        """`count` rounds without leaving compiled code; how many were played before prices were no numbers."""
        node, boxes = self.node, self.boxes
        parts = self.rule, self.layout.paths, self.talk, node, self.curves, boxes, self.weights, self.sums
        done = play(*parts, self.extra_bits, watch, number, count)
        rounds = np.arange(number, number + min(done + 1, count)) % self.layout.graphs
        self.played += np.bincount(rounds, minlength=self.layout.graphs)
        return done

    def _answer(self) -> None:
        """Costs that kernels do not know are asked in Python, in the order of nodes."""
        node, at = self.node, self.layout.by_node
        answers = node.answer[at]
        answer(self.market.cost, self.whole, node.weight_sum[at], node.level[at], answers)
        node.answer[at] = answers
        node.steep[at] = steepness(self.market.cost, self.whole, answers)
        if price_answers(node, self.curves):
            follow(node, self.talk)

    # what others look at

    def believed(self, number: int) -> Floats:
        """What neighbours in this round's graph believe of own rows."""
        return np.asarray(self.talk.price[number % self.layout.graphs, : self.layout.own, None])

    def plain(self, number: int) -> bool:
        """Whether numbers are told as they are in this round."""
        return number < self.layout.graphs or self.mantissa == MANTISSA

    @property
    def code_bits(self) -> int:
        """Bits of one code."""
        return bits_per_number(self.mantissa)

    @property
    def second_exchanges(self) -> int:
        """Rounds in which rows at their bounds spoke twice."""
        return int(self.talk.news[SECOND])

    def set_first_floors(self, t: int, rows: Ints) -> None:
        """After prices that came as they are."""
        for row in rows:
            self.talk.floors[t, row] = first_floor(self.talk.price[t, row : row + 1], self.mantissa)

    @property
    def units(self) -> Ints:
        """Shares in whole units, by node."""
        return np.asarray(self.node.shares[self.layout.by_node])

    def shift(self, change: Ints) -> None:
        """The budget has changed: shares of these nodes move by so many units."""
        rows = self.layout.by_node
        self.node.shares[rows] += change
        if self.rule.boxed:
            self.node.plan[rows] += change

    def link_bits(self) -> Ints:
        """Bits sent over each link that leaves a node here."""
        total = np.zeros(len(self.layout.links), dtype=np.int64)
        for t, links in enumerate(self.layout.paths.links):
            owner = self.layout.paths.owner[t, :links]
            rounds = int(self.played[t])
            code = (rounds - 1) * bits_per_number(self.mantissa) + FLOAT_BITS + rounds * (1 + self.rule.boxed)
            total += self.layout.spread_links(t, self.talk.bits[t][owner] + (code if rounds else 0))
        return total

    NODE = (
        "price",
        "plan",
        "shares",
        "pull",
        "pull_sum",
        "weight",
        "weight_sum",
        "answer",
        "settled",
        "elastic",
        "told",
    )
    TALK = ("price", "before", "floors", "elastic")

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep: values by node, and by link that leaves one."""
        layout, own = self.layout, self.layout.own
        kept = {f"node/{name}": layout.keep(getattr(self.node, name)) for name in self.NODE}
        kept |= {f"said/{name}": layout.keep(getattr(self.talk, name)[:, :own]) for name in self.TALK}
        kept |= {f"node/{name}": layout.keep(getattr(self.boxes, name)) for name in ("net", "size")}
        for t, links in enumerate(layout.paths.links):
            place = layout.paths.place[t, :links]
            kept[f"link/weights{t}"] = layout.spread_links(t, self.weights[t].reshape(-1)[place])
            if self.rule.boxed:
                kept[f"link/owed{t}"] = layout.spread_links(t, self.boxes.owed[t, :links])
        return kept | {"node/bits": layout.keep(self.talk.bits), "played": self.played}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint of the whole network."""
        layout, boxes, own = self.layout, self.boxes, self.layout.own
        for name in self.NODE:
            getattr(self.node, name)[:] = layout.take(memory[f"node/{name}"])
        for name in self.TALK:
            getattr(self.talk, name)[:, : layout.rows] = layout.take(memory[f"said/{name}"], ghosts=True)
        for name in ("net", "size"):
            getattr(boxes, name)[:] = layout.take(memory[f"node/{name}"])
        self.talk.bits[:] = layout.take(memory["node/bits"])
        self.played = memory["played"].copy()
        for t, links in enumerate(layout.entry_links):
            self.weights[t].reshape(-1)[layout.paths.place[t, : len(links)]] = memory[f"link/weights{t}"][links]
            if self.rule.boxed:
                boxes.owed[t, : len(links)] = memory[f"link/owed{t}"][links]
                owing = np.flatnonzero(boxes.owed[t])
                boxes.owing_count[t] = len(owing)
                boxes.owing[t, : len(owing)] = owing
        news = (self.talk.elastic[:, :own] != self.node.told).any()
        self.talk.news[:3] = layout.graphs if news else 0, 0, 0
        make_all_ready(self.rule, self.node, self.curves)
