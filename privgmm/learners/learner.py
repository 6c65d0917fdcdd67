"""What a learner is: it turns t blocks of rows into t confidential mixtures, block by block.

Privacy rests on one rule that every learner keeps: the fit of a block depends on that block's
rows and on its own seed, and on nothing else. Changing a row changes one fit.
"""

from __future__ import annotations

import abc
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture, MixtureBatch

__all__ = ["BlockRandomness", "Learner", "ReasonedLearner", "Seeds", "as_blocks", "block_seeds"]

Seeds = npt.NDArray[np.uint64]
BlockRandomness = np.random.Generator | int | Seeds | None
"""Where a learner's randomness comes from: a generator, a seed, t seeds, or fresh entropy."""


class Learner(Protocol):
    """The interface that a release needs of a learner."""

    @property
    def n_components(self) -> int:
        """Number of components k of every fit."""
        ...

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        """Fit each block (s, d) of blocks (t, s, d); `ok` is False where a fit failed.

        Never raises because of what a block holds. With an array of t seeds (uint64), fit i is a
        function of ``blocks[i]`` and ``rng[i]`` alone.
        """
        ...


class ReasonedLearner(abc.ABC):
    """A learner that says of each block why it has no fit; the rest follows from that."""

    n_components: int

    @abc.abstractmethod
    def fit_blocks_with_reasons(
        self, blocks: npt.ArrayLike, *, rng: BlockRandomness = None
    ) -> tuple[MixtureBatch, list[str]]:
        """Fit each block and give a reason per block: empty, or why it has no fit.

        The reasons speak about the data and are CONFIDENTIAL.
        """

    @abc.abstractmethod
    def remedy(self, reason: str) -> str:
        """Say what to do about one of the reasons."""

    def fit_blocks(self, blocks: npt.ArrayLike, *, rng: BlockRandomness = None) -> MixtureBatch:
        """Fit each block (s, d) of blocks (t, s, d).

        Parameters
        ----------
        blocks : array-like (t, s, d)
        rng : Generator, int, array of t uint64 seeds, or None
            With an array, fit i is a function of ``blocks[i]`` and ``rng[i]`` alone.
        """
        return self.fit_blocks_with_reasons(blocks, rng=rng)[0]

    def fit(self, rows: npt.ArrayLike, *, rng: BlockRandomness = None) -> Mixture:
        """Fit one mixture to rows (n, d)."""
        x = finite_array(rows, "rows", (None, None))
        batch, (reason,) = self.fit_blocks_with_reasons(x[None], rng=rng)
        if reason:
            raise InvalidInput(
                f"rows of shape {x.shape} allow no fit of {self.n_components} components "
                f"({reason}): {self.remedy(reason)}"
            )
        return batch[0]


def as_blocks(blocks: npt.ArrayLike) -> Array:
    """Convert blocks to a C-ordered float64 array (t, s, d), without a look at their values."""
    try:
        array = np.ascontiguousarray(blocks, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"blocks must hold numbers only: {problem}") from problem
    if array.ndim != 3 or array.shape[2] == 0:
        raise InvalidInput(f"blocks must have shape (blocks, rows, columns), got {array.shape}")
    return array


def block_seeds(rng: BlockRandomness, n_blocks: int) -> Seeds:
    """Return one seed per block (n_blocks,), given or drawn.

    >>> block_seeds(7, 3).dtype, block_seeds(7, 3).shape
    (dtype('uint64'), (3,))
    """
    if isinstance(rng, np.ndarray):
        if rng.dtype != np.uint64 or rng.shape != (n_blocks,):
            raise InvalidInput(
                f"rng as an array must hold one uint64 seed per block, shape ({n_blocks},), "
                f"got {rng.dtype} of shape {rng.shape}"
            )
        return rng
    try:
        generator = np.random.default_rng(rng)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(
            f"rng must be a Generator, an integer >= 0, an array of seeds or None, got {rng!r}"
        ) from problem
    return generator.integers(0, 2**64, size=n_blocks, dtype=np.uint64)
