"""Equipoise: who trains, with how much CPU, where and when - each run ends in a certificate."""

from importlib import import_module
from typing import Any

from equipoise._moved import old_names

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "load":
        return old_names(__name__)(name)
    return import_module("equipoise.loaded").load  # when asked for: it is above all else, and --help should not wait
