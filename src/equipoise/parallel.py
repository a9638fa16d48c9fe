"""Cores and threads. `parts`: independent parts of a study, worked through by joblib, here or wherever `engine.spread` says.

Where a part runs never changes what comes out: a part draws from its own seeds, and results are kept by its number.
`one_thread`: matrix products in one order of additions. `side_by_side`: kernels on threads where that pays.
"""

import hashlib
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, wraps
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any, TypeVar, cast

from equipoise.errors import Failure, InputError

Call = tuple[object, ...]
Function = TypeVar("Function", bound=Callable[..., object])
THREADS, PROCESSES = "threads", "processes"
MANY_NODES = 50_000  # nodes times rounds: below, handing work to threads costs more than it saves


class Raised:
    """An error on its way out of a worker; what of it no other process can read goes as its name and message."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        error, frames = self.error, traceback.extract_tb(self.error.__traceback__)
        where = [(frame.filename, frame.lineno) for frame in frames]
        try:
            kept: bytes | None = pickle.dumps(error)
            pickle.loads(kept or b"")
        except Exception:
            kept = None
        return _raised, (kept, type(error).__name__, str(error), where)


def _raised(kept: bytes | None, name: str, message: str, where: list[tuple[str, int]]) -> Raised:
    error: BaseException = type(name, (RuntimeError,), {})(message)
    if kept is not None:
        try:
            error = pickle.loads(kept)
        except Exception:  # its class is in the other process alone
            kept = None
    error.frames = where  # type: ignore[attr-defined]  # tracebacks do not travel
    return Raised(error)


def parts(
    function: Callable[..., Any],
    shared: Call,
    calls: Sequence[Call],
    *,
    workers: int | None = None,
    prefer: str = THREADS,
) -> Iterator[tuple[int, Any]]:
    """`function(*shared, *call)` for every call: (its number, its result) as they are done, in any order.

    Where: joblib's active backend (`joblib.parallel_config`, `engine.spread`), else the kind that is preferred. `workers`
    None: all there are. What a worker raises is raised here.
    """
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    if workers is not None and workers < 1:
        raise InputError(f"workers {workers!r}; expected 1 or more")
    backend, configured = get_active_backend(prefer=prefer)
    count = workers or (configured if configured not in (None, 1) else effective_n_jobs(-1))
    count = min(count, len(calls))
    if count <= 1:
        yield from ((k, function(*shared, *call)) for k, call in enumerate(calls))
        return
    if getattr(backend, "uses_threads", False):
        tasks = [delayed(_attempt)(k, function, shared, call) for k, call in enumerate(calls)]
    else:
        packed = _pack(function, shared)
        key = hashlib.sha256(packed).hexdigest()
        tasks = [delayed(_attempt_packed)(k, key, packed, call) for k, call in enumerate(calls)]
    work = Parallel(n_jobs=count, prefer=prefer, return_as="generator_unordered")(tasks)
    try:
        for number, result in work:
            if isinstance(result, Raised):
                raise result.error
            yield number, result
    except BrokenExecutor:
        raise Failure(
            f"one of {count} worker processes ended in the midst of its work: killed, out of memory, or crashed; "
            "try fewer workers, or one to see where"
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib's, of parts that nobody waits for any more
            work.close()


def _attempt(number: int, function: Callable[..., object], shared: Call, call: Call) -> tuple[int, object]:
    try:
        return number, function(*shared, *call)
    except (Exception, SystemExit) as error:  # a user's code may call exit()
        return number, Raised(error)


# What all parts share is packed once, and unpacked once in every worker.

_unpacked: dict[str, tuple[Callable[..., object], Call]] = {}


def _pack(function: Callable[..., object], shared: Call) -> bytes:
    """Classes from a file that was loaded by its path go by value: no worker could import them."""
    import cloudpickle

    strays = [module for name, module in list(sys.modules.items()) if _loaded_by_path(name, module)]
    for module in strays:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps((function, shared)))
    except Exception as error:
        raise InputError(
            f"this cannot be sent to another process: {' '.join(str(error).split())}; "
            "keep files, locks and connections out of a policy, or spread over threads",
            code="process.unpicklable",
        ) from None
    finally:
        for module in strays:
            cloudpickle.unregister_pickle_by_value(module)


def _loaded_by_path(name: str, module: object) -> bool:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if "." in name or name == "__main__" or not isinstance(loader, SourceFileLoader):
        return False
    return PathFinder.find_spec(name) is None


def _attempt_packed(number: int, key: str, packed: bytes, call: Call) -> tuple[int, object]:
    try:
        if key not in _unpacked:
            _unpacked.clear()
            _unpacked[key] = pickle.loads(packed)
    except ImportError as error:
        return number, Raised(InputError(f"a worker could not start: {error}; install it wherever work is sent"))
    return _attempt(number, *_unpacked[key], call)


# BLAS adds up in another order on two threads, and a run should give the same bits anywhere. Small dense eigenproblems
# are also 50 times slower with threads that wait for busy cores; gradients on shards of 600 x 784 take as long with one.


@cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """While it lasts, BLAS uses one thread."""
    limited: AbstractContextManager[object] = _pools().limit(limits=1, user_api="blas")
    return limited


def on_one_thread(function: Function) -> Function:
    """A function whose products add up in one order."""

    @wraps(function)
    def inside(*given: Any, **named: Any) -> Any:
        with one_thread():
            return function(*given, **named)

    return cast(Function, inside)


# Kernels release the interpreter lock, so plain Python threads run them side by side.


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
    """One pool per process: a forked child makes its own."""
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
