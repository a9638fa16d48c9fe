"""What a run says of itself: which dynamics it played and why, and what its messages are made of."""

from __future__ import annotations

from equipoise.document import Plain
from equipoise.train.codec import bits_per_number, mantissa_bits
from equipoise.train.method import Method
from equipoise.train.problem import Problem
from equipoise.train.quantize import FLOAT_BITS

HOSTILE = {"cpu": "ledgers", "learning": "push-pull"}  # where messages are lost or late, or links carry one way
FIRST = {"cpu": "markets", "learning": "averages"}  # what version 0.1.0 played where links are played now


def dynamics_of(method: Method, problem: Problem) -> dict[str, Plain]:
    """The dynamics of both halves by name, None where the problem has no such half, and why."""
    there = {"cpu": problem.cost is not None, "learning": problem.model is not None}
    names = {half: getattr(method, half) if there[half] else None for half in there}
    if method.why:
        return {**names, "why": method.why}
    names = {half: HOSTILE[half] if name is not None else None for half, name in names.items()}
    said = ["CPU by ledgers (running sums that make up for lost packets)"] if there["cpu"] else []
    said += ["models by push-pull (running sums too)"] if there["learning"] else []
    why = "links carry one way, or lose or delay messages"
    return {**names, "why": f"{'; '.join(said)}: {why}"}


def message_of(method: Method) -> dict[str, Plain]:
    """Bits of one number as they are sent, how it is coded, and what is told."""
    quantizer = method.quantizer
    if "links" in (method.cpu, method.learning) and method.why:
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
