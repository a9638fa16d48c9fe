"""The page of tasks on the real clock: simulated and executed beside each other, the machine's part, every task's end."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from equipoise.document import Document, Row, rows_of
from equipoise.present.figures import Axis, Figure, Look, Series, looks
from equipoise.present.text import NOTHING, count, fixed, outcome, with_error
from equipoise.present.values import Block, Cell, Code, Column, KeyNumber, KeyNumbers, Page, Section, Table, Text

HELD = (
    "Speed is the CPU that the units done took when they were recorded, over what they took now; “at its speed” is the"
    " simulation of a machine with that speed and that much of its CPU."
)
BUSY = (
    "tasks missed more than 5 % of their CPU or its speed has changed since they were recorded, and differences say more"
    " of the machine than of the policies."
)


def page(document: Document) -> Page:
    """The page of a result of `share execute`."""
    held = f"Processes were held by {document.result['limiter']}. {HELD}"
    blocks: list[Block] = [tiles(document), replace(table(document), note=held)]
    if document.result["disturbed"]:
        blocks.append(Text(BUSY, strong="The machine was busy:", banner=True))
    failed = [row for row in document.rows("tasks") if row["fault"]]
    faults = [part for row in failed for part in (Text("", strong=_where(row)), Code(str(row["fault"]), _where(row)))]
    if faults:
        blocks.append(Section("Tasks that failed by themselves", faults, key="faults"))
    blocks += [*_figures(document), _ends(document)]
    files = {"result.json": "holds the result", "history.csv": "what every task was given and did, step by step"}
    return Page(document, title(document), blocks, files)


def title(document: Document) -> str:
    """24 training processes on 1 CPU, 5 seeds: executed success within 2.5 points of simulated: certificate passed."""
    rows, runs = document.rows("rows"), document.rows("runs")
    cpus = _site(document).get("cpus")
    where = count(runs[0]["tasks"], "training process", "training processes")
    where += "" if cpus is None else f" on {cpus:g} CPU{'s' * (cpus != 1)}"
    worst = max(abs(row["success_apart"]) for row in rows)
    order = "" if len(rows) < 2 else ", in the same order" if document.result["same_order"] else ", in another order"
    found = f"executed success within {worst:.1f} points of simulated{order}"
    return f"{where}, {count(rows[0]['seeds'], 'seed')}: {found}{outcome(document)}"


def tiles(document: Document) -> KeyNumbers:
    """The numbers to look at first."""
    rows, step = document.rows("rows"), _site(document).get("step")
    best = max(rows, key=lambda row: row["success_executed"])
    worst = max(rows, key=lambda row: abs(row["success_apart"]))
    apart = _mean_apart(rows)
    missed = max(rows, key=lambda row: row["shortfall"])
    slow = min(rows, key=lambda row: row["speed"] or 1.0)
    simulated = f"{best['policy']}; simulated {best['success_simulated']:.1f} %"
    signed = f"{worst['policy']}: executed minus simulated is {fixed(worst['success_apart'], 1, '+')}"
    both = "mean over tasks that both finished" + ("" if step is None else f"; a step is {step:g} s")
    speed = f"{missed['policy']}: not got; speed {fixed(slow['speed'], 2)} of that recorded, at least"
    return KeyNumbers(
        [
            KeyNumber("most tasks finished, executed", f"{best['success_executed']:.1f} %", simulated),
            KeyNumber("success apart, at most", f"{abs(worst['success_apart']):.1f} points", signed),
            KeyNumber("completion times apart", NOTHING if apart is None else f"{apart:.2f} steps", both),
            KeyNumber("CPU missed, at most", f"{missed['shortfall']:.1f} %", speed),
        ]
    )


def _mean_apart(rows: Sequence[Row]) -> float | None:
    """Steps between simulated and executed ends of tasks, the mean over policies."""
    known = [row["completion_apart"] for row in rows if row["completion_apart"] is not None]
    return sum(known) / len(known) if known else None


MEASURES: tuple[tuple[str, str, int, int], ...] = (  # column, key of a row, digits, when it leaves a narrow terminal
    ("success simulated, %", "success_simulated", 1, 0),
    ("at its speed, %", "success_at_speed", 1, 2),
    ("executed, %", "success_executed", 1, 0),
    ("apart, points", "success_apart", 1, 0),
    ("latency simulated, steps", "latency_simulated", 1, 3),
    ("executed, steps", "latency_executed", 1, 3),
    ("completion apart, steps", "completion_apart", 2, 1),
    ("energy simulated", "energy_simulated", 0, 4),
    ("executed", "energy_executed", 0, 4),
    ("CPU missed, %", "shortfall", 1, 0),
    ("speed", "speed", 2, 5),
)


def table(document: Document) -> Table:
    """Simulated and executed beside each other, one row per policy."""
    styles = _looks(document)
    columns = [Column("policy", "left", of=lambda row: Cell(row["policy"], look=styles[row["policy"]]))]
    columns += [Column(name, drop=drop, of=partial(_measure, key, digits)) for name, key, digits, drop in MEASURES]
    return Table.of("Simulated and executed", document.rows("rows"), columns, key="beside")


def sentences(document: Document) -> list[str]:
    """The finding in words, for the terminal."""
    rows = document.rows("rows")
    worst = max(rows, key=lambda row: abs(row["success_apart"]))
    order = "in the same order" if document.result["same_order"] else "in another order"
    apart = abs(worst["success_apart"])
    found = [f"executed success is at most {apart:.1f} points from simulated ({worst['policy']}), {order}"]
    ends = _mean_apart(rows)
    if ends is not None:
        found.append(f"tasks that both finish end {ends:.2f} steps apart on average")
    speeds = [speed for row in rows if (speed := row["speed"])]
    if speeds:
        found.append(f"a unit of work took {len(speeds) / sum(speeds):.2f} times the CPU that it took when recorded")
    return found


def warnings(document: Document) -> list[str]:
    """What a user should know beside the table: tasks that failed by themselves, and a busy machine."""
    failed = [row for row in document.rows("tasks") if row["fault"]]
    lines = [f"{_where(row)} failed: {str(row['fault']).strip().splitlines()[-1]}" for row in failed]
    return lines + ([f"the machine was busy: {BUSY}"] if document.result["disturbed"] else [])


def _where(row: Row) -> str:
    step = "" if row.get("fault_step") is None else f", step {row['fault_step']}"
    return f"{row['policy']}, seed {row['seed']}{step}: task {row['task']} ({row['kind']})"


SUCCESS = "Pale: the simulation of the same tasks, by their recorded curves. Full: real processes."
ENERGY = (
    "Pale: from the simulator's decisions. Full: from the CPU that processes really took. A task that ends within a step"
    " leaves the rest of it unused, which the simulator charges for."
)
DONE = (
    "One dot for each task that both finished. The simulator stamps the end of a step, so a perfect one lies up to a step"
    " below the line; above it, the machine was slower than when tasks were recorded."
)
CPU = "One dot for each task. Below the line: the machine was busy with something else. A share is a ceiling."


def _figures(document: Document) -> list[Figure]:
    styles, tasks = _looks(document), document.rows("tasks")
    last = max(_site(document).get("horizon") or 0.0, *(row["deadline"] for row in tasks))
    most = max(max(row["cpu_asked"], row["cpu_got"]) for row in tasks)
    done = [row | {"done_executed": row["finished"]} for row in tasks if row["done_executed"] is not None]
    completions = Figure(
        "When tasks were done",
        x=Axis("simulated, step", low=0, high=last, point="step {value}"),
        y=Axis("executed, steps on the clock", low=0, high=last),
        series=_dots(done, styles, "done_simulated", "done_executed", "as simulated", last),
        caption=DONE,
        key="completions",
        label="Dots: executed against simulated completion of every task that both finished",
        tip="item",
    )
    cpu = Figure(
        "CPU asked and got",
        x=Axis("asked, seconds of CPU", low=0, point="{value} s"),
        y=Axis("got, seconds of CPU", low=0),
        series=_dots(tasks, styles, "cpu_asked", "cpu_got", "all of it", most),
        caption=CPU,
        key="cpu",
        label="Dots: seconds of CPU that every task got against what its shares asked for",
        tip="item",
    )
    return [
        _bars(document, "success", "Tasks finished in time", Axis("% of tasks", low=0, high=100), SUCCESS),
        _bars(document, "energy", "Energy", Axis("energy by the site's law", low=0), ENERGY),
        completions,
        cpu,
        *(_site_of(document, look) for look in styles.values() if "steps" in document.names),
    ]


def _bars(document: Document, measure: str, heading: str, axis: Axis, caption: str) -> Figure:
    """Two bars for each policy."""
    styles, rows = _looks(document), document.rows("rows")
    names = [str(row["policy"]) for row in rows]
    look = Series("", [], range(len(rows)), "bars", colours=[styles[name].colour for name in names], values=True)
    series = []
    for kind, opacity in (("simulated", 0.45), ("executed", 1.0)):
        values = [round(row[f"{measure}_{kind}"], 2) for row in rows]
        series.append(replace(look, name=kind, x=values, colour="@ink", opacity=opacity))
    label = f"Bars: {heading.lower()}, simulated and executed, by policy"
    return Figure(heading, axis, Axis(groups=names), series, caption=caption, key=measure, label=label, down=True)


def _dots(rows: Sequence[Row], styles: dict[str, Look], x: str, y: str, line: str, end: float) -> list[Series]:
    """One dot per task in its policy's colour, where both numbers are known, and the line on which they are equal."""
    found = []
    for name, look in styles.items():
        known = [row for row in rows if row["policy"] == name and row[x] is not None and row[y] is not None]
        xs, ys = ([round(row[column], 3) for row in known] for column in (x, y))
        found.append(Series(look.name, xs, ys, kind="dots", look=look, size=8))
    equal = Series(line, [0, end], [0, end], colour="@soft", dash="dashed", width=1.5, marker="none")
    return [*found, equal]


