"""The page of a comparison of methods, or of a study of one knob: the finding, the pictures, the tables; what it prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from equipoise.certificate import Certificate
from equipoise.document import Document, Row
from equipoise.errors import InputError
from equipoise.present.echarts import Floats
from equipoise.present.figures import Axis, Figure, Look, Mark, Panel, Series, Sheet, chosen, looks, thinned
from equipoise.present.text import NOTHING, count, number, outcome, power, scaled
from equipoise.present.train import BESIDE, BITS, ROUND, above
from equipoise.present.values import Block, Cell, Cells, Column, KeyNumber, KeyNumbers, Legend, Page, Table, Text

Track = dict[str, Floats]  # the history of one entrant on one instance, by columns
Tracks = dict[str, list[Track]]  # by entrant, one per instance
Looks = dict[str, Look]  # by entrant
OURS = "Ours"
PLACES = 140  # along the axis of bits
ROWS_DRAWN = 250  # along the axis of rounds
FLOOR, CEILING = 1e-12, 1e3  # what lies beyond is drawn at the border: rounding, or a divergence
QUARTILES = (0.25, 0.5, 0.75)
# Columns of the history: the name of each, the title of its charts, and what it means.
MEASURES = {
    "distance": (
        "relative distance",
        "How near the optimum",
        "Distance of the shares from the optimal ones, as a part of that at the start: nobody can cheat it by breaking the "
        "budget. Lower and further left is better; lines end where the rounds do.",
    ),
    "relative_gap": (
        "relative gap",
        "The cost's gap",
        "|F - F*| as a part of that at the start. Methods that break the budget can pass through 0 on the way and look "
        "better here than they are.",
    ),
}
ALPHA_ROUNDS = 1500  # that a run of the alpha study is given
# Of each study: its title, the column of its knob, that in words, and what is drawn over it (the table's last columns).
KNOBS = {
    "rho": ("How coarse a code", "rho", "rho: coarseness of the code", ("round", "bits", "distance")),
    "density": ("How dense a network", "degree", "mean number of neighbours", ("round", "bits", "messages")),
    "alpha": ("How large a step", "part", "alpha, in units of |lambda_2|/L", ()),
}
FIRST_COLUMNS = {
    "rho": ("rho", "bits_a_number", "reached"),
    "density": ("p", "degree", "reached"),
    "alpha": ("alpha", "round", "converged", "slow", "diverged"),
}
COLUMN_WORDS = {"bits_a_number": "bits per number", "p": "edge probability", "degree": "neighbours", "round": "rounds"}
COLUMN_WORDS |= {"reached": "seeds that arrive", "converged": "seeds converged", "slow": "too slow"}
COLUMN_WORDS |= {"distance": "distance at the end"}


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
    return Page(document, _title(document) + outcome(document), [*blocks, *charts, *tables], BESIDE)


def _styles(document: Document) -> Looks:
    """Each entrant's look by its name."""
    rows = document.result["rows" if "study" in document.result else "summary"]
    names = dict.fromkeys(str(row["entrant"]) for row in rows if "entrant" in row)
    return {name: replace(look, marker="roundRect") for name, look in looks(names, document.looks).items()}


def _title(document: Document) -> str:
    """9 methods on 20 instances: Ours reaches 1e-06 with the fewest bits, 1.2 Mbit."""
    result = document.result
    if "study" in result:
        return KNOBS[result["study"]][0]
    where = f"{count(len(result['summary']), 'method')} on {count(len(result['seeds']), 'instance')}"
    target = _targets(result)[-1]
    best = _best(document, f"bits_to_{target:g}")
    if best is None:
        return f"{where}: nobody reaches {target:g} in {result['rounds']} rounds"
    return f"{where}: {best[0]} reaches {target:g} with the fewest bits, {scaled(best[1], 'bit')}"


def _targets(result: Row) -> list[float]:
    """Distances to which rounds and bits are counted; files of 0.1.0 name them in their columns only."""
    named = [key.removeprefix("reached_") for key in result["summary"][0] if key.startswith("reached_")]
    return result.get("targets") or [float(name) for name in named]


