"""Make one differentially private release, from rows to a mixture or a refusal.

`release` is one call: a table, a budget, a number of components. It makes a plan from the public
shape of the table, or takes one that was made before.

A plan is a list of stages. `prepare` checks everything and lets the first stage do its work on the
rows, without noise: that may be cancelled, and costs nothing. `PreparedRelease.draw` writes the
spend into the ledger, and only then draws noise. Each stage sees what the stage before it
published, until the last one gives the mixture or one of them gives ⊥. `release` does both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray, one_blas_thread
from privgmm.budget import Budget, Unit
from privgmm.data.engines import Engine, Submits, Watch, engine_for
from privgmm.data.rows import RowsLike, checked_source, row_source
from privgmm.data.source import RowSource, count_groups
from privgmm.errors import InvalidInput, PrivacyWarning, PrivGMMError
from privgmm.learners.learner import Learner
from privgmm.learners.registry import learner_for
from privgmm.ledger.cautions import caution
from privgmm.ledger.protocol import Intent, Ledger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest, components_asked
from privgmm.methods.sketch.joining import joining_plan
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import RandomState, noise_source
from privgmm.results import Refusal, Release
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.sketch.choice import MOST_OFFERED
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.stage import Bottom, Drawn, Prepared, Progress, Published, StageView, Work

__all__ = [
    "Asked",
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


_NOT_COMPUTED = (
    "The noisy numbers are such that no mixture could be computed from them: columns may be "
    "multiples of each other, or hold few values."
)


class Asked(TypedDict, total=False):
    """List what a release without a plan is asked for, in the words of `PlanRequest`.

    ``epsilon`` and ``n_components`` must be given; ``delta`` is 1e-6 by default.
    """

    epsilon: float
    delta: float
    n_components: int | Literal["auto"]
    covariance_type: str
    max_components: int
    method: str
    alpha: float | None
    mask_accuracy: float | None
    n_blocks: int | None
    beta: float
    smallest_weight: float | None
    separation: float | None
    expected: Mixture | None


V = TypeVar("V", bound=StageView)


@dataclasses.dataclass(frozen=True, eq=False)
class CuratorView:
    """Hold what only the curator, who has the data, may look at. CONFIDENTIAL.

    Parameters
    ----------
    drawn : tuple of Drawn
        What each stage that was run gave, and what it saw.
    """

    drawn: tuple[Drawn, ...]
    _work: Work = dataclasses.field(repr=False)
    _plan: Plan = dataclasses.field(repr=False)
    _table: RowSource = dataclasses.field(repr=False)

    @property
    def views(self) -> tuple[StageView, ...]:
        """Return what each stage that was run saw."""
        return tuple(one.view for one in self.drawn)

    def view(self, kind: type[V]) -> V:
        """Return the first view of a kind, such as `AgreementView`.

        Raises `InvalidInput` if no stage that was run has such a view.
        """
        for view in self.views:
            if isinstance(view, kind):
                return view
        raise InvalidInput(f"no stage of this release has a view of kind {kind.__name__}")

    @property
    def fits(self) -> MixtureBatch:
        """Return the block fits, where blocks were fitted."""
        return self.view(AgreementView).fits

    @property
    def distances(self) -> Array:
        """Return the distances of the block fits (t, t); computed when first asked for."""
        return self.view(AgreementView).distances

    @property
    def votes(self) -> IntArray:
        """Return the number of friends of each block, itself included."""
        return self.view(AgreementView).verdict.counts

    def nonprivate(self) -> Mixture:
        """Fit all rows at once, without noise.

        Of a table that is read part by part, a million rows from all parts are fitted.
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
        """Say what stands in the way of a release and what to try; None if nothing does.

        It follows from what the stages saw. Acting on it is a choice that depends on the data, as
        after any look at them.
        """
        return self._hint

    @functools.cached_property
    def _hint(self) -> str | None:
        hints = (view.hint(self._table.take) for view in self.views)
        return " ".join(filter(None, hints)) or None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """Hold a release or a refusal, and apart from it what only the curator may see.

    Parameters
    ----------
    result : Release or Refusal
        What may be shared.
    curator : CuratorView
        What must not be shared.
    ledger_problem : str or None
        Why the ledger could not record how the release ended. It then counts the spend as
        unfinished.

    Notes
    -----
    The result alone is shown, as text and in a notebook.
    """

    result: Release | Refusal
    curator: CuratorView = dataclasses.field(repr=False)
    ledger_problem: str | None = None

    @property
    def released(self) -> bool:
        """Check whether there is a mixture to show."""
        return self.result.released

    @property
    def plan(self) -> Plan:
        """Return the plan by which it was made."""
        return self.result.plan

    def summary(self) -> Any:
        """Tabulate the mixture as `Release.summary` does; raises the reason after a refusal."""
        result: Any = self.result
        return result.summary()

    def plot(self, **options: Any) -> Any:
        """Draw the mixture as `Release.plot` does; raises the reason after a refusal."""
        result: Any = self.result
        return result.plot(**options)

    def __repr__(self) -> str:
        return repr(self.result)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()


