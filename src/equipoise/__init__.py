"""Equipoise: who trains, with how much CPU, where and when - each run ends in a certificate."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:  # with a __getattr__ in sight, mypy would believe every name
    from equipoise.errors import InputError as InputError
    from equipoise.result import load as load
    from equipoise.train.estimators import (
        DecentralisedClassifier as DecentralisedClassifier,
        DecentralisedRegressor as DecentralisedRegressor,
    )
else:
    from equipoise._moved import old_names

    SOURCES = {
        "load": "equipoise.result",
        "InputError": "equipoise.errors",
        "DecentralisedClassifier": "equipoise.train.estimators",
        "DecentralisedRegressor": "equipoise.train.estimators",
    }

    def __getattr__(name):
        """Public names when they are asked for, so that --help does not wait for NumPy."""
        source = SOURCES.get(name)
        return getattr(import_module(source), name) if source else old_names(__name__)(name)
