"""Runs a learner that others wrote: one block at a time, each by a copy of its own.

A release is differentially private only if the fit of a block depends on that block alone
(`learner`). The learners of this package keep that rule and are checked for it. Nothing is known of
other learners, so they never see two blocks together: each call gets a copy of one block's rows and
one seed, on a copy of the learner that is thrown away. Results are checked against the plan.
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

_LONGEST = 160  # characters of a reason that are shown


class BlockFits(NamedTuple):
    """Fits of some blocks, and why a block has none, where that is known. CONFIDENTIAL."""

    fits: MixtureBatch
    reasons: list[str]


def fit_apart(learner: Learner, blocks: Array, seeds: Seeds, n_components: int) -> BlockFits:
    """Fit blocks (t, s, d) by a learner that others wrote, each block in isolation.

    `FromEstimator` takes care of that itself: it copies the estimator and the rows for every
    block, and fits them in parallel if so asked.
    """
    if _wraps(learner):
        fits, reasons = learner.fit_blocks_with_reasons(blocks, rng=seeds)  # type: ignore[attr-defined]  # see `_wraps`
        t, _, d = blocks.shape
        return BlockFits(checked_fits(fits, t, n_components, d), reasons)
    return fit_one_by_one(learner, blocks, seeds, n_components)


def _wraps(learner: Learner) -> bool:
    """Return whether it is a `FromEstimator`, without importing scikit-learn."""
    module = sys.modules.get("privgmm.learners.from_estimator")
    return module is not None and type(learner) is module.FromEstimator


def fit_one_by_one(learner: Learner, blocks: Array, seeds: Seeds, n_components: int) -> BlockFits:
    """Fit each block (s, d) of blocks (t, s, d) by a copy of the learner that sees nothing else.

    Notes
    -----
    An exception says something about the rows of one block, and a release that ended with it
    would publish that; so does an answer that is not a mixture of the planned size. Such a block
    counts as one without a fit, like any block that allows none; only the curator sees why.

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
            found.append(checked_fits(fit, 1, n_components, d))
        except Exception as problem:  # noqa: BLE001 - foreign code; becomes the block's reason
            own_words = isinstance(problem, InvalidInput)
            reasons[i] = _in_one_line(
                str(problem) if own_words else f"{type(problem).__name__}: {problem}"
            )
            found.append(_nothing(n_components, d))
    return BlockFits(MixtureBatch.concatenate(found), reasons)


def copied(learner: Learner) -> Learner:
    """Copy a learner so that the copy shares nothing with it, as far as copying goes."""
    try:
        return copy.deepcopy(learner)
    except Exception as problem:
        raise InvalidInput(
            f"learner must be such that copy.deepcopy can copy it, so that every block gets one "
            f"of its own: {type(problem).__name__}: {problem}"
        ) from problem


def checked_fits(fits: Any, n_blocks: int, n_components: int, n_features: int) -> MixtureBatch:
    """Check that a learner returned what the plan was priced for, and copy it.

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
            f"learner.fit_blocks must return mixtures where ok is True: {problem}"
        ) from problem


def repeats(first: MixtureBatch, again: MixtureBatch, *, elsewhere: bool) -> bool:
    """Return whether two fits of the same blocks agree: to the last bit, unless made elsewhere."""
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
    """Return the batch of one block without a fit."""
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
