"""What a service is started with."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.errors import InputError, unknown_name

CLOCKS, FINISHES = ("real", "virtual"), ("assumed", "reported")
MOST_HORIZON, LONGEST_SLOT = 100_000, 7 * 86400.0


@dataclass(frozen=True)
class Settings:
    """`finish`: jobs whose plan is carried out are taken as finished, or only when they report so."""

    slot_seconds: float = 600.0
    horizon: int = 168  # slots ahead that a job is planned in
    clock: str = "real"
    finish: str = "assumed"
    snapshot_every: int = 5_000  # events
    batch: int = 64  # requests that one transaction may carry

    def __post_init__(self) -> None:
        for what, given, known in (("clock", self.clock, CLOCKS), ("finish", self.finish, FINISHES)):
            if given not in known:
                raise unknown_name(what, str(given), known)
        if not 1 <= self.horizon <= MOST_HORIZON:
            raise InputError(f"horizon is {self.horizon}; expected 1 to {MOST_HORIZON:,} slots")
        if not 0.01 <= self.slot_seconds <= LONGEST_SLOT:
            raise InputError(f"slot is {self.slot_seconds:g} s; expected a length from 10ms to 7 days")
