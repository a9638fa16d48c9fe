"""The one way kernels are compiled: cached on disk, without the interpreter lock, IEEE arithmetic (no fast-math)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a numeric loop with numba; the same bits come out on every run."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


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
