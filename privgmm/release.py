"""One private release, from rows to a mixture or a refusal.

Blocks → learner → distances → votes → test → representative → mask → refinement. Everything the
release uses was fixed in the plan; the budget is checked and written down before noise is drawn.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from privgmm.advice import hint
from privgmm.arrays import Array, IntArray
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.learners.em import EM
from privgmm.learners.learner import Learner, block_seeds
from privgmm.ledger.memory import Ledger, Unit
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import NoiseSource, RandomState, noise_source
from privgmm.results import Refusal, Release
from privgmm.stages.agreement.algorithm_1 import Bottom, Populous, private_populous_estimator
from privgmm.stages.agreement.blocks import deal, one_row_each, rows_of_blocks
from privgmm.stages.agreement.space import Space
from privgmm.stages.agreement.votes import Verdict
from privgmm.stages.refinement.noisy_moments import refine

__all__ = ["CuratorView", "Outcome", "Refusal", "Release", "Submits", "checked_rows", "release"]

Progress = Callable[[int, int], None]
_PARTS = 20


class Submits(Protocol):
    """Whatever runs a call elsewhere: an executor of concurrent.futures, a Dask client."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Start the call; gives something with ``result()``."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class CuratorView:
    """What only the holder of the data may look at. NOTHING here is private.

    Parameters
    ----------
    fits : MixtureBatch
        The block fits.
    distances : array (t, t)
    verdict : Verdict
        Friend counts, statistic, noise and threshold.
    positions : array (t, s)
        Which rows made up each block.
    coarse : Mixture or None
        The masked mixture before refinement.
    """

    fits: MixtureBatch
    distances: Array
    verdict: Verdict
    positions: IntArray
    coarse: Mixture | None
    _rows: Array = dataclasses.field(repr=False)
    _learner: Learner = dataclasses.field(repr=False)

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
        batch = self._learner.fit_blocks(self._rows[None], rng=0)
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
            self._rows,
            self.positions,
            learner=self._learner,
            passed=self.verdict.passed,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """A release or a refusal, and beside it what only the curator may see."""

    result: Release | Refusal
    curator: CuratorView

    @property
    def released(self) -> bool:
        """Whether there is a mixture to show."""
        return self.result.released


