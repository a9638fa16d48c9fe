"""Threads where they pay: kernels release the interpreter lock, so plain Python threads run them side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

MANY_NODES = 50_000  # nodes times rounds: below, handing work over costs more than it saves


def threads_for(nodes: int) -> int:
    """How many threads work on so many nodes at once is worth; EQUIPOISE_THREADS sets a limit."""
    if nodes < MANY_NODES:
        return 1
    allowed = os.environ.get("EQUIPOISE_THREADS", "")
    return max(1, int(allowed) if allowed.isdecimal() else len(os.sched_getaffinity(0)))


@cache
def _pool(owner: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="equipoise")


def pool() -> ThreadPoolExecutor:
    """One pool a process: a forked child makes its own."""
    return _pool(os.getpid())


def together(work: Callable[..., Any], parts: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The results of all parts, done side by side."""
    return [future.result() for future in [pool().submit(work, *part) for part in parts]]


def side_by_side(one: Callable[[], Any], other: Callable[[], Any], *, worth: int) -> tuple[Any, Any]:
    """Both results; on two threads where the work, nodes times rounds, is worth it."""
    if threads_for(worth) == 1:
        return one(), other()
    ahead = pool().submit(one)
    return_of_other = other()
    return ahead.result(), return_of_other
