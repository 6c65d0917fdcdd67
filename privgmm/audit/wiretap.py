"""A wiretap on the noise: it records the sums that noise is added to, on two neighbours.

Stages that sum exactly draw discrete Gaussian noise and add it to integers. A `Tap` is a source of
noise that records what it is added to. On a neighbouring data set a second tap returns the noisy
sums of the first run, so that all later choices are the same. Then each sum has moved by a known
number of units of the noise that was really drawn, and all of these together must stay within the
price of the stage.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.privacy.curves import ORDERS
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.stage import Stage, Work

__all__ = ["Heard", "Side", "Tap", "audit_run", "overheard"]

_ROUNDING = 1e-9
"""Relative error of a price in floating point."""


@dataclasses.dataclass(frozen=True, eq=False)
class Heard:
    """One draw: the scale of its noise, the sums it was added to, and the noisy sums."""

    sigma: float
    sums: IntArray
    shown: IntArray


class _Overheard(np.ndarray[Any, np.dtype[np.int64]]):
    """Noise that reports to its tap what it is added to; it can only be reshaped and added."""

    tap: Tap | None = None
    number: int = 0

    def __array_finalize__(self, source: object) -> None:
        self.tap = getattr(source, "tap", None)
        self.number = getattr(source, "number", 0)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        tap = self.tap
        if ufunc is not np.add or method != "__call__" or options or tap is None:
            raise InvalidInput(f"noise must be added to sums before anything else, not {ufunc}")
        (sums,) = [np.asarray(one) for one in inputs if one is not self]
        return tap.added(self.number, sums, np.asarray(self))


class Tap(SeededNoise):
    """Seeded noise that records what it was added to.

    Parameters
    ----------
    seed : int
    script : sequence of Heard
        What another tap recorded: its noisy sums are shown again, for any sums now.
    """

    def __init__(self, seed: int, script: Sequence[Heard] = ()) -> None:
        super().__init__(np.random.default_rng(seed))
        object.__setattr__(self, "_script", list(script))
        object.__setattr__(self, "_asked", [])
        object.__setattr__(self, "_heard", {})

    _script: list[Heard]
    _asked: list[float]
    _heard: dict[int, Heard]

    @property
    def heard(self) -> list[Heard]:
        """All draws in order; raises `InvalidInput` if noise was drawn and never added."""
        if len(self._heard) < len(self._asked):
            raise InvalidInput(
                f"{len(self._asked)} draws of noise, but only {len(self._heard)} were added to sums"
            )
        return [self._heard[number] for number in range(len(self._asked))]

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw noise that records what it is added to."""
        noise = super().discrete_gaussian(sigma, size).view(_Overheard)
        noise.tap, noise.number = self, len(self._asked)
        self._asked.append(sigma)
        return noise

    def added(self, number: int, sums: IntArray, noise: IntArray) -> IntArray:
        """Record what the noise was added to, and return the noisy sums."""
        if number in self._heard:
            raise InvalidInput("the same noise was added twice: two noisy sums would reveal it")
        if not np.issubdtype(sums.dtype, np.integer):
            raise InvalidInput(f"noise must be added to integers, got {sums.dtype}")
        shown = sums + noise
        if self._script:
            if number >= len(self._script) or self._script[number].sums.shape != sums.shape:
                raise InvalidInput("neighbours take different sums: the price depends on rows")
            shown = self._script[number].shown
        self._heard[number] = Heard(self._asked[number], sums.copy(), shown)
        return shown.copy()


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """One of two neighbouring data sets: rows (n, d), and the person of each, or None."""

    rows: Array
    member: IntArray | None = None

    def work(self, source: SeededNoise) -> Work:
        """Prepare the rows as a release does; of each person the first row goes into blocks."""
        return Work(ArrayPeople.of(self.rows, self.member), source)


def overheard(
    stage: Stage, first: Side, second: Side, public: Any, *, seed: int
) -> list[tuple[Heard, Heard]]:
    """Record all that a stage draws on either side, while both sides show the same."""
    one = Tap(seed)
    stage.prepare(first.work(one), public).draw(one)
    two = Tap(seed, one.heard)
    stage.prepare(second.work(two), public).draw(two)
    return list(zip(one.heard, two.heard, strict=True))


def audit_run(
    stage: Stage, first: Side, second: Side, public: Any, *, label: str, seed: int = 0
) -> Finding:
    """Compare what replacing a row or person costs in one run of a stage with its price.

    Gaussian noise of scale sigma on sums that move by s costs, at order a, ``a s^2 / 2 sigma^2``.
    All draws of the run are added up. An error on either side counts as a failure, because it
    must not depend on a row.
    """
    spent, draws, problem = math.inf, 0, ""
    try:
        pairs = overheard(stage, first, second, public, seed=seed)
    except InvalidInput as error:
        problem = f"; {error}"
    else:
        draws = len(pairs)
        spent = math.fsum(
            float(np.linalg.norm((a.sums - b.sums).astype(np.float64)) / min(a.sigma, b.sigma)) ** 2
            for a, b in pairs
        )
    # solved for s^2 / sigma^2 at every order; the smallest is what the price surely covers
    losses = np.sum([curve.values for curve in stage.price().curves], axis=0)
    return within(
        f"{stage.kind} account, {label}",
        "cost of all draws on neighbours / priced <= 1",
        spent / float((2 * losses / ORDERS).min()),
        1 + _ROUNDING,
        f"{draws} draws of one run{problem}",
    )
