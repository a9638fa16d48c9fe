"""The ledger: which claims there are, measuring them, and comparing them with the recording of an earlier run."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from equipoise.certificate import Certificate, Check
from equipoise.claims.claim import Claim, Measured, Scale
from equipoise.document import Document, Row
from equipoise.errors import InputError
from equipoise.parallel import PROCESSES, parts
from equipoise.result import Result
from equipoise.spec import Spec, setting

VERBS = ("train", "share", "place")
RECORDED = Path(__file__).parent / "recorded"
MNIST = "mnist-log-against-uniform"  # the claim that is measured on MNIST where its files are found
COLUMNS = (
    "about",
    "quantity",
    "when",
    "value",
    "error",
    "unit",
    "low",
    "high",
    "holds",
    "over",
)  # of a finding, in history.csv
Entry = Row  # Claim.as_dict
Progress = Callable[[int, int, str], None]  # claims done, claims in all, the one just done


@cache
def claims() -> dict[str, Claim]:
    """Every claim by its name, in the order of the papers' verbs and of the files' names."""
    found: dict[str, Claim] = {}
    for verb in VERBS:
        for path in sorted((Path(__file__).parent / verb).glob("[!_]*.py")):  # "_": what several claims share
            name = path.stem.replace("_", "-")
            if name in found:
                raise InputError(f"{path}: a claim of {found[name].verb} is called {name} too; rename one file")
            found[name] = replace(_load(path), name=name, verb=verb)
    return found


def _load(path: Path) -> Claim:
    """The claim of a file."""
    try:
        claim = importlib.import_module(f"{__package__}.{path.parent.name}.{path.stem}").measure
    except Exception as error:
        why = f"this claim does not load: {type(error).__name__}: {error}"
        raise InputError(f"{path}: {why}; correct the file, or remove it", code="registry.load") from error
    if not isinstance(claim, Claim):
        why = "measure has no decorator @claim"
        raise InputError(f"{path}: {why}; correct the file, or remove it", code="registry.load")
    return claim


def chosen(names: Sequence[str]) -> list[Claim]:
    """The claims of these names, a verb standing for all of its own; none named: all."""
    known = claims()
    for name in names:
        if name not in known and name not in VERBS:
            near = get_close_matches(name, [*known, *VERBS], n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"no claim {name!r}; {hint}`equipoise reproduce --list` names them all", code="unknown")
    return [claim for claim in known.values() if not names or claim.name in names or claim.verb in names]


def play(
    wanted: Sequence[Claim], scale: Scale, *, workers: int | None = None, progress: Progress | None = None
) -> list[Entry]:
    """Measure them, the longest first, each by itself; what comes out does not depend on how many workers there are."""
    order = sorted(wanted, key=lambda claim: -claim.effort)
    entries: dict[str, Entry] = {}
    calls = [(claim.name,) for claim in order]
    for number, entry in parts(_measured, (scale,), calls, workers=workers, prefer=PROCESSES):
        entries[order[number].name] = entry
        if progress is not None:
            progress(len(entries), len(order), order[number].name)
    return [entries[claim.name] for claim in wanted]


def _measured(scale: Scale, name: str) -> Entry:
    """One entry; a claim whose measurement fails has no findings and says why, and the others go on."""
    claim = claims()[name]
    try:
        return claim.as_dict(claim.measure(scale))
    except Exception as error:
        failed = f"not measured: {type(error).__name__}: {error}"
        return claim.as_dict(Measured(protocol=failed, findings=()))


def recorded(*, quick: bool) -> dict[str, Entry]:
    """What came out when it was last recorded at this scale, by name; empty before the first recording."""
    path = RECORDED / ("quick.json" if quick else "full.json")
    if not path.exists():
        return {}
    return {entry["name"]: entry for entry in json.loads(path.read_text())["result"]["claims"]}


def sides(entry: Entry) -> dict[str, bool | None]:
    """On which side of its bound every finding lies; moving the bound makes it another finding."""
    found = {_key(finding): finding["holds"] for finding in entry["findings"]}
    if len(found) < len(entry["findings"]):
        raise ValueError(f"two findings of {entry['name']} have one name")
    return found


def _key(finding: Row) -> str:
    when = f" ({finding['when']})" if finding["when"] else ""
    return f"{finding['about']}: {finding['quantity']}{when} {finding['bound']}"


def changed(entry: Entry, before: Entry) -> list[str]:
    """What lies on another side than recorded, in words; a finding that is new or gone is a change too."""
    now, then = sides(entry), sides(before)
    words = {True: "holds", False: "does not hold", None: "cannot be told", "absent": "was not measured"}
    return [
        f"{name}: {words[now.get(name, 'absent')]}; recorded: {words[then.get(name, 'absent')]}"
        for name in dict.fromkeys([*then, *now])
        if now.get(name, "absent") != then.get(name, "absent")
    ]


def compare(entries: Sequence[Entry], *, quick: bool) -> tuple[list[Entry], Certificate]:
    """The entries with what `changed` in each, and the certificate of the whole."""
    before = recorded(quick=quick)
    told = [
        entry | {"changed": changed(entry, before[entry["name"]]) if entry["name"] in before else None}
        for entry in entries
    ]
    silent = [entry["name"] for entry in entries if not entry["findings"] or not entry["verdict"]]
    unknown = [entry["name"] for entry in told if entry["changed"] is None]
    turned = [entry["name"] for entry in told if entry["changed"]]
    checks = [
        Check.at_most("verdicts", len(silent), 0, f"claims without a finding or a verdict, of {len(entries)}"),
        Check.at_most(
            "recorded",
            sum(len(entry["changed"] or ()) for entry in told),
            0,
            "findings on another side of their bound than in the recording"
            + (f": {', '.join(turned)}" if turned else ""),
        ),
    ]
    if unknown:
        checks.append(Check.not_made("known", f"no recording of {', '.join(unknown)} at this scale"))
    return told, Certificate(tuple(checks))


class ReproduceSpec(Spec):
    """What a run of `equipoise reproduce` is."""

    claims: list[str] = setting([], "Names of claims, or a verb for all of its own; none: all.", "What")
    quick: bool = setting(False, "Fewer seeds, smaller sizes: all claims in minutes.", "What")
    mnist: bool | None = setting(
        None, "Measured on MNIST, not on the digits; unset: where its files are found.", "What"
    )

    def build(self, data_dir: Path | None = None) -> tuple[list[Claim], Scale]:
        """The claims, and the scale they are measured at.

        Parameters
        ----------
        data_dir
            The folder of the four MNIST files; None: the folder mnist/ in EQUIPOISE_DATA, if it is there.
        """
        mnist = None if self.mnist is False and data_dir is None else mnist_folder(data_dir)
        if self.mnist and mnist is None:
            raise InputError("this run was measured on MNIST, which is not found; name its folder with --data-dir")
        return chosen(self.claims), Scale(quick=self.quick, mnist=mnist)


def mnist_folder(given: Path | None) -> Path | None:
    """Where the MNIST files lie, if they do."""
    if given is not None:
        if not given.is_dir():
            raise InputError(f"--data-dir {given} is no folder; name the one that holds the four MNIST files")
        return given
    named_by = os.environ.get("EQUIPOISE_DATA")
    found = Path(named_by) / "mnist" if named_by else None
    return found if found is not None and found.is_dir() else None


@dataclass(frozen=True)
class Reproduction(Result):
    """Claims as they were measured, beside the recording."""

    entries: list[Entry]
    certificate: Certificate
    spec: ReproduceSpec

    def document(self, *, certify: bool = True) -> Document:
        rows = [
            {"claim": entry["name"], "verb": entry["verb"], "verdict": entry["verdict"]}
            | {name: finding[name] for name in COLUMNS}
            for entry in self.entries
            for finding in entry["findings"]
        ]
        return Document("reproduce", {"claims": self.entries}, self.certificate, self.spec.plain(), {"history": rows})


def settled(wanted: Sequence[Claim], scale: Scale) -> ReproduceSpec:
    """The settings that repeat such a run, wherever MNIST lies."""
    names = [claim.name for claim in wanted]
    return ReproduceSpec(claims=names, quick=scale.quick, mnist=scale.mnist is not None if MNIST in names else None)


def reproduce(
    wanted: Sequence[Claim], scale: Scale, *, workers: int | None = None, progress: Progress | None = None
) -> Reproduction:
    """Measure claims and compare them with the recording.

    Parameters
    ----------
    wanted
        The claims; `chosen` finds them by name.
    scale
        How much is played.
    workers
        Processes that measure beside each other; None: one for each core.
    progress
        Called with the claims done, all claims, and the name of the last one done.
    """
    entries, certificate = compare(play(wanted, scale, workers=workers, progress=progress), quick=scale.quick)
    return Reproduction(entries, certificate, settled(wanted, scale))


def listing(names: Sequence[str]) -> list[Row]:
    """Every claim with its sentence, its source, and the verdict that was recorded."""
    before = recorded(quick=False)
    return [
        {
            "name": claim.name,
            "verb": claim.verb,
            "sentence": claim.sentence,
            "source": claim.source,
            "recorded": before[claim.name]["verdict"] if claim.name in before else None,
        }
        for claim in chosen(names)
    ]
