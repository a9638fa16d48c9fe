"""Matrix products on one thread: BLAS adds up in another order on two, and a run should give the same bits anywhere.

Small dense eigenproblems are also 50 times slower with threads that wait for busy cores; gradients on shards of 600 x 784
take as long with one as with two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """While it lasts, BLAS uses one thread."""
    limited: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limited


def on_one_thread(function: Function) -> Function:
    """A function whose products add up in one order."""

    @wraps(function)
    def inside(*given: Any, **named: Any) -> Any:
        with one_thread():
            return function(*given, **named)

    return cast(Function, inside)
