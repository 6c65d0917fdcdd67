"""What every learner must keep, as one checker: `tests/test_<learner>.py` calls it."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.learners.learner import Learner, block_seeds
from privgmm.mixture import Mixture, MixtureBatch

__all__ = [
    "DEGENERATE_REASONS",
    "asymmetric_mixture",
    "check_learner",
    "degenerate_blocks",
    "same_fit",
]


def asymmetric_mixture(
    n_components: int, n_features: int, *, separation: float = 5.0, seed: int = 0
) -> Mixture:
    """Unequal weights, full unequal covariances, smallest Mahalanobis gap = separation."""
    rng = np.random.default_rng(seed)
    k, d = n_components, n_features
    weights = 1.0 + np.arange(k)
    roots = np.eye(d) + 0.4 * rng.standard_normal((k, d, d)) / np.sqrt(d)
    covariances = roots @ roots.swapaxes(1, 2)
    means = rng.standard_normal((k, d))
    gaps = [
        np.sqrt(
            (means[i] - means[j])
            @ np.linalg.solve((covariances[i] + covariances[j]) / 2, means[i] - means[j])
        )
        for i in range(k)
        for j in range(i)
    ]
    return Mixture(weights / weights.sum(), means * separation / min(gaps, default=1), covariances)


def degenerate_blocks(good: Array) -> dict[str, Array]:
    """Blocks of the shape (s, d) of `good` that no mixture of two or more can be fitted to."""
    s, d = good.shape
    blocks = {
        name: good.copy() for name in ("nan", "infinite", "outlier", "constant column", "huge")
    }
    blocks["nan"][s // 2, 0] = np.nan
    blocks["infinite"][0, -1] = -np.inf
    blocks["outlier"][3] = 1e12
    blocks["constant column"][:, d // 2] = 0.1
    blocks["huge"] *= 1e200
    blocks["one point"] = np.repeat(good[:1], s, axis=0)
    blocks["few points"] = good[np.arange(s) % (d + 2)]
    blocks["line"] = np.linspace(0, 1, s)[:, None] * np.ones(d) + np.zeros((s, d))
    if d == 1:
        del blocks["line"]
    return blocks


DEGENERATE_REASONS = {
    "nan": "not finite",
    "infinite": "not finite",
    "outlier": "component collapsed",
    "constant column": "rank-deficient",
    "huge": "out of range",
    "one point": "rank-deficient",
    "few points": "component collapsed",
    "line": "rank-deficient",
}
"""Why, in the words of learners that whiten each block; for d > 1."""


def same_fit(batch: MixtureBatch, i: int, other: MixtureBatch, j: int) -> bool:
    """Whether two fits agree in every bit."""
    return bool(batch.ok[i] == other.ok[j]) and all(
        np.array_equal(getattr(batch, name)[i], getattr(other, name)[j], equal_nan=True)
        for name in ("weights", "means", "cholesky")
    )


def check_learner(
    learner: Learner,
    truth: Mixture,
    *,
    n_blocks: int = 6,
    n_rows: int = 600,
    seed: int = 0,
    robust_to: Collection[str] = (),
) -> MixtureBatch:
    """Check a learner on blocks drawn from `truth` (well separated); returns the fits.

    Shapes and success; the same seed gives the same bits; a fit depends on its own block and
    seed alone; the input is left as it was; blocks that allow no fit give ``ok`` False in
    silence, next to good ones that keep their bits. `robust_to` names the degenerate blocks that
    this learner does fit.
    """
    t, s, d = n_blocks, n_rows, truth.n_features
    blocks = truth.sample(t * s, rng=seed).reshape(t, s, d)
    original = blocks.copy()
    blocks.setflags(write=False)
    fits = learner.fit_blocks(blocks, rng=seed)
    assert np.array_equal(blocks, original)
    assert fits.weights.shape == (t, learner.n_components)
    assert fits.means.shape == (t, learner.n_components, d)
    assert fits.ok.all()

    seeds = block_seeds(seed, t)
    for again in (
        learner.fit_blocks(original, rng=seed),
        learner.fit_blocks(blocks, rng=np.random.default_rng(seed)),
        learner.fit_blocks(blocks, rng=seeds),
    ):
        assert again == fits
    assert learner.fit_blocks(blocks).ok.all()

    halves = (
        learner.fit_blocks(blocks[: t // 2], rng=seeds[: t // 2]),
        learner.fit_blocks(blocks[t // 2 :], rng=seeds[t // 2 :]),
    )
    assert MixtureBatch.concatenate(halves) == fits
    backwards = learner.fit_blocks(blocks[::-1], rng=seeds[::-1].copy())
    assert all(same_fit(fits, i, backwards, t - 1 - i) for i in range(t))

    changed = original.copy()
    changed[1, 0] += 1.0
    neighbour = learner.fit_blocks(changed, rng=seeds)
    assert [same_fit(fits, i, neighbour, i) for i in range(t)] == [i != 1 for i in range(t)]

    bad = degenerate_blocks(original[0])
    mixed = np.concatenate([original[:1], np.stack(list(bad.values())), original[1:2]])
    mixed_seeds = np.concatenate(
        [seeds[:1], np.arange(len(bad), dtype=np.uint64), seeds[1:2]], dtype=np.uint64
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = learner.fit_blocks(mixed, rng=mixed_seeds)
        few = learner.fit_blocks(original[:, : d + 1], rng=seed)
    assert {name: bool(ok) for name, ok in zip(bad, outcome.ok[1:-1], strict=True)} == {
        name: name in robust_to for name in bad
    }
    assert same_fit(fits, 0, outcome, 0)
    assert same_fit(fits, 1, outcome, len(bad) + 1)
    assert not few.ok.any()

    wrong: tuple[Any, ...] = (seeds[:-1], seeds.astype(np.int64))
    for rng in wrong:
        with pytest.raises(InvalidInput, match="uint64"):
            learner.fit_blocks(blocks, rng=rng)
    return fits
