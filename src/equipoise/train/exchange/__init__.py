"""Exchanges: which links are there in a round, what a message builds on, and what has arrived. One file each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from equipoise.kernels import Bools, Ints
from equipoise.train.region import Region


@dataclass(frozen=True, eq=False)
class LinkBits:
    """Bits sent over each directed link that was used."""

    senders: Ints
    receivers: Ints
    bits: Ints

    @property
    def total(self) -> int:
        return int(self.bits.sum())


class Half(Protocol):
    """Shares or models: says what it holds, and acts on what it hears."""

    acting: Bools  # nodes that act in this round

    def say(self, number: int) -> bool:
        """Own memory -> rows `target` of the message table. False when a number is out of all bounds."""

    def hear(self, number: int) -> bool:
        """Rows `where` of the message table, where fresh -> own memory."""

    def keep(self, rows: Ints, places: Ints) -> None:
        """Copy rows of the message table that would be overwritten before they are heard."""

    def shut(self, links: Bools) -> None:
        """These links are gone, or cut."""

    def reopen(self, links: Bools) -> None:
        """These links start anew."""

    def enter(self, nodes: Ints) -> None:
        """These nodes join."""


class Exchange(Protocol):
    """Sets base, target, where, fresh and acked of a region's slots; moves bytes where nodes live elsewhere."""

    region: Region

    def open(self, number: int) -> None:
        """Before anybody says anything: the links of this round, and what messages over them build on."""

    def move(self, number: int, halves: Sequence[Half]) -> None:
        """After everybody has: what has arrived."""
