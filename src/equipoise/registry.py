"""What can be chosen by name: one file for each choice, found because it stands in its folder.

The file `my_policy.py` holds the class `MyPolicy` (or the function `my_policy`). Its first docstring line is the help line,
its literal class attributes (`label`, `colour`, ...) and module constants are its facts. Names, help and facts are read from
the source without running it, so `--help` imports nothing. Files whose name starts with `_` are no choices.
"""

import ast
import gzip
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Generic, NamedTuple, TypeVar, cast

from equipoise.errors import InputError, unknown_name

T = TypeVar("T")
FIRST_LINES = 5  # of a file, shown to each format that may recognise it
LONGEST_LINE = 4096  # bytes of each: a file without line ends is not read whole
LAST = 1_000  # rank of a choice that states none


class Choice(NamedTuple):
    """One file of a folder of choices."""

    name: str  # as it is shown: the literal `label` or `name` of its class, else the file's name with "-" for "_"
    stem: str  # of the file
    object_name: str  # the class or function in it
    help: str  # first line of its docstring
    path: Path
    facts: dict[str, object]  # literal class attributes and module constants


class Registry(Generic[T]):
    """The choices of one folder.

    Parameters
    ----------
    package
        Dotted name of the folder, such as "equipoise.share.policies".
    kind
        What one choice is called in messages, such as "policy".
    """

    def __init__(self, package: str, kind: str) -> None:
        self.package, self.kind = package, kind

    def __repr__(self) -> str:
        return f"Registry({self.package!r}: {', '.join(self.names())})"

    @cached_property
    def _choices(self) -> tuple[Choice, ...]:
        found = [
            choice
            for folder in _folders(self.package)
            for path in sorted(folder.glob("*.py"))
            if not path.name.startswith("_")
            for choice in [_read(path, self.kind)]
        ]
        found.sort(key=lambda choice: (cast(float, choice.facts.get("rank", LAST)), choice.stem))
        for k, one in enumerate(found):
            for other in found[:k]:
                if _keys(one) & _keys(other):
                    raise InputError(
                        f"{one.path}: its {self.kind} is called {one.name!r}, as is that of {other.path}; "
                        "rename one, or remove a file",
                        code="registry.twice",
                    )
        return tuple(found)

    def choices(self) -> tuple[Choice, ...]:
        """Every choice, by `rank` where files state one, then by file name."""
        return self._choices

    def names(self, having: str = "") -> tuple[str, ...]:
        """What each choice is called, in the order of `choices`; `having` keeps those that state such a fact."""
        return tuple(choice.name for choice in self._choices if not having or having in choice.facts)

    def find(self, text: str) -> Choice:
        """The choice of this name, file name or class name, in upper or lower case.

        Raises
        ------
        InputError
            When there is none: with the nearest right name.
        """
        for choice in self._choices:
            if text.lower() in _keys(choice):
                return choice
        raise unknown_name(self.kind, text, self.names())

    def load(self, text: str) -> Callable[..., T]:
        """The class or function itself: by name, or a user's own as FILE.py:CLASS."""
        if is_reference(text):
            return cast("Callable[..., T]", load_reference(text, self.kind))
        choice = self.find(text)
        try:
            module = importlib.import_module(f"{self.package}.{choice.stem}")
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{choice.path}: this {self.kind} does not load: {type(error).__name__}: {error}; "
                "correct the file, or remove it",
                code="registry.load",
            ) from error
        return cast("Callable[..., T]", getattr(module, choice.object_name))

    def make(self, text: str, **settings: object) -> T:
        """The choice of this name, made with these settings."""
        return self.load(text)(**settings)

    def detect(self, path: Path) -> str:
        """The name of the format that recognises a file by its first lines (`matches` in the format's file).

        Parameters
        ----------
        path
            A text file.
        """
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                raw = [file.readline(LONGEST_LINE) for _ in range(FIRST_LINES)]
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read {path}: {why}; name an existing file", code="file.read") from None
        lines = [line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in raw if line]
        for choice in self._choices:
            if "matches" not in choice.facts:
                continue
            module = importlib.import_module(f"{self.package}.{choice.stem}")
            matches: Callable[[Sequence[str]], bool] = module.matches
            if matches(lines):
                return choice.name
        raise InputError(
            f"{path}: no {self.kind} recognises its first lines; name one of {', '.join(self.names('matches'))}",
            code="registry.format",
        )


