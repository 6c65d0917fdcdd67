"""One private release, from rows to a mixture or a refusal.

A plan is a list of stages. `prepare` checks everything and lets the first stage do its work on the
rows, without noise: that may be cancelled, and costs nothing. `PreparedRelease.draw` tells the
ledger, and only then draws noise: each stage sees what the stage before it published, until the
last one gives the mixture or one of them gives ⊥. `release` is the two calls in one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privgmm.advice import hint
from privgmm.arrays import Array, IntArray, one_blas_thread
from privgmm.budget import Budget, Unit
from privgmm.data.engines import Engine, Submits, Watch, engine_for
from privgmm.data.people import secret_key
from privgmm.data.rows import RowsLike, checked_source
from privgmm.data.source import RowSource
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.learners.learner import Learner
from privgmm.learners.registry import learner_for
from privgmm.ledger.cautions import caution
from privgmm.ledger.protocol import Ledger
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import RandomState, noise_source
from privgmm.results import Refusal, Release
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.agreement.votes import Verdict
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.stage import Bottom, Drawn, Prepared, Progress, Published, Work

__all__ = [
    "CuratorView",
    "Executor",
    "Outcome",
    "PreparedRelease",
    "Refusal",
    "Release",
    "prepare",
    "release",
]


Executor: TypeAlias = Engine | Submits | str | None
"""Where work on rows may be done; see `engine_for`."""


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
    _table: RowSource = dataclasses.field(repr=False)

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
        """Distances of the fits (t, t); worked out when first asked for."""
        return self._agreement.found.distances

    @property
    def verdict(self) -> Verdict:
        """Friend counts, statistic, noise and threshold."""
        return self._agreement.found.verdict

    @property
    def positions(self) -> IntArray:
        """Which rows made up each block (t, s), by their positions in the table."""
        return self._agreement.positions

    @property
    def fit_failures(self) -> dict[str, int]:
        """Why blocks have no fit, where their learner says so, and how many blocks each time."""
        return dict(Counter(filter(None, self._agreement.reasons)))

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
        """The learner's fit to all rows at once, without any privacy.

        Of a table that is read part by part, to a million rows from everywhere.
        """
        return self._nonprivate

    @functools.cached_property
    def _nonprivate(self) -> Mixture:
        learner = self._plan.nonprivate_learner(self._work.learner)
        last = self.drawn[-1].value
        if self._plan.chooses_components and isinstance(last, Published):
            # fits of another number of components could not be compared with the release
            learner = learner_for(last.mixture.n_components, None)
        batch = learner.fit_blocks(self._table.curated()[None], rng=0)
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
            self._table.take,
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

    Notes
    -----
    Shown, as text or in a notebook, is the result alone.
    """

    result: Release | Refusal
    curator: CuratorView = dataclasses.field(repr=False)
    ledger_problem: str | None = None

    @property
    def released(self) -> bool:
        """Whether there is a mixture to show."""
        return self.result.released

    def _repr_html_(self) -> str:
        return self.result._repr_html_()


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
    _table: RowSource = dataclasses.field(repr=False)
    _first: Prepared = dataclasses.field(repr=False)
    _columns: tuple[str, ...] = dataclasses.field(repr=False)
    _drawn: bool = dataclasses.field(default=False, repr=False)
    _opened: contextlib.ExitStack = dataclasses.field(
        default_factory=contextlib.ExitStack, repr=False
    )

    def _named(self, sketch: PrivateSketch | None) -> PrivateSketch | None:
        """The sketch with the names of the columns, which are public."""
        return None if sketch is None else sketch.with_columns(self._columns)

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
        caution(
            self._table,
            self.plan,
            n_units=len(self._work.people),
            unit=self.unit,
            seeded=source.seeded,
            in_ledger=ledger is not None,
        )
        intent, entry, mark = None, None, None
        if ledger is not None:
            intent = ledger.intend(self.plan, seeded=source.seeded, unit=self.unit)
            # asked before anything is drawn: a ledger may fail, but not between noise and result
            entry, mark = intent.number, intent.mark
        self._drawn = True
        drawn: list[Drawn] = []
        value: Any = None
        # many small matrices: a second BLAS thread would cost more than it brings. And whether a
        # number overflows on the way must not show, not even where warnings are errors
        with self._opened, one_blas_thread(), np.errstate(all="ignore"):
            prepared = self._first
            for number, stage in enumerate(self.plan.stages):
                if number > 0:
                    prepared = stage.prepare(self._work, value)
                drawn.append(prepared.draw(source))
                value = drawn[-1].value
                if isinstance(value, Bottom):
                    break
        result: Release | Refusal
        if isinstance(value, Bottom):
            result = Refusal(
                self.spent,
                self.plan,
                source.seeded,
                self.unit,
                entry,
                mark,
                len(self._work.people),
            )
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
                self._named(published.sketch),
                published.misfit,
                published.floored,
                published.standard_errors,
                published.choice,
            )
        problem = None
        if intent is not None:
            try:
                intent.conclude(released=result.released)
            except Exception as failure:  # noqa: BLE001 - a ledger may be anybody's code
                # what was paid for must not be lost: the ledger counts it as unfinished
                problem = str(failure) or type(failure).__name__
        view = CuratorView(tuple(drawn), self._work, self.plan, self._table)
        return Outcome(result, view, problem)