def _best(document: Document, key: str, but: str = "") -> tuple[str, float] | None:
    """Who needs least, and how much; those that are only a tool of analysis count if there is nobody else."""
    rows = document.result["summary"]
    real = [row for row in rows if "analysis" not in document.looks.get(row["entrant"], {})] or rows
    there = [(row["entrant"], row[key]) for row in real if row["entrant"] != but and row[key] is not None]
    return min(there, key=lambda pair: pair[1], default=None)


def key_numbers(document: Document, styles: Looks) -> KeyNumbers:
    """What it takes ours, beside the best rival, and what it does to the budget."""
    result = document.result
    ours, target = result["reference"], _targets(result)[-1]
    own = next(row for row in result["summary"] if row["entrant"] == ours)
    numbers = []
    for column, unit in (("round", "rounds"), ("bits", "bits")):
        key, note = f"{column}_to_{target:g}", "no rival gets there"
        if best := _best(document, key, but=ours):
            note = f"the best rival {_worth(best[1], column)} ({styles[best[0]].name})"
        numbers.append(KeyNumber(f"{unit} to {target:g}", _worth(own[key], column), f"{styles[ours].name}; {note}"))
    worst = max(result["summary"], key=lambda row: row["largest_violation"])
    most = f"at most {number(worst['largest_violation'], 3)} ({styles[worst['entrant']].name})"
    note = f"{styles[ours].name}, in any round; {most}"
    return KeyNumbers([*numbers, KeyNumber("budget broken by, CPUs", number(own["largest_violation"], 3), note)])


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
    """The history of every entrant, a track per instance; what is not known is infinite."""
    found: dict[str, dict[int, list[Row]]] = {}
    for row in document.rows("history"):
        found.setdefault(str(row["entrant"]), {}).setdefault(row["seed"], []).append(row)
    return {name: [_track(rows) for rows in by_seed.values()] for name, by_seed in found.items()}


def _track(rows: Sequence[Row]) -> Track:
    columns = {key: np.array([row[key] for row in rows], dtype=float) for key in rows[0] if key != "entrant"}
    return {key: np.where(np.isnan(values), np.inf, values) for key, values in columns.items()}


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


def _rounds(tracks: Sequence[Track]) -> Floats:
    """The rounds that were recorded of the instance that went on longest."""
    return max((track["round"] for track in tracks), key=lambda rounds: (rounds[-1], len(rounds)))


def _places(tracks: Sequence[Track], axis: str) -> Floats:
    """Rounds as they were recorded; bits in even steps of their logarithm, from the first message to the last."""
    if axis == "rounds":
        rounds = _rounds(tracks)
        return rounds[thinned(len(rounds), ROWS_DRAWN)]
    first = float(np.median([track["bits"][min(1, len(track["bits"]) - 1)] for track in tracks]))
    last = float(np.median([track["bits"][-1] for track in tracks]))
    return np.geomspace(max(first, 1.0), max(last, first, 1.0), PLACES)


def _progress(document: Document, tracks: Tracks, styles: Looks, measure: str, axis: str) -> Figure:
    result = document.result
    many, series = len(result["seeds"]) > 1, []
    for name, look in styles.items():
        places = _places(tracks[name], axis)
        low, middle, high = np.clip(_band(tracks[name], result["rounds"], axis, places, measure), FLOOR, CEILING)
        width, band = 3.5 if name == result["reference"] else 2.0, (low, high) if many else None
        series.append(Series(look.name, places, middle, look=look, width=width, band=band, marker="none"))
    name, title, meaning = MEASURES[measure]
    meaning += " The line is the median over seeds, the band the middle half of them." if many else ""
    label = f"Lines: median {name} against {axis}, one per entrant, with bands over seeds"
    x, y = BITS if axis == "bits" else replace(ROUND, high=result["rounds"]), Axis(name, log=True)
    title, key, main = f"{title}, for how many {axis}", f"{measure}-{axis}", (measure, axis) == ("distance", "bits")
    return Figure(title, x, y, series, caption=meaning, key=key, label=label, legend=False, wide=main, tall=main)


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
    meaning = "CPUs given away that are not there, or left unused, in each round."
    meaning += f" Exactly 0 in every round, so without a line: {', '.join(exact)}." if exact else ""
    label = "Lines: |sum of shares - budget| in CPUs against rounds, one per entrant that breaks it"
    title = "How far the budget was broken on the way"
    x, y = replace(ROUND, high=result["rounds"]), Axis("CPUs", log=True)
    return Figure(title, x, y, series, caption=meaning, key="violation", label=label, legend=False)


