"""The one way kernels are compiled: cached on disk, without the interpreter lock, IEEE arithmetic (no fast-math)."""

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast
from uuid import uuid4

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, event
from numba.core.caching import FunctionCache
from numba.extending import intrinsic
from numpy.typing import NDArray

Bools = NDArray[np.bool_]  # the arrays that kernels take and give
Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
# Of lists of indices. A signed index could count from the end: each use of one read from memory would be asked about it.
INDEX = np.uint64
Indices = NDArray[np.uint64]
Function = TypeVar("Function", bound=Callable[..., object])
PROCESS = uuid4().hex[:12]  # with its pid: this process, on this machine, and none that is forked from it
COMPILES = not numba.config.DISABLE_JIT  # NUMBA_DISABLE_JIT=1: kernels are plain Python, for a debugger
# Where a callee takes a count that begins at 0: for a literal 0 it would be compiled twice.
ZERO = cast(int, np.int64(0))
numba.config.SLP_VECTORIZE = 1  # straight code over neighbouring numbers becomes vector code; the same IEEE operations


def kernel(function: Function) -> Function:
    """Compile a numeric loop with numba; the same bits come out on every run."""
    if not COMPILES:
        return cast(Function, _uncompiled(function))
    compiled = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    compiled._cache = KernelCache(function)
    return cast(Function, compiled)


def inner(function: Function) -> Function:
    """A kernel that only kernels call: no way in from Python is compiled, which is most of the work for a small one."""
    if not COMPILES:
        return cast(Function, _uncompiled(function))
    compiled = numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    compiled._cache = KernelCache(function)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """A small function that becomes part of each kernel that calls it."""
    return cast(Function, numba.njit(inline="always", error_model="numpy")(function))


def generated(name: str, lines: list[str], scope: dict[str, object], module: str, file: str) -> Callable[..., object]:
    """A kernel from source text, for straight code over a fixed number of columns; cached on disk like any other."""
    space = scope | {"__name__": module}
    exec(compile("\n".join(lines), file, "exec"), space)
    made = cast(FunctionType, space[name])
    # Kernels call each other by name. Two of one name that two processes have compiled would be one in a third process, and
    # the first would run for both: the name says what it computes.
    made.__name__ = made.__qualname__ = f"{name}_{digest_of(made)[:12]}"
    return kernel(made)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache on disk, which looks only at the file of a kernel: here a changed callee is a change too."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        # Numba counts the files of a kernel's signatures. Two processes that compile at once would give one number to two
        # signatures, and a third would run the wrong machine code.
        files = self._cache_file
        counted = files._data_name
        files._data_name = lambda number: counted(number).replace(".nbc", f"-{PROCESS}-{os.getpid()}.nbc")

    def load_overload(self, signature: object, target: object) -> object:
        """What was compiled before; nothing where it knows modules that this version does not have."""
        try:
            return super().load_overload(signature, target)
        except (ImportError, AttributeError):
            self._cache_file.flush()  # an empty index: the kernel is compiled and kept anew
            return None

    def _index_key(self, signature: object, codegen: object) -> tuple[object, ...]:
        return (*super()._index_key(signature, codegen), digest_of(self._py_func))


@contextmanager
def when_compiling(begun: Callable[[], object], done: Callable[[], object]) -> Iterator[None]:
    """Inside, `begun` is called when a kernel is compiled that no earlier run has left on disk, and `done` after it, also
    where it fails. A kernel that calls others is compiled around them: the calls are nested."""

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            begun()

        def on_end(self, event: object) -> None:
            done()

    with event.install_listener("numba:compile", Listener()):
        yield


def digest_of(function: object) -> str:
    """What a kernel computes, as a hash: its code, the values it reads, and the same of every kernel it calls."""
    return hashlib.sha256("\n".join(_facts(function, set())).encode()).hexdigest()


def _facts(value: object, seen: set[int]) -> Iterator[str]:
    """Lines that change when the meaning of `value` does, and only then: no addresses, no line numbers."""
    value = getattr(value, "py_func", getattr(value, "_defn", value))  # of a kernel; of an intrinsic
    if isinstance(value, FunctionType) and not value.__module__.startswith(("numpy", "numba")):
        if id(value) in seen:
            return
        seen.add(id(value))
        yield value.__qualname__
        yield from _code_facts(value.__code__, value.__globals__, seen)
        for cell in value.__closure__ or ():
            yield from _facts(cell.cell_contents, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, tuple):
        for item in value:
            yield from _facts(item, seen)
    elif value is None or isinstance(value, (bool, int, float, complex, str, np.generic, np.dtype)):
        yield repr(value)
    else:
        yield f"{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


def _code_facts(code: CodeType, names: dict[str, object], seen: set[int]) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_facts(constant, names, seen)
        elif not isinstance(constant, frozenset):  # its order is not fixed; what stands in it is a literal of the code
            yield repr(constant)
    for name in code.co_names:
        if isinstance(found := names.get(name), ModuleType):
            for attribute in code.co_names:
                yield from _facts(getattr(found, attribute, None), seen)
        elif name in names:
            yield from _facts(found, seen)


@intrinsic
def float_bits(typing_context, value):  # type: ignore[no-untyped-def]
    """The 64 bits of a float as an integer: sign, 11 of exponent, 52 of mantissa. For use inside kernels."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.IntType(64))

    return numba.types.int64(numba.types.float64), generate


@intrinsic
def bits_float(typing_context, value):  # type: ignore[no-untyped-def]
    """The float that these 64 bits are. For use inside kernels."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.DoubleType())

    return numba.types.float64(numba.types.int64), generate


@intrinsic
def borrowed(typing_context, value):  # type: ignore[no-untyped-def]
    """Arrays, or tuples of them, whose references are not counted: a kernel does so for each row of an array it takes.

    Only for what the caller holds as long as the kernel runs, never for an array that the kernel itself made."""

    def of(context: Any, builder: Any, kind: Any, found: Any) -> Any:
        if isinstance(kind, numba.types.BaseTuple):
            parts = zip(kind, cgutils.unpack_tuple(builder, found), strict=True)
            return context.make_tuple(builder, kind, [of(context, builder, *part) for part in parts])
        if isinstance(kind, numba.types.Array):
            array = context.make_array(kind)(context, builder, found)
            array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
            return array._getvalue()
        return found

    return value(value), lambda context, builder, _, given: of(context, builder, value, given[0])


def _uncompiled(function: Callable[..., object]) -> Callable[..., object]:
    """The Python function, with what a kernel takes for granted: NumPy's division, and records with fields by name."""

    @functools.wraps(function)
    def call(*arguments: object) -> object:
        with np.errstate(all="ignore"):
            return function(*map(_as_in_kernel, arguments))

    return call


def _as_in_kernel(value: object) -> object:
    if isinstance(value, np.ndarray) and value.dtype.names:
        return value.view(np.recarray)
    if isinstance(value, tuple):
        fields = map(_as_in_kernel, value)
        return type(value)._make(fields) if hasattr(value, "_make") else tuple(fields)
    return np.float64(value) if isinstance(value, float) else value


if not COMPILES:
    float_bits = lambda value: int(np.float64(value).view(np.int64))  # noqa: E731
    bits_float = lambda value: float(np.int64(value).view(np.float64))  # noqa: E731
    borrowed = lambda value: value  # noqa: E731
