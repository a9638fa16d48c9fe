"""The ledger as Markdown, for the documentation."""

from __future__ import annotations

from typing import Any

from equipoise.present.text import count
from equipoise.report.claims_words import MARKS, PAPERS, TITLES, WHOSE, Entry, headline, measured, named, ruled, tally

HEAD = """# Claims

What the three papers claim, how it is tested here, and what came out. `equipoise reproduce` measures all of it in less than
an hour on two cores, `equipoise reproduce --quick` in less than five minutes; both repeat to the bit on a machine. This page
and the one with every figure, `ledger.html` of the site that `make docs` builds, are made from such a run.

No verdict is typed by hand. Each finding is a measured value beside a bound: the claim's own where it states one, else one
that is set here. A value that was sampled must be clear of its bound by two standard errors (Student's where samples are
few, Wilson's for shares).

- **reproduced**: all that the paper says holds.
- **not reproduced**: none of it does.
- **depends**: some of it does, or the samples are too few to tell; the verdict says on what it depends.
- **beyond**: the paper leaves it open, or it could not be read, and what is said here in its place holds.

```sh
equipoise reproduce --list                     # every claim, and the verdict that was recorded
equipoise reproduce --quick                    # all of them, quickly
equipoise reproduce sector-bound lyapunov-decrease   # these two, with all their findings
```

The recording ships with the package. A run fails, visibly, when any finding lies on another side of its bound than recorded.
A claim is one file in `src/equipoise/claims/`.
"""


def claims_markdown(document: dict[str, Any]) -> str:
    """The whole page; `document` is what stands in result.json."""
    entries = document["result"]["claims"]
    parts = [HEAD, f"**{count(len(entries), 'claim')}: {tally(entries)}.**\n"]
    for verb, title in TITLES.items():
        chapter = [entry for entry in entries if entry["verb"] == verb]
        if chapter:
            parts += [f"## {title}\n\n{PAPERS[verb]}.\n", _summary(chapter), *(_claim(entry) for entry in chapter)]
    return "\n".join(parts)


def _summary(entries: list[Entry]) -> str:
    rows = [
        f"| [{entry['name']}](#{entry['name']}) | {entry['verdict']} | {_cell(headline(entry))} |" for entry in entries
    ]
    return "\n".join(["| claim | verdict | measured |", "|---|---|---|", *rows, ""])


def _claim(entry: Entry) -> str:
    unread = f" Not read: {entry['unread']}" if entry["unread"] else ""
    lines = [
        f"### {entry['name']}",
        "",
        f"{_plain(entry['sentence'])} ({_plain(entry['source'])}.{_plain(unread)})",
        "",
        f"**{_plain(ruled(entry))}**",
        "",
        _plain(entry["protocol"]),
        "",
        "| measured | value | must be | so it | judged |",
        "|---|---|---|---|---|",
    ]
    for finding in entry["findings"]:
        cells = (
            named(finding) + (f"; {finding['over']}" if finding["over"] else ""),
            measured(finding),
            finding["bound"],
            MARKS[finding["holds"]],
            WHOSE[finding["about"]],
        )
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    lines += ["", *(_plain(note) + "\n" for note in entry["notes"])]
    return "\n".join(lines)


def _plain(words: str) -> str:
    """Text that Markdown leaves as it is."""
    for sign in "\\*_<[$":
        words = words.replace(sign, f"\\{sign}")
    return words


def _cell(words: str) -> str:
    return _plain(words).replace("|", "\\|")
