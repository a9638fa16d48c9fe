"""What it was measured on: nothing here names a user, a host or a path."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

LIBRARIES = ("numpy", "scipy", "numba", "highspy")


def described() -> dict[str, Any]:
    """Cores, model, memory, Python, libraries, and how busy it is right now."""
    import equipoise

    return {
        "cores": len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else os.cpu_count(),
        "model": _model(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "equipoise": equipoise.__version__,
        "libraries": {name: version(name) for name in LIBRARIES},
        "load": round(load(), 2),
    }


def load() -> float:
    """Processes that wanted a core, on average over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def sentence(machine: dict[str, Any]) -> str:
    """One line for the table."""
    libraries = ", ".join(f"{name} {number}" for name, number in machine["libraries"].items())
    return (
        f"{machine['cores']} cores ({machine['model']}), {machine['memory_gb']:g} GB, {machine['system']}, "
        f"Python {machine['python']}, {libraries}; load {machine['load']:g} at the start, "
        f"{machine['load_at_the_end']:g} at the end"
    )


def _model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or platform.machine()
