"""Record the ledger: play every claim, keep what came out, and write claims.md from it.

python docs/record_claims.py quick full           both scales anew, on MNIST if EQUIPOISE_DATA has it
python docs/record_claims.py full sector-bound    one claim of the full scale; the others are kept
python docs/record_claims.py                      only the page
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from equipoise.claims import Scale
from equipoise.claims.ledger import RECORDED, Reproduction, chosen, compare, mnist_folder, play, recorded, settled
from equipoise.document import Document, read
from equipoise.present.claims import ledger, tally
from equipoise.present.markdown import markdown
from equipoise.present.text import count

PAGE = Path(__file__).parent / "claims.md"
HEAD = """# Claims

**What runs where.** Simulations: processes on the machine that measures draw what they play and read data sets that come
with scikit-learn, or MNIST from its folder; nothing leaves it.

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


def record(scale: Scale, path: Path, names: list[str]) -> None:
    """Play what is named (all, if nothing is) and keep it; the certificate kept with it compares it with itself."""
    kept = recorded(quick=scale.quick) if names else {}
    for entry in play(chosen(names), scale, progress=lambda done, total, name: print(f"{done} of {total}: {name}")):
        kept[entry["name"]] = entry
    entries = [kept[claim.name] for claim in chosen([])]
    for _ in range(2):
        certificate = compare(entries, quick=scale.quick)[1]
        write(path, Reproduction(entries, certificate, settled(chosen([]), scale)).document().as_dict(tables=False))


def write(path: Path, content: dict[str, Any]) -> None:
    """JSON with a line for every claim, so that a change shows as one."""
    lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in content["result"]["claims"])
    around = json.dumps(content | {"result": {"claims": []}}, allow_nan=False)
    path.write_text(around.replace('"claims": []}', f'"claims": [\n{lines}\n]}}', 1) + "\n", encoding="utf-8")


def page(document: Document) -> str:
    """claims.md."""
    entries = document.result["claims"]
    return "\n".join([HEAD, f"**{count(len(entries), 'claim')}: {tally(entries)}.**\n", markdown(ledger(entries))])


if __name__ == "__main__":
    scales = {"quick": True, "full": False}
    only = [name for name in sys.argv[1:] if name not in scales]
    for name in (name for name in sys.argv[1:] if name in scales):
        record(Scale(quick=scales[name], mnist=mnist_folder(None)), RECORDED / f"{name}.json", only)
    PAGE.write_text(page(read(RECORDED / "full.json")), encoding="utf-8")
