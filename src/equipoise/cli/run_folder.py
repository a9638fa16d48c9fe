"""runs/<verb>-<time>-<short id>/: report.html, result.json, history.csv, config.yaml."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from equipoise import __version__
from equipoise.certificate import Certificate
from equipoise.errors import InputError


def run_folder(root: Path, verb: str, config: dict[str, Any]) -> Path:
    """The path of a new run folder, not yet made; the short id names the configuration."""
    if root.exists() and not root.is_dir():
        raise InputError(f"--out {root} is a file: name a folder")
    name = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:6]
    base = root / f"{verb}-{datetime.now():%Y%m%d-%H%M%S}-{name}"
    folder, count = base, 2
    while folder.exists():
        folder, count = base.with_name(f"{base.name}-{count}"), count + 1
    return folder


def make_folder(folder: Path) -> None:
    """Make it, or say in one line why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the run folder {folder}: {error.strerror}; choose another with --out") from None


def document(verb: str, config: dict[str, Any], result: dict[str, Any], certificate: Certificate) -> dict[str, Any]:
    """The output format that every verb shares."""
    return {
        "verb": verb,
        "version": __version__,
        "config": config,
        "result": result,
        "certificate": certificate.as_dict(),
    }


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """config.yaml: `--config` with this file repeats the run."""
    import yaml

    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def to_json(content: dict[str, Any]) -> str:
    """Strict JSON: a value that is not finite is an error, never NaN."""
    return json.dumps(content, indent=2, allow_nan=False)