def checked_rows(data: npt.ArrayLike, plan: Plan) -> Array:
    """The data as finite floats (n, d) that can fill the plan's blocks, or a clear error.

    The messages may speak about the data: they are for the curator, who also pays nothing.
    """
    try:
        rows = np.asarray(data)
    except ValueError as problem:
        raise InvalidInput(f"X must be a table of numbers: {problem}") from problem
    if rows.dtype.kind == "c":
        raise InvalidInput("X must hold numbers only: complex ones have no order; take real parts")
    if rows.dtype.kind not in "fiub":
        try:
            rows = np.asarray(data, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidInput(
                f"X must hold numbers only: {problem}; choose the numeric columns"
            ) from problem
    if rows.ndim != 2:
        raise InvalidInput(f"X must be a table (rows, columns), got shape {rows.shape}")
    n, d = rows.shape
    if d != plan.n_features:
        raise InvalidInput(f"X has {d} columns, the plan is for {plan.n_features}")
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    bad = ~np.isfinite(rows)
    if bad.any():
        count, first = int(bad.any(axis=1).sum()), int(np.argmax(bad.any(axis=1)))
        raise InvalidInput(
            f"X must be finite, but {count} of {n} rows hold NaN or infinity (the first is row "
            f"{first}): drop or impute them"
        )
    return rows


def _check_sizes(rows: Array, n_units: int, plan: Plan, unit: str) -> None:
    k, d, t = plan.n_components, plan.n_features, plan.n_blocks
    least = max(k * (d + 1), d + 2)
    if n_units // t < least:
        raise InvalidInput(
            f"{n_units} {unit} in {t} blocks leave {n_units // t} a block, but {k} components in "
            f"{d} dimensions need at least {least}: use fewer blocks, fewer components or more "
            f"{unit}"
        )
    flat = np.flatnonzero(rows.max(axis=0) == rows.min(axis=0))
    if flat.size:
        raise InvalidInput(
            f"X has constant columns {flat.tolist()}: no covariance can be fitted; drop them"
        )


def _fit(
    learner: Learner,
    blocks: Array,
    seeds: npt.NDArray[np.uint64],
    executor: Submits | None,
    progress: Progress | None,
) -> MixtureBatch:
    """Fit the blocks in parts. A part sees its own blocks and seeds only."""
    t = len(blocks)
    parts = [part for part in np.array_split(np.arange(t), min(t, _PARTS)) if part.size]
    spans = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
    jobs: list[Callable[[], MixtureBatch]]
    if executor is None:
        jobs = [
            functools.partial(learner.fit_blocks, blocks[span], rng=seeds[span]) for span in spans
        ]
    else:
        jobs = [
            executor.submit(learner.fit_blocks, blocks[span], rng=seeds[span]).result
            for span in spans
        ]
    batches = []
    for span, job in zip(spans, jobs, strict=True):
        batches.append(job())
        if progress is not None:
            progress(span.stop, t)
    return MixtureBatch.concatenate(batches)


def release(
    X: npt.ArrayLike,
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
    X : array-like (n, d)
        One row per person, finite, no bounds. n is public.
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
    spent = plan.spent()
    if not plan.budget.covers(spent):
        raise PrivGMMError(f"the plan costs {spent}, more than its budget {plan.budget}")
    rows = checked_rows(X, plan)
    source = noise_source(rng)
    fitter: Learner = EM(plan.n_components) if learner is None else learner
    if fitter.n_components != plan.n_components:
        raise InvalidInput(
            f"the learner fits {fitter.n_components} components, the plan {plan.n_components}"
        )
    units, member = _units(rows, groups, source)
    unit: Unit = "row" if groups is None else "person"
    _check_sizes(rows, len(units), plan, f"{unit}s")
    positions = units[deal(len(units), plan.n_blocks, seed=source.seed())]
    seeds = block_seeds(source.seed() >> 1, plan.n_blocks)
    fits = _fit(fitter, rows_of_blocks(rows, positions), seeds, executor, progress)
    entry = None if ledger is None else ledger.intend(plan, seeded=source.seeded, unit=unit)
    space: Space[MixtureBatch, Mixture] = plan.space
    result: Release | Refusal
    coarse: Mixture | None = None
    # many small matrices: a second BLAS thread would cost more than it brings
    with threadpool_limits(1, user_api="blas"):
        found: Populous[Mixture] = private_populous_estimator(fits, space, plan.test, source)
        if isinstance(found.value, Bottom):
            result = Refusal(spent, plan, source.seeded, unit, entry)
        else:
            coarse = found.value
            final = coarse
            if plan.refine is not None:
                final = refine(rows, coarse, plan.refine, rng=source, member=member)
            result = Release(final, spent, plan, source.seeded, unit, entry)
    if ledger is not None and entry is not None:
        ledger.conclude(entry, released=result.released)
    view = CuratorView(
        fits=fits,
        distances=found.distances,
        verdict=found.verdict,
        positions=positions,
        coarse=coarse,
        _rows=rows,
        _learner=fitter,
    )
    return Outcome(result, view)


def _units(
    rows: Array, groups: npt.ArrayLike | None, source: NoiseSource
) -> tuple[IntArray, IntArray | None]:
    """Positions of the rows that go into blocks, and who each row belongs to."""
    if groups is None:
        return np.arange(len(rows), dtype=np.int64), None
    labels = np.asarray(groups)
    if labels.shape != (len(rows),):
        raise InvalidInput(f"groups must name one person a row: ({len(rows)},), {labels.shape}")
    chosen, member, _ = one_row_each(labels, seed=source.seed())
    return chosen, member
