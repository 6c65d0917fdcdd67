"""How a learner that others wrote is run: one block at a time, each by a copy of its own.

A release is private only if the fit of a block depends on that block alone (`learner`). The
learners of this package keep that rule and are checked for it. Of another one nothing is known, so
it is never shown two blocks together: it gets copies of one block's rows and one seed, in a call
of its own, on a copy of itself that is thrown away. What it returns is checked against the plan.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.learners.learner import Learner, Seeds
from privgmm.mixture import MixtureBatch

__all__ = ["BlockFits", "checked_fits", "fit_apart", "fit_one_by_one", "repeats"]

_LONGEST = 160


class BlockFits(NamedTuple):
    """Fits of some blocks, and for each why it has none, where that is known. NOT private."""

    fits: MixtureBatch
    reasons: list[str]


def fit_apart(learner: Learner, blocks: Array, seeds: Seeds, n_components: int) -> BlockFits:
    """Fit blocks (t, s, d) by a learner that others wrote, no block knowing of another.

    `FromEstimator` takes care of that itself: it copies the estimator and the rows for every
    block, and fits them in parallel if so asked.
    """
    if _wraps(learner):
        fits, reasons = learner.fit_blocks_with_reasons(blocks, rng=seeds)  # type: ignore[attr-defined]  # see `_wraps`
        t, _, d = blocks.shape
        return BlockFits(checked_fits(fits, t, n_components, d), reasons)
    return fit_one_by_one(learner, blocks, seeds, n_components)


def _wraps(learner: Learner) -> bool:
    """Whether it is a `FromEstimator`, asked without importing scikit-learn."""
    module = sys.modules.get("privgmm.learners.from_estimator")
    return module is not None and type(learner) is module.FromEstimator


def fit_one_by_one(learner: Learner, blocks: Array, seeds: Seeds, n_components: int) -> BlockFits:
    """Fit each block (s, d) of blocks (t, s, d) by a copy of the learner that sees nothing else.

    Notes
    -----
    An exception says something about the rows of one block, and a release that ended with it
    would say so to everybody. Such a block counts as one without a fit, like any block that
    allows none; the curator is told why.

    A learner that wants to cheat can keep notes where no copy reaches: in its module, its class or
    a file. `repeats` catches what such notes change in a fit that was made before; nothing in one
    process can do more.
    """
    t, s, d = blocks.shape
    found: list[MixtureBatch] = []
    reasons = [""] * t
    for i in range(t):
        own = copied(learner)
        block = np.empty((1, s, d))
        block[0] = blocks[i]
        try:
            fit = own.fit_blocks(block, rng=seeds[i : i + 1].copy())
        except Exception as problem:  # noqa: BLE001 - foreign code; told as the block's reason
            reasons[i] = _in_one_line(f"{type(problem).__name__}: {problem}")
            found.append(_nothing(n_components, d))
        else:
            found.append(checked_fits(fit, 1, n_components, d))
    return BlockFits(MixtureBatch.concatenate(found), reasons)


def copied(learner: Learner) -> Learner:
    """A copy that shares nothing with the learner, as far as copying goes."""
    try:
        return copy.deepcopy(learner)
    except Exception as problem:
        raise InvalidInput(
            f"learner must be such that copy.deepcopy can copy it, so that every block gets one "
            f"of its own: {type(problem).__name__}: {problem}"
        ) from problem


def checked_fits(fits: Any, n_blocks: int, n_components: int, n_features: int) -> MixtureBatch:
    """What a learner returned, in arrays of our own, if it is what the plan was priced for.

    Raises `InvalidInput` if it is not a `MixtureBatch`, or of another number of blocks, components
    or columns, or if numbers are not finite or not those of a mixture where ``ok`` is True.
    """
    if not isinstance(fits, MixtureBatch):
        raise InvalidInput(
            f"learner.fit_blocks must return a MixtureBatch, got {type(fits).__name__}"
        )
    shapes = (
        ("ok", (n_blocks,)),
        ("weights", (n_blocks, n_components)),
        ("means", (n_blocks, n_components, n_features)),
        ("cholesky", (n_blocks, n_components, n_features, n_features)),
    )
    for name, shape in shapes:
        got = np.shape(getattr(fits, name))
        if got != shape:
            raise InvalidInput(
                f"learner.fit_blocks must return {name} of shape {shape} for {n_blocks} blocks, "
                f"{n_components} components and {n_features} columns, got {got}: the plan is "
                "priced for these"
            )
    try:
        return MixtureBatch.from_cholesky(fits.weights, fits.means, fits.cholesky, fits.ok)
    except (InvalidInput, TypeError, ValueError) as problem:
        raise InvalidInput(
            f"learner.fit_blocks returned what is no mixture: {problem}"
        ) from problem


def repeats(first: MixtureBatch, again: MixtureBatch, *, elsewhere: bool) -> bool:
    """Whether the fits of the same blocks are the same: to the last bit, unless made elsewhere."""
    if not np.array_equal(first.ok, again.ok):
        return False
    tolerance = 1e-6 if elsewhere else 0.0
    return all(
        np.allclose(
            getattr(first, name), getattr(again, name), rtol=tolerance, atol=0.0, equal_nan=True
        )
        for name in ("weights", "means", "cholesky")
    )


def _nothing(n_components: int, n_features: int) -> MixtureBatch:
    """One block without a fit."""
    k, d = n_components, n_features
    return MixtureBatch.from_cholesky(
        np.full((1, k), np.nan),
        np.full((1, k, d), np.nan),
        np.full((1, k, d, d), np.nan),
        np.zeros(1, dtype=bool),
    )


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
