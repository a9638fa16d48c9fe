"""The authors' own run: their generator, their order of runs, and every cell of their table."""

from equipoise.claims import Finding, Measured, Scale, at_least, at_most, claim
from equipoise.claims.share._published import SOURCE, SUCCESS, over_tasks
from equipoise.document import Row
from equipoise.present.figures import Figure, Series
from equipoise.share import PublishedRun
from equipoise.share.published import DIGITS, LAST_DRAW, LOADS, PUBLISHED_LOAD, PUBLISHED_TABLE, published_run


@claim(
    "Table 1: success, latency, energy and efficiency of five policies at 60 tasks.",
    source=f"{SOURCE}, Table 1, and the authors' notebook",
    effort=5,
)
def measure(scale: Scale) -> Measured:
    run = published_run()
    energy = {row["policy"]: row["energy"] for row in run.rows if row["load"] == PUBLISHED_LOAD}
    draw = "difference of the generator's next draw from the one after the authors' run"
    above = energy["UARA"] - energy["Uniform"]
    return Measured(
        protocol="One generator (NumPy's legacy MT19937, seed 42) draws everything: an opening test, then 10 to 60 tasks; "
        "at each load the five policies one after the other, each with tasks of its own. `equipoise share --published-run`.",
        findings=(
            *(_cells(run, column) for column in DIGITS._fields),
            Finding(draw, abs(run.next_draw - LAST_DRAW), at_most(1e-11), over="after 35 runs", when="the generator"),
            Finding("energy of UARA above that of Uniform in this run", above, at_least(0.0), "energy", about="ours"),
        ),
        figures=tuple(_figure(run.rows, column) for column in ("success", "energy")),
        notes=(
            "No two policies in this table met the same tasks. What the same tasks say is the next claim.",
            "We first read the paper without its code and built another site. What we made of the text is still here, "
            "under the name `described`; it differs almost everywhere from what the authors ran.",
        ),
    )


def _cells(run: PublishedRun, column: str) -> Finding:
    same = float(sum(cell["same"] for cell in run.beside if cell["column"] == column))
    told, five = f"cells of the {column} column that print as the paper's", at_least(len(PUBLISHED_TABLE))
    return Finding(told, same, five, unit="of 5", when=f"{column} column")


def _figure(rows: list[Row], column: str) -> Figure:
    cells = {(row["policy"], row["load"]): row[column] for row in rows}
    lines = [Series(name, LOADS, [cells[name, load] for load in LOADS]) for name in PUBLISHED_TABLE]
    y, caption = SUCCESS if column == "success" else "energy", "One run for each point, with tasks of its own: "
    return over_tasks(f"{column.capitalize()} in the authors' run", y, lines, f"{caption}the lines cross by luck.")