@dataclasses.dataclass(eq=False)
class PreparedRelease:
    """Hold a release whose exact statistics are computed; no noise is drawn yet. CONFIDENTIAL.

    It can be drawn once.

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

    @property
    def drawn(self) -> bool:
        """Check whether drawing has begun: the spend is then in the ledger."""
        return self._drawn

    def draw(self, ledger: Ledger | None = None) -> Outcome:
        """Write the spend into the ledger, then draw the noise: a mixture, or ⊥.

        Raises
        ------
        BudgetExceeded
            If the ledger does not allow it. Then nothing is drawn or spent.
        """
        intent, entry, mark = self._intend(ledger)
        drawn = self._run()
        value = drawn[-1].value
        record: dict[str, Any] = {
            "budget": self.spent,
            "plan": self.plan,
            "seeded": self._work.source.seeded,
            "unit": self.unit,
            "entry": entry,
            "mark": mark,
            "columns": self._columns,
        }
        result: Release | Refusal
        why = None
        if isinstance(value, Bottom):
            why = value.why(self._columns)
            result = Refusal(**record, why=why, n_units=len(self._work.people))
        else:
            # whether a number overflows depends on the rows, so it must not show here either
            with one_blas_thread(), np.errstate(all="ignore"):
                published = self.plan.stages[-1].published(value, len(self._work.people))
            facts = {name: fact for one in drawn for name, fact in one.facts.items()}
            # the names of the columns are public
            whole = dataclasses.replace(published, **facts).with_columns(self._columns)
            result = Release(
                **record, **{f.name: getattr(whole, f.name) for f in dataclasses.fields(whole)}
            )
        problem = _concluded(intent, released=result.released, reason=why)
        view = CuratorView(drawn, self._work, self.plan, self._table)
        return Outcome(result, view, problem)

    def close(self) -> None:
        """Free the workers and disk space of this release; drawing does so too."""
        self._opened.close()

    def _intend(self, ledger: Ledger | None) -> tuple[Intent | None, int | None, str | None]:
        """Write the spend into the ledger; after that noise may be drawn."""
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
            # read before anything is drawn: a ledger may fail, but not between noise and result
            entry, mark = intent.number, intent.mark
        self._drawn = True
        return intent, entry, mark

    def _run(self) -> tuple[Drawn, ...]:
        """Draw stage by stage, up to the last or to ⊥."""
        source = self._work.source
        drawn: list[Drawn] = []
        value: Any = None
        # many small matrices: a second BLAS thread would cost more than it saves. Whether a number
        # overflows depends on the rows, so it must not show, not even where warnings are errors
        with self._opened, one_blas_thread(), np.errstate(all="ignore"):
            prepared = self._first
            for number, stage in enumerate(self.plan.stages):
                try:
                    if number > 0:
                        prepared = stage.prepare(self._work, value)
                    drawn.append(prepared.draw(source))
                except (ArithmeticError, np.linalg.LinAlgError):
                    # whether noisy numbers can be computed with is an outcome like any other: as
                    # an error it would take a result along that is paid for
                    drawn.append(Drawn(Bottom(_NOT_COMPUTED)))
                value = drawn[-1].value
                if isinstance(value, Bottom):
                    break
        return tuple(drawn)


def prepare(
    X: RowsLike,
    plan: Plan | None = None,
    *,
    columns: Sequence[str] | None = None,
    learner: Learner | None = None,
    rng: RandomState = None,
    executor: Executor = None,
    groups: npt.ArrayLike | str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    **asked: Unpack[Asked],
) -> PreparedRelease:
    """Check a release and do all of its work that needs no noise; costs nothing.

    The arguments are those of `release`.
    """
    if plan is None or asked:
        X, plan = _planned(X, plan, asked, columns, groups)
        columns = None
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


def _planned(
    X: RowsLike,
    plan: Plan | None,
    asked: Asked,
    columns: Sequence[str] | None,
    groups: npt.ArrayLike | str | None,
) -> tuple[RowSource, Plan]:
    """Open the table, and make the plan for its public shape."""
    if unknown := asked.keys() - Asked.__annotations__.keys():
        raise TypeError(f"release() got unexpected arguments: {', '.join(sorted(unknown))}")
    if plan is not None:
        raise InvalidInput(
            f"plan and {', '.join(asked)} exclude each other: the plan says these already"
        )
    for name in ("epsilon", "n_components"):
        if asked.get(name) is None:
            raise InvalidInput(
                f"{name} must be given where there is no plan: for example "
                "release(table, epsilon=1, n_components=3)"
            )
    options: dict[str, Any] = {**asked}
    expected = options.pop("expected", None)
    k, is_open = components_asked(
        options.pop("n_components"), options.pop("max_components", MOST_OFFERED)
    )
    unit: Unit = "row" if groups is None else "person"
    # what is asked is checked before the table is read
    request = PlanRequest(
        n_components=k, choose_components=is_open, n_features=1, unit=unit, **options
    )
    table = row_source(X, columns, without=_not_fitted(groups, columns))
    n = table.n_rows
    if isinstance(groups, str):
        n = table.count_persons(groups)
    elif groups is not None:
        n = count_groups(groups, n)
    answer = plan_for(request.but(n_rows=n, n_features=table.n_features, expected=expected))
    if answer.shortage:
        raise InvalidInput(answer.shortage)
    return table, answer.plan


def _not_fitted(
    groups: npt.ArrayLike | str | None, columns: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the column of persons where columns are left open: it is not fitted."""
    return (groups,) if isinstance(groups, str) and columns is None else ()


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
    """Prepare a release whose first stage begins with something public, if given."""
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
        table = checked_source(X, plan.n_features, columns, without=_not_fitted(groups, columns))
        unit: Unit = "row" if groups is None else "person"
        if groups is None and (shortage := plan.shortage(table.n_rows, unit)):
            raise InvalidInput(shortage)
        # the order of rows is not confidential; that of persons is
        key = b"" if groups is None else source.key()
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
    plan: Plan | None = None,
    *,
    columns: Sequence[str] | None = None,
    learner: Learner | None = None,
    rng: RandomState = None,
    executor: Executor = None,
    ledger: Ledger | None = None,
    groups: npt.ArrayLike | str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    **asked: Unpack[Asked],
) -> Outcome:
    """Learn one Gaussian mixture from X under differential privacy, or refuse.

    Parameters
    ----------
    X : array-like, data frame, file, folder, dataset, Dask collection or RowSource (n, d)
        One row per person, finite, no bounds; all that `row_source` takes. n is public. Tables
        that are not held in memory are read part by part, in a few passes.
    plan : Plan, optional
        From `calibrate` or `best_plan`. Without one, it is made from `asked` and the number of
        rows and columns, as `best_plan` makes it, and kept: ``outcome.plan``.
    columns : sequence of str, optional
        Which columns of X to take, in this order; all by default.
    learner : Learner, optional
        Any learner, without noise of its own; `EM` by default.
    rng : None, seed, Generator or NoiseSource
        None draws cryptographic noise. A seed makes a repeatable demonstration, marked so.
    executor : "threads", "dask", address of a Dask scheduler, or executor, optional
        Where blocks are fitted, and tables read that are not in memory: threads by default, or
        anything with ``submit`` (concurrent.futures, Dask's client). What is released does not
        depend on it.
    ledger : Ledger, optional
        Records the spend before noise is drawn, and the verdict after.
    groups : array-like (n,) or name of a column, optional
        Who each row belongs to. The guarantee is then for replacing all rows of one person:
        block fits use one row of each, sums the average over each person's rows. Rows with one
        label are one person's, in whichever file they are.
    progress : callable(done, total), optional
        Called as blocks are fitted. Raising from it cancels before anything is drawn.
    watch : callable(Step), optional
        Called at each step: for blocks, and for every pass over the rows. Raising from it stops
        the work. What the ledger has recorded by then stays spent, and nothing is published.
    **asked
        Where there is no plan: `epsilon` and `n_components` (a number, or "auto"), and if wanted
        `delta` (1e-6), `covariance_type`, `max_components`, `method` and the other fields of
        `PlanRequest`; see `Asked`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal([5.0], [2.0], size=(4000, 1))
    >>> outcome = release(rows, epsilon=4, n_components=1, rng=0)
    >>> outcome.released, outcome.result.mixture.means.round(0).tolist()
    (True, [[5.0]])
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
        **asked,
    )
    try:
        return prepared.draw(ledger)
    finally:
        prepared.close()


def _concluded(intent: Intent | None, *, released: bool, reason: str | None = None) -> str | None:
    """Record in the ledger how it ended; return why that failed, if it did."""
    if intent is None:
        return None
    try:
        intent.conclude(released=released, reason=reason)
    except Exception as failure:  # noqa: BLE001 - a ledger may be any code
        # a release that is paid for must not be lost: the ledger counts it as unfinished
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
        From another holder's release: `Release.sketch`, or read back from a receipt.
    epsilon, delta : float
        The budget that this holder spends.
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
    table = checked_source(X, agreed.n_features, columns, without=_not_fitted(groups, columns))
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
