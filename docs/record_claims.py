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
from equipoise.claims.ledger import RECORDED, chosen, compare, play, recorded
from equipoise.cli.reproduce_run import mnist_folder
from equipoise.cli.run_folder import document
from equipoise.report.claims_markdown import claims_markdown

PAGE = Path(__file__).parent / "claims.md"


def record(scale: Scale, path: Path, names: list[str]) -> None:
    """Play what is named (all, if nothing is) and keep it; the certificate kept with it compares it with itself."""
    kept = recorded(quick=scale.quick) if names else {}
    for entry in play(chosen(names), scale, progress=lambda done, total, name: print(f"{done} of {total}: {name}")):
        kept[entry["name"]] = entry
    entries = [kept[claim.name] for claim in chosen([])]
    config = {"claims": [claim.name for claim in chosen([])], "quick": scale.quick, "mnist": scale.mnist is not None}
    for _ in range(2):
        certificate = compare(entries, quick=scale.quick)[1]
        write(path, document("reproduce", config, {"claims": entries}, certificate))


def write(path: Path, content: dict[str, Any]) -> None:
    """JSON with a line for every claim, so that a change shows as one."""
    lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in content["result"]["claims"])
    around = json.dumps(content | {"result": {"claims": []}}, allow_nan=False)
    path.write_text(around.replace('"claims": []}', f'"claims": [\n{lines}\n]}}', 1) + "\n", encoding="utf-8")


def write_page() -> None:
    PAGE.write_text(claims_markdown(json.loads((RECORDED / "full.json").read_text())), encoding="utf-8")


if __name__ == "__main__":
    scales = {"quick": True, "full": False}
    only = [name for name in sys.argv[1:] if name not in scales]
    for name in (name for name in sys.argv[1:] if name in scales):
        record(Scale(quick=scales[name], mnist=mnist_folder(None)), RECORDED / f"{name}.json", only)
    write_page()