def prepare(
    X: RowsLike,
    plan: Plan,
    *,
    columns: Sequence[str] | None = None,
    learner: Learner | None = None,
    rng: RandomState = None,
    executor: Executor = None,
    groups: npt.ArrayLike | str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> PreparedRelease:
    """Check a release and do all of its work that needs no noise; costs nothing.

    The arguments are those of `release`.
    """
    if not isinstance(plan, Plan):
        raise InvalidInput(
            f"plan must be a Plan, got {plan!r}: make one with best_plan or calibrate"
        )
    if isinstance(learner, type):
        raise InvalidInput(
            f"learner must be an object, got the class {learner.__name__}: write "
            f"{learner.__name__}({plan.n_components})"
        )
    spent = plan.spent()
    if not plan.budget.covers(spent):
        raise PrivGMMError(f"the plan costs {spent}, more than its budget {plan.budget}")
    source = noise_source(rng)
    # a learner for another number of components is refused before anything is fitted
    plan.nonprivate_learner(learner)
    with contextlib.ExitStack() as opened:
        engine = engine_for(executor)
        opened.callback(engine.close)
        without = (groups,) if isinstance(groups, str) and columns is None else ()
        table = checked_source(X, plan.n_features, columns, without=without)
        unit: Unit = "row" if groups is None else "person"
        if groups is None and (shortage := plan.shortage(table.n_rows, unit)):
            raise InvalidInput(shortage)
        # rows have no order to be hidden; that of persons is secret
        key = "" if groups is None else secret_key(source.seed())
        people = table.people(groups, key, engine, watch)
        opened.callback(people.close)
        if groups is not None and (shortage := plan.shortage(len(people), unit)):
            raise InvalidInput(shortage)
        work = Work(people, source, learner, engine, progress, watch)
        for stage in plan.stages:
            stage.check(work)
        first = plan.stages[0].prepare(work, None)
        people.check()
        names = tuple(str(name) for name in table.columns)
        # checked here: nothing may raise once noise is drawn
        named = names if len(set(names)) == len(names) else ()
        return PreparedRelease(
            plan, spent, unit, work, table, first, named, _opened=opened.pop_all()
        )


def release(
    X: RowsLike,
    plan: Plan,
    *,
    columns: Sequence[str] | None = None,
    learner: Learner | None = None,
    rng: RandomState = None,
    executor: Executor = None,
    ledger: Ledger | None = None,
    groups: npt.ArrayLike | str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Learn one Gaussian mixture from X with the guarantee of `plan`, or refuse.

    Parameters
    ----------
    X : array-like, data frame, file, folder, dataset, Dask collection or RowSource (n, d)
        One row per person, finite, no bounds; whatever `row_source` takes. n is public. Tables
        that are not held in memory are read part by part, in a few passes.
    plan : Plan
        From `calibrate` or `best_plan`.
    columns : sequence of str, optional
        Which columns of X to take, in this order; all by default.
    learner : Learner, optional
        Any non-private learner; `EM` by default.
    rng : None, seed, Generator or NoiseSource
        None draws cryptographic noise. A seed makes a repeatable demonstration, marked so.
    executor : "threads", "dask", address of a Dask scheduler, or executor, optional
        Where blocks are fitted, and tables read that are not in memory: threads by default, or
        anything with ``submit`` (concurrent.futures, Dask's client). What is released does not
        depend on it.
    ledger : Ledger, optional
        Told of the spend before noise is drawn and of the verdict after.
    groups : array-like (n,) or name of a column, optional
        Who each row belongs to. The guarantee is then for replacing all rows of one person:
        block fits use one row of each, sums the average over each person's rows. Rows with one
        label are one person's, in whichever file they are.
    progress : callable(done, total), optional
        Called as blocks are fitted; raising from it cancels, before anything is drawn.
    watch : callable(Step), optional
        Told of each step: of blocks, and of every pass over the rows. Raising from it stops the
        work. What a ledger was told by then stays spent, and nothing is published.
    """
    prepared = prepare(
        X,
        plan,
        columns=columns,
        learner=learner,
        rng=rng,
        executor=executor,
        groups=groups,
        progress=progress,
        watch=watch,
    )
    return prepared.draw(ledger)
