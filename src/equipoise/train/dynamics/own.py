"""A learning half of one's own: what is told and how models move, over links that carry both ways and return.

The same class plays in one process, on workers, and where packets are lost or late (docs/write-a-dynamics.md). Where all
arrives, a node says one row to all its neighbours (exchange/rows.py); else every link has a message table (region.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from equipoise.errors import InputError
from equipoise.kernels import Bools, Floats, Ints, kernel
from equipoise.train.arrays import AnyArray
from equipoise.train.codec import (
    MANTISSA,
    NUMBERS,
    bits_per_number,
    first_floor,
    mantissa_bits,
    moved_floor,
    quantise,
    value,
)
from equipoise.train.dynamics._slots import Slots
from equipoise.train.exchange.rows import Meter, Round, Site, Voice
from equipoise.train.method import Method
from equipoise.train.quantize import FLOAT_BITS
from equipoise.train.region import LinkTable, Region
from equipoise.train.sampler import Sampler

NEEDED = frozenset({"symmetric", "repeating"})
KEPT = ("heard", "told", "met")  # of links, beside a user's own


class Dynamics:
    """Subclasses write `begin`, `tell` and `move`; `solve(..., Method(learning=Subclass))` plays them.

    Rows are the nodes that live here; a link is one that leaves a row, and what is heard over it comes from its other end.
    """

    needs: ClassVar[frozenset[str]] = NEEDED  # and "reliable", where nothing may be lost or late
    node_arrays: ClassVar[tuple[str, ...]] = ()  # names of arrays (rows, columns) that are kept beside the models
    link_arrays: ClassVar[tuple[str, ...]] = ()  # names of arrays (links, columns)
    alpha = alpha_limit = None  # steps that a run would name
    momentum = 0.0

    def __init__(
        self, table: LinkTable, nodes: Ints, sampler: Sampler, method: Method, steepest: float, start: Floats
    ) -> None:
        self.table, self.nodes, self.sampler, self.model, self.method = table, nodes, sampler, sampler.model, method
        self.L = steepest  # the largest smoothness of any node's loss
        self.links = np.flatnonzero(np.isin(table.senders, nodes))
        row = np.full(table.n, -1)
        row[nodes] = np.arange(len(nodes))
        self.owner: Ints = row[table.senders[self.links]]  # the row of each link
        self.peer = table.receivers[self.links]  # the node at its other end
        self.degree = table.degree  # of every node of the network, over all graphs
        self.start, self.models = start, start.copy()
        columns = self.numbers(self.model.size)
        self.heard, self.told = np.zeros((len(self.links), columns)), np.zeros((len(self.links), columns))
        self.fresh = np.zeros(len(self.links), dtype=np.bool_)  # what was heard in this round
        self.met = np.zeros(len(self.links), dtype=np.bool_)  # over which anything was ever heard
        self.acting = np.ones(len(nodes), dtype=np.bool_)
        self.begin()
        kinds = [(name, len(nodes), "node") for name in self.node_arrays]
        for name, rows, what in kinds + [(name, len(self.links), "link") for name in self.link_arrays]:
            array = getattr(self, name, None)
            if not (isinstance(array, np.ndarray) and array.ndim == 2 and len(array) == rows):
                found = "nothing" if array is None else f"shape {np.shape(array)}"
                raise InputError(
                    f"{type(self).__name__}.{what}_arrays names {name!r}: begin() must make it an array with a row per "
                    f"{what}, ({rows}, columns), and made {found}",
                    code="dynamics.arrays",
                )

    @classmethod
    def refuse_unfinished(cls) -> None:
        """What is wrong with a subclass, before anything is played."""
        name = cls.__name__
        if cls.move is Dynamics.move:
            raise InputError(f"{name} must define move(number)", code="dynamics.move")
        if isinstance(cls.needs, str) or not NEEDED <= set(cls.needs) <= NEEDED | {"reliable"}:
            raise InputError(
                f"{name}.needs must hold 'symmetric' and 'repeating', and may hold 'reliable'; it is {cls.needs!r}",
                code="dynamics.needs",
            )
        for kind in (cls.node_arrays, cls.link_arrays):
            taken = [each for each in kind if hasattr(Dynamics, each) or each in (*KEPT, "models", "start", "fresh")]
            if isinstance(kind, str) or taken:
                what = f"{taken[0]!r} is a name that Dynamics uses itself" if taken else "give a tuple of names"
                raise InputError(f"{name} cannot keep arrays called {kind!r}: {what}", code="dynamics.names")

    # what a subclass writes

    @classmethod
    def numbers(cls, size: int) -> int:
        """How many numbers a node tells in a round, for a model of `size` parameters."""
        return size

    def begin(self) -> None:
        """Make the arrays of `node_arrays` and `link_arrays`."""

    def tell(self, number: int) -> Floats:
        """What every row says to its neighbours of this round: (rows, numbers)."""
        return self.models

    def move(self, number: int) -> None:
        """Change self.models by what was heard: self.heard, where self.fresh or at least self.met."""
        raise TypeError(f"{type(self).__name__} must define move(number)")

    # what a subclass may ask

    def gradient(self, number: int) -> Floats:
        """Gradients at the models as they are now, one row per node: of all data, or of this round's mini-batch. Each call
        counts its samples; local steps may ask again."""
        with np.errstate(all="ignore"):
            found: Floats = self.sampler.at(np.ascontiguousarray(self.models), number + 1)
        return found

    def first_gradient(self) -> Floats:
        """At the first models; for `begin`."""
        return np.array(self.sampler.at(self.start, 0))

    def metropolis(self) -> Floats:
        """A weight for each link, 1 / (1 + the larger degree): all that meet at a row add up to less than 1."""
        return np.asarray(1.0 / (1.0 + np.maximum(self.degree[self.nodes[self.owner]], self.degree[self.peer])))

    def sums(self, by_link: Floats) -> Floats:
        """Of each row, what its links hold, added up."""
        total = np.zeros((len(self.nodes), by_link.shape[1]))
        np.add.at(total, self.owner, by_link)
        return total

    # where everything arrives

    def over_rows(self, site: Site) -> Self:
        """Be played by rows."""
        self.voice, self.meter, self.site = Voice(site, self.method.quantizer, self.heard.shape[1]), Meter(site), site
        return self

    def play(self, number: int) -> Round:
        """One round. False when models are no numbers any more."""
        values = self._to_tell(number)
        self.voice.say(values, number)
        self.meter.add(number, self.voice.bits(number))
        yield (self.voice,)
        if not np.isfinite(values).all():
            return False
        rows = self.voice.at(number)
        self.fresh = self.table.turn(number)[self.links]
        self.heard[self.fresh] = rows[self.peer[self.fresh]]
        self.told[self.fresh] = rows[self.nodes[self.owner[self.fresh]]]
        return self._moved(number)

    # where packets are lost or late

    def over_links(self, region: Region) -> Self:
        """Be played by links, each with its own memory."""
        self.region, mantissa = region, mantissa_bits(self.method.quantizer)
        self.code = mantissa, bits_per_number(mantissa)
        self.said, self.floors = np.zeros((region.rows, self.heard.shape[1])), np.zeros(region.rows, dtype=np.int64)
        self.bits, self.tally = region.count("models"), np.zeros(3, dtype=np.int64)
        return self

    def say(self, number: int) -> bool:
        values = self._to_tell(number)
        _say(Slots.of(self.region), values, self.said, self.floors, self.code, self.bits)
        spoken = self.region.target >= 0
        self.told[spoken] = self.said[self.region.target[spoken]]
        self.tally[NUMBERS] += int(spoken.sum()) * values.shape[1]
        return bool(np.isfinite(values).all())

    def hear(self, number: int) -> bool:
        region = self.region
        self.fresh = region.fresh & self.acting[self.owner]
        self.heard[self.fresh] = self.said[region.where[self.fresh]]
        asleep = ~self.acting
        kept = {name: getattr(self, name)[asleep] for name in ("models", *self.node_arrays)}
        fine = self._moved(number)
        for name, rows in kept.items():
            getattr(self, name)[asleep] = rows
        return fine

    def _to_tell(self, number: int) -> Floats:
        values, wanted = np.asarray(self.tell(number)), (len(self.nodes), self.heard.shape[1])
        if values.shape != wanted or values.dtype.kind not in "fiu":
            raise InputError(
                f"{type(self).__name__}.tell({number}) must return {wanted[1]} numbers for each of {wanted[0]} rows, shape "
                f"{wanted}, not {values.dtype} of shape {values.shape}; numbers(size) says how many are told",
                code="dynamics.tell",
            )
        return np.ascontiguousarray(values, dtype=np.float64)

    def _moved(self, number: int) -> bool:
        self.met |= self.fresh
        self.move(number)
        return bool(np.isfinite(self.models).all())

    def keep(self, rows: Ints, places: Ints) -> None:
        self.said[places] = self.said[rows]

    def shut(self, links: Bools) -> None:
        """These links are gone: nothing that was heard over them counts."""
        for name in (*KEPT, *self.link_arrays):
            getattr(self, name)[links] = 0

    reopen = shut

    def enter(self, nodes: Ints) -> None:
        """Centres join with the model a run starts from."""
        self.models[nodes] = self.start[nodes]

    # checkpoints

    def memory(self) -> dict[str, AnyArray]:
        """What a checkpoint must keep."""
        nodes = {name: getattr(self, name) for name in ("models", *self.node_arrays)}
        links = {name: getattr(self, name) for name in (*KEPT, *self.link_arrays)}
        if hasattr(self, "region"):
            return nodes | links | {name: getattr(self, name) for name in ("said", "floors", "bits", "tally")}
        kept = {f"node/{name}": rows for name, rows in nodes.items()} | {f"link/{name}": a for name, a in links.items()}
        return kept | {f"said/{name}": rows for name, rows in self.voice.memory().items()} | self.meter.memory()

    def restore(self, memory: dict[str, AnyArray]) -> None:
        """Take up a checkpoint: of these nodes over links, of the whole network over rows."""
        nodes, links = ("models", *self.node_arrays), (*KEPT, *self.link_arrays)
        if hasattr(self, "region"):
            for name in (*nodes, *links, "said", "floors", "bits", "tally"):
                getattr(self, name)[:] = memory[name]
            return
        for name in nodes:
            getattr(self, name)[:] = memory[f"node/{name}"][self.nodes]
        for name in links:
            getattr(self, name)[:] = memory[f"link/{name}"][self.links]
        self.voice.restore(memory["said/heard"], memory["said/floors"])
        self.meter.restore(memory)


def is_own(learning: Any) -> bool:
    """Whether a method's learning is a user's class, and no name."""
    return isinstance(learning, type) and issubclass(learning, Dynamics)


@kernel
def _say(slots: Slots, values: Floats, said: Floats, floors: Ints, code: tuple[int, int], bits: Ints) -> None:
    """A row's numbers over each of its links that is there: floats at first, then codes of the change since a packet that
    the other end is known to hold."""
    mantissa, code_bits = code
    m = values.shape[1]
    for i in range(len(values)):
        for e in range(slots.first[i], slots.first[i + 1]):
            t, b = slots.target[e], slots.base[e]
            if t < 0:
                continue
            if b < 0 or mantissa == MANTISSA:
                said[t] = values[i]
                floors[t] = 0 if mantissa == MANTISSA else first_floor(said[t], mantissa)
                bits[e] += FLOAT_BITS * m
                continue
            floor, largest = floors[b], 0
            for c in range(m):
                change = values[i, c] - said[b, c]
                size = quantise(change, floor, mantissa)
                largest = max(largest, size)
                said[t, c] = said[b, c] + value(size, floor, mantissa, change)
            floors[t] = moved_floor(floor, largest, mantissa)
            bits[e] += code_bits * m
