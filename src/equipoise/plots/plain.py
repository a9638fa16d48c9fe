"""What a drawer needs of a result: plain values and tables by name (`equipoise.document.Document` has them)."""

from __future__ import annotations

from typing import Any, Protocol


class Plain(Protocol):
    """A result of any verb in plain values."""

    @property
    def verb(self) -> str: ...
    @property
    def result(self) -> dict[str, Any]: ...
    @property
    def looks(self) -> dict[str, dict[str, str]]: ...
    @property
    def arrays(self) -> dict[str, Any]: ...
    @property
    def names(self) -> list[str]: ...

    def rows(self, table: str | None = None) -> list[dict[str, Any]]: ...

    def columns(self, table: str | None = None) -> dict[str, list[Any]]: ...
