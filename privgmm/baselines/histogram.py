"""The baseline `histogram`: noisy counts of cells of a known box, rows made from them, and EM."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.baseline import Baseline, BaselineTask, Needs
from privgmm.baselines.bounds import Box
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.methods.method import Look
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource

__all__ = ["COUNT_SENSITIVITY", "Grid", "NoisyHistogram"]

COUNT_SENSITIVITY = math.sqrt(2)
"""Replacing a row takes one from a cell and adds one to another: sqrt 2 in L2, exactly."""

_MOST_CELLS = 250_000
"""Bounds memory and time; a convention."""
_FINEST = 64
"""Cells per column at most; a convention."""
_MOST_ROWS = 200_000
"""Rows made from the counts at most: bounds the time of EM; a convention."""
_PRIOR_ROWS = 1.0
"""Weight, in rows, of the prior that keeps components from collapsing onto a cell."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Cells of equal size in a box.

    Parameters
    ----------
    box : Box
    per_column : int
        Cells along every column; ``per_column ** d`` in all.
    """

    box: Box
    per_column: int

    @classmethod
    def for_rows(cls, box: Box, n_rows: int) -> Grid:
        """Choose the grid for a number of rows, from public numbers alone.

        About ``n^(1/(d+2))`` cells per column balance noise and width; twice as many, because
        a Gaussian fills only a part of the box. Never fewer than two, nor more cells in all than
        fit into memory.
        """
        d = box.n_features
        wanted = math.ceil(2 * n_rows ** (1 / (d + 2)))
        most = math.floor(_MOST_CELLS ** (1 / d) + 1e-9)
        return cls(box, max(2, min(wanted, most, _FINEST)))

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.per_column**self.box.n_features)

    @property
    def steps(self) -> Array:
        """Width of a cell along every column (d,)."""
        return np.asarray(2 * self.box.half / self.per_column)

    def counts(self, rows: Array) -> IntArray:
        """Count the rows in every cell (n_cells,). CONFIDENTIAL.

        A row outside the box counts for the nearest cell, so every row counts once.
        """
        places = np.floor((self.box.clipped(rows) - self.box.low) / self.steps).astype(np.int64)
        places = np.clip(places, 0, self.per_column - 1)
        powers = self.per_column ** np.arange(self.box.n_features, dtype=np.int64)
        return np.bincount(places @ powers, minlength=self.n_cells).astype(np.int64)

    def rows_of(self, cells: IntArray, uniform: Array) -> Array:
        """Place rows (m, d) in these cells (m,), at places (m, d) between 0 and 1 within each."""
        powers = self.per_column ** np.arange(self.box.n_features, dtype=np.int64)
        places = cells[:, None] // powers % self.per_column
        return np.asarray(self.box.low + (places + uniform) * self.steps)


class NoisyHistogram(Baseline):
    """Discrete Gaussian noise on the counts of a grid; EM on rows made up from them.

    Notes
    -----
    Counts below ``sigma sqrt(2 ln cells)``, which noise alone would reach somewhere, are set to
    zero. Rows are uniform within a cell, which makes every covariance larger by ``step^2 / 12``
    along each column (Sheppard): that is taken off again, down to a quarter of a cell's.
    """

    name: ClassVar[str] = "histogram"
    title: ClassVar[str] = "Noisy histogram"
    sentence: ClassVar[str] = (
        "counts the rows in each cell of a known box, adds noise, and runs EM on rows drawn from "
        "the noisy counts"
    )
    look: ClassVar[Look] = Look("#7A7AE0", "dashdot", 2.5)
    needs: ClassVar[Needs] = Needs(True, False, "a box that holds the rows")

    def account(self, budget: Budget) -> NoiseAccount:
        """Compute the noise of a single draw, on integers that a row moves by little."""
        return NoiseAccount.for_budget(budget, 1, COUNT_SENSITIVITY)

    def check(self, n_components: int, n_features: int) -> None:  # noqa: ARG002 - any number
        """Check that a grid with two cells per column fits into memory."""
        most = math.floor(math.log2(_MOST_CELLS))
        if n_features > most:
            raise InvalidInput(
                f"a noisy histogram takes at most {most} columns, got {n_features}: it has a cell "
                "for every combination"
            )

    def learn(self, task: BaselineTask, account: NoiseAccount, source: NoiseSource) -> Mixture:
        """Count, add noise, make rows from the counts, fit."""
        n = len(task.rows)
        grid = Grid.for_rows(task.bounds, n)
        sigma = account.multiplier * COUNT_SENSITIVITY
        noisy = grid.counts(task.rows) + source.discrete_gaussian(sigma, grid.n_cells)
        return _fit(grid, noisy, sigma, min(n, _MOST_ROWS), task.n_components, source.seed())


def _fit(grid: Grid, noisy: IntArray, sigma: float, n: int, k: int, seed: int) -> Mixture:
    """Fit a mixture to noisy counts: post-processing."""
    kept = np.where(noisy > sigma * math.sqrt(2 * math.log(grid.n_cells)), noisy, 0)
    if not kept.any():
        # nothing rises above the noise: all that is known is the box
        kept = np.ones_like(noisy)
    d = grid.box.n_features
    generator = np.random.default_rng(seed)
    m = max(n, 10 * k * (d + 1))
    cells = generator.choice(grid.n_cells, size=m, p=kept / kept.sum()).astype(np.int64)
    rows = grid.rows_of(cells, generator.random((m, d)))
    # in units of a cell, so that the units of the columns do not matter
    fitted = EM(k, prior_rows=_PRIOR_ROWS).fit((rows - grid.box.centre) / grid.steps, rng=seed)
    roots = np.empty((k, d, d))
    for j, covariance in enumerate(fitted.covariances):
        values, vectors = np.linalg.eigh(covariance)
        roots[j] = vectors * np.sqrt(np.maximum(values - 1 / 12, 1 / 48))
    in_cells = Mixture.from_roots(fitted.weights, fitted.means, roots)
    return in_cells.transformed(np.diag(grid.steps), grid.box.centre)