def sheet(document: Document, *, panels: Sequence[str] | None = None) -> Sheet:
    """The median distance to the optimal shares over instances, with its quartiles: panels "rounds" and "bits"."""
    tracks = {} if "study" in document.result else tracks_of(document)
    if not tracks:
        raise InputError(
            "this comparison has no history to draw; studies have rows only (to_frame)", code="figure.rounds"
        )
    kinds = {
        "rounds": ("After as many rounds", Axis("rounds", low=0, whole=True)),
        "bits": ("For as many bits sent", Axis("bits (median)", log=True)),
    }
    asked, styles = chosen(panels, list(kinds), list(kinds)), looks(tracks, document.looks)
    series = {name: [_line(look, tracks[entrant], name) for entrant, look in styles.items()] for name in asked}
    drawn = [v for one in series[asked[0]] for v in np.array(one.y).tolist() if np.isfinite(v)]
    low = 10.0 ** np.floor(np.log10(min([0.1, *drawn]) + 1e-300))
    y = Axis("distance to optimum", log=True, low=low, high=1.3)
    return Sheet([Panel(Figure(*kinds[name], y, series[name]), 1.75) for name in asked])


def _line(look: Look, tracks: Sequence[Track], along: str) -> Series:
    """One entrant over rounds, or over the bits of those who still play; a seed that has stopped is infinitely far."""
    rounds = _rounds(tracks)
    low, middle, high = map(above, _band(tracks, int(rounds[-1]), "rounds", rounds, "distance"))
    if along == "rounds":
        return Series(look.name, rounds, middle, look=look, band=(low, high))
    paid = np.nanmedian([_paid(track, rounds) for track in tracks], axis=0)
    kept = paid > 0
    return Series(look.name, paid[kept], middle[kept], look=look, band=(low[kept], high[kept]))


def _paid(track: Track, rounds: Floats) -> Floats:
    """The bits sent by these rounds; not a number once it has stopped."""
    rows = np.searchsorted(track["round"], rounds, side="right") - 1
    return np.where(rounds > track["round"][-1], np.nan, track["bits"][rows])


# Charts of a study.


def study_charts(result: Row, styles: Looks) -> list[Figure]:
    """A panel per measure over the knob."""
    if result["study"] == "alpha":
        return [_alpha_chart(result["rows"])]
    return [_knob_panel(result, styles, column) for column in KNOBS[result["study"]][3]]


def _knob_panel(result: Row, styles: Looks, column: str) -> Figure:
    _, knob, said, _ = KNOBS[result["study"]]
    series, never = [], []
    for name, look in styles.items():
        rows = [row for row in result["rows"] if row["entrant"] == name]
        x, y = ([row[key] for row in rows] for key in (knob, column))
        if all(value is None for value in y):
            never.append(look.name)
        else:
            series.append(Series(look.name, x, y, look=look, width=3.5 if name == OURS else 2.0))
    at = sorted({row[knob] for row in result["rows"]})
    what = {"round": "Rounds", "bits": "Bits", "messages": "Messages", "distance": "Distance"}[column]
    if column == "distance":
        title, meaning = "Relative distance at the end", "Medians over seeds: what a residual is left."
    else:
        title = f"{what} to a relative distance of 1e-6"
        meaning = "Medians over seeds; a gap where most seeds do not arrive."
        meaning += f" Never there within the rounds played: {', '.join(never)}." if never else ""
    across = Axis(said, log=True, low=at[0] / 1.2, high=at[-1] * 1.2, ticks=at, point=f"{knob} {{value}}")
    flat = result["study"] == "rho" and column != "distance"
    upright = Axis(what.lower(), log=not flat, low=0 if flat else None, form="bits" if column == "bits" else "")
    label = f"Lines: {what.lower()} against {said}"
    return Figure(title, across, upright, series, caption=meaning, key=column, label=label, legend=False)


