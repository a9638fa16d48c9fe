"""The page of a comparison of methods, or of a study of one knob: the finding, the pictures, the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document
from equipoise.present.echarts import Floats
from equipoise.present.looks import Look, looks
from equipoise.present.text import NOTHING, count, number, power, scaled
from equipoise.present.train import BESIDE
from equipoise.present.train_studies import KNOBS, OURS, needed, study_charts, study_table
from equipoise.present.values import (
    Axis,
    Block,
    Cell,
    Cells,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Legend,
    Page,
    Series,
    Table,
    Text,
    thinned,
    verdict,
)

Values = dict[str, Any]  # of a result
Track = dict[str, Floats]  # the history of one entrant on one instance, by columns
Tracks = dict[str, list[Track]]  # by entrant, one per instance
Looks = dict[str, Look]  # by entrant
PLACES = 140  # along the axis of bits
ROWS_DRAWN = 250  # along the axis of rounds
FLOOR, CEILING = 1e-12, 1e3  # what lies beyond is drawn at the border: rounding, or a divergence
QUARTILES = (0.25, 0.5, 0.75)
MEASURES = {"distance": "relative distance", "relative_gap": "relative gap"}


def page(document: Document) -> Page:
    """The finding in words, key numbers, the charts and the tables."""
    result, styles = document.result, _styles(document)
    blocks: list[Block] = []
    if "study" in result:
        charts, tables = study_charts(result, styles), [study_table(result, styles)]
    else:
        blocks.append(key_numbers(document, styles))
        charts = comparison_charts(document, styles)
        tables = [_summary_table(result, styles), *(_protocol_table(result, styles, p) for p in ("rounds", "bits"))]
    notes = [*result.get("left_out", []), *result.get("notes", [])]
    if notes:
        blocks.append(Text(" ".join(notes)))
    if styles:
        words = "One colour per method in all charts; press one to hide it, again to show it."
        blocks.append(Legend(list(styles.values()), words, "methods in the charts", lines=False))
    outcome = "" if document.certificate is None else f": certificate {verdict(document.certificate)}"
    return Page.of(document, _title(document) + outcome, [*blocks, *charts, *tables], BESIDE)


def _styles(document: Document) -> Looks:
    """Each entrant's look by its name."""
    result = document.result
    rows = result["rows"] if "study" in result else result["summary"]
    names = dict.fromkeys(str(row["entrant"]) for row in rows if "entrant" in row)
    return {name: replace(look, marker="roundRect") for name, look in looks(names, document.looks).items()}


def _title(document: Document) -> str:
    """9 methods on 20 instances: Ours reaches 1e-06 with the fewest bits, 1.2 Mbit."""
    result = document.result
    if "study" in result:
        return KNOBS[result["study"]][0]
    where = f"{count(len(result['summary']), 'method')} on {count(len(result['seeds']), 'instance')}"
    target = _targets(result)[-1]
    needed = {row["entrant"]: row[f"bits_to_{target:g}"] for row in result["summary"]}
    there = {name: needed[name] for name in _real(document) if needed[name] is not None}
    if not there:
        return f"{where}: nobody reaches {target:g} in {result['rounds']} rounds"
    best = min(there, key=lambda name: there[name])
    return f"{where}: {best} reaches {target:g} with the fewest bits, {scaled(there[best], 'bit')}"


def _targets(result: Values) -> list[float]:
    """Distances to which rounds and bits are counted; files of 0.1.0 name them in their columns only."""
    named = [key.removeprefix("reached_") for key in result["summary"][0] if key.startswith("reached_")]
    return result.get("targets") or [float(name) for name in named]


def _real(document: Document) -> list[str]:
    """Names of the entrants that are more than a tool of analysis; all, if there is none."""
    names = [row["entrant"] for row in document.result["summary"]]
    return [name for name in names if "analysis" not in document.looks.get(name, {})] or names