def _site_of(document: Document, look: Look) -> Figure:
    """The first seed under one policy: what was given in each step, what was used, what the simulator used."""
    rows = rows_of(document, "steps", policy=look.key)
    capacity = _site(document).get("capacity") or 0.0
    simulated = Series("simulated", [row["step"] for row in rows], [], "step", colour="@soft", dash="dashed")
    given = replace(simulated, name="given", colour=look.colour, dash="solid", width=1.5, opacity=0.5)
    lines = [simulated, given, replace(given, name="taken", width=2.0, opacity=1.0)]
    words = f"Seed {rows[0]['seed']}. Dashed: the simulation. Pale: what the policy gave on the clock. Full: CPU that"
    words += f" processes took, in samples; {capacity:g} are a step of all the site's CPU."
    label = f"Lines: compute of the site in every step under {look.name}, simulated, given and taken"
    x, y = Axis("step", low=0, high=len(rows), point="step {value}"), Axis("samples per step", low=0, high=capacity)
    series = [replace(line, y=[round(row[line.name], 2) for row in rows]) for line in lines]
    return Figure(f"The site under {look.name}", x, y, series, caption=words, key=f"site-{look.name}", label=label)


def _ends(document: Document) -> Table:
    """The first seed, one row per task: when it was done under each policy, simulated and executed."""
    tasks = document.rows("tasks")
    first = tasks[0]["seed"]
    ends = {(str(row["policy"]), row["task"]): row for row in tasks if row["seed"] == first}
    names = list(dict.fromkeys(name for name, _ in ends))
    columns = [Column("task", "left"), Column("kind", "left")]
    columns += [Column(name) for name in ("arrival", "deadline", "target", "work", *names)]
    rows = []
    for row in (row for (name, _), row in ends.items() if name == names[0]):
        kind = str(row["kind"]).rpartition("/")[2]
        task = [str(row["task"]), kind, str(row["arrival"]), str(row["deadline"])]
        task += [fixed(row["target"], 3), fixed(row["work"], 0)]
        rows.append(task + [_both_ends(ends[name, row["task"]]) for name in names])
    note = "Under each policy the step by which it was done, simulated · executed; – where it was not done in time."
    return Table(f"Every task of seed {first}", columns, rows, note, key="ends")


def _both_ends(row: Row) -> str:
    return f"{_end(row, 'simulated')} · {_end(row, 'executed')}"


def _end(row: Row, which: str) -> str:
    if which == "executed" and row["fault"]:
        return "fault"
    return NOTHING if row[f"done_{which}"] is None else str(row[f"done_{which}"])


def _looks(document: Document) -> dict[str, Look]:
    return looks([str(row["policy"]) for row in document.rows("rows")], document.looks)


def _site(document: Document) -> dict[str, float]:
    """CPUs, seconds of a step, samples per step, steps; nothing in a result of 0.1.0."""
    found = document.result.get("site") or {}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def _measure(name: str, digits: int, row: Row) -> str:
    if name == "success_apart":
        return with_error(row[name], row["success_apart_se"], digits, "+")
    return fixed(row[name], digits)