def _alpha_chart(rows: list[Row]) -> Figure:
    """Rounds over alpha in units of the paper's bound, the bound and the limit marked, divergences as crosses above."""
    limit = rows[0]["limit_part"]
    marks = [Mark("x", 1.0, "the paper's bound", "@soft")]
    marks += [Mark("x", limit, f"limit, {limit:.3g}", "@soft")] if limit else []
    parts, taken = [row["part"] for row in rows], [row["round"] for row in rows]
    series = [Series("converged", parts, taken, colour="@blue", width=2.5, marker="circle", size=8)]
    lost = {"diverged": ("diverged", "@bad", "triangle"), "slow": ("not there in time", "@amber", "emptyCircle")}
    for key, (name, colour, marker) in lost.items():
        at = [row["part"] for row in rows if row[key]]
        series.append(Series(name, at, [2 * ALPHA_ROUNDS] * len(at), "dots", colour=colour, marker=marker, size=11))
    best = min((row for row in rows if row["round"]), key=lambda row: row["round"], default=None)
    if best:
        place = [best["part"]], [best["round"]]
        series.append(Series("best", *place, "dots", colour="@good", marker="diamond", size=15))
    meaning = (
        "Least squares, no momentum; rounds to a relative gap of 1e-6, the median over seeds. Red triangles: at least one "
        f"seed diverges. Amber circles: one or more not there after {ALPHA_ROUNDS:,} rounds. Green: the best step. "
        "Dashed: the bound, and the limit of the rounds as played for the median seed."
    )
    label = "Line: rounds to a gap of 1e-6 against alpha in units of |lambda_2|/L, with divergences marked"
    x = Axis(KNOBS["alpha"][2], log=True, point="{value} of the bound")
    y = Axis("rounds to 1e-6", log=True, low=10, high=10_000)
    title = "How large a step along the tracked gradient"
    return Figure(
        title,
        x,
        y,
        series,
        marks,
        caption=meaning,
        key="alpha",
        label=label,
        legend=False,
        tip="item",
        wide=True,
        tall=True,
    )


# Tables.


def study_table(result: Row, styles: Looks) -> Table:
    """The rows of a study as they are."""
    study = result["study"]
    names = (*FIRST_COLUMNS[study], *KNOBS[study][3])
    body: list[Cells] = []
    for row in result["rows"]:
        look = styles.get(row.get("entrant", ""))
        first = Cell(f"{row['part']:g} x |lambda_2|/L" if look is None else look.name, look=look)
        body.append([first, *(_study_cell(row[key], key) for key in names)])
    note = "To a relative gap of 1e-6." if study == "alpha" else "To a relative distance of 1e-6; medians over seeds."
    columns = _columns([COLUMN_WORDS.get(name, name) for name in names])
    return Table(f"Study of {study}: the numbers", columns, body, note, "study")


def _study_cell(value: float | None, key: str) -> str:
    if key == "reached":
        return NOTHING if value is None else f"{100 * value:.0f}%"
    return _needed(value) if key in ("round", "bits", "messages") else number(value, 3)


def _needed(value: float | None) -> str:
    """Rounds, bits or messages; never, where more than half the seeds do not get there."""
    return "never" if value is None else f"{value:,.0f}"


def _summary_table(result: Row, styles: Looks) -> Table:
    wanted = [(target, column) for target in _targets(result) for column in ("round", "bits", "messages")]
    heads = [f"{'rounds' if column == 'round' else column} to {target:g}" for target, column in wanted]
    heads += ["budget broken by, CPUs", "box broken by, CPUs", "diverged"]
    body: list[Cells] = []
    for row in result["summary"]:
        cells = [_needed(row[f"{column}_to_{target:g}"]) for target, column in wanted]
        cells += [number(row["largest_violation"], 3), number(row["largest_box_violation"], 3), f"{row['diverged']}"]
        look = styles[row["entrant"]]
        body.append([Cell(look.name, look=look), *cells])
    note = (
        "Medians over seeds of what it takes until the distance stays below; never: more than half the seeds do not get "
        "there. Violations are the largest in any round of any seed."
    )
    return Table("What it takes, and what it breaks", _columns(heads), body, note, "summary")


