"""Small dense eigenproblems run on one thread: BLAS threads that wait for busy cores make them 50 times slower."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # scikit-learn brings it

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """While it lasts, BLAS uses one thread."""
    limited: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limited
