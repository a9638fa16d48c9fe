"""How the arrays of a run divide over shards: by node, by link, by pair, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from equipoise.engine.shards.region import Region
from equipoise.train.arrays import AnyArray, Ints
from equipoise.train.links import Pairs

Kind = Literal["node", "slot", "link", "pair", "sum", "same"]


@dataclass(frozen=True)
class Axis:
    """Which axis of an array counts what; `end` says whose shard holds the truth of a link."""

    kind: Kind
    end: Literal["sender", "receiver"] = "sender"
    at: int = 0


NODE, SLOT, LINK, PAIR, SUM, SAME = (Axis(kind) for kind in ("node", "slot", "link", "pair", "sum", "same"))

CHANNEL = {"heard": SLOT, "unit": SLOT, "met": SLOT, "last": SLOT, "bits_sent": SLOT, "tally": SUM}
LAYOUT: dict[str, Axis] = {
    **{f"cpu/{name}": NODE for name in ("shares", "excess", "prices", "answer", "stretch", "settled", "weight")},
    **{f"cpu/{name}": PAIR for name in ("backlog", "flow", "difference", "age", "seen")},
    "cpu/amount_bits": LINK,
    "cpu/late": Axis("node", at=1),
    **{f"model/{name}": NODE for name in ("yz", "gradient", "average")},
    **{f"cpu/{part}.{name}": axis for part in ("channel", "markets") for name, axis in CHANNEL.items()},
    **{f"model/{part}.{name}": axis for part in ("channel", "meetings") for name, axis in CHANNEL.items()},
    **{f"coupling/{name}": NODE for name in ("sum", "weight", "peak", "sigma")},
    "sampler/batch": NODE,
    "sampler/spread": NODE,
    "sampler/samples": SUM,
}


@dataclass(frozen=True, eq=False)
class Places:
    """Where a region's nodes, links and pairs are in the whole run's arrays, and which of them are its own to tell."""

    nodes: Ints
    own_nodes: AnyArray
    links: Ints
    own_links: dict[str, AnyArray]  # by sender, by receiver
    pairs: Ints
    own_pairs: AnyArray
    per_link: bool  # whether slots are links; else nodes

    def of(self, axis: Axis) -> tuple[Ints, AnyArray]:
        """Global indices along the axis, and which of them this region tells."""
        kind = ("link" if self.per_link else "node") if axis.kind == "slot" else axis.kind
        if kind == "node":
            return self.nodes, self.own_nodes
        if kind == "link":
            return self.links, self.own_links[axis.end]
        return self.pairs, self.own_pairs


def places(region: Region, local: Pairs, whole: Pairs, per_link: bool) -> Places:
    """The places of a region that has numbered its pairs by itself."""
    senders, receivers = local.directed()
    from_, to = region.nodes[senders], region.nodes[receivers]
    low, high = np.minimum(from_, to), np.maximum(from_, to)
    links = 2 * whole.find(low * region.n + high) + (from_ > to)
    own = region.own
    return Places(
        region.nodes,
        own,
        links,
        {"sender": own[senders], "receiver": own[receivers]},
        links[::2] >> 1,
        own[senders[::2]],
        per_link,
    )


def local_pairs(region: Region, whole: Pairs) -> Pairs:
    """The pairs with an own end, in the order in which the whole run numbered them."""
    senders, receivers = (ends[::2] for ends in whole.directed())
    mine = np.zeros(region.n, dtype=np.bool_)
    mine[region.nodes[region.own]] = True
    kept = mine[senders] | mine[receivers]
    keys = region.local(senders[kept]) * len(region) + region.local(receivers[kept])
    order = np.argsort(keys, kind="stable")
    pairs = Pairs(len(region))
    pairs.restore({"keys": keys[order], "ids": order.astype(np.int64)})
    return pairs


def cut(array: AnyArray, axis: Axis, where: Places) -> AnyArray:
    """A region's part of an array, ghosts included."""
    if axis.kind in ("sum", "same"):
        return np.zeros_like(array) if axis.kind == "sum" else np.array(array)
    if not array.shape[axis.at]:
        return array.copy()
    index, _ = where.of(axis)
    return np.ascontiguousarray(np.take(array, index, axis=axis.at))


def paste(array: AnyArray, part: AnyArray, axis: Axis, where: Places) -> None:
    """Put what a region tells into the whole, in place."""
    if not part.shape[axis.at]:
        return
    index, own = where.of(axis)
    mine = np.flatnonzero(own)
    part = np.take(part, mine, axis=axis.at)
    if axis.at == 0:
        array[index[mine]] = part
    else:
        array[:, index[mine]] = part
