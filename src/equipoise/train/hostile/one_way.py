"""Everything that changes during a run over one-way links (docs/train.md, 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from equipoise.errors import Failure, InputError
from equipoise.parallel import side_by_side
from equipoise.train.arrays import AnyArray, Floats, Ints
from equipoise.train.audit import Auditor, Extremes
from equipoise.train.channel import NUMBERS, SATURATED, UNDERFLOWED, Tally
from equipoise.train.coupling import CouplingLink
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.descent import choose_descent
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.ledger import Ledger
from equipoise.train.hostile.loss import CentresLost
from equipoise.train.hostile.mail import NEVER, Mail
from equipoise.train.hostile.membership import Membership
from equipoise.train.hostile.push_pull import PushPull
from equipoise.train.hostile.pushed import Pushed
from equipoise.train.hostile.relay import Relay
from equipoise.train.hostile.state import HostileState
from equipoise.train.hostile.timetable import Event, Timetable
from equipoise.train.hostile.traffic import Roads, Traffic
from equipoise.train.links import LinkBits, Pairs
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.sampler import Sampler
from equipoise.train.state import first_models, meters, part_of
from equipoise.train.steps import Steps, known_smoothness


class OneWayState:
    """Both halves of a run, their mail, and who is there."""

    swift = False

    def __init__(
        self,
        problem: Problem,
        network: Network,
        method: Method,
        faults: Faults,
        *,
        rounds: int,
        seed: int = 0,
        start: str | ArrayLike = "auto",
        budgets: Mapping[int, float] | None = None,
        batch: ArrayLike | None = None,
        after: CentresLost | None = None,
    ) -> None:
        """`after`: what a run without faults was left with, which goes on in this form."""
        self.network, self.method, self.faults = network, method, faults
        nodes = problem.sized(network.n)
        self.timetable = Timetable(faults, nodes, rounds)
        self.members = Membership(self.timetable)
        self.coupling = CouplingLink.of(problem, method, batch)
        self.market = problem.market(nodes)
        self.budget = 0 if self.market is None else self.market.budget
        self.last_event = self.timetable.last
        self.steady = np.ones(nodes, dtype=np.bool_)  # whose gradient is that of this round: no straggler that slept
        self.epoch = 0  # grows whenever the survivors' optimum changes
        self.trouble: list[str] = []
        self._cramped: int | None = None  # round since which the survivors' boxes are too small
        self.happened: list[Event] = []
        self.senders = self.receivers = np.empty(0, dtype=np.int64)
        pairs = Pairs(nodes)
        self.roads = self.cpu_roads = Roads(network.period, network.arcs, pairs)
        self.roads.meet_all()
        self.mail = self.cpu_mail = Mail(faults, two_way=not network.directed)
        self.relay: Relay | None = None
        self.allocation: Ledger | None = None
        self.learning: PushPull | None = None
        alpha = alpha_limit = None
        cap = 0.0
        if self.market is not None:
            self._look_for_trouble(0)
            self.allocation = self._open_ledger(pairs)
            if after is not None and after.held is not None:
                self.allocation.begin_with(after.held)
        if problem.model is not None:
            smoothness = known_smoothness(problem.model)
            steepest = float(smoothness.max())
            chosen = choose_descent(self.roads, network.period, network.directed, faults, problem.model, steepest)
            alpha = chosen.rate / (method.sector * steepest) if method.alpha == "auto" else float(method.alpha)
            alpha_limit = chosen.limit / steepest
            cap = chosen.cap if method.cap == "auto" else float(method.cap)
            cap = 1.0 - (1.0 - cap) / method.descent if method.descent > 1.0 else cap  # as fast, by momentum alone
            first = first_models(problem.model, start, seed)
            if self.coupling is not None and self.shares is not None:  # batches follow shares
                batch = self.coupling.first(self.shares)
            self.learning = PushPull(
                Sampler(problem.model, batch, seed),
                method,
                alpha,
                cap,
                chosen.kept,
                mail=self.mail,
                directed=network.directed,
                start=first,
            )
            if self.coupling is not None:
                self.coupling.after(self.learning.sampler)
        self.steps = Steps(0.0 if self.allocation is None else self.allocation.step, None, alpha, alpha_limit, cap)
        if after is not None and self.learning is not None:
            self.learning.sampler.samples += after.samples
        if after is not None and self.coupling is not None:
            self.coupling.cpu_seconds += after.cpu_seconds
        self._grow()
        self._look_for_trouble(0)

    # rounds

    def _open_ledger(self, pairs: Pairs) -> Ledger:
        """Gifts where links carry both ways; on one-way links the push form, or gifts that are answered around."""
        assert self.market is not None
        network, method, present = self.network, self.method, self.members.alive
        if network.directed and self.faults.none and not self.market.boxed:
            assert network.period is not None
            return Pushed(self.market, method, self.mail, present, self.roads, network.period)
        if network.directed:
            self.relay = relay = Relay(network)
            self.cpu_roads = Roads(1, lambda _: relay.arcs, pairs)
            self.cpu_mail = Mail(self.faults, two_way=True, hops=relay.most_hops, rounds=relay.most_rounds)
        return Ledger(self.market, method, self.cpu_mail, present)

    def meet(self, number: int) -> Traffic:
        """The links of this round, after whatever happens before it."""
        traffic = self.roads.traffic(number)
        self._grow()
        for event in self.timetable.at(number):
            if event not in self.happened:  # a round may be met again where workers went back to it
                self._happen(event)
        return traffic

    def advance(self, traffic: Traffic, number: int) -> str | None:
        """One round of both halves; the name of what diverged, or None."""
        cpu, learning = self.allocation, self.learning
        if self.coupling is not None and learning is not None and self.shares is not None:
            self.coupling.before(self.shares, learning.sampler, number)
        self.steady = acting = self.timetable.acting(number, self.members.alive)
        open_ = self.members.open(traffic.senders, traffic.receivers)
        going = open_ & acting[traffic.senders]
        worth = 0 if cpu is None or learning is None else self.network.n
        shares_fine, models_fine = side_by_side(
            lambda: cpu is None or self._give_cpu(cpu, traffic, number, acting, open_),
            lambda: learning is None or learning.give(traffic, number, acting, going, open_),
            worth=worth,
        )
        if learning is not None or self.relay is None:
            self.mail.post(traffic, number, going, self._passing, self._passing)
        if not (shares_fine and models_fine):
            return "models" if shares_fine else "shares"
        shares_fine, models_fine = side_by_side(
            lambda: cpu is None or cpu.take(self.receivers, acting),
            lambda: learning is None or learning.take(self.receivers, acting, number),
            worth=worth,
        )
        if self.coupling is not None and learning is not None:
            self.coupling.after(learning.sampler)
        return None if shares_fine and models_fine else "models" if shares_fine else "shares"

    def _give_cpu(self, cpu: Ledger, traffic: Traffic, number: int, acting: AnyArray, open_: AnyArray) -> bool:
        """Gifts go out; over one-way links by a mail of their own, with the way back."""
        if self.relay is None:
            return cpu.give(traffic, number, acting, open_ & acting[traffic.senders], open_)
        around = self.cpu_roads.traffic(number)
        open_ = self.members.open(around.senders, around.receivers)
        going = open_ & acting[around.senders]
        fine = cpu.give(around, number, acting, going, open_)
        hops, rounds = self._ways
        self.cpu_mail.post(around, number, going, hops, rounds[number % len(rounds)])
        return fine

    def _note_use(self) -> None:
        """Links that are ever used: some graph has them when their sender acts."""
        self._used = np.zeros(self.roads.links, dtype=np.bool_)
        period = self.network.period or 0
        every = np.ones(self.network.n, dtype=np.int64)
        for node, k in self.faults.straggle.items():
            every[node] = k
        for phase in range(period):
            traffic = self.roads.traffic(phase)
            self._used[traffic.link[phase % np.gcd(period, every[traffic.senders]) == 0]] = True
        if not self.network.directed:
            self._used &= self._used.reshape(-1, 2)[:, ::-1].ravel()

    def _grow(self) -> None:
        links = self.roads.links
        if links > len(self.senders):
            self.senders, self.receivers = self.roads.pairs.directed()
            for mail in {id(mail): mail for mail in (self.mail, self.cpu_mail)}.values():
                mail.grow(links)
            if self.network.period is not None:
                self._note_use()
            if self.allocation is not None:
                self.allocation.grow(links)
            if self.learning is not None:
                self.learning.grow(links)
            self._find_ways()

    def _find_ways(self) -> None:
        """Which links packets can pass, and how those of one-way links get back."""
        members = self.members
        self._passing = members.passes(self.senders, self.receivers).astype(np.int64)
        if self.relay is not None and self.allocation is not None:
            self._ways = self.relay.ways(self.senders, self.receivers, members.alive, members.side)
            self.allocation.times = np.maximum(self._ways[0], 1)

    # events

    def _happen(self, event: Event) -> None:
        members = self.members
        if event.kind in ("crash", "leave", "noticed") and not members.known[list(event.nodes)].all():
            members.arriving = [node for node in members.arriving if node not in event.nodes]
            return  # it waited to join, and is gone before it was in
        nodes = np.array(event.nodes, dtype=np.int64)
        before = members.open(self.senders, self.receivers)
        self.happened.append(event)
        if event.kind == "split":
            members.side[nodes] = True
            self._drop_packets(members.side[self.senders] != members.side[self.receivers])
        elif event.kind == "cut":
            members.cut = True
            self._rewrite_books(before)
        elif event.kind == "heal":
            members.side[:] = False
            members.cut = False
            self._rewrite_books(before)
            self._hand_on()
        elif event.kind == "crash":
            members.alive[nodes] = False
            self._drop_packets(np.isin(self.senders, nodes) | np.isin(self.receivers, nodes))
        elif event.kind == "noticed":
            self._close(nodes, before)
            members.waiting += [int(node) for node in nodes]
            self._hand_on()
        elif event.kind == "leave":
            members.alive[nodes] = False
            self._close(nodes, before)
            met = self._partners(nodes) & members.alive
            if self.allocation is not None and not (met & (members.side != members.side[nodes[0]])).any():
                self._bequeath(nodes, np.flatnonzero(met))
            elif (
                self.allocation is not None
            ):  # it cannot settle with the other side: its CPU is claimed when the network heals
                members.waiting += [int(node) for node in nodes]
        elif event.kind == "join":
            members.arriving += [int(node) for node in nodes]
            self._let_in()
        self._find_ways()
        if event.kind not in ("split", "crash"):
            self.epoch += 1
            if self.learning is not None:
                self.learning.calm_down(slice(None))
        self._look_for_trouble(event.round)

    def add_crash(self, nodes: Sequence[int], number: int) -> None:
        """Centres have died, which no schedule foresaw: before this round, not yet met, they crash."""
        if isinstance(self.allocation, Pushed):
            raise Failure(
                f"round {number}: centre {', '.join(map(str, nodes))} died, and the push form of CPU on one-way links "
                "keeps no books to claim what it held: state a fault or a box, so that ledgers are kept"
            )
        self.timetable.add_crash(nodes, number)
        self.last_event = self.timetable.last

    def _drop_packets(self, links: AnyArray) -> None:
        """Packets on their way over these links are lost."""
        for mail in (self.mail, self.cpu_mail):
            mail.due[:, : len(links)][:, links] = NEVER

    def _rewrite_books(self, before: AnyArray) -> None:
        """Links that left the books (came back) are taken out of (put back into) the trackers at both ends."""
        after = self.members.open(self.senders, self.receivers)
        if self.learning is not None:
            self.learning.reverse(np.flatnonzero(before & ~after), self.senders, self.receivers, 1.0)
            self.learning.reverse(np.flatnonzero(after & ~before), self.senders, self.receivers, -1.0)

    def _close(self, nodes: Ints, before: AnyArray) -> None:
        """Centres are known to be gone: survivors take their links out of the trackers and close those books."""
        self.members.known[nodes] = False
        self._rewrite_books(before)
        links = np.flatnonzero(np.isin(self.senders, nodes) | np.isin(self.receivers, nodes))
        if self.learning is not None:
            self.learning.forget(links)
        for mail in (self.mail, self.cpu_mail):
            mail.forget(links)

    def _hand_on(self) -> None:
        """CPU of the dead goes to a guardian, once every centre that had dealings with them can be asked."""
        members = self.members
        gone = np.array(members.waiting, dtype=np.int64)
        if self.allocation is None or not len(gone):
            members.waiting.clear()
            return
        partners = self._partners(gone)
        unsure = partners & members.known & ~members.alive
        if unsure.any() or self._parted(partners):
            return
        members.waiting.clear()
        self._bequeath(gone, np.flatnonzero(partners & members.alive)[:1])
        self._let_in()

    def _let_in(self) -> None:
        """Those who join come in; one that comes back waits until what it held before was claimed."""
        members = self.members
        nodes = np.array([node for node in members.arriving if node not in members.waiting], dtype=np.int64)
        members.arriving = [node for node in members.arriving if node in members.waiting]
        members.alive[nodes] = members.known[nodes] = True
        if self.allocation is not None:
            self.allocation.enter(nodes)
        if self.learning is not None:
            self.learning.enter(nodes)

    def _parted(self, nodes: AnyArray) -> bool:
        """Whether a split has living ones of these on both sides."""
        return bool(self.members.split and len(np.unique(self.members.side[nodes & self.members.alive])) > 1)

    def _partners(self, gone: Ints) -> AnyArray:
        """Who has ever had a link with these."""
        met = np.zeros(self.network.n, dtype=np.bool_)
        met[self.receivers[np.isin(self.senders, gone)]] = True
        met[gone] = False
        return met

    def _bequeath(self, gone: Ints, heirs: Ints) -> None:
        assert self.allocation is not None
        if not len(heirs):
            heirs = np.flatnonzero(self.members.alive)[:1]
        self.allocation.close(gone, heirs, self.senders, self.receivers, self.members.alive)

    def _look_for_trouble(self, number: int) -> None:
        """What keeps the survivors from their optimum from now on, by name."""
        self.trouble = []
        members, market = self.members, self.market
        if members.split:
            self.trouble.append("the network is split")
        unnoticed = np.flatnonzero(members.known & ~members.alive)
        if len(unnoticed):
            self.trouble.append(f"the loss of centre {', '.join(map(str, unnoticed))} is not noticed yet")
        if members.arriving:
            self.trouble.append(f"centre {', '.join(map(str, members.arriving))} waits to join")
        if members.waiting:
            named = ", ".join(map(str, members.waiting))
            self.trouble.append(f"the CPU of centre {named} cannot be claimed: centres it dealt with cannot be asked")
        if market is not None:
            room = exact_sum(market.high[members.known])
            if room < self.budget:
                short = (self.budget - room) * market.grid.unit
                self._cramped = number if self._cramped is None else self._cramped
                self.trouble.append(
                    f"infeasible since round {self._cramped}: the survivors' boxes hold {room * market.grid.unit:g} of "
                    f"{self.budget * market.grid.unit:g} CPUs; {short:g} stay in escrow"
                )
            else:
                self._cramped = None
            least = exact_sum(market.low[members.known & members.alive])
            if least > self.budget:
                raise InputError(
                    f"round {number}: the centres' lo add up to {least * market.grid.unit:g}, more than the budget of "
                    f"{self.budget * market.grid.unit:g} CPUs: lower lo, or let fewer join",
                    code="budget.low",
                )
        if self.relay is not None and len(self.senders) and self._too_far():
            self.trouble.append("the way back of a one-way link has become too long: its CPU cannot be given")
        apart = self._apart() if len(self.senders) else 0
        if apart:
            self.trouble.append(f"the survivors are in {apart} pieces: no link joins them")

    def _too_far(self) -> bool:
        """Whether packets about CPU take longer between two who live than anybody waits for them."""
        hops, rounds = self._ways
        live = self.members.passes(self.senders, self.receivers) & (hops > 0)
        takes = rounds.max(axis=0) - 1 + int(self.faults.delay) * hops
        return bool((takes[live] > self.cpu_mail.longest).any())

    def _apart(self) -> int:
        """Into how many pieces the survivors fall for good; 0 if they hang together (or graphs never repeat)."""
        if self.network.period is None:
            return 0
        alive = self.members.known
        kept = alive[self.senders] & alive[self.receivers]
        n = self.network.n
        kept &= self._used[: len(kept)]
        graph = coo_array((np.ones(int(kept.sum())), (self.senders[kept], self.receivers[kept])), shape=(n, n))
        _, piece = connected_components(graph, directed=self.network.directed, connection="strong")
        pieces = len(np.unique(piece[alive]))
        return pieces if pieces > 1 else 0

    # what others look at

    @property
    def shares(self) -> Floats | None:
        """CPUs of each node, exactly; 0 for those who are not there."""
        if self.allocation is None:
            return None
        return np.asarray(self.allocation.market.grid.floats(np.where(self.members.alive, self.allocation.shares, 0)))

    @property
    def in_flight(self) -> int:
        """Units in nobody's share: on links, in escrow, or held by a dead centre whose CPU was not claimed yet."""
        if self.allocation is None:
            return 0
        return self.allocation.in_flight(self.senders, self.receivers, self.members.alive)

    def audit(self, auditor: Auditor) -> None:
        """Show shares + in flight, shares alone, and the boxes to an auditor."""
        worst = auditor.worst
        worst.links = self.mail.packets
        if self.allocation is None or self.market is None:
            return
        market, ledger, members = self.market, self.allocation, self.members
        total = exact_sum(ledger.shares[members.alive])
        self._note_worst(worst, total, self.in_flight, -int(ledger.escrow.min()))
        boxed = members.alive & ~ledger.collecting
        x = market.grid.floats(ledger.shares[boxed])
        outside = np.maximum(market.lo[boxed] - x, x - market.hi[boxed])
        worst.box = max(worst.box, float(outside.max(initial=0.0)))

    def _note_worst(self, worst: Extremes, held: int, flying: int, debt: int) -> None:
        """Units in shares, in nobody's share, and owed by one in escrow, against the budget."""
        assert self.market is not None
        unit = self.market.grid.unit
        worst.budget = max(worst.budget, abs(held + flying - self.budget) * unit)
        worst.over = max(worst.over, (held - self.budget) * unit, debt * unit)

    @property
    def links_passed(self) -> tuple[int, int]:
        """By packets about CPU, and about models."""
        return self.cpu_mail.links_to_pass, self.mail.links_to_pass

    @property
    def packets(self) -> int:
        """Packets handed to the network."""
        return self.mail.packets + (0 if self.cpu_mail is self.mail else self.cpu_mail.packets)

    @property
    def lost(self) -> int:
        """Packets that never arrived."""
        return self.mail.lost + (0 if self.cpu_mail is self.mail else self.cpu_mail.lost)

    @property
    def models(self) -> Floats | None:
        """Parameters of each node."""
        return None if self.learning is None else self.learning.models

    def tracker_in_flight(self) -> Floats:
        """Trackers on links that are in the books."""
        assert self.learning is not None
        return self.learning.in_flight(self.members.open(self.senders, self.receivers))

    def tallies(self) -> dict[str, Tally]:
        """How often each stream left the quantiser's range."""
        posts = {"prices": self.allocation, "models": self.learning}
        return {
            name: Tally(*(int(half.post.tally[k]) for k in (NUMBERS, SATURATED, UNDERFLOWED)))
            for name, half in posts.items()
            if half is not None
        }

    def bit_parts(self) -> dict[str, int]:
        """Bits sent so far over all links, by what they were for."""
        parts: dict[str, int] = {}
        if self.allocation is not None:
            parts["prices"] = int(self.allocation.post.bits_sent.sum())
            parts["ledgers"] = int(self.allocation.amount_bits.sum())
        if self.learning is not None:
            parts["models"] = int(self.learning.post.bits_sent.sum() + self.learning.header_bits.sum())
        return parts

    def link_bits(self) -> LinkBits:
        """Bits of each directed link."""
        bits = np.zeros(len(self.senders), dtype=np.int64)
        for half in (self.allocation, self.learning):
            if half is not None:
                bits += half.post.bits_sent[: len(bits)]
        if self.allocation is not None:
            bits += self.allocation.amount_bits[: len(bits)]
        if self.learning is not None:
            bits += self.learning.header_bits[: len(bits)]
        used = bits > 0
        return LinkBits(self.senders[used], self.receivers[used], bits[used])

    def meters(self) -> dict[str, float]:
        """Samples drawn and CPU-seconds spent, where batches are drawn."""
        return meters(self.learning, self.coupling)

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        parts: dict[str, Mapping[str, AnyArray]] = {
            "links": self.roads.pairs.memory(),
            "mail": self.mail.memory(),
            "members": self.members.memory(),
            "timetable": self.timetable.memory(),
        }
        if self.coupling is not None:
            parts["coupling"] = self.coupling.memory()
        if self.relay is not None:
            parts["cpu_mail"] = self.cpu_mail.memory()
        if self.allocation is not None:
            parts["cpu"] = self.allocation.memory()
        if self.learning is not None:
            parts |= {"model": self.learning.memory(), "sampler": self.learning.sampler.memory()}
        return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint."""
        self.roads.restore(part_of(memory, "links"))
        self.senders, self.receivers = self.roads.pairs.directed()
        self.mail.restore(part_of(memory, "mail"))
        self.members.restore(part_of(memory, "members"))
        self.timetable.restore(part_of(memory, "timetable"))
        self.last_event = self.timetable.last
        if self.coupling is not None:
            self.coupling.restore(part_of(memory, "coupling"))
        if self.relay is not None:
            self.cpu_mail.restore(part_of(memory, "cpu_mail"))
        if self.allocation is not None:
            self.allocation.restore(part_of(memory, "cpu"))
        if self.learning is not None:
            self.learning.restore(part_of(memory, "model"))
            self.learning.sampler.restore(part_of(memory, "sampler"))
        self._find_ways()
        self._look_for_trouble(int(memory["round"]))
        self.happened = [e for e in self.timetable.events if e.round < int(memory["round"])]


def hostile_state(problem: Problem, network: Network, method: Method, faults: Faults, **options: Any) -> Any:
    """The state that suits a network's links: one way, or both."""
    make: Any = OneWayState if network.directed else HostileState
    return make(problem, network, method, faults, **options)
