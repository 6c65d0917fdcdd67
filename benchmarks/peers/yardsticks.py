"""Judge synthetic rows by the field's yardsticks: distances of marginals, and what they teach.

Columns are cut at the 20-quantiles of the rows held out, and bins are closed on the right, as in
``pandas.qcut``: quantiles that coincide are one cut, so a value that many rows share ends a bin.
The outermost bins have no end.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingRegressor

from privgmm.arrays import Array, IntArray

__all__ = ["QUANTILES", "Yardsticks"]

QUANTILES = 20
"""Convention: bins of a column, as in comparisons of differentially private synthetic data."""


@dataclasses.dataclass(frozen=True, eq=False)
class Yardsticks:
    """Compare synthetic rows with rows that were held out.

    Parameters
    ----------
    held_out : array (n, d)
        Real rows that no tool has seen.
    target : int
        Column to predict from all others.
    """

    held_out: Array
    target: int

    def judge(self, made: Array) -> dict[str, float]:
        """Compute all yardsticks of synthetic rows (m, d)."""
        r2, rank = self.taught(made)
        return {
            "one_way": self.variation(made, 1),
            "two_way": self.variation(made, 2),
            "r2": r2,
            "rank": rank,
        }

    def variation(self, made: Array, ways: int) -> float:
        """Average the total variation of the binned marginals over all sets of `ways` columns."""
        here, there = self._binned, self._bins(made)
        sets = itertools.combinations(range(self.held_out.shape[1]), ways)
        return float(np.mean([self._marginal_variation(here, there, some) for some in sets]))

    def taught(self, made: Array) -> tuple[float, float]:
        """Train on synthetic rows and test on real ones: R² and Spearman's rank correlation.

        scikit-learn's gradient-boosted trees as they come. Predictions that are all equal have no
        rank correlation: it counts as 0.
        """
        others = np.delete(np.arange(self.held_out.shape[1]), self.target)
        model = HistGradientBoostingRegressor(random_state=0)
        model.fit(made[:, others], made[:, self.target])
        predicted = model.predict(self.held_out[:, others])
        true = self.held_out[:, self.target]
        r2 = 1 - float(np.mean((true - predicted) ** 2) / np.var(true))
        if np.ptp(predicted) == 0:
            return r2, 0.0
        return r2, float(spearmanr(true, predicted).statistic)

    @functools.cached_property
    def cuts(self) -> list[Array]:
        """Inner ends of the bins of every column."""
        levels = np.arange(1, QUANTILES) / QUANTILES
        return [np.unique(np.quantile(column, levels)) for column in self.held_out.T]

    @functools.cached_property
    def _binned(self) -> IntArray:
        return self._bins(self.held_out)

    def _bins(self, rows: Array) -> IntArray:
        """Return the number of its bin for every value (n, d); the first has the number 0."""
        return np.stack(
            [
                # bins are closed on the right: a cut belongs to the bin below it
                np.searchsorted(cuts, column, side="left")
                for cuts, column in zip(self.cuts, rows.T, strict=True)
            ],
            axis=1,
        )

    def _marginal_variation(self, here: IntArray, there: IntArray, columns: Sequence[int]) -> float:
        shape = [len(self.cuts[j]) + 1 for j in columns]
        shares = []
        for bins in (here, there):
            cells = np.ravel_multi_index(tuple(bins[:, j] for j in columns), shape)
            shares.append(np.bincount(cells, minlength=int(np.prod(shape))) / len(bins))
        return float(np.abs(shares[0] - shares[1]).sum() / 2)
