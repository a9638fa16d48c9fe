"""Equipoise: who trains, with how much CPU, where and when - each run ends in a certificate."""

__version__ = "0.1.0"
