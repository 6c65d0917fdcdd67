"""What a baseline is: a differentially private learner that must be given more than its rows.

A baseline says what it must be given (`Needs`), what it costs (`account`), and how it learns
(`learn`). Checking, pricing and the source of noise are the same for all, in `release`.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray, finite_array, frozen, whole_number
from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.bounds import Box
from privgmm.baselines.moment_sums import NoisyMoments
from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.method import Look
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Spend
from privgmm.privacy.noise import NoiseSource, RandomState, noise_source

__all__ = ["Baseline", "BaselineRelease", "BaselineTask", "Needs", "gaussians_of"]

_LEAST_WEIGHT = 1e-4
"""Least weight of a component, as a share of all noisy counts: none is zero or less."""
_LEAST_WIDTH = 1e-4
"""Of a component, in units of the radius of the ball: no covariance is singular."""


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """What a learner must be given besides rows, budget and number of components.

    Parameters
    ----------
    bounds : bool
        A box that holds the rows, found without looking at them.
    labels : bool
        Which component each row comes from.
    words : str
        Both in words: to follow "has to be told".
    """

    bounds: bool
    labels: bool
    words: str


@dataclasses.dataclass(frozen=True, eq=False)
class BaselineRelease:
    """What a baseline published, and what it cost.

    Parameters
    ----------
    mixture : Mixture
    spend : Spend
        For replacing one row; `spent` as a Budget.
    seeded : bool
        Whether the noise can be repeated: then this is a rehearsal and not differentially private.
    baseline : str
        Its name.
    """

    mixture: Mixture
    spend: Spend
    seeded: bool
    baseline: str

    @property
    def spent(self) -> Budget:
        """Price as (epsilon, delta)."""
        return self.spend.budget


@dataclasses.dataclass(frozen=True, eq=False)
class BaselineTask:
    """What a baseline is given to learn from, checked.

    Parameters
    ----------
    rows : array (n, d)
        As they are: a baseline pulls them into the box before it looks at them.
    n_components : int
    bounds : Box
    labels : array of int (n,) or None
        0..k-1; only for baselines that need them.
    """

    rows: Array
    n_components: int
    bounds: Box
    labels: IntArray | None

    @property
    def points(self) -> Array:
        """Rows in the unit ball, see `Box.in_unit_ball`."""
        return self.bounds.in_unit_ball(self.rows)


class Baseline(abc.ABC):
    """One differentially private learner to compare with."""

    name: ClassVar[str]
    """What one types."""
    title: ClassVar[str]
    """What one reads."""
    sentence: ClassVar[str]
    """What it does, to follow its title; no capital, no full stop."""
    look: ClassVar[Look]
    needs: ClassVar[Needs]

    @abc.abstractmethod
    def account(self, budget: Budget) -> NoiseAccount:
        """Compute the noise that it draws within this budget; it does not depend on the rows."""

    @abc.abstractmethod
    def learn(self, task: BaselineTask, account: NoiseAccount, source: NoiseSource) -> Mixture:
        """Draw the noise and learn: costs the price of `account`, and uses the rows for no more."""

    def check(self, n_components: int, n_features: int) -> None:  # noqa: B027 - most take any
        """Raise `InvalidInput` if it cannot take this number of components or columns."""

    def release(
        self,
        rows: npt.ArrayLike,
        *,
        n_components: int,
        budget: Budget,
        bounds: Box,
        labels: npt.ArrayLike | None = None,
        rng: RandomState = None,
    ) -> BaselineRelease:
        """Learn a mixture with the guarantee `budget`, for replacing one row.

        Parameters
        ----------
        rows : array-like (n, d)
            Finite. n is public.
        n_components : int
        budget : Budget
            The TOTAL guarantee.
        bounds : Box
            Known without looking at the rows. What is outside is pulled in: the guarantee holds
            for any box, the result is good only for one that fits.
        labels : array-like (n,), optional
            The component of each row, 0..k-1; where `needs` says so, and only there.
        rng : None, seed, Generator or NoiseSource
            None draws cryptographic noise. A seed makes a rehearsal, marked so.

        Raises
        ------
        InvalidInput
            Before anything is drawn.
        """
        table = finite_array(rows, "rows", (None, None))
        k = whole_number(n_components, "n_components", 1)
        n, d = table.shape
        if n < 1 or d < 1:
            raise InvalidInput(f"rows must hold at least one row and column, got shape {n} x {d}")
        if bounds.n_features != d:
            raise InvalidInput(
                f"bounds must have one side per column: rows have {d}, bounds {bounds.n_features}"
            )
        self.check(k, d)
        task = BaselineTask(table, k, bounds, self._labels(labels, n, k))
        account = self.account(budget)
        spend = account.spend(budget.delta)
        if not budget.covers(spend.budget):
            raise PrivGMMError(
                f"baseline {self.name!r} would cost {spend.budget}, more than {budget}"
            )
        source = noise_source(rng)
        return BaselineRelease(self.learn(task, account, source), spend, source.seeded, self.name)

    def _labels(self, labels: npt.ArrayLike | None, n: int, k: int) -> IntArray | None:
        if not self.needs.labels:
            if labels is not None:
                raise InvalidInput(f"labels are not used by baseline {self.name!r}: leave them out")
            return None
        if labels is None:
            raise InvalidInput(
                f"labels must be given to baseline {self.name!r}: it learns each component from "
                "the rows that have its label"
            )
        given = np.asarray(labels)
        if given.shape != (n,) or given.dtype.kind not in "iu":
            raise InvalidInput(
                f"labels must be one whole number per row, got {given.dtype} of shape {given.shape}"
            )
        if n and not (given.min() >= 0 and given.max() < k):
            raise InvalidInput(
                f"labels must be in 0..{k - 1}, got {given.min()} to {given.max()}: number the "
                "components from 0"
            )
        return np.asarray(frozen(given.astype(np.int64)))


def gaussians_of(moments: NoisyMoments, fallback: Mixture) -> Mixture:
    """Compute one Gaussian per group from noisy moments in the unit ball; post-processing.

    Parameters
    ----------
    moments : NoisyMoments
        With second moments.
    fallback : Mixture
        What a group is where noise drowns it: fewer rows than two deviations of a noisy count.

    Notes
    -----
    Means are kept in the ball. Eigenvalues of a covariance are at least the noise on them, which is
    the deviation of a second moment over the count, and a least width.
    """
    k = len(moments.counts)
    if moments.seconds is None:
        raise InvalidInput("moments must have second moments")
    of_count, _, of_second = moments.deviations
    weights, means, roots = np.empty(k), fallback.means.copy(), fallback.cholesky.copy()
    for j in range(k):
        count = float(moments.counts[j])
        weights[j] = max(count, _LEAST_WEIGHT * float(np.abs(moments.counts).sum()), 1e-9)
        if count <= 2 * of_count:
            continue
        mean = moments.firsts[j] / count
        mean /= max(1.0, float(np.linalg.norm(mean)))
        values, vectors = np.linalg.eigh(moments.seconds[j] / count - np.outer(mean, mean))
        floor = max(of_second / count, _LEAST_WIDTH**2)
        means[j] = mean
        roots[j] = vectors * np.sqrt(np.clip(values, floor, 1.0))
    return Mixture.from_roots(weights / weights.sum(), means, roots)