def key_numbers(document: Document, styles: Looks) -> KeyNumbers:
    """What it takes ours, beside the best rival, and what it does to the budget."""
    result = document.result
    ours, target = result["reference"], _targets(result)[-1]
    rows = {row["entrant"]: row for row in result["summary"]}
    numbers = []
    for column, unit in (("round", "rounds"), ("bits", "bits")):
        key = f"{column}_to_{target:g}"
        others = {name: rows[name][key] for name in _real(document) if name != ours and rows[name][key] is not None}
        note = f"{styles[ours].name}; no rival gets there"
        if others:
            best = min(others, key=lambda name: others[name])
            note = f"{styles[ours].name}; the best rival {_worth(others[best], column)} ({styles[best].name})"
        numbers.append(KeyNumber(f"{unit} to {target:g}", _worth(rows[ours][key], column), note))
    worst = max(result["summary"], key=lambda row: row["largest_violation"])
    most = f"at most {number(worst['largest_violation'], 3)} ({styles[worst['entrant']].name})"
    own = number(rows[ours]["largest_violation"], 3)
    numbers.append(KeyNumber("budget broken by, CPUs", own, f"{styles[ours].name}, in any round; {most}"))
    return KeyNumbers(numbers)


def _worth(value: float | None, column: str) -> str:
    return NOTHING if value is None else f"{value:,.0f}" if column == "round" else scaled(value, "bit")


# Charts of a comparison.


def comparison_charts(document: Document, styles: Looks) -> list[Figure]:
    """THE picture first: distance against bits."""
    tracks = tracks_of(document)
    wanted = (("distance", "bits"), ("distance", "rounds"), ("relative_gap", "bits"), ("relative_gap", "rounds"))
    first, second, third, fourth = (_progress(document, tracks, styles, *pair) for pair in wanted)
    return [first, second, _violations(document, tracks, styles), third, fourth]


def tracks_of(document: Document) -> Tracks:
    """The history of every entrant, a track per instance."""
    found: dict[str, dict[Any, list[Values]]] = {}
    for row in document.rows("history"):
        found.setdefault(str(row["entrant"]), {}).setdefault(row["seed"], []).append(row)
    return {
        name: [
            {key: _floats(row[key] for row in rows) for key in rows[0] if key != "entrant"} for rows in by_seed.values()
        ]
        for name, by_seed in found.items()
    }


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array([np.inf if value is None else value for value in values], dtype=float)


def _band(tracks: Sequence[Track], rounds: int, axis: str, places: Floats, measure: str) -> Floats:
    """Quartiles over instances of the measure at these rounds or bits: three rows, the median in the middle."""
    values = np.empty((len(tracks), len(places)))
    for k, track in enumerate(tracks):
        along = track["round" if axis == "rounds" else "bits"]
        rows = np.maximum(np.searchsorted(along, places, side="right") - 1, 0)
        values[k] = track[measure][rows]
        if measure in MEASURES and track["round"][-1] < rounds:  # it diverged
            values[k, places > along[-1]] = np.inf
    return np.asarray(np.quantile(values, QUARTILES, axis=0, method="nearest"))


def _places(tracks: Sequence[Track], axis: str) -> Floats:
    """Rounds as they were recorded; bits in even steps of their logarithm, from the first message to the last."""
    if axis == "rounds":
        rounds = max((track["round"] for track in tracks), key=len)
        return rounds[thinned(len(rounds), ROWS_DRAWN)]
    first = float(np.median([track["bits"][min(1, len(track["bits"]) - 1)] for track in tracks]))
    last = float(np.median([track["bits"][-1] for track in tracks]))
    return np.geomspace(max(first, 1.0), max(last, first, 1.0), PLACES)


def _across(axis: str, rounds: int) -> Axis:
    if axis == "bits":
        return Axis("bits sent over all links", log=True, form="bits")
    return Axis("round", low=0, high=rounds, whole=True, point="round {value}")


