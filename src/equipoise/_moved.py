"""Public names of version 0.1.0 that have a new name: the old one imports until 0.3, with a DeprecationWarning.

A new row in `MOVED` is all it takes. Nothing here runs unless a name is asked for that is nowhere else.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old dotted name -> new dotted name. A name is a module, or a class, function or constant of a module.
# A row for a module covers its names and submodules; a row for one of these comes before it.
MOVED: dict[str, str] = {
    "equipoise.loaded.load": "equipoise.load",
    "equipoise.saved.Savable": "equipoise.result.Result",
    "equipoise.saved.Saved": "equipoise.result.Loaded",
    "equipoise.share.policies.UniformCorrected": "equipoise.share.policies.Uniform",
    "equipoise.share.policies.UARALARACorrected": "equipoise.share.policies.described_uara_lara.corrected",
    "equipoise.share.policies.UARALARAFloor": "equipoise.share.policies.described_uara_lara.with_floor",
    "equipoise.share.policies.uniform_corrected.UniformCorrected": "equipoise.share.policies.Uniform",
    "equipoise.share.policies.uniform_corrected": "equipoise.share.policies.uniform",
    "equipoise.share.policies.uara_lara_corrected": "equipoise.share.policies.described_uara_lara",
    "equipoise.share.policies.uara_lara_floor": "equipoise.share.policies.described_uara_lara",
    "equipoise.share.estimators.truth": "equipoise.share.estimators.true_work",
    "equipoise.engine.execute": "equipoise.engine.real_clock",
    "equipoise.engine.execute.Comparison": "equipoise.engine.real_clock.RealComparison",
    "equipoise.engine.execute.Plan": "equipoise.engine.real_clock.RealPlan",
    "equipoise.engine.execute.Scene": "equipoise.engine.real_clock.RealScene",
    "equipoise.engine.limit": "equipoise.engine.cpu_limit",
    "equipoise.place.Comparison": "equipoise.place.PlaceComparison",
    "equipoise.place.Policy": "equipoise.place.Placer",
    "equipoise.place.comparison": "equipoise.place.compare",
    "equipoise.place.desk": "equipoise.place.execution",
    "equipoise.place.export": "equipoise.place.schedule",
    "equipoise.place.planner.shape": "equipoise.place.planner.job_arrays",
    "equipoise.place.policies": "equipoise.place.placers",
    "equipoise.place.policies.slotwise": "equipoise.place.placers",
    "equipoise.place.prices.Best": "equipoise.place.prices.Replay",
    "equipoise.place.prices.best.Best": "equipoise.place.prices.Replay",
    "equipoise.place.prices.best": "equipoise.place.prices.replay",
    "equipoise.place.ray_groups": "equipoise.place.schedule",
    "equipoise.place.read.cluster": "equipoise.place.read_cluster",
    "equipoise.place.read.job_from": "equipoise.place.job_spec.job_from",
    "equipoise.place.read.jobs": "equipoise.place.read_jobs",
    "equipoise.place.read.write_cluster": "equipoise.place.write_cluster",
    "equipoise.place.read.write_jobs": "equipoise.place.write_jobs",
    "equipoise.place.schedule_file": "equipoise.place.schedule",
    "equipoise.place.utility": "equipoise.place.job",
    "equipoise.share.audit.certify": "equipoise.share.sweep.certify",
    "equipoise.plots.PaperFigure": "equipoise.present.paper.PaperFigure",
    "equipoise.plots": "equipoise.present",
    "equipoise.claims.Bars": "equipoise.present.figures.bars",
    "equipoise.claims.Bound": "equipoise.claims.Interval",
    "equipoise.claims.Curve": "equipoise.present.figures.Series",
    "equipoise.claims.Figure": "equipoise.present.figures.Figure",
    "equipoise.claims.Mark": "equipoise.present.figures.Mark",
}

NO_BID = (
    "went in 0.2: prices.Replay was chosen over it in all four regimes measured; take equipoise.place.prices.Replay"
)
# Old dotted name -> why it is nowhere any more, and the way out: its import and its attribute say so.
GONE: dict[str, str] = {"equipoise.place.prices.Bid": NO_BID, "equipoise.place.prices.bid": NO_BID}


def old_names(module: str) -> Callable[[str], object]:
    """The `__getattr__` of a public module: what it does not have, it may have had in 0.1.0."""

    def attribute_of(attribute: str) -> object:
        old = f"{module}.{attribute}"
        if attribute.startswith("__") and attribute != "__all__":  # the importer's own questions
            raise AttributeError(f"module {module!r} has no attribute {attribute!r}")
        if old in MOVED:
            return _warn_and_find(old, MOVED[old])
        if old in GONE:
            raise AttributeError(f"{old} {GONE[old]}")
        if (new := new_name(module)) is not None:  # the whole module has a new name, and its import said so
            return getattr(import_module(new), attribute)
        raise AttributeError(f"module {module!r} has no attribute {attribute!r}")

    return attribute_of


def new_name(old: str) -> str | None:
    """The new name of `old`, by its own row or by that of a module above it; None if it has none."""
    above, below = old, ""
    while above not in MOVED:
        above, _, last = above.rpartition(".")
        below = f".{last}{below}"
        if not above:
            return None
    return MOVED[above] + below


def find(name: str) -> object:
    """The module, class, function or constant of this dotted name."""
    parent, _, last = name.rpartition(".")
    module = import_module(parent) if parent else None
    return getattr(module, last) if hasattr(module, last) else import_module(name)


def _warn_and_find(old: str, new: str) -> object:
    through = sys._getframe(2).f_code.co_name == "__getattr__"  # a package that has one of its own, which asked here
    warnings.warn(f"{old} is {new} since 0.2; the old name goes in 0.3", DeprecationWarning, stacklevel=3 + through)
    return find(new)


def old_attribute(old: str, new: str) -> None:
    """Say that an attribute, method or keyword of 0.1.0 is called `new`; the caller's caller is named."""
    warnings.warn(f"{old} is {new} since 0.2; the old name goes in 0.3", DeprecationWarning, stacklevel=3)


class OldModules:
    """Finds the modules of 0.1.0 that have a row. It stands first: an old folder may still lie there, without its files."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A stand-in if the table has a row for the module `name`, or for one above it; an error for what is gone."""
        if name in GONE:  # `from package import Name` asks for a module, too, before it gives up
            raise ImportError(f"{name} {GONE[name]}", name=name)
        if name.startswith("equipoise.") and new_name(name):
            return ModuleSpec(name, OldModules, is_package=True)  # type: ignore[arg-type]
        return None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """A package without files: it passes on what is asked of it, and its submodules are looked for here only."""
        module = ModuleType(spec.name, "An old name; it goes in 0.3.")
        module.__path__ = []
        module.__dict__["__getattr__"] = old_names(spec.name)
        if (new := new_name(spec.name)) is not None and not isinstance(_warn_and_find(spec.name, new), ModuleType):
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Nothing is left to run."""


class OldParents:
    """Finds the modules of 0.1.0 that are gone and had names with rows. It stands last: others may still know them."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A stand-in if the table has rows for names of the module `name`."""
        if name.startswith("equipoise.") and any(old.startswith(name + ".") for old in MOVED):
            return ModuleSpec(name, OldModules, is_package=True)  # type: ignore[arg-type]
        return None


sys.meta_path.insert(0, OldModules)
sys.meta_path.append(OldParents)
