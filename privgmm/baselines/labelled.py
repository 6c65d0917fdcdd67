"""The oracle: it is told which component each row comes from."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from privgmm.baselines.account import Account
from privgmm.baselines.baseline import Baseline, Needs, Task, gaussians_of
from privgmm.baselines.moment_sums import LEAST_SENSITIVITY, MomentSums
from privgmm.baselines.starts import whole
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.method import Look
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource

__all__ = ["LabelledOracle"]


class LabelledOracle(Baseline):
    """Noisy moments of every labelled class, in one pass.

    Nobody has these labels, or there would be nothing to learn: it shows what noisy moments within
    the same box could reach at best. A row's label is as private as the row, and is replaced with
    it.
    """

    name: ClassVar[str] = "labelled"
    title: ClassVar[str] = "Oracle with labels"
    sentence: ClassVar[str] = (
        "is told the component of each row, and adds noise to the moments of each component"
    )
    look: ClassVar[Look] = Look("#5F8A1F", "longdashdot", 2.5)
    needs: ClassVar[Needs] = Needs(
        True, True, "a box that holds the rows, and the component of each row"
    )

    sums: ClassVar[MomentSums] = MomentSums((0.5, 0.7, 1.0))

    def account(self, budget: Budget) -> Account:
        """A single draw."""
        return Account.for_budget(budget, 1, LEAST_SENSITIVITY)

    def learn(self, task: Task, account: Account, source: NoiseSource) -> Mixture:
        """One pass."""
        if task.labels is None:
            raise InvalidInput("labels must be given: this baseline is told them")
        k = task.n_components
        noisy = self.sums.noisy(task.points, np.eye(k)[task.labels], account, source)
        d = task.bounds.n_features
        unknown = Mixture(
            np.full(k, 1 / k), np.zeros((k, d)), np.repeat(whole(d).covariances, k, axis=0)
        )
        return task.bounds.from_unit_ball(gaussians_of(noisy, unknown))
