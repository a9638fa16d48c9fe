"""A user's own policy from her own file, `my.py:ShortestFirst`; every mistake in it is one line that says where."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from equipoise.errors import InputError, unknown_name


def whole_reference(
    text: str, what: str = "policy", example: str = "FILE.py:CLASS, such as my.py:ShortestFirst"
) -> str:
    """`my.py:ShortestFirst` with its path made absolute, so that a config.yaml repeats its run from any folder."""
    path, colon, name = text.strip().rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise InputError(f"{text!r} names no {what}; expected {example}")
    return f"{Path(path).absolute()}:{name}"


def load_policy(reference: str) -> Any:
    """Run the file and make the policy it names, with no arguments."""
    path, _, name = whole_reference(reference).rpartition(":")
    module = _run(Path(path))
    kind = getattr(module, name, None)
    if kind is None:
        own = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        raise InputError(f"{Path(path).name}: {unknown_name('policy', name, own)}")
    try:
        policy = kind() if isinstance(kind, type) else kind
    except (Exception, SystemExit) as error:
        raise InputError(f"{Path(path).name}: {name}() cannot be made without arguments: {error}") from None
    if not callable(getattr(policy, "decide", None)) and not callable(getattr(policy, "start", None)):
        raise InputError(
            f"{Path(path).name}: {name} is not a policy: it has no method decide(view) (share) or start(run, seed) (place)"
        )
    return policy


def _run(path: Path) -> ModuleType:
    name = f"equipoise_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"cannot read {path}: expected a Python file, such as my.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path.name}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise InputError(fault_in(error, [str(path)]) or f"{path.name}: {type(error).__name__}: {error}") from None
    return module


def fault_in(error: BaseException, paths: list[str]) -> str:
    """`my.py:12: IndexError: ...` when the error came out of one of these files; nothing when it did not.

    An error of another process has its `frames` with it (see `parallel.Raised`).
    """
    here = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    for file, line in reversed([*here, *getattr(error, "frames", [])]):
        if file in paths:
            return f"{Path(file).name}:{line}: {type(error).__name__}: {error}"
    return ""
