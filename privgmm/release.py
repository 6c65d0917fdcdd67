"""One private release, from rows to a mixture or a refusal.

A plan is a list of stages. `prepare` checks everything and lets the first stage do its work on the
rows, without noise: that may be cancelled, and costs nothing. `PreparedRelease.draw` tells the
ledger, and only then draws noise: each stage sees what the stage before it published, until the
last one gives the mixture or one of them gives ⊥. `release` is the two calls in one.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from privgmm.advice import hint
from privgmm.arrays import Array, IntArray
from privgmm.budget import Budget, Unit
from privgmm.data.rows import RowsLike, check_spread, checked_groups, checked_rows
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.learners.learner import Learner
from privgmm.ledger.protocol import Ledger
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import NoiseSource, RandomState, noise_source
from privgmm.results import Refusal, Release
from privgmm.stages.agreement.blocks import one_row_each
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.agreement.votes import Verdict
from privgmm.stages.stage import Bottom, Drawn, Prepared, Progress, Published, Submits, Work

__all__ = [
    "CuratorView",
    "Outcome",
    "PreparedRelease",
    "Refusal",
    "Release",
    "prepare",
    "release",
]


@dataclasses.dataclass(frozen=True, eq=False)
class CuratorView:
    """What only the holder of the data may look at. NOTHING here is private.

    Parameters
    ----------
    drawn : tuple of Drawn
        What each stage gave that was run, and what it saw.
    """

    drawn: tuple[Drawn, ...]
    _work: Work = dataclasses.field(repr=False)
    _plan: Plan = dataclasses.field(repr=False)

    @property
    def _agreement(self) -> AgreementView:
        for stage in self.drawn:
            if isinstance(stage.seen, AgreementView):
                return stage.seen
        raise PrivGMMError("no blocks voted in this release: there are no fits to look at")

    @property
    def fits(self) -> MixtureBatch:
        """The block fits."""
        return self._agreement.fits

    @property
    def distances(self) -> Array:
        """Distances of the fits (t, t)."""
        return self._agreement.found.distances

    @property
    def verdict(self) -> Verdict:
        """Friend counts, statistic, noise and threshold."""
        return self._agreement.found.verdict

    @property
    def positions(self) -> IntArray:
        """Which rows made up each block (t, s)."""
        return self._agreement.positions

    @property
    def coarse(self) -> Mixture | None:
        """What the blocks agreed on, masked; None if they did not agree."""
        value = self._agreement.found.value
        return None if isinstance(value, Bottom) else value

    @property
    def votes(self) -> IntArray:
        """Friends of each block, itself included."""
        return self.verdict.counts

    @property
    def statistic(self) -> float:
        """The test's value before noise."""
        return self.verdict.statistic

    @property
    def noisy_statistic(self) -> float:
        """The test's value with noise."""
        return self.verdict.noisy_statistic

    @property
    def threshold(self) -> float:
        """What the noisy value had to reach."""
        return self.verdict.threshold

    def nonprivate(self) -> Mixture:
        """The learner's fit to all rows at once, without any privacy."""
        return self._nonprivate

    @functools.cached_property
    def _nonprivate(self) -> Mixture:
        learner = self._plan.nonprivate_learner(self._work.learner)
        batch = learner.fit_blocks(self._work.rows[None], rng=0)
        if not batch.ok[0]:
            raise PrivGMMError("the learner finds no mixture in all rows together")
        return batch[0]

    def hint(self) -> str | None:
        """Why blocks disagree and which k to try, or None if they agree. NOT private.

        Read off the fits and, for the suggested number of components, off new fits to some of
        the blocks. Acting on it is a choice made with the data, like any look at them.
        """
        return self._hint

    @functools.cached_property
    def _hint(self) -> str | None:
        return hint(
            self.fits,
            self.distances,
            self._work.rows,
            self.positions,
            learner=self._agreement.learner,
            passed=self.verdict.passed,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """A release or a refusal, and beside it what only the curator may see.

    Parameters
    ----------
    result : Release or Refusal
        What may be shared.
    curator : CuratorView
        What may not.
    ledger_problem : str or None
        Why the ledger could not be told how it ended; it then counts the spend as unfinished.
    """

    result: Release | Refusal
    curator: CuratorView
    ledger_problem: str | None = None

    @property
    def released(self) -> bool:
        """Whether there is a mixture to show."""
        return self.result.released


@dataclasses.dataclass(eq=False)
class PreparedRelease:
    """Everything at hand but the noise. NOT private; it can be drawn once.

    Parameters
    ----------
    plan : Plan
    spent : Budget
        What drawing will cost.
    unit : {"row", "person"}
        What the guarantee protects.
    """

    plan: Plan
    spent: Budget
    unit: Unit
    _work: Work = dataclasses.field(repr=False)
    _first: Prepared = dataclasses.field(repr=False)
    _drawn: bool = dataclasses.field(default=False, repr=False)

    @property
    def drawn(self) -> bool:
        """Whether drawing has begun: its ledger was told, and its budget is spent."""
        return self._drawn

    def draw(self, ledger: Ledger | None = None) -> Outcome:
        """Write the spend down, then draw: a mixture, or ⊥.

        Raises
        ------
        BudgetExceeded
            If the ledger does not allow it. Then nothing is drawn and nothing spent.
        """
        if self._drawn:
            raise PrivGMMError(
                "this release was drawn already: drawing again would spend again; prepare another"
            )
        source = self._work.source
        intent = None
        if ledger is not None:
            intent = ledger.intend(self.plan, seeded=source.seeded, unit=self.unit)
        self._drawn = True
        drawn: list[Drawn] = []
        value: Any = None
        # many small matrices: a second BLAS thread would cost more than it brings
        with threadpool_limits(1, user_api="blas"):
            prepared = self._first
            for number, stage in enumerate(self.plan.stages):
                if number > 0:
                    prepared = stage.prepare(self._work, value)
                drawn.append(prepared.draw(source))
                value = drawn[-1].value
                if isinstance(value, Bottom):
                    break
        entry = None if intent is None else intent.number
        mark = None if intent is None else intent.mark
        result: Release | Refusal
        if isinstance(value, Bottom):
            result = Refusal(self.spent, self.plan, source.seeded, self.unit, entry, mark)
        else:
            published = value if isinstance(value, Published) else Published(value)
            result = Release(
                published.mixture,
                self.spent,
                self.plan,
                source.seeded,
                self.unit,
                entry,
                mark,
                published.sketch,
                published.misfit,
                published.floored,
            )
        problem = None
        if intent is not None:
            try:
                intent.conclude(released=result.released)
            except PrivGMMError as failure:
                # what was paid for must not be lost: the ledger counts it as unfinished
                problem = str(failure)
        view = CuratorView(tuple(drawn), self._work, self.plan)
        return Outcome(result, view, problem)


def prepare(
    X: RowsLike,
    plan: Plan,
    *,
    learner: Learner | None = None,
    rng: RandomState = None,
    executor: Submits | None = None,
    groups: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> PreparedRelease:
    """Check a release and do all of its work that needs no noise; costs nothing.

    The arguments are those of `release`.
    """
    spent = plan.spent()
    if not plan.budget.covers(spent):
        raise PrivGMMError(f"the plan costs {spent}, more than its budget {plan.budget}")
    rows = checked_rows(X, plan.n_features)
    source = noise_source(rng)
    # a learner for another number of components is refused before anything is fitted
    plan.nonprivate_learner(learner)
    units, member = _units(rows, groups, source)
    unit: Unit = "row" if groups is None else "person"
    if shortage := plan.shortage(len(units), unit):
        raise InvalidInput(shortage)
    check_spread(rows)
    work = Work(rows, units, member, source, learner, executor, progress)
    return PreparedRelease(plan, spent, unit, work, plan.stages[0].prepare(work, None))


def release(
    X: RowsLike,
    plan: Plan,
    *,
    learner: Learner | None = None,
    rng: RandomState = None,
    executor: Submits | None = None,
    ledger: Ledger | None = None,
    groups: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Learn one Gaussian mixture from X with the guarantee of `plan`, or refuse.

    Parameters
    ----------
    X : array-like, data frame, file or RowSource (n, d)
        One row per person, finite, no bounds; whatever `row_source` takes. n is public.
    plan : Plan
        From `calibrate` or `best_plan`.
    learner : Learner, optional
        Any non-private learner; `EM` by default.
    rng : None, seed, Generator or NoiseSource
        None draws cryptographic noise. A seed makes a repeatable demonstration, marked so.
    executor : Submits, optional
        Anything with ``submit`` (concurrent.futures, Dask's client) to fit blocks in parallel.
    ledger : Ledger, optional
        Told of the spend before noise is drawn and of the verdict after.
    groups : array-like (n,), optional
        Who each row belongs to. The guarantee is then for replacing all rows of one person:
        block fits use one row of each, refinement the average over each person's rows.
    progress : callable(done, total), optional
        Called as blocks are fitted; raising from it cancels, before anything is drawn.
    """
    prepared = prepare(
        X,
        plan,
        learner=learner,
        rng=rng,
        executor=executor,
        groups=groups,
        progress=progress,
    )
    return prepared.draw(ledger)


def _units(
    rows: Array, groups: npt.ArrayLike | None, source: NoiseSource
) -> tuple[IntArray, IntArray | None]:
    """Positions of the rows that go into blocks, and who each row belongs to."""
    if groups is None:
        return np.arange(len(rows), dtype=np.int64), None
    labels = checked_groups(groups, len(rows))
    chosen, member, _ = one_row_each(labels, seed=source.seed())
    return chosen, member