def _progress(document: Document, tracks: Tracks, styles: Looks, measure: str, axis: str) -> Figure:
    result = document.result
    many, series = len(result["seeds"]) > 1, []
    for name, look in styles.items():
        places = _places(tracks[name], axis)
        low, middle, high = np.clip(_band(tracks[name], result["rounds"], axis, places, measure), FLOOR, CEILING)
        width = 3.5 if name == result["reference"] else 2.0
        band = (low, high) if many else None
        series.append(Series(look.name, places, middle, look=look, width=width, band=band, marker="none"))
    band_words = " The line is the median over seeds, the band the middle half of them." if many else ""
    if measure == "distance":
        meaning = (
            "Distance of the shares from the optimal ones, as a part of that at the start: nobody can cheat it by "
            "breaking the budget. Lower and further left is better; lines end where the rounds do."
        )
    else:
        meaning = (
            "|F - F*| as a part of that at the start. Methods that break the budget can pass through 0 on the way "
            "and look better here than they are."
        )
    what = "How near the optimum" if measure == "distance" else "The cost's gap"
    main = (measure, axis) == ("distance", "bits")
    return Figure(
        f"{what}, for how many {axis}",
        _across(axis, result["rounds"]),
        Axis(MEASURES[measure], log=True),
        series,
        caption=meaning + band_words,
        key=f"{measure}-{axis}",
        label=f"Lines: median {MEASURES[measure]} against {axis}, one per entrant, with bands over seeds",
        legend=False,
        wide=main,
        tall=main,
    )


def _violations(document: Document, tracks: Tracks, styles: Looks) -> Figure:
    """|sum x - b| over the rounds; those that never break it have no line, and are named."""
    result, series, exact = document.result, [], []
    for name, look in styles.items():
        places = _places(tracks[name], "rounds")
        low, middle, high = _band(tracks[name], result["rounds"], "rounds", places, "violation")
        if not (high > 0).any():
            exact.append(look.name)
            continue
        seen = (low > FLOOR) & np.isfinite(high)
        edges = (np.where(seen, low, np.nan), np.where(seen, high, np.nan)) if len(result["seeds"]) > 1 else None
        drawn = np.where(middle > FLOOR, middle, np.nan)
        series.append(Series(look.name, places, drawn, look=look, band=edges, marker="none"))
    named = f" Exactly 0 in every round, so without a line: {', '.join(exact)}." if exact else ""
    return Figure(
        "How far the budget was broken on the way",
        _across("rounds", result["rounds"]),
        Axis("CPUs", log=True),
        series,
        caption="CPUs given away that are not there, or left unused, in each round." + named,
        key="violation",
        label="Lines: |sum of shares - budget| in CPUs against rounds, one per entrant that breaks it",
        legend=False,
    )


# Tables.


def _summary_table(result: Values, styles: Looks) -> Table:
    targets = _targets(result)
    heads = [f"{word} to {target:g}" for target in targets for word in ("rounds", "bits", "messages")]
    heads += ["budget broken by, CPUs", "box broken by, CPUs", "diverged"]
    body: list[Cells] = []
    for row in result["summary"]:
        cells = [
            needed(row[f"{column}_to_{target:g}"]) for target in targets for column in ("round", "bits", "messages")
        ]
        cells += [number(row["largest_violation"], 3), number(row["largest_box_violation"], 3), f"{row['diverged']}"]
        body.append([_named(styles[row["entrant"]]), *cells])
    note = (
        "Medians over seeds of what it takes until the distance stays below; never: more than half the seeds do not get "
        "there. Violations are the largest in any round of any seed."
    )
    return Table("What it takes, and what it breaks", _columns(heads), body, note, "summary")