def _protocol_table(result: Row, styles: Looks, protocol: str) -> Table:
    ours, telling = styles[result["reference"]].name, result["telling"]
    rows = [row for row in result["rows"] if row["protocol"] == protocol]
    body: list[Cells] = []
    for name, look in styles.items():
        own = {row["checkpoint"]: row for row in rows if row["entrant"] == name}
        cells = [*map(_interval, own.values()), _nearer(own[telling]) or NOTHING]
        body.append([Cell(look.name, look=look), *cells])
    note = (
        "Median relative distance over seeds with a 95% bootstrap interval. Last column: in how many seeds "
        f"{ours} is nearer; distances below 1e-9 are a tie. {result.get('why_telling', '')}"
    )
    after, what = "rounds", "equal rounds"
    if protocol == "bits":
        after, what = "rounds' bits", f"equal bits: those {ours} had spent by then"
    heads = [f"{checkpoint} {after}" for checkpoint in dict.fromkeys(row["checkpoint"] for row in rows)]
    columns = _columns([*heads, f"nearer at {telling}"])
    return Table(f"At {what}", columns, body, note, f"equal-{protocol}")


def terminal_parts(document: Document) -> list[Text | Table | Certificate]:
    """What a comparison prints: what was compared, its tables, who was left out, and the certificate."""
    result, config = document.result, document.config
    seeds = config.get("seeds") or 0  # of a spec, how many; of a comparison from Python, which
    instances = count(len(seeds) if isinstance(seeds, list) else seeds, "instance")
    head = f"{config.get('nodes')} centres, {config.get('network')}, {instances}"
    notes = [*result.get("notes", []), *result.get("left_out", [])]
    tables = [study_table(result, _styles(document))] if "study" in result else comparison_tables(result)
    made = [] if document.certificate is None else [document.certificate]
    return [Text("", head), *tables, *(Text(note) for note in notes), *made]


def comparison_tables(result: Row) -> list[Table]:
    """What it takes; what it breaks and how it compares."""
    ours, targets, telling = result["reference"], _targets(result), result["telling"]
    last = {(row["protocol"], row["entrant"]): row for row in result["rows"] if row["checkpoint"] == telling}
    needs = [f"round_to_{target:g}" for target in targets] + [f"bits_to_{targets[-1]:g}"]
    first: list[Cells] = []
    second: list[Cells] = []
    for row in result["summary"]:
        both = [last[protocol, row["entrant"]] for protocol in ("rounds", "bits")]
        own = Cell(row["entrant"], tone="blue" if row["entrant"] == ours else "")
        first.append([own, *(power(one["distance"]) for one in both), *(_needed(row[key]) for key in needs)])
        worst = [power(row["largest_violation"]), power(row["largest_box_violation"])]
        second.append([own, *worst, *map(_nearer, both)])
    heads = [f"after {telling} rounds", f"bits of {ours} by then"]
    heads += [f"rounds to {target:g}" for target in targets] + [f"bits to {targets[-1]:g}"]
    near = _columns(heads, "relative distance")
    off = _columns(["budget off by", "box off by", "at equal rounds", "at equal bits"], "CPUs")
    shares = "the worst on the way, and in how many seeds ours is nearer" if ours == OURS else "the worst on the way"
    title = "how near the optimum, medians over seeds"
    return [Table(title, near, first, result.get("why_telling", "")), Table(shares, off, second)]


def _columns(heads: Iterable[str], first: str = "") -> list[Column]:
    return [Column(first, "left"), *(Column(head, drop=k) for k, head in enumerate(heads))]


def _nearer(row: Row) -> str:
    """In how many seeds the reference is nearer than this row's entrant: 80%, tie 20%."""
    better, tied = row["reference_better"], row["reference_tied"]
    if better is None:
        return ""
    return f"{100 * better:.0f}%" + (f", tie {100 * tied:.0f}%" if tied > 1e-9 else "")


def _interval(row: Row) -> str | Cell:
    """The median, and what stands below it: its interval."""
    if row["distance"] is None:
        return "diverged"
    if row["distance_low"] == row["distance_high"]:
        return power(row["distance"])
    high = "∞" if row["distance_high"] is None else power(row["distance_high"])
    return Cell(power(row["distance"]), below=f"{power(row['distance_low'])} to {high}")
