"""The one way kernels are compiled: cached on disk, without the interpreter lock, IEEE arithmetic (no fast-math)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a numeric loop with numba; the same bits come out on every run."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
