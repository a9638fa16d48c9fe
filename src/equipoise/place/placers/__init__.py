"""Placers, one file each, found by being in this folder. `named` finds one by the name it is shown by or by its class.

A file states its class's `label`, `colour` and its `rank` among the others; `settings` are the options of the command line
that it takes, `kind` the prices it posts whatever those say, `kinds` the forms it comes in (`elasticflow:priced`);
`named_only` leaves it out of `all`. The first line of its docstring is its help line.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy
from equipoise.place.spec import PLACERS as PLACERS

if TYPE_CHECKING:
    from equipoise.place.placers._slotwise import Slotwise as Slotwise
    from equipoise.place.placers.dated import Dated as Dated
    from equipoise.place.placers.dorm import Dorm as Dorm
    from equipoise.place.placers.drf import DRF as DRF
    from equipoise.place.placers.easy import EASY as EASY
    from equipoise.place.placers.elasticflow import ElasticFlow as ElasticFlow
    from equipoise.place.placers.fifo import FIFO as FIFO
    from equipoise.place.placers.las import LAS as LAS
    from equipoise.place.placers.oasis import OASiS as OASiS
    from equipoise.place.placers.pdors import PDORS as PDORS
    from equipoise.place.placers.sia import Sia as Sia
    from equipoise.place.placers.srtf import SRTF as SRTF
    from equipoise.place.planner.job_arrays import fits_together as fits_together, servers_for as servers_for
    from equipoise.place.simulate import Placer

    ALL: tuple[type[Placer], ...]
else:
    __all__ = ["ALL", "PLACERS", "named", *lazy(__name__, registry=PLACERS)]


def __getattr__(name: str) -> object:
    """ALL, the class of every placer, when it is asked for: a file that does not load harms nobody else."""
    if name == "ALL":
        return tuple(PLACERS.load(choice.stem) for choice in PLACERS.choices())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def named(name: str) -> "Placer":
    """A placer with its defaults, by its name; upper and lower case are the same."""
    return PLACERS.make(name)
