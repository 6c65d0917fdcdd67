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
import warnings
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
from privgmm.data.source import RowSource, count_groups
from privgmm.errors import InvalidInput, PrivacyWarning, PrivGMMError
from privgmm.learners.learner import Learner
from privgmm.learners.registry import learner_for
from privgmm.ledger.cautions import caution
from privgmm.ledger.protocol import Intent, Ledger
from privgmm.methods.plan import Plan
from privgmm.methods.sketch.joining import joining_plan
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
    "join_sketch",
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
        intent, entry, mark = self._intend(ledger)
        drawn = self._run()
        value, source = drawn[-1].value, self._work.source
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
        problem = _concluded(intent, released=result.released)
        view = CuratorView(drawn, self._work, self.plan, self._table)
        return Outcome(result, view, problem)

    def close(self) -> None:
        """Give back workers and disk space that were taken for this release; drawing does too."""
        self._opened.close()

    def _intend(self, ledger: Ledger | None) -> tuple[Intent | None, int | None, str | None]:
        """Write the spend down; what follows may be drawn."""
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
        return intent, entry, mark

    def _run(self) -> tuple[Drawn, ...]:
        """Draw stage by stage, up to the last or to ⊥."""
        source = self._work.source
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
        return tuple(drawn)


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
    return _prepared(
        X,
        plan,
        None,
        columns=columns,
        learner=learner,
        rng=rng,
        executor=executor,
        groups=groups,
        progress=progress,
        watch=watch,
    )


def _prepared(
    X: RowsLike,
    plan: Plan,
    public: Any,
    *,
    columns: Sequence[str] | None,
    learner: Learner | None = None,
    rng: RandomState,
    executor: Executor,
    groups: npt.ArrayLike | str | None,
    progress: Progress | None = None,
    watch: Watch | None,
) -> PreparedRelease:
    """The same, from something public that the first stage begins with."""
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
        first = plan.stages[0].prepare(work, public)
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
    try:
        return prepared.draw(ledger)
    finally:
        prepared.close()


def _concluded(intent: Intent | None, *, released: bool) -> str | None:
    """Tell the ledger how it ended; why it could not be told, if so."""
    if intent is None:
        return None
    try:
        intent.conclude(released=released)
    except Exception as failure:  # noqa: BLE001 - a ledger may be anybody's code
        # what was paid for must not be lost: the ledger counts it as unfinished
        return str(failure) or type(failure).__name__
    return None


def join_sketch(
    X: RowsLike,
    agreed: PrivateSketch,
    *,
    epsilon: float,
    delta: float,
    columns: Sequence[str] | None = None,
    rng: RandomState = None,
    executor: Executor = None,
    ledger: Ledger | None = None,
    groups: npt.ArrayLike | str | None = None,
    watch: Watch | None = None,
) -> PrivateSketch:
    """Sketch other rows in the frame of a published sketch, so that the two can be added.

    Several holders of rows learn one mixture together without showing rows to each other: one of
    them releases, the others join with what is public, each with noise for its own budget, and
    ``first.sketch + second + third`` is the sketch of all rows. Every holder's rows are protected
    by that holder's own noise, whatever the others do.

    Parameters
    ----------
    X : array-like, data frame, file, folder, dataset, Dask collection or RowSource (n, d)
        Rows of other people than those of `agreed`. n is public.
    agreed : PrivateSketch
        From somebody's release: `Release.sketch`, or read back from a receipt.
    epsilon, delta : float
        What this holder promises.
    columns : sequence of str, optional
        Which columns of X stand for those of `agreed`, in the same order; by default those of the
        same names, or all of an array.
    rng, executor, ledger, groups, watch
        As for `release`.

    Examples
    --------
    >>> import numpy as np
    >>> import privgmm
    >>> north, south = np.random.default_rng(0).normal([5.0], [2.0], size=(2, 4000, 1))
    >>> plan = privgmm.best_plan(4000, epsilon=2.0, delta=1e-6, n_components=1, n_features=1)
    >>> first = privgmm.release(north, plan, rng=0).result
    >>> second = join_sketch(south, first.sketch, epsilon=2.0, delta=1e-6, rng=0)
    >>> both = first.sketch + second
    >>> both.n_rows, both.fit(1).mixture.means.round(0).tolist()
    (8000, [[5.0]])
    """
    if not isinstance(agreed, PrivateSketch):
        raise InvalidInput(
            f"agreed must be a PrivateSketch, got {type(agreed).__name__}: pass Release.sketch"
        )
    budget = Budget(epsilon, delta)
    if columns is None and not isinstance(X, np.ndarray | list | tuple):
        columns = agreed.columns
    without = (groups,) if isinstance(groups, str) and columns is None else ()
    table = checked_source(X, agreed.n_features, columns, without=without)
    n = table.n_rows
    if isinstance(groups, str):
        n = table.count_persons(groups)
    elif groups is not None:
        n = count_groups(groups, n)
    prepared = _prepared(
        table,
        joining_plan(agreed, n, budget),
        agreed.frame,
        columns=None,
        rng=rng,
        executor=executor,
        groups=groups,
        watch=watch,
    )
    try:
        intent, _, _ = prepared._intend(ledger)
        found: PrivateSketch = prepared._run()[-1].value
    finally:
        prepared.close()
    if problem := _concluded(intent, released=True):
        warnings.warn(
            PrivacyWarning(f"the ledger counts the spend as unfinished: {problem}"), stacklevel=2
        )
    return found.with_columns(agreed.columns)
