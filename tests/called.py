"""A way in for tests to kernels that only kernels call."""

from collections.abc import Callable
from typing import Any

from equipoise.kernels import COMPILES


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, callable from Python."""
    if not COMPILES:
        return function
    import numba

    return numba.njit(lambda *given: function(*given))  # type: ignore[no-any-return]