def _protocol_table(result: Values, styles: Looks, protocol: str) -> Table:
    ours, telling = styles[result["reference"]].name, result["telling"]
    after = "rounds" if protocol == "rounds" else "rounds' bits"
    rows = [row for row in result["rows"] if row["protocol"] == protocol]
    checkpoints = list(dict.fromkeys(row["checkpoint"] for row in rows))
    body: list[Cells] = []
    for name, look in styles.items():
        own = {row["checkpoint"]: row for row in rows if row["entrant"] == name}
        body.append([_named(look), *(_interval(row) for row in own.values()), nearer(own[telling]) or NOTHING])
    what = "equal rounds" if protocol == "rounds" else f"equal bits: those {ours} had spent by then"
    note = (
        "Median relative distance over seeds with a 95% bootstrap interval. Last column: in how many seeds "
        f"{ours} is nearer; distances below 1e-9 are a tie. {result.get('why_telling', '')}"
    )
    heads = [f"{checkpoint} {after}" for checkpoint in checkpoints] + [f"nearer at {telling}"]
    return Table(f"At {what}", _columns(heads), body, note, f"equal-{protocol}")


def terminal_parts(document: Document) -> list[Text | Table | Certificate]:
    """What a comparison prints: what was compared, its tables, who was left out, and the certificate."""
    result, config = document.result, document.config
    head = f"{config.get('nodes')} centres, {config.get('network')}, {_instances(config.get('seeds'))}"
    notes = [*result.get("notes", []), *result.get("left_out", [])]
    tables = [study_table(result, _styles(document))] if "study" in result else _comparison_tables(result)
    made = [] if document.certificate is None else [document.certificate]
    return [Text("", head), *tables, *(Text(note) for note in notes), *made]


def _instances(seeds: int | list[int] | None) -> str:
    """Of a spec, how many; of a comparison from Python, which."""
    return count(len(seeds) if isinstance(seeds, list) else seeds or 0, "instance")


def _comparison_tables(result: Values) -> list[Table]:
    """What it takes; what it breaks and how it compares."""
    ours, targets, telling = result["reference"], _targets(result), result["telling"]
    last = {(row["protocol"], row["entrant"]): row for row in result["rows"] if row["checkpoint"] == telling}
    heads = ["relative distance", f"after {telling} rounds", f"bits of {ours} by then"]
    heads += [f"rounds to {target:g}" for target in targets] + [f"bits to {targets[-1]:g}"]
    first: list[Cells] = []
    second: list[Cells] = []
    for row in result["summary"]:
        rounds, bits = (last[protocol, row["entrant"]] for protocol in ("rounds", "bits"))
        own = Cell(row["entrant"], tone="blue" if row["entrant"] == ours else "")
        cells = [power(rounds["distance"]), power(bits["distance"])]
        cells += [needed(row[f"round_to_{target:g}"]) for target in targets]
        first.append([own, *cells, needed(row[f"bits_to_{targets[-1]:g}"])])
        worst = [power(row["largest_violation"]), power(row["largest_box_violation"])]
        second.append([own, *worst, nearer(rounds), nearer(bits)])
    why = result.get("why_telling", "")
    shares = "the worst on the way, and in how many seeds ours is nearer" if ours == OURS else "the worst on the way"
    return [
        Table("how near the optimum, medians over seeds", _columns(heads[1:], heads[0]), first, why),
        Table(shares, _columns(["budget off by", "box off by", "at equal rounds", "at equal bits"], "CPUs"), second),
    ]


def _columns(heads: Sequence[str], first: str = "") -> list[Column]:
    return [Column(first, "left"), *(Column(head, drop=k) for k, head in enumerate(heads))]


def _named(look: Look) -> Cell:
    return Cell(look.name, look=look)


def nearer(row: Values) -> str:
    """In how many seeds the reference is nearer than this row's entrant: 80%, tie 20%."""
    better, tied = row["reference_better"], row["reference_tied"]
    if better is None:
        return ""
    return f"{100 * better:.0f}%" + (f", tie {100 * tied:.0f}%" if tied > 1e-9 else "")


def _interval(row: Values) -> str | Cell:
    """The median, and what stands below it: its interval."""
    if row["distance"] is None:
        return "diverged"
    if row["distance_low"] == row["distance_high"]:
        return power(row["distance"])
    high = "∞" if row["distance_high"] is None else power(row["distance_high"])
    return Cell(power(row["distance"]), below=f"{power(row['distance_low'])} to {high}")
