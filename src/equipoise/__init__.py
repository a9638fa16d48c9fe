"""Equipoise: who trains, with how much CPU, where and when - each run ends in a certificate."""

from typing import TYPE_CHECKING

from equipoise._lazy import lazy

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from equipoise.errors import InputError as InputError
    from equipoise.result import load as load
else:
    lazy(__name__)
