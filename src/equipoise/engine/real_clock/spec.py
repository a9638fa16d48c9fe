"""What a run on the real clock is: the options of `equipoise share execute`, the keys of its config.yaml, its objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator

from equipoise.errors import InputError
from equipoise.registry import whole_reference
from equipoise.share.spec import Count, Names, PoliciesSpec, Servers, Span, read_words, site_of
from equipoise.spec import setting, whole

if TYPE_CHECKING:
    from equipoise.engine.real_clock.comparison import RealComparison
    from equipoise.engine.real_clock.scene import RealScene
    from equipoise.share.view import Policy

SEED_MOST = 40_000  # so that the seeds of tasks stay below 2^32, which scikit-learn asks for
FOUR = "Uniform,SDF,UARA+LARA,Hybrid"
USUAL = ("sgd", "mlp", "nb")
Kinds = Annotated[list[str], BeforeValidator(lambda value: read_words(value, "kinds of task"))]
Function = Annotated[str, AfterValidator(lambda value: whole_reference(value, "function", "my.py:train"))]


class ExecuteSpec(PoliciesSpec):
    """The inputs of an execution. The clock is real: a repeated run has the same tasks, not the same microseconds."""

    policies: Names = setting(FOUR, "Names with commas between; `published`, `all`.", "Comparison", "NAMES")
    tasks: Count = setting(24, "Tasks, each a training process.", "Comparison", "COUNT")
    repeats: Count = setting(1, "Seeds; every policy meets the same tasks.", "Comparison", "COUNT")
    seed: Annotated[int, whole(0, SEED_MOST)] = setting(0, "The first of them.", "Comparison", "SEED")

    kinds: Kinds = setting(",".join(USUAL), "What tasks train: sgd, mlp, nb, torch, commas between.", "Tasks", "NAMES")
    work: Function | None = setting(
        None, "Instead: your function of a seed that yields its error after each unit.", "Tasks", "FILE.py:FUNCTION"
    )
    target: float | None = setting(
        None, "Error at which every task has succeeded; else what it reaches alone within its work.", "Tasks", "NUMBER"
    )
    length: Span = setting("60:900", "Work of a task, samples of the site, log-uniform.", "Tasks", "LO:HI")
    arrival: Span = setting("0:12", "Step of arrival, floored.", "Tasks", "LO:HI")
    deadline: Span = setting("16:24", "Steps from arrival to deadline, rounded.", "Tasks", "LO:HI")
    data: Span = setting("14:35", "Samples to send.", "Tasks", "LO:HI")
    patience: float = setting(
        2.0, "Seconds of CPU, or asleep, without a unit after which a task counts as hung.", "Tasks", "SECONDS"
    )
    trial: float = setting(
        1.0, "Seconds of CPU of each trial that measures speed and curves beforehand.", "Tasks", "SECONDS"
    )

    cpus: float = setting(1.0, "CPUs of this machine that are the whole site.", "Site", "CORES")
    step: float = setting(0.4, "Length of a step.", "Site", "SECONDS")
    limiter: str = setting(
        "auto", "How processes are held: auto, systemd, cgroup2, cgroup1, stop, none.", "Site", "KIND"
    )
    servers: Servers = setting("5x30", "Samples per step of each, such as 5x30 or 30,30,60.", "Site", "SERVERS")
    bandwidth: float = setting(100.0, "Of the uplink, samples per step.", "Site", "NUMBER")
    delay: float = setting(3.0, "Mean steps between sent and ready to compute.", "Site", "STEPS")
    jitter: float = setting(1.0, "Standard deviation of that delay.", "Site", "STEPS")
    power: str = setting("pooled", "Law of energy: pooled, per_node, linear.", "Site", "LAW")

    units: dict[str, float] | None = setting(
        None, "Seconds of CPU of a unit by kind: repeats the targets of a run.", "Tasks", only_in_file=True
    )

    @property
    def seed_numbers(self) -> range:
        return range(self.seed, self.seed + self.repeats)

    def build(self) -> ExecuteScene:
        """Policies, site and tasks; what cannot be is refused, and what has no effect too."""
        from equipoise.engine.real_clock.scene import RealScene

        if self.work is not None and self.kinds != list(USUAL):
            raise InputError("--kinds has no effect: --work names the function that every task runs")
        same = ("cpus", "step", "arrival", "data", "deadline", "target", "patience", "trial")
        scene = RealScene(site=site_of(self), work=self.length, **{name: getattr(self, name) for name in same})
        return ExecuteScene(self, self.players(), scene, self.kinds if self.work is None else [self.work])


@dataclass(frozen=True, eq=False)
class ExecuteScene:
    """An execution made real: who decides, where, and what tasks train."""

    spec: ExecuteSpec
    policies: list[Policy]
    scene: RealScene
    kinds: list[str]

    @property
    def title(self) -> str:
        """24 training processes on 1 CPUs, steps of 0.4 s, 1 seed."""
        spec = self.spec
        seeds = "1 seed" if spec.repeats == 1 else f"{spec.repeats} seeds"
        return f"{spec.tasks} training processes on {spec.cpus:g} CPUs, steps of {spec.step:g} s, {seeds}"

    def run(self, progress: Callable[[int, int, str], None] | None = None) -> RealComparison:
        """Simulate and execute every policy on the tasks of every seed.

        Parameters
        ----------
        progress
            Called with the tasks recorded and steps executed so far, of how many in all, and what is being done.
        """
        from equipoise.engine.real_clock.comparison import compare

        steps = int(self.spec.arrival[1] + self.spec.deadline[1]) + 1  # at most
        total = self.spec.repeats * (self.spec.tasks + len(self.policies) * steps)
        parts: dict[str, int] = {}

        def show(doing: str, done: int, _: int) -> None:
            parts[doing] = done
            if progress is not None:
                sofar = sum(parts.values())
                progress(sofar, max(total, sofar), doing)

        found = compare(
            self.policies,
            self.scene,
            kinds=self.kinds,
            tasks=self.spec.tasks,
            seeds=self.spec.seed_numbers,
            limit=self.spec.limiter,
            units=self.spec.units,
            progress=show,
        )
        return replace(found, spec=self.spec)
