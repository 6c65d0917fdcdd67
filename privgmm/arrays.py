"""Define array types, and the checks that every public boundary shares."""

from __future__ import annotations

import ctypes
import functools
import operator
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from privgmm.errors import InvalidInput

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = [
    "Array",
    "BoolArray",
    "IntArray",
    "column_names",
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
    """Find the BLAS libraries once: the search takes milliseconds, and they do not change."""
    # not at the top: a reader of receipts needs NumPy alone
    import scipy.linalg  # noqa: F401 - so that its BLAS is among those that are limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _OneBlasThread(AbstractContextManager[None]):
    """Limit the whole process, from the first thread that enters to the last that leaves.

    With a limit of its own, a thread that leaves would lift that of threads still inside.
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
    """Limit BLAS to one thread, so that sums are added in one order on every machine."""
    return _ONE_BLAS_THREAD


@functools.cache
def _dpotrf() -> Callable[..., None]:
    """Return SciPy's LAPACK Cholesky factorisation; ctypes calls it without the GIL."""
    # not at the top: numba is slow to import, and most callers do not need it
    from numba.extending import get_cython_function_address

    number, numbers = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, number, numbers, number, number)
    return kind(get_cython_function_address("scipy.linalg.cython_lapack", "dpotrf"))


def upper_root(matrix: Array) -> Array:
    """Compute upper U (p, p) with ``U' U`` a symmetric matrix, given by its lower triangle.

    The matrix is overwritten, and the lower triangle of the result is arbitrary. Other threads run
    meanwhile: SciPy's own wrapper would hold the GIL, and so stop them, however large the matrix.

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
    """Convert to a float64 array of finite numbers, or raise a clear error.

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
        raise InvalidInput(
            "must hold numbers only", argument=name, remedy=str(problem)
        ) from problem
    if shape is not None and (
        array.ndim != len(shape)
        or any(
            want is not None and have != want for have, want in zip(array.shape, shape, strict=True)
        )
    ):
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise InvalidInput(f"must have shape {wanted}", argument=name, value=array.shape)
    if not np.isfinite(array).all():
        raise InvalidInput(
            "must be finite, but holds {count} NaN or infinite values",
            argument=name,
            remedy="replace them, in rows by a rule that looks at no other row",
            facts={"count": int((~np.isfinite(array)).sum())},
        )
    return array


def column_names(columns: Sequence[str], n_features: int) -> tuple[str, ...]:
    """Check names of the d columns, which must differ; x1, x2, .. if there are none."""
    names = tuple(columns) or tuple(f"x{j + 1}" for j in range(n_features))
    if isinstance(columns, str) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"columns must be names, got {columns!r}")
    if len(names) != n_features or len(set(names)) != n_features:
        raise InvalidInput(f"columns must be {n_features} different names, got {columns!r}")
    return names


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only, C-contiguous copy."""
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy


def positive(value: float, name: str, *, below: float = np.inf) -> float:
    """Return a finite number in (0, below), or raise a clear error."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput("must be a number", argument=name, value=value) from problem
    if not (0 < number < below) or not np.isfinite(number):
        limit = "" if below == np.inf else " and below {most}"
        raise InvalidInput(
            f"must be positive and finite{limit}",
            argument=name,
            value=value,
            facts={"most": float(below)},
        )
    return number


def whole_number(value: Any, name: str, least: int) -> int:
    """Return an integer of at least `least`, or raise a clear error, also for True and False."""
    try:
        number = operator.index(value)
    except TypeError as problem:
        raise InvalidInput("must be a whole number", argument=name, value=value) from problem
    if isinstance(value, bool | np.bool_):
        raise InvalidInput("must be a whole number", argument=name, value=value)
    if number < least:
        raise InvalidInput(
            "must be at least {least}", argument=name, value=number, facts={"least": least}
        )
    return number
