"""Equipoise: who trains, with how much CPU, where and when - each run ends in a certificate."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("equipoise.loaded").load  # when asked for: it is above all else, and --help should not wait
