"""What `equipoise train compare` can be told, and how that becomes instances and entrants."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from equipoise.cli.options import setting
from equipoise.errors import InputError, unknown_name

NETWORKS = ("erdos_renyi", "geometric", "ring", "path", "star", "grid", "complete")
STUDIES = ("rho", "density", "alpha", "claim")
NAMES = {"network": NETWORKS, "cost": ("quadratic", "latency")}
NUMBER_MOST = 2**53


class CompareConfig(BaseModel):
    """Everything that determines a comparison; the same file repeats it bit for bit."""

    model_config = ConfigDict(extra="forbid", validate_default=True, ser_json_inf_nan="strings")

    entrants: list[str] = setting("all", "Names with commas between, or all that can play.", "Comparison", "NAMES")
    study: str | None = setting(
        None,
        f"One knob at a time instead: {', '.join(STUDIES)}; claim is `equipoise reproduce fifty-percent-better`.",
        "Comparison",
        "STUDY",
    )
    rounds: int = setting(200, "Rounds that everybody plays.", "Comparison")
    seeds: int = setting(20, "Instances; every entrant plays the same.", "Comparison", "COUNT")
    first_seed: int = setting(0, "The first of them; rivals were tuned on 900 to 903.", "Comparison", "SEED")
    rho: float = setting(0.125, "Coarseness of log codes; uniform ones get the same bits.", "Comparison")
    target: float = setting(1e-6, "Relative gap at which ours must end.", "Comparison")

    nodes: int = setting(20, "Number of computing centres.", "Instances")
    network: str = setting("erdos_renyi", f"{', '.join(NETWORKS)}.", "Instances")
    p: float = setting(0.3, "Edge probability (erdos_renyi).", "Instances")
    radius: float | None = setting(None, "Reach of a link in the unit square (geometric).", "Instances")
    switching: int | Literal["fresh"] = setting(
        0, "Graphs taken in turn (0: one static graph), or `fresh`: a new one each round.", "Instances", "COUNT|fresh"
    )
    cost: str = setting("quadratic", "Cost of a CPU share: quadratic or latency; drawn by seed.", "Instances")
    budget: float | None = setting(None, "CPUs to share; 25 a centre unless given.", "Instances", "CPUS")
    price: float | None = setting(None, "Instead: the optimal price, which sets the budget.", "Instances")
    boxes: bool = setting(False, "Bounds on quadratic shares, so that about a quarter end full.", "Instances")

    @field_validator("entrants", mode="before")
    @classmethod
    def _entrants(cls, value: Any) -> list[str]:
        words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise InputError(f"expected names with commas between, not {value!r}")
        if words == ["all"]:
            return words
        from equipoise.train import baselines

        names = [baselines.named(word).name for word in words]
        if len(set(names)) < len(names):
            raise InputError(f"an entrant is named twice: {', '.join(words)}")
        return names

    @field_validator("study")
    @classmethod
    def _study(cls, value: str | None) -> str | None:
        if value is not None and value not in STUDIES:
            raise unknown_name("study", value, STUDIES)
        return value

    @field_validator(*NAMES)
    @classmethod
    def _known(cls, value: str, info: Any) -> str:
        known = NAMES[info.field_name]
        if value not in known:
            raise unknown_name(info.field_name, value, known)
        return value

    @field_validator("nodes", "rounds", "seeds", "first_seed")
    @classmethod
    def _whole(cls, value: int, info: Any) -> int:
        least = {"first_seed": 0, "nodes": 2}.get(info.field_name, 1)
        if not least <= value <= NUMBER_MOST:
            raise InputError(f"{info.field_name} must be {least} or more, not {value}")
        return value

    @field_validator("target")
    @classmethod
    def _target(cls, value: float) -> float:
        if not 0 < value < 1:
            raise InputError(f"target must be between 0 and 1, a part of the gap at the start, not {value!r}")
        return value

    def kind(self) -> Any:
        """The family of instances."""
        from equipoise.train.instances import Instances

        names = ("nodes", "network", "p", "radius", "switching", "cost", "budget", "price", "boxes")
        return Instances(**{name: getattr(self, name) for name in names})

    def players(self) -> tuple[list[Any], list[str]]:
        """The entrants, and a sentence for each that `all` leaves out; one that was named and cannot play is refused."""
        from equipoise.train import baselines
        from equipoise.train.comparison import refusal

        instance = self.kind()(self.first_seed)
        names = list(baselines.ALL) if self.entrants == ["all"] else self.entrants
        found, left_out = [], []
        for name in names:
            coded = "rho" in baselines.ALL[name].__dataclass_fields__
            player = baselines.named(name, **({"rho": self.rho} if coded else {}))
            reason = refusal(player, *instance)
            if reason is None:
                found.append(player)
            elif self.entrants == ["all"]:
                left_out.append(f"Left out: {reason}.")
            else:
                raise InputError(f"{reason}: leave it out of --entrants")
        return found, left_out


def refuse_idle_settings(config: CompareConfig) -> None:
    """A setting that was changed but can have no effect is a misunderstanding: say so."""
    study = config.study
    idle: dict[str, str | bool] = {
        "p": config.network != "erdos_renyi" and f"network is {config.network}",
        "radius": config.network != "geometric" and f"network is {config.network}",
        "boxes": config.cost == "latency" and "latency costs always have boxes",
        "switching": config.network == "complete" and "network is complete, which is static",
    }
    of_study: dict[str, tuple[str, ...]] = {
        "rho": ("rho", "entrants"),
        "density": ("p",),
        "alpha": ("entrants", "rounds", "target", "cost", "budget", "price", "boxes"),
    }
    idle |= dict.fromkeys(of_study.get(study or "", ()), f"study {study} sets it itself")
    plain = CompareConfig()
    for name, reason in idle.items():
        if reason and getattr(config, name) != getattr(plain, name):
            raise InputError(f"--{name.replace('_', '-')} has no effect: {reason}")
