"""The ledger of claims: a page, a table in the terminal, and the Markdown of the documentation."""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from equipoise.document import Document, Row
from equipoise.present.figures import Axis, Dash, Figure, Kind, Mark, Series, bars
from equipoise.present.text import NOTHING, count, number, verdict
from equipoise.present.values import Block, Cell, Chapter, Column, Facts, Page, Section, Table, Text, Tone

PAPERS = {
    "train": "Machine Learning and CPU Scheduling Co-Optimization over a Network of Computing Centers (arXiv 2510.25176)",
    "share": "Robustness-Efficiency Trade-offs in Learning-Aware Distributed Scheduling (Hasan and Peña)",
    "place": "Toward Efficient Online Scheduling for Distributed Machine Learning Systems (arXiv 2108.02917)",
}
TITLES = {"train": "Co-optimisation", "share": "Learning-aware scheduling", "place": "Online scheduling"}
TONES: dict[str, Tone] = {"reproduced": "good", "not reproduced": "bad", "depends": "warn", "beyond": "blue"}
HELD = {
    True: Cell("holds", tone="good"),
    False: Cell("does not hold", tone="bad"),
    None: Cell("too few samples", tone="warn"),
}
JUDGED = {"paper": "as the paper has it", "ours": "in its place, here"}
LEAD = (
    "Every verdict is computed: a value that was sampled must be clear of its bound by two standard errors (Student's where "
    "samples are few)."
)
VERDICTS = (
    ("reproduced", "all that the paper says holds"),
    ("depends", "some of it holds, or samples are too few"),
    ("beyond", "the paper leaves it open or could not be read, and what is said here holds"),
)


def page(document: Document) -> Page:
    """Every claim with its protocol, findings, figures and verdict."""
    entries = document.result["claims"]
    summaries = [summary(chapter, TITLES[verb], links=True) for verb, chapter in chapters(entries)]
    blocks: list[Block] = [Section("The ledger", [Text(LEAD, soft=True), Facts(VERDICTS), *summaries], "ledger")]
    for verb, chapter in chapters(entries):
        blocks += [Chapter(TITLES[verb], PAPERS[verb]), *map(claim, chapter)]
    return Page(document, title(document), blocks, {"history.csv": "every finding"})


def title(document: Document) -> str:
    """34 claims, full form: 12 reproduced, 9 depend, ...: certificate passed."""
    entries = document.result["claims"]
    how = "quick form" if document.config["quick"] else "full form"
    outcome = "not made" if document.certificate is None else verdict(document.certificate)
    return f"{count(len(entries), 'claim')}, {how}: {tally(entries)}: certificate {outcome}"


def tally(entries: Iterable[Row]) -> str:
    """12 reproduced, 3 not reproduced, 8 depend, 9 beyond."""
    words, found = {"depends": "depend"}, [entry["verdict"] for entry in entries]
    return ", ".join(f"{found.count(kind)} {words.get(kind, kind)}" for kind in TONES if kind in found)


def chapters(entries: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The claims of each paper, by verb."""
    found = [(verb, [entry for entry in entries if entry["verb"] == verb]) for verb in TITLES]
    return [(verb, chapter) for verb, chapter in found if chapter]


def summary(entries: Iterable[Row], heading: str = "", *, links: bool = False) -> Table:
    """A row for each claim: its verdict, and the first thing that was measured."""
    columns = [
        Column("claim", "left", of=lambda entry: Cell(entry["name"], link=f"#{entry['name']}" if links else "")),
        Column("verdict", "left", of=lambda entry: Cell(entry["verdict"], tone=TONES[entry["verdict"]])),
        Column("measured", "left", wrap=True, of=headline),
    ]
    return Table.of(heading, entries, columns)


def recorded_table(rows: Iterable[Row]) -> Table:
    """Every claim with the verdict that was recorded, and its sentence."""
    columns = [
        Column("claim", "left", of=itemgetter("name")),
        Column(
            "recorded", "left", of=lambda row: Cell(row["recorded"] or NOTHING, tone=TONES.get(row["recorded"], ""))
        ),
        Column("sentence", "left", wrap=True, of=itemgetter("sentence")),
    ]
    return Table.of("", rows, columns)


def ledger(entries: Sequence[Row]) -> list[Block]:
    """For the documentation: paper by paper the summary and then each claim."""
    found: list[Block] = []
    for verb, chapter in chapters(entries):
        found += [Chapter(TITLES[verb], f"{PAPERS[verb]}."), summary(chapter, links=True), *map(claim, chapter)]
    return found


def claim(entry: Row) -> Section:
    """One claim: what the paper says, what was played here, every finding beside its bound, and the verdict."""
    unread = f". Not read: {entry['unread'].rstrip('.')}" if entry["unread"] else ""
    blocks: list[Block] = [Text(entry["sentence"]), Text(f"{entry['source'].rstrip('.')}{unread}.", soft=True)]
    if entry.get("changed"):
        blocks.append(Text("; ".join(entry["changed"]), "Changed since it was recorded.", banner=True))
    blocks += [Text(entry["protocol"]), findings(entry)]
    blocks += [Text(note, soft=True) for note in entry["notes"]]
    blocks += [figure(f"{entry['name']}-{k}", found) for k, found in enumerate(entry["figures"])]
    return Section(entry["name"], blocks, entry["name"], TONES[entry["verdict"]], ruled(entry))


def findings(entry: Row) -> Table:
    """Each measured value beside its bound."""
    columns = [
        Column("measured", "left", wrap=True, of=lambda found: Cell(named(found), found["over"])),
        Column("value", "left", of=measured),
        Column("must be", "left", of=lambda found: str(found["bound"])),
        Column("so it", "left", of=lambda found: HELD[found["holds"]]),
        Column("judged", "left", drop=1, of=lambda found: JUDGED[found["about"]]),
    ]
    return Table.of("", entry["findings"], columns, key=f"findings-{entry['name']}")


def measured(finding: Row) -> str:
    """12.3 ± 0.4 points."""
    error = "" if finding["error"] is None else f" ± {number(finding['error'], 2)}"
    unit = f" {finding['unit']}" if finding["unit"] else ""
    return f"{number(finding['value'])}{error}{unit}"


def named(finding: Row) -> str:
    """What was measured, and when."""
    return ", ".join(str(finding[part]) for part in ("quantity", "when") if finding[part])


def headline(entry: Row) -> str:
    """The first thing that was measured, beside its bound."""
    if not entry["findings"]:
        return str(entry["protocol"])
    first = entry["findings"][0]
    return f"{measured(first)} ({first['bound']}): {named(first)}"


def ruled(entry: Row) -> str:
    """The verdict, and what it depends on."""
    return f"{entry['verdict']} ({entry['depends_on']})" if entry["depends_on"] else str(entry["verdict"])


def figure(key: str, found: Row) -> Figure:
    """A figure of result.json (`Figure.as_dict`)."""
    x = Axis(found["x"], log=found["log_x"], groups=found["groups"], zero=False)
    y, series = Axis(found["y"], log=found["log_y"]), [_series(series) for series in found["series"]]
    marks = [Mark(mark["axis"], mark["value"], mark["name"]) for mark in found["marks"]]
    return Figure(found["title"], x, y, series, marks, found["caption"], key)


def _series(found: Row) -> Series:
    if found["kind"] == "bars":
        return bars(found["name"], found["y"], found["error"])
    kind: Kind = "dots" if found["dots"] else "line"
    dash: Dash = "dashed" if found["dashed"] else "solid"
    return Series(found["name"], found["x"], found["y"], kind, found["error"], dash=dash)
