"""Jitter for columns of whole numbers, added before rows are dealt to blocks.

Minutes, ages and counts take few values. A likelihood grows without bound when a component
shrinks onto one of them, so the fits of the blocks chase grid points and never agree. Noise as
wide as the grid undoes the rounding. Its width is public; the noise itself is drawn for each call
and kept secret, see `jittered`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array
from privgmm.errors import InvalidInput

__all__ = ["jitter_widths", "jittered"]

Widths = Mapping[str, float] | npt.ArrayLike

_CHUNK = 2**20  # random numbers drawn at a time: bounds memory, not results


def jitter_widths(
    widths: Widths, n_features: int, *, columns: Sequence[str] | None = None
) -> Array:
    """Return the widths as an array (d,), zero for columns that are left as they are.

    Parameters
    ----------
    widths : mapping of column name to width, or array-like () or (d,)
        One number stands for all columns. Widths are finite and >= 0.
    n_features : int
        d.
    columns : sequence of str, optional
        The d names; needed for a mapping.

    Examples
    --------
    >>> jitter_widths({"delay": 1.0}, 2, columns=["distance", "delay"]).tolist()
    [0.0, 1.0]
    """
    if isinstance(widths, Mapping):
        if columns is None:
            raise InvalidInput(
                "widths by name need the names of the columns: pass columns, a data frame, or one "
                "width per column"
            )
        names = [str(name) for name in columns]
        if len(names) != n_features or len(set(names)) != n_features:
            raise InvalidInput(
                f"columns must be {n_features} different names, got {len(names)}: {names}"
            )
        unknown = [name for name in widths if name not in names]
        if unknown:
            raise InvalidInput(
                f"widths names columns {unknown} that are not there: choose from {names}"
            )
        value = finite_array([widths.get(name, 0.0) for name in names], "widths", (None,))
    else:
        value = finite_array(widths, "widths")
        if value.shape not in ((), (n_features,)):
            raise InvalidInput(
                f"widths must be one number or one per column, ({n_features},), got {value.shape}"
            )
        value = np.broadcast_to(value, (n_features,)).copy()
    if (value < 0).any():
        raise InvalidInput(
            f"widths must be >= 0, got {value.tolist()}: take the step of each column's grid"
        )
    return value


def jittered(
    X: npt.ArrayLike,
    widths: Widths,
    *,
    columns: Sequence[str] | None = None,
    rng: np.random.Generator | int | None = None,
) -> Array:
    """Add noise uniform on ``[-width/2, width/2)`` to each column of rows (n, d).

    Parameters
    ----------
    X : array-like or data frame (n, d)
        Finite numbers; left as it is.
    widths : mapping of column name to width, or array-like () or (d,)
        The step of each column's grid: 1 for whole minutes, 5 for ages by five. PUBLIC: take it
        from what is known of how the data were recorded, never from the data themselves.
    columns : sequence of str, optional
        Names of the columns, for widths by name; those of the data frame by default.
    rng : Generator, int or None
        None draws fresh cryptographic noise. A seed repeats it, for demonstrations.

    Notes
    -----
    The guarantee of a release from the jittered rows is the same as from the rows themselves, for
    a row as for a person with all their rows. The noise of a row is independent of all others and
    of what the row holds. So the noise of two neighbouring data sets can be thought of as drawn
    together: a row that is in both has the same noise, and the jittered data sets are neighbours.
    The guarantee holds for each such pair, hence also on average over the noise.

    That average is needed where a person may have any number of rows. Noise that is known in
    advance, from a seed, goes by position: with one more row of one person, every row behind it
    gets another noise, all jittered rows move, and that can be seen in what is released. (Where
    each row is a person of its own, positions stay what they are, and even published noise would
    do no harm.)

    Released covariances are those of the jittered rows: width^2 / 12 is added to the variance of
    a column, and means stay where they are. A value on a grid of that width is given back by
    rounding to the grid.

    Examples
    --------
    >>> minutes = np.array([[3.0, 12.5], [7.0, 11.0]])
    >>> noisy = jittered(minutes, [1.0, 0.0], rng=0)
    >>> bool((noisy.round() == minutes)[:, 0].all()), noisy[:, 1].tolist()
    (True, [12.5, 11.0])
    """
    named: Any = getattr(X, "columns", None) if columns is None else columns
    rows = finite_array(X, "X", (None, None)).copy()
    width = jitter_widths(widths, rows.shape[1], columns=None if named is None else list(named))
    # one draw per row and column for every width, so that a seed's noise does not depend on them
    noise = _secret(rows.shape) if rng is None else np.random.default_rng(rng).random(rows.shape)
    noise -= 0.5
    noise *= width
    rows += noise
    return rows


def _secret(shape: tuple[int, ...]) -> Array:
    """Draw from the system's entropy, uniformly on the multiples of 2^-53 in [0, 1)."""
    draws = np.empty(shape)
    flat = draws.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        bits = np.frombuffer(secrets.token_bytes(8 * part.size), dtype=np.uint64)
        part[:] = (bits >> np.uint64(11)) * 2.0**-53
    return draws
