"""Array types and the checks every public boundary shares."""

from __future__ import annotations

import ctypes
import functools
import operator
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401 - so that its BLAS is among those that are limited
from threadpoolctl import ThreadpoolController

from privgmm.errors import InvalidInput

__all__ = [
    "Array",
    "BoolArray",
    "IntArray",
    "finite_array",
    "frozen",
    "one_blas_thread",
    "positive",
    "upper_root",
    "whole_number",
]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@functools.cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds, and they stay the same."""
    return ThreadpoolController()


class _OneBlasThread(AbstractContextManager[None]):
    """The limit holds for the whole process: from the first who comes in to the last who leaves.

    Each with a limit of its own would lift that of others who are still inside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_ONE_BLAS_THREAD = _OneBlasThread()


def one_blas_thread() -> AbstractContextManager[None]:
    """Within it BLAS uses one thread: sums are added in one order, whatever the machine."""
    return _ONE_BLAS_THREAD


@functools.cache
def _dpotrf() -> Callable[..., None]:
    """LAPACK's Cholesky factorisation, the one that SciPy has; ctypes calls it without the GIL."""
    # not at the top: whoever only wants a type must not wait for it
    from numba.extending import get_cython_function_address

    number, numbers = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, number, numbers, number, number)
    return kind(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf"))


def upper_root(matrix: Array) -> Array:
    """Upper U (p, p) with ``U' U`` a symmetric matrix, of which only the lower triangle is read.

    The matrix is written over, and the lower triangle of the result is arbitrary. Other threads go
    on meanwhile: SciPy's own wrapper would stop them all, however large the matrix is.

    Raises `LinAlgError` if the matrix is not positive definite.
    """
    p, failed = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    # the lower triangle of rows is the upper one of columns, which is how LAPACK reads them
    rows = np.ascontiguousarray(matrix, dtype=np.float64)
    address = rows.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    _dpotrf()(b"U", ctypes.byref(p), address, ctypes.byref(p), ctypes.byref(failed))
    if failed.value:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return np.asarray(rows.T)


def finite_array(
    value: npt.ArrayLike, name: str, shape: Sequence[int | None] | None = None
) -> Array:
    """A float64 array of finite numbers, or a clear error.

    Parameters
    ----------
    value : array-like
    name : str
        What the caller calls it, for the message.
    shape : sequence of int or None, optional
        Required shape; None stands for any length.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput(f"{name} must hold numbers only: {problem}") from problem
    if shape is not None and (
        array.ndim != len(shape)
        or any(
            want is not None and have != want for have, want in zip(array.shape, shape, strict=True)
        )
    ):
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise InvalidInput(f"{name} must have shape {wanted}, got {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} must be finite, but holds {int((~np.isfinite(array)).sum())} "
            "NaN or infinite values: replace them, in rows by a rule that looks at no other row"
        )
    return array


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only, C-contiguous copy."""
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy


def positive(value: float, name: str, *, below: float = np.inf) -> float:
    """A finite number in (0, below), or a clear error."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput(f"{name} must be a number, got {value!r}") from problem
    if not (0 < number < below) or not np.isfinite(number):
        limit = "" if below == np.inf else f" and below {below:g}"
        raise InvalidInput(f"{name} must be positive and finite{limit}, got {value!r}")
    return number


def whole_number(value: Any, name: str, least: int) -> int:
    """An integer of at least `least`, or a clear error. True and False are no numbers."""
    try:
        number = operator.index(value)
    except TypeError as problem:
        raise InvalidInput(f"{name} must be a whole number, got {value!r}") from problem
    if isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}")
    if number < least:
        raise InvalidInput(f"{name} must be at least {least}, got {number}")
    return number
