"""Packages whose names are loaded when they are asked for: a spec, a registry or `--help` loads no numerical library.

if TYPE_CHECKING:
    from equipoise.train.solve import solve as solve  # read by mypy, and by `lazy` from the file; never run
else:
    lazy(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from equipoise._moved import old_names

if TYPE_CHECKING:
    from equipoise.registry import Registry


class LazyPackage(ModuleType):
    """A package whose `sources` say in which module each public name is; `registry` are the choices in its files."""

    sources: dict[str, str]
    registry: Registry[object] | None

    def __getattr__(self, name: str) -> object:
        source = self.sources.get(name)
        if source is None:
            if self.registry is not None and not name.startswith("_"):
                for choice in self.registry.choices():
                    if choice.object_name == name:
                        return self.registry.load(name)
            return old_names(self.__name__)(name)
        if source == self.__name__:  # a submodule
            return import_module(f"{source}.{name}")
        found = getattr(import_module(source), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        # Python binds a submodule to its name here when it is first imported: `solve` stays the function.
        hides = self.sources.get(name, self.__name__) != self.__name__ or (self.registry and hasattr(value, name))
        if not (isinstance(value, ModuleType) and hides):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.sources})


def lazy(package: str, extras: Sequence[str] = (), registry: Registry[Any] | None = None) -> list[str]:
    """Make `package` lazy, from the imports under `if TYPE_CHECKING:` in its own file; they are its `__all__`.

    Parameters
    ----------
    package
        Its dotted name.
    extras
        Names that need a library which may not be there: `import *` leaves them out.
    registry
        The choices that are the files of the package: each is a name of it, whether it is imported there or not.

    Returns
    -------
    list[str]
        Its `__all__`, for a package that has names of its own to add.
    """
    module = sys.modules[package]
    assert module.__file__ is not None
    sources: dict[str, str] = {}
    with open(module.__file__, encoding="utf-8") as file:  # no pathlib: the guardian of CPU limits starts fast
        body = ast.parse(file.read()).body
    for statement in body:
        if (
            isinstance(statement, ast.If)
            and isinstance(statement.test, ast.Name)
            and statement.test.id == "TYPE_CHECKING"
        ):
            for line in statement.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    sources |= {alias.name: line.module for alias in line.names if alias.asname}
    names = sorted(sources.keys() - set(extras))
    vars(module).update(sources=sources, registry=registry)
    vars(module).setdefault("__all__", names)
    module.__class__ = LazyPackage
    return names
