"""ElasticFlow's tables: submission_time, deadline, num_gpu, duration and more, in seconds; each job has a deadline."""

from __future__ import annotations

from pathlib import Path

from equipoise.place.job import Workload
from equipoise.place.traces import _rows as rows
from equipoise.place.traces._rows import Mapped, TraceRow, Unmappable

COLUMNS = ("submission_time", "deadline", "num_gpu", "duration")
EXPECTED = "an ElasticFlow table: job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
matches = rows.header(COLUMNS)


def elasticflow(
    path: str | Path, *, slot: str | float = "10m", seed: int = 0, elasticity: float = 4, gpus_per_machine: int = 8
) -> Workload:
    """All-reduce jobs that are worth 1 when they finish by the trace's own deadline, and nothing later.

    A deadline d seconds after the submission is met by a job that finishes in slot ceil(d / slot) - 1 after its arrival,
    or earlier. Slot 0 is the trace's own zero. The deadlines are 0.5 to 1.5 times the duration after the submission: with
    an elasticity of 1 half of the jobs could not meet theirs on an empty cluster. The parameters are those of `philly`.
    """
    mapped = Mapped.of(slot, seed, elasticity, False, gpus_per_machine)
    return mapped.read(path, rows.table(path, COLUMNS, EXPECTED), _row, calendar=False)


def _row(line: int, cells: dict[str, str]) -> TraceRow:
    submit = rows.number(cells["submission_time"], "submission_time", zero=True)
    due = rows.number(cells["deadline"], "deadline", zero=True) - submit
    if due > rows.LONGEST:
        raise Unmappable(f"deadline is {cells['deadline'].strip()}; more than twenty years after submission is a slip")
    return TraceRow(
        line=line,
        id=f"elasticflow-{line}",
        width=rows.whole(cells["num_gpu"], "num_gpu"),
        submit=submit,
        duration=rows.lasting(cells["duration"]),
        due=due,
        tags={"network": cells["model_name"]} if cells.get("model_name") else {},
    )
