"""Array types, and the checks that every public boundary shares."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.linalg import lapack

from privgmm.arrays import (
    finite_array,
    frozen,
    positive,
    upper_root,
    whole_number,
)
from privgmm.errors import InvalidInput, PrivGMMError


def test_numbers_become_floats() -> None:
    array = finite_array([[1, 2], [3, 4]], "X", (None, 2))
    assert array.dtype == np.float64
    assert array.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("bad", [[[1.0, np.nan]], [[np.inf, 0.0]], [[1.0, -np.inf]]])
def test_what_is_not_finite_is_counted(bad: list[list[float]]) -> None:
    with pytest.raises(InvalidInput, match="X must be finite, but holds 1"):
        finite_array(bad, "X")


@pytest.mark.parametrize("bad", [["a", "b"], [[1.0], [2.0, 3.0]], [object()], [1j]])
def test_what_is_no_number_is_named(bad: object) -> None:
    with pytest.raises(InvalidInput, match="X must hold numbers only"):
        finite_array(bad, "X")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3,), (2, 2), (None,), (1, None, None)])
def test_a_wrong_shape_is_shown(shape: tuple[int | None, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"X must have shape .*, got \(2, 3\)"):
        finite_array(np.zeros((2, 3)), "X", shape)


def test_a_frozen_copy_is_apart_and_cannot_change() -> None:
    source = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    copy = frozen(source)
    source[0, 0] = 99
    assert copy[0, 0] == 0
    assert copy.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        copy[0, 0] = 1.0


def test_positive_numbers() -> None:
    assert positive(0.5, "alpha", below=1.0) == 0.5
    for bad in (0.0, -1.0, np.nan, np.inf, None, "x", [1, 2]):
        with pytest.raises(InvalidInput, match="alpha must be"):
            positive(bad, "alpha")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="below 1"):
        positive(1.0, "delta", below=1.0)


def test_bad_input_is_both_ours_and_a_value_error() -> None:
    assert issubclass(InvalidInput, PrivGMMError)
    assert issubclass(InvalidInput, ValueError)


def test_whole_numbers() -> None:
    assert whole_number(np.int64(7), "t", 5) == 7
    for bad in (7.0, "7", None, 4):
        with pytest.raises(InvalidInput, match="t must be"):
            whole_number(bad, "t", 5)
    for truth in (True, np.True_):
        with pytest.raises(InvalidInput, match="whole number"):
            whole_number(truth, "t", 0)


def test_an_upper_root_is_that_of_the_lower_triangle() -> None:
    """It is bit for bit that of SciPy's wrapper, which holds the GIL."""
    rng = np.random.default_rng(1)
    for p in (1, 2, 7, 120):
        root = rng.normal(size=(p, 2 * p))
        matrix = root @ root.T
        wanted, _ = lapack.dpotrf(matrix.T, lower=0, clean=0)
        found = upper_root(np.tril(matrix) + np.triu(np.full((p, p), 7.0), 1))
        assert np.array_equal(np.triu(found), np.triu(wanted))
        assert np.allclose(np.triu(found).T @ np.triu(found), matrix)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        upper_root(np.diag([1.0, -1.0]))


THREADS = """
import scipy.linalg  # its BLAS is limited too
from threadpoolctl import ThreadpoolController, threadpool_limits
from privgmm.arrays import one_blas_thread


def threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in found}


with threadpool_limits(2, user_api="blas"):
    first, second = one_blas_thread(), one_blas_thread()
    with first:
        second.__enter__()
    assert threads() == {1}, threads()
    second.__exit__(None, None, None)
    assert threads() == {2}, threads()
"""


def test_one_blas_thread_holds_until_the_last_has_left() -> None:
    """In a process of its own: work that other tests left behind would keep the limit set here."""
    subprocess.run([sys.executable, "-c", THREADS], check=True)
