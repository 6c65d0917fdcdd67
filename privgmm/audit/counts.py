"""Noise on counts and sums: its law is checked exactly, and how far sums move by search."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.audit.prices import shift_delta
from privgmm.privacy.curves import gaussian_curve
from privgmm.stages.agreement.votes import PrivateTest
from privgmm.stages.stage import Stage

__all__ = ["Sums", "exact_sums", "noise_of", "person_shift", "row_shift", "sum_noise", "tail"]

Sums = Callable[[Array, IntArray | None], IntArray]
"""Integer sums over rows (n, d), and the person of each row or None."""


def noise_of(test: PrivateTest) -> Finding:
    """Compare the noise of a test with itself, moved as far as one block moves the statistic."""
    claim = test.noise_claim()
    worst = max(
        test.noise_delta(price.epsilon, test.sensitivity) / price.delta for price in claim.prices
    )
    return within(
        claim.name,
        "delta(epsilon) / priced <= 1",
        worst,
        1 + claim.rounding,
        "exact, at epsilon " + ", ".join(f"{price.epsilon:.3g}" for price in claim.prices),
    )


def tail(test: PrivateTest, delta: float, label: str) -> Finding:
    """Bound the chance to pass with the fewest votes that can: a neighbour may never pass."""
    return within(
        f"threshold, {label}",
        "P(pass | least votes that can) <= delta",
        test.pass_probability(test.least_counts()),
        delta,
        "exact, by summing the law",
    )


def row_shift(
    stage: Stage,
    *,
    n_features: int,
    label: str = "",
    tries: int = 2_000,
    rng: np.random.Generator,
) -> Finding:
    """Search for the row whose replacement moves the noisy sums of a stage most.

    It tries rows that the stage suggests and random rows, and climbs from the best of them. Moves
    are in units of the sensitivity that the noise covers.
    """
    worst, sums = 0.0, stage.row_sums(n_features)
    for one in sums:
        starts = [*one.starts, *(one.scale * rng.standard_normal((5, 2, n_features)))]
        best = max(starts, key=one.move)
        value, width = one.move(best), one.scale / 4
        for _ in range(tries // len(sums)):
            trial = best + width * rng.standard_normal((2, n_features))
            if (found := one.move(trial)) > value:
                best, value = trial, found
            else:
                # shrink slowly: within 2,000 failures the step falls by a factor of 20,000
                width = max(width * 0.995, 1e-9)
        worst = max(worst, value)
    return within(
        f"{stage.kind} sums, {label}d={n_features}",
        "move of the sums / what the noise covers <= 1",
        worst,
        1 + 1e-9,
        f"{len(sums)} sums, planted rows and {tries} climbing steps",
    )


def person_shift(
    stage: Stage, *, n_features: int, label: str = "", rng: np.random.Generator
) -> Finding:
    """Search for the person whose replacement moves the noisy sums of a stage most.

    Persons have different numbers of rows: copies of one row, or many different rows.
    """
    worst, tried = 0.0, 0
    for one in stage.row_sums(n_features):
        if one.persons is None:
            continue
        best = max(one.starts, key=one.move)
        for m, other in ((1, 1), (1, 3), (4, 2), (2, 9), (7, 7)):
            copies = np.repeat(best[:1], m, axis=0), np.repeat(best[1:], other, axis=0)
            mixed = [one.scale * rng.standard_normal((size, n_features)) for size in (m, other)]
            both = np.concatenate([copies[0], mixed[0]]), copies[1]
            for first, second in (copies, (mixed[0], mixed[1]), both):
                worst, tried = max(worst, one.persons(first, second)), tried + 1
    return within(
        f"{stage.kind} sums of persons, {label}d={n_features}",
        "move of the sums / what the noise covers <= 1",
        worst if tried else math.inf,
        1 + 1e-9,
        f"{tried} pairs of persons with one to fourteen rows",
    )


def exact_sums(name: str, sums: Sums, rows: Array, *, rng: np.random.Generator) -> Finding:
    """Check that sums are those of what each row or person gives by itself, to the last unit.

    Rows are shuffled, one of them is replaced, and persons get other sizes. If rounding depended
    on the neighbours of a row, one row would move the contributions of all of them.
    """
    n = len(rows)
    worst = 0

    def compare(first: IntArray, second: IntArray) -> None:
        nonlocal worst
        worst = max(worst, int(np.abs(first - second).max()))

    whole = sums(rows, None)
    compare(whole, sums(rows[rng.permutation(n)], None))
    compare(whole, sum((sums(row[None], None) for row in rows), np.zeros_like(whole)))
    for who in (0, n // 2, n - 1):
        changed = rows.copy()
        changed[who] = 5 * rng.standard_normal(rows.shape[1])
        gap = sums(changed[[who]], None) - sums(rows[[who]], None)
        compare(sums(changed, None) - whole, gap)
    member = np.sort(rng.integers(max(1, n // 3), size=n))
    member = np.unique(member, return_inverse=True)[1].astype(np.int64)
    by_person = sums(rows, member)
    order = rng.permutation(n)
    compare(by_person, sums(rows[order], member[order]))
    for who in (0, int(member[-1])):
        own, size = member == who, int(rng.integers(2, 9))
        fresh = rng.standard_normal((size, rows.shape[1]))
        alone = [sums(part, np.zeros(len(part), dtype=np.int64)) for part in (fresh, rows[own])]
        replaced = sums(
            np.concatenate([fresh, rows[~own]]),
            np.concatenate([np.full(size, who, dtype=np.int64), member[~own]]),
        )
        compare(replaced - by_person, alone[0] - alone[1])
    return within(
        f"exact sums, {name}",
        "units that others' contributions move by <= 0",
        worst,
        0,
        f"{n} rows: shuffled, one replaced, and as persons",
    )


def sum_noise(multiplier: float, *, kind: str, label: str = "") -> Finding:
    """Compare the exact delta of Gaussian noise of `multiplier` sensitivities with its price."""
    curve = gaussian_curve(multiplier)
    levels = [curve.epsilon(delta) for delta in (0.1, 1e-3, 1e-6, 1e-9)]
    worst = max(shift_delta(1 / multiplier, e) / curve.delta(e) for e in levels)
    return within(
        f"{kind} noise, {label}multiplier={multiplier:.3g}",
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        "exact",
    )
