"""equipoise predict: what a trained model answers for the rows of a file."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import application
from equipoise.cli.output import answer, say_where
from equipoise.errors import InputError

app = application()


@app.command()
def predict(
    run: Annotated[
        Path, typer.Argument(help="The folder of a run of equipoise train on your own files.", metavar="RUN")
    ],
    file: Annotated[
        Path, typer.Argument(help="New rows: CSV or parquet, with the columns of training.", metavar="FILE")
    ],
    out: Annotated[Path | None, typer.Option(help="Write the answers to this CSV file, not to the terminal.")] = None,
    centre: Annotated[
        int | None, typer.Option(help="Use the model of this centre. (default: the average over centres)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Labels for new rows, with a probability for each class: a line for each row of the file, in its order.

    Columns may stand in any order, and columns that training did not have are of no account. Empty cells are filled as in
    training. All of it happens in this process.
    """
    from equipoise.document import write_table
    from equipoise.result import load
    from equipoise.train.prediction import Trained

    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise InputError(f"--out {out} is the file that is read; name another file", code="file.twice")
    _refuse_other_folders(run, file)
    found = Trained.load(load(run), centre).predict(file)
    say_where("train predict", {"data_file": str(file)}, json=True)  # standard output is for the answers alone
    names, columns = list(found.columns), found.columns.values()
    rows = [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
    for note in found.notes:
        print(f"note: {file}: {note}", file=sys.stderr)
    if out is not None:
        write_table(out, rows, names)
    if json:
        answer({"rows": rows})
    elif out is None:
        with suppress(BrokenPipeError):  # whoever reads has seen enough
            write_table(None, rows, names)
    counts = Counter(found.answers.tolist()) if found.schema.classes else {}
    told = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
    where = "" if out is None else f"{out}: "
    print(f"{where}{len(rows):,} row{'s' * (len(rows) != 1)}" + (f": {told}" if told else ""), file=sys.stderr)


def _refuse_other_folders(run: Path, file: Path) -> None:
    """What is easily mistaken for a run: the folder of all runs, or the file of new rows."""
    if not run.is_dir() and file.is_dir():
        raise InputError(
            f"{file} is a folder; the run comes first: equipoise predict {file} {run}", code="predict.order"
        )
    from equipoise.document import RESULT

    inside = sorted(path.parent for path in run.glob(f"*/{RESULT}"))
    if inside and not (run / RESULT).exists():
        latest = max(inside, key=lambda folder: folder.stat().st_mtime)
        what = f"{run} is no run but holds {len(inside)}; name one, such as the latest: {latest}"
        raise InputError(what, code="predict.run")
