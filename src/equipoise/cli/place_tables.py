"""The tables and lines of `equipoise place`, for a terminal of 100 columns or more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from equipoise.place.comparison import Comparison
from equipoise.present.text import count, number, percent

Row = dict[str, Any]
LOSERS = 5  # jobs that lost most, shown for the first policy
WORDS = {
    "infeasible_alone": "too large\nfor any machine",
    "beyond_horizon": "beyond the\nhorizon",
    "no_capacity": "no\ncapacity",
    "priced_out": "priced\nout",
    "waiting": "still\nwaiting",
    "unfinished": "not\ndone",
}
PLAIN_WORDS = {name: " ".join(words.split()) for name, words in WORDS.items()}


def table_of(heads: Sequence[str], words: Iterable[int] = (0,)) -> Table:
    """Columns of words to the left, of numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    left = set(words)
    wide = len(heads) - (len(heads) - 1 in left)  # words in the last column may be folded
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k in left else "right", no_wrap=k < wide, overflow="fold")
    return table


def titled(title: str, table: Table, note: str = "") -> Group:
    below = [Text(note, style="dim")] if note else []
    return Group(Text(), Text(title, style="bold"), table, *below)


def span(seconds: float) -> str:
    """600 as 10 min."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length and (seconds / length).is_integer():
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:g} s"


def headline(found: Comparison) -> str:
    """What met what."""
    slot = span(found.jobs.slot)
    ahead = (
        f"{found.slots} slots of {slot}"
        if found.slots is not None
        else (f"slots of {slot}, planned {found.horizon} ahead")
    )
    many = count(len(found.results), "policy", "policies")
    return f"{count(len(found.jobs), 'job')} on {count(found.cluster.size, 'machine')}, {ahead}: {many}"


def _best(text: str, best: bool) -> str:
    return f"[bold green]{text}[/]" if best else text


def hours(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def policy_table(found: Comparison) -> Group:
    """Utility and completed jobs beside completion times; never one without the other."""
    bounded, gpus = found.bound is not None, "gpu" in found.cluster.resources
    heads = [
        "policy",
        "utility",
        "% of\nbound",
        "jobs\ndone",
        "pro-\nmised",
        "mean\nhours",
        "median\nhours",
        "p99\nhours",
    ]
    heads += ["GPU\nhours", "decided\n/ s"]
    shown = [k for k, head in enumerate(heads) if (bounded or k != 2) and (gpus or k != 8)]
    table = table_of([heads[k] for k in shown])
    best = {name: max(row[name] for row in found.table) for name in ("utility", "completed")}
    for row, result in zip(found.table, found.results, strict=True):
        part = row["share_of_bound"]
        speed = len(found.jobs) / result.seconds if result.seconds > 0 else 0.0
        cells = [
            row["policy"],
            _best(number(row["utility"]), row["utility"] == best["utility"]),
            "-" if part is None else f"{100 * part:.1f}",
            _best(f"{row['completed']:,}", row["completed"] == best["completed"]),
            f"{row['admitted']:,}",
            hours(row["mean_completion"]),
            hours(row["median_completion"]),
            hours(row["p99_completion"]),
            f"{row['gpu_hours']:,.0f}",
            f"{speed:,.0f}",
        ]
        table.add_row(*(cells[k] for k in shown))
    if found.bound is not None:
        last = f"[dim]{number(found.bound.utility)}[/]"
        table.add_row("[dim]upper bound[/]", last, "[dim]100[/]")
    what = "hours from arrival to the end of the slot of finish, of the jobs done"
    return titled("policies on the same jobs", table, what)


def reason_table(found: Comparison) -> Group | None:
    """Why jobs did not finish."""
    told = list(dict.fromkeys(reason for result in found.results for reason in result.reasons))
    if not told:
        return None
    told.sort(key=lambda reason: list(WORDS).index(reason) if reason in WORDS else len(WORDS))
    table = table_of(["policy", *(WORDS.get(reason, reason.replace("_", "\n")) for reason in told)])
    for result in found.results:
        cells = (f"{result.reasons[reason]:,}" if reason in result.reasons else "-" for reason in told)
        table.add_row(result.policy.label, *cells)
    return titled("why jobs did not finish: the last thing each was told", table)


def hopeless_lines(found: Comparison) -> Iterator[str]:
    """Jobs no policy could finish, with what they would hold."""
    said = {
        "infeasible_alone": ("is larger than the cluster's machines", "are larger than the cluster's machines"),
        "beyond_horizon": ("cannot finish in time even alone", "cannot finish in time even alone"),
    }
    for reason, (one, many) in said.items():
        row = found.hopeless[reason]
        if row["jobs"]:
            shares = ", ".join(f"{percent(part)} of {name} time" for name, part in row["resource_time"].items() if part)
            verb = one if row["jobs"] == 1 else many
            yield f"{count(row['jobs'], 'job')} ({percent(row['share'])}) {verb} ({reason}): {shares}"


def calibration_lines(found: Comparison) -> Iterator[str]:
    """What prices each policy chose from history, and the best of the other kind."""
    for label in dict.fromkeys(row["policy"] for row in found.calibration):
        rows = [row for row in found.calibration if row["policy"] == label]
        chosen = next(row for row in rows if row["chosen"])
        others = [row for row in rows if row["kind"] != chosen["kind"]]
        line = f"prices of {label}: {setting_of(chosen)}, the best of {len(rows)} replayed on history"
        line += f" (utility {number(chosen['utility'])} there"
        if others:
            other = max(others, key=lambda row: row["utility"])
            line += f"; the best {other['kind']} {number(other['utility'])}"
        yield line + ")"


def setting_of(row: Row) -> str:
    lead = f", lead {row['lead']:g}" if row["lead"] else ""
    return f"{row['kind']}, level {row['level']:.3g}, full / empty {row['ratio']:.3g}{lead}"


def trial_table(rows: Sequence[Row]) -> Group:
    """Every candidate, best first; the chosen one marked."""
    table = table_of(["", "kind", "level", "full /\nempty", "lead\nslots", "utility", "jobs\ndone"], words=(0, 1))
    for row in sorted(rows, key=lambda row: -row["utility"]):
        mark, style = ("->", "bold green") if row["chosen"] else ("", "")
        table.add_row(
            mark,
            row["kind"],
            f"{row['level']:.4g}",
            f"{row['ratio']:.4g}",
            f"{row['lead']:g}",
            number(row["utility"]),
            f"{row['completed']:,}",
            style=style,
        )
    note = "the level is the price of the whole cluster for a slot; of a bid, a factor on the duals of its LP"
    return titled("prices replayed on history", table, note)


def gain_table(gains: Sequence[Row]) -> Group:
    """What would have been gained, and who loses most."""
    table = table_of(["policy", "utility", "", "jobs\ndone", "jobs that\ngained", "jobs that\nlost"])
    for row in gains:
        part = "" if row["relative"] is None else f"{100 * row['relative']:+,.0f} %"
        colour = "green" if row["utility"] > 0 else "red" if row["utility"] < 0 else "default"
        table.add_row(
            row["policy"],
            f"[{colour}]{_signed(row['utility'])}[/]",
            part,
            f"{row['completed']:+,}",
            f"{len(row['gained']):,}",
            f"{len(row['lost']):,}",
        )
    return titled(f"what you would have gained over {gains[0]['baseline']}", table)


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)


def loser_table(row: Row) -> Group | None:
    """The jobs that lost most under one policy."""
    if not row["lost"]:
        return None
    base = row["baseline"]
    table = table_of(
        ["job", "arrives", f"utility\n{base}", "\nnow", f"done in slot\n{base}", "\nnow", "told"], words=(0, 6)
    )
    for job in row["lost"][:LOSERS]:
        told = job["state"] + (f": {PLAIN_WORDS.get(job['reason'], job['reason'])}" if job["reason"] else "")
        table.add_row(
            job["id"],
            f"{job['arrival']:,}",
            number(job["utility_before"]),
            number(job["utility_after"]),
            _slot(job["finish_before"]),
            _slot(job["finish_after"]),
            told,
        )
    more = len(row["lost"]) - LOSERS
    return titled(f"jobs that lost under {row['policy']}", table, f"and {more:,} more" if more > 0 else "")


def _slot(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
