"""What a run says of itself: which dynamics it played and why, and what its messages are made of."""

from __future__ import annotations

from equipoise.document import Plain
from equipoise.train.codec import bits_per_number, mantissa_bits
from equipoise.train.exchange.rows import LONG_BITS, SINGLE_BITS
from equipoise.train.method import Method
from equipoise.train.network import Network
from equipoise.train.problem import Problem
from equipoise.train.quantize import FLOAT_BITS

WORDS = {
    "gifts": "gifts over links, booked so that a later packet makes up for a lost one",
    "pushed": "pushed along one-way links",
    "links": "models over links, each with its own memory",
    "trackers": "models pulled and trackers pushed",
}
OWN_WORDS = "a dynamics of one's own"
FIRST = {"cpu": "markets", "learning": "averages"}  # what version 0.1.0 played where links are played now


def dynamics_of(method: Method, problem: Problem) -> dict[str, Plain]:
    """The dynamics of both halves by name, None where the problem has no such half, and why."""
    cpu = None if problem.cost is None else method.cpu
    learning = method.learning.__name__ if isinstance(method.learning, type) else method.learning
    return {"cpu": cpu, "learning": None if problem.model is None else learning, "why": method.why}


def hostile_dynamics(cpu: str | None, learning: str | None, *, directed: bool) -> dict[str, Plain]:
    """The same where messages are lost or late, or links carry one way."""
    said = [] if cpu is None else [f"CPU by {cpu} ({WORDS[cpu]})"]
    said += [] if learning is None else [f"models by {learning} ({WORDS.get(learning, OWN_WORDS)})"]
    because = "links carry one way" if directed else "messages may be lost or late, or centres go and come"
    return {"cpu": cpu, "learning": learning, "why": f"{'; '.join(said)}; for {because}"}


def message_of(method: Method, network: Network, problem: Problem, *, hostile: bool = False) -> dict[str, Plain]:
    """Bits of one number as they are sent, how it is coded, and what is told."""
    quantizer = method.quantizer
    if network.period is None and quantizer.mode == "innovation" and not hostile:
        return {"bits": LONG_BITS if problem.model is None else SINGLE_BITS, "mode": "node", "code": "short float"}
    if hostile or quantizer.mode == "innovation" or quantizer.bits == FLOAT_BITS:
        bits = bits_per_number(mantissa_bits(quantizer))
        return {"bits": bits, "mode": quantizer.mode, "code": "float" if bits == FLOAT_BITS else "minifloat"}
    kind = type(quantizer).__name__.removesuffix("Quantizer").lower()
    return {"bits": quantizer.bits, "mode": quantizer.mode, "code": "float" if kind == "exact" else kind}


def words_on_first(dynamics: dict[str, Plain]) -> str:
    """How to repeat the dynamics that version 0.1.0 played here; "" where it played the same."""
    changed = {half: name for half, name in FIRST.items() if dynamics[half] == "links"}
    if not changed:
        return ""
    keys = " and ".join(f"{half}: {name}" for half, name in changed.items())
    return f"version 0.1.0 played {' and '.join(changed.values())} here; --config with {keys} repeats its dynamics"