def _folders(package: str) -> list[Path]:
    """Where the package lies, without importing it or what stands above it."""
    top, *rest = package.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.submodule_search_locations is None:
        raise InputError(f"no package {package!r}")
    return [Path(place).joinpath(*rest) for place in spec.submodule_search_locations]


def _keys(choice: Choice) -> set[str]:
    return {choice.name.lower(), choice.stem, choice.stem.replace("_", "-"), choice.object_name.lower()}


def _read(path: Path, kind: str) -> Choice:
    """A file's choice, from its source."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise InputError(
            f"{path}:{error.lineno}: this {kind} does not load: {error.msg}; correct the file, or remove it",
            code="registry.load",
        ) from None
    wanted = path.stem.replace("_", "")
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.replace("_", "").lower() == wanted
    ]
    if not found:
        example = "".join(word.capitalize() for word in path.stem.split("_"))
        raise InputError(
            f"{path}: no {kind} in it; a file {path.name} holds a class {example} or a function {path.stem}",
            code="registry.empty",
        )
    facts = _literals(tree.body)
    made = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    made += [ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)]
    facts |= {"matches": True} if "matches" in made else {}
    if isinstance(found[0], ast.ClassDef):
        facts |= _literals(found[0].body)
    label = facts.get("label")
    name = label if isinstance(label, str) else path.stem.replace("_", "-")
    text = ast.get_docstring(tree) or ast.get_docstring(found[0]) or ""
    return Choice(name, path.stem, found[0].name, text.partition("\n")[0], path, facts)


def _literals(body: Sequence[ast.stmt]) -> dict[str, object]:
    facts: dict[str, object] = {}
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            try:
                value = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            except ValueError:  # no literal, or an annotation without a value
                continue
            if isinstance(target, ast.Name):
                facts[target.id] = value
            elif isinstance(target, ast.Tuple) and isinstance(value, tuple):  # label, colour = "SDF", "#d95f02"
                facts |= {name.id: v for name, v in zip(target.elts, value, strict=False) if isinstance(name, ast.Name)}
    return facts


# A user's own class, from her own file.


def is_reference(text: str) -> bool:
    """Whether the text names a class in a file: my.py:Mine."""
    return ".py:" in text


def whole_reference(text: str, kind: str = "policy", example: str = "my.py:ShortestFirst") -> str:
    """`my.py:ShortestFirst` with its path made absolute, so that a config.yaml repeats its run from any folder."""
    path, colon, name = text.strip().rpartition(":")
    if not colon or not path or not name.isidentifier():
        form = "FUNCTION" if kind == "function" else "CLASS"
        raise InputError(f"{text!r} names no {kind}; expected FILE.py:{form}, such as {example}", code="reference.form")
    return f"{Path(path).absolute()}:{name}"


def load_reference(reference: str, kind: str = "policy") -> object:
    """Run the file and give the class (or object) it names; each mistake is one line that says where."""
    path, _, name = whole_reference(reference, kind).rpartition(":")
    module = _run(Path(path))
    found = getattr(module, name, None)
    if found is None:
        own = [
            key
            for key, value in vars(module).items()
            if (callable(value) if kind == "function" else isinstance(value, type))
            and getattr(value, "__module__", "") == module.__name__
        ]
        raise InputError(f"{Path(path).name}: {unknown_name(kind, name, own)}", code="unknown")
    return found


def make_reference(reference: str, kind: str = "policy") -> object:
    """What `load_reference` finds, made with no arguments if it is a class."""
    path, _, name = whole_reference(reference, kind).rpartition(":")
    found = load_reference(reference, kind)
    try:
        return found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{Path(path).name}: {name}() cannot be made without arguments: {error}", code="reference.make"
        ) from None


def _run(path: Path) -> ModuleType:
    name = f"equipoise_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"cannot read {path}: expected a Python file, such as my.py", code="file.read")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path.name}:{error.lineno}: {error.msg}", code="registry.load") from None
    except (Exception, SystemExit) as error:
        raise InputError(
            fault_in(error, [str(path)]) or f"{path.name}: {type(error).__name__}: {error}", code="registry.load"
        ) from None
    return module


def fault_in(error: BaseException, paths: Sequence[str]) -> str:
    """`my.py:12: IndexError: ...` when the error came out of one of these files; empty when it did not.

    An error of another process has its `frames` with it (see `parallel.Raised`).
    """
    here = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    for file, line in reversed([*here, *getattr(error, "frames", [])]):
        if file in paths:
            return f"{Path(file).name}:{line}: {type(error).__name__}: {error}"
    return ""
