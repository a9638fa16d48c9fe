"""Everything that changes during a run on a hostile network (docs/train.md, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InputError
from equipoise.parallel import side_by_side
from equipoise.train.arrays import AnyArray, Floats
from equipoise.train.audit import Auditor, Words
from equipoise.train.codec import NUMBERS, SATURATED, UNDERFLOWED, Tally
from equipoise.train.coupling import CouplingLink
from equipoise.train.dynamics.gifts import Gifts
from equipoise.train.dynamics.links import Links
from equipoise.train.dynamics.own import Dynamics
from equipoise.train.dynamics.pushed import Pushed
from equipoise.train.dynamics.tracking import Tracking
from equipoise.train.exchange import LinkBits
from equipoise.train.exchange.lossy import Lossy
from equipoise.train.exchange.relayed import Relayed
from equipoise.train.grid import exact_sum
from equipoise.train.hostile.descent import choose_descent, trackers_are_worth_it
from equipoise.train.hostile.faults import Faults
from equipoise.train.hostile.membership import Event, Membership, Succession, Timetable
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Market, Problem
from equipoise.train.region import LinkTable
from equipoise.train.sampler import Sampler
from equipoise.train.state import first_models, meters, part_of
from equipoise.train.steps import Steps, known_smoothness

RELAX_AROUND = 0.5  # of gifts that are answered around, rounds later
RELAX_LATE, LATER = 0.6, 0.2  # of gifts where every packet takes the same number of rounds: .6 / (1 + .2 delay)


class HostileState:
    """Both halves of a run, the exchange between them, and who is there."""

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
        batch: ArrayLike | None = None,
    ) -> None:
        self.network, self.method, self.faults = network, method, faults
        nodes = problem.sized(network.n)
        table = LinkTable.one_way(network) if network.directed else LinkTable.of(network)
        self.timetable = Timetable(faults, nodes, rounds)
        self.members = Membership(self.timetable)
        self.coupling = CouplingLink.of(problem, method, batch)
        self.market = problem.market(nodes)
        self.budget = 0 if self.market is None else self.market.budget
        self.last_event = self.timetable.last
        self.exchange = self.cpu_exchange = Lossy(table, faults)
        self.allocation: Gifts | Pushed | None = None
        self.learning: Links | Tracking | Dynamics | None = None
        if self.market is not None:
            self.allocation = self._open_market(self.market)
        if problem.model is not None:
            if self.coupling is not None and self.shares is not None:  # batches follow shares
                batch = self.coupling.first(self.shares)
            sampler = Sampler(problem.model, batch, seed)
            self.learning = self._open_learning(sampler, first_models(problem.model, start, seed))
            if self.coupling is not None:
                self.coupling.after(sampler)
                if self.allocation is not None:
                    self.allocation.reprice()
        self.steps = self._steps()
        self.exchanges = [self.exchange] + [self.cpu_exchange] * (self.cpu_exchange is not self.exchange)
        if self.allocation is not None:
            self.cpu_exchange.halves.append(self.allocation)
        if self.learning is not None:
            self.exchange.halves.append(self.learning)
        gifts = self.allocation if isinstance(self.allocation, Gifts) else None
        self.succession = Succession(self.members, self.exchanges, gifts, self.timetable, self.budget, network.directed)

    def _open_market(self, market: Market) -> Gifts | Pushed:
        """Gifts where links carry both ways; on one-way links the push form, or gifts that are answered around."""
        network, method, faults = self.network, self.method, self.faults
        relax = None if faults.jitter or not faults.delay else RELAX_LATE / (1.0 + LATER * faults.delay)
        if not network.directed:
            exchange = self.exchange
        elif faults.none and not market.boxed:
            return Pushed(self.exchange.region, self.exchange.table, market, method, network)
        else:
            exchange, relax = Relayed(network, faults), RELAX_AROUND
            self.cpu_exchange = exchange
        late = exchange.longest > 0
        return Gifts(exchange.region, exchange.table, market, method.quantizer, self.members.alive, relax, late)

    def _open_learning(self, sampler: Sampler, start: Floats) -> Links | Tracking | Dynamics:
        region, table, method = self.exchange.region, self.exchange.table, self.method
        model = sampler.model
        steepest = float(known_smoothness(model).max())
        if isinstance(method.learning, type):
            own: Dynamics = method.learning(table, region.ids, sampler, method, steepest, start)
            return own.over_links(region)
        chosen = choose_descent(self.network, self.faults, model, steepest)
        if not self.network.directed and not trackers_are_worth_it(chosen, model, start, steepest):
            return Links(region, table, sampler, method, steepest, start)
        alpha = chosen.rate / (method.sector * steepest) if method.alpha == "auto" else float(method.alpha)
        cap = chosen.cap if method.cap == "auto" else float(method.cap)
        cap = 1.0 - (1.0 - cap) / method.descent if method.descent > 1.0 else cap  # as fast, by momentum alone
        steps = alpha, cap, chosen.kept
        return Tracking(region, table, sampler, method, steps, start, chosen.limit / steepest, self.network.directed)

    def _steps(self) -> Steps:
        """What the halves are played by."""
        step = self.allocation.step if isinstance(self.allocation, Pushed) else 0.0
        inertia = self.allocation.theta if isinstance(self.allocation, Gifts) else None
        if self.learning is None:
            return Steps(step, None, None, None, inertia=inertia)
        learning = self.learning
        return Steps(step, None, learning.alpha, learning.alpha_limit, learning.momentum, inertia)

    # rounds

    def meet(self, number: int) -> AnyArray:
        """The links of this round, after whatever happens before it."""
        for event in self.timetable.at(number):
            self.succession.happen(event)
        return self.exchange.table.turn(number)

    def advance(self, turn: AnyArray, number: int) -> str | None:
        """One round of both halves; the name of what diverged, or None."""
        learning = self.learning
        if self.coupling is not None and learning is not None and self.shares is not None:
            self.coupling.before(self.shares, learning.sampler, number)
            self.coupling.cpu_seconds += self.coupling.cost.tau * float(self.shares.sum())
        acting = self.timetable.acting(number, self.members.alive)
        for exchange in self.exchanges:
            exchange.acting = acting
            for half in exchange.halves:
                half.acting = acting
            exchange.open(number)
        fine = self._both(lambda half: half.say(number))
        for exchange in self.exchanges:
            if exchange.halves:
                exchange.move(number, exchange.halves)
        if all(fine):
            fine = self._both(lambda half: half.hear(number))
        if self.coupling is not None and learning is not None:
            self.coupling.after(learning.sampler)
        return None if all(fine) else "models" if fine[0] else "shares"

    def _both(self, act: Any) -> tuple[bool, bool]:
        """Whether it went well for shares, and for models."""
        cpu, learning = self.allocation, self.learning
        return side_by_side(
            lambda: cpu is None or act(cpu),
            lambda: learning is None or act(learning),
            worth=0 if cpu is None or learning is None else self.network.n,
        )

    def words(self, number: int) -> list[Words]:
        """Packets may be late: what is heard is held against its code by `verify` and the recount alone."""
        return []

    # what others look at

    @property
    def epoch(self) -> int:
        """Grows whenever the survivors' optimum changes."""
        return self.succession.epoch

    @property
    def happened(self) -> list[Event]:
        return self.succession.happened

    @property
    def trouble(self) -> list[str]:
        """What keeps the survivors from their optimum from now on, by name."""
        return self.succession.trouble

    @property
    def shares(self) -> Floats | None:
        """CPUs of each node, exactly; 0 for those who are not there."""
        if self.allocation is None:
            return None
        return np.asarray(self.allocation.market.grid.floats(np.where(self.members.alive, self.allocation.shares, 0)))

    @property
    def models(self) -> Floats | None:
        """Parameters of each node."""
        return None if self.learning is None else self.learning.models

    @property
    def in_flight(self) -> int:
        """Units in nobody's share: on links, in escrow, or held by a dead centre whose CPU was not claimed yet."""
        return 0 if self.allocation is None else self.allocation.in_flight(self.members.alive)

    def audit(self, auditor: Auditor) -> None:
        """Show shares + in flight, shares alone, and the boxes to an auditor."""
        worst = auditor.worst
        worst.links = self.packets
        if self.allocation is None or self.market is None:
            return
        market, cpu, alive = self.market, self.allocation, self.members.alive
        unit, total = market.grid.unit, exact_sum(cpu.shares[alive])
        worst.budget = max(worst.budget, abs(total + self.in_flight - self.budget) * unit)
        worst.over = max(worst.over, (total - self.budget) * unit, -int(cpu.escrow.min()) * unit)
        boxed = alive & ~cpu.collecting
        x = market.grid.floats(cpu.shares[boxed])
        outside = np.maximum(market.lo[boxed] - x, x - market.hi[boxed])
        worst.box = max(worst.box, float(outside.max(initial=0.0)))

    @property
    def packets(self) -> int:
        """Packets handed to the network."""
        return sum(exchange.packets for exchange in self.exchanges)

    @property
    def lost(self) -> int:
        """Packets that never arrived."""
        return sum(exchange.lost for exchange in self.exchanges)

    @property
    def links_passed(self) -> tuple[int, int]:
        """By packets about CPU, and about models; one packet carries both unless it is answered around."""
        cpu = self.cpu_exchange
        return cpu.links_passed if isinstance(cpu, Relayed) else cpu.packets, self.exchange.packets

    def tracker_in_flight(self) -> Floats:
        """Trackers on links that both ends count on."""
        assert isinstance(self.learning, Tracking)
        return self.learning.in_flight(self.exchange.kept)

    def tallies(self) -> dict[str, Tally]:
        """How often each stream left the code's range."""
        halves = {"prices": self.allocation, "models": self.learning}
        return {
            name: Tally(*(int(half.tally[k]) for k in (NUMBERS, SATURATED, UNDERFLOWED)))
            for name, half in halves.items()
            if half is not None
        }

    def bit_parts(self) -> dict[str, int]:
        """Bits sent so far over all links, by what they were for."""
        parts: dict[str, int] = {}
        for exchange in self.exchanges:
            for name, bits in exchange.region.bits.items():
                parts[name] = parts.get(name, 0) + int(bits.sum())
        return parts

    def link_bits(self) -> LinkBits:
        """Bits of each directed link; those that are passed on count where they come from."""
        keys, each = [], []
        for exchange in self.exchanges:
            table = exchange.table
            keys.append(table.senders * table.n + table.receivers)
            each.append(np.sum(list(exchange.region.bits.values()), axis=0))
        found, place = np.unique(np.concatenate(keys), return_inverse=True)
        bits = np.bincount(place, np.concatenate(each)).astype(np.int64)  # exact below 2^53
        used = bits > 0
        return LinkBits(found[used] // self.network.n, found[used] % self.network.n, bits[used])

    def meters(self) -> dict[str, float]:
        """Samples drawn and CPU-seconds spent, where batches are drawn."""
        return meters(self.learning, self.coupling)

    def _parts(self) -> dict[str, Any]:
        """Whatever has a memory."""
        sampler = None if self.learning is None else self.learning.sampler
        parts: dict[str, Any] = {f"exchange{k}": exchange for k, exchange in enumerate(self.exchanges)}
        parts |= {"members": self.members, "cpu": self.allocation, "model": self.learning}
        parts |= {"sampler": sampler, "coupling": self.coupling, "succession": self.succession}
        return {name: part for name, part in parts.items() if part is not None}

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        kept: dict[str, Mapping[str, AnyArray]] = {name: part.memory() for name, part in self._parts().items()}
        return {f"{part}/{name}": array for part, arrays in kept.items() for name, array in arrays.items()}

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint."""
        if "exchange0/sent" not in memory:
            raise InputError(
                "this checkpoint is of a version that played faults in another form: start the run anew, without resume",
                code="checkpoint.form",
            )
        for name, part in self._parts().items():
            part.restore(part_of(memory, name))
        self.succession.take_up(int(memory["round"]))
