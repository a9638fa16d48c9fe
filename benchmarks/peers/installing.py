"""The peers' own environment: each is installed by its name, apart from the others, and what cannot be says why.

Peers run beside the versions of NumPy and SciPy that we run on, so that no one is faster by a library. tvopt asks for a
documentation generator and leafsim for pandas; both run without, so what they need is named here instead.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venv-peers"
CONSTRAINTS = ROOT / "constraints.txt"
GROUND = ("numpy", "scipy")
SOLVERS = ("clarabel", "osqp", "scs", "qdldl")
UNREACHABLE = "the package index cannot be reached"
PIP_SECONDS = 300.0  # for one peer
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15")


@dataclass(frozen=True)
class Peer:
    """A project on PyPI: what is installed for it, and the import that proves it."""

    name: str
    module: str
    parts: tuple[str, ...]  # installed without what they ask for
    played: bool = True  # else it is only looked up


PEERS = (
    Peer("simpy", "simpy", ("simpy",)),
    Peer("leafsim", "leaf.infrastructure", ("leafsim", "simpy", "networkx")),
    Peer("tvopt", "tvopt.distributed_solvers", ("tvopt",)),
    Peer("highspy", "highspy", ("highspy",)),
    Peer(
        "cvxpy",
        "cvxpy",
        (
            *SOLVERS,
            "cvxpy",
            "highspy",
            "sparsediffpy",
            "cffi",
            "pycparser",
            "jinja2",
            "markupsafe",
            "joblib",
            "setuptools",
        ),
    ),
    Peer("disropt", "disropt.algorithms, mpi4py.MPI", ("disropt", "autograd", "cvxopt", "dill", "mpi4py", "mpich")),
    Peer("decent-bench", "decent_bench", ("decent-bench",), played=False),
)


@dataclass(frozen=True)
class Installed:
    """What became of a peer: its version, or the reason why there is none."""

    name: str
    version: str | None
    reason: str = ""


def python_of(home: Path) -> Path:
    return home / ("Scripts" if os.name == "nt" else "bin") / "python"


def installed_peers(home: Path = HOME) -> dict[str, Installed]:
    """Every peer, installed now if it was not; those that failed before are tried again.

    The environment is made anew where it was made for another Python, NumPy or SciPy than ours.
    """
    python, record = python_of(home), home / "peers.json"
    ground = [platform.python_version(), *(f"{name}=={version(name)}" for name in GROUND)]
    kept = json.loads(record.read_text()) if record.exists() and python.exists() else {}
    known: dict[str, Installed] = {}
    if kept.get("ground") == ground:
        known = {name: Installed(**one) for name, one in kept["peers"].items()}
    else:
        print(f"making {home.name}, the peers' own environment ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        why_not = _pip(python, *ground[1:])
        if why_not:
            return {peer.name: Installed(peer.name, None, why_not) for peer in PEERS}
    for peer in PEERS:
        before = known.get(peer.name)
        if before is None or (before.version is None and (peer.played or before.reason == UNREACHABLE)):
            known[peer.name] = _install(python, peer)
            record.write_text(
                json.dumps({"ground": ground, "peers": {name: asdict(one) for name, one in known.items()}}, indent=1)
            )
    return known


def _install(python: Path, peer: Peer) -> Installed:
    print(f"installing {peer.name} ...", flush=True)
    if not peer.played:
        reason = _pip(python, *peer.parts, dry=True)
        return Installed(peer.name, None, reason or "on PyPI, and not played here")
    reason = _pip(python, *peer.parts)
    if not reason:
        proof = f"import {peer.module}; from importlib.metadata import version; print(version({peer.name!r}))"
        tried = subprocess.run([str(python), "-c", proof], capture_output=True, text=True, timeout=PIP_SECONDS)
        if tried.returncode == 0:
            return Installed(peer.name, tried.stdout.split()[-1])
        reason = f"installed, but cannot be imported: {_last_line(tried.stderr)}"
    return Installed(peer.name, None, reason)


def _pip(python: Path, *names: str, dry: bool = False) -> str:
    """Install names as they are; the reason why not, empty where it went well."""
    # Byte code is written when a module is first used: for all of SciPy it takes longer than the rest.
    command = [str(python), *PIP, "install", "--no-compile", "--no-deps", "-c", str(CONSTRAINTS)]
    command += ["--dry-run"] if dry else []
    try:
        tried = subprocess.run([*command, *names], capture_output=True, text=True, timeout=PIP_SECONDS)
    except subprocess.TimeoutExpired:
        return f"pip took longer than {PIP_SECONDS:.0f} s"
    return "" if tried.returncode == 0 else why(tried.stdout + tried.stderr)


def why(said: str) -> str:
    """One line of what pip said, with no address or path of a machine in it."""
    asked = re.findall(r"Requires-Python\s*([<>=!~0-9., ]+)", said)
    if asked:
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"needs Python {asked[-1].strip(' ,;')}, this is {here}"
    if re.search(r"connection|resolve|Network is unreachable|timed out", said, re.IGNORECASE):
        return UNREACHABLE
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    return _last_line("\n".join(errors) or said)


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    plain = re.sub(r"(\w+://\S+|(?<!\w)/\S+)", "...", lines[-1] if lines else "no reason given")
    return plain.removeprefix("ERROR: ")[:200]
