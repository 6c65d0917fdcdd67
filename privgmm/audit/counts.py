"""The noise on counts and sums: tests and Gaussian noise exactly, moves of sums by search."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import norm

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.privacy.curves import gaussian_curve
from privgmm.stages.agreement.votes import PrivateTest
from privgmm.stages.stage import Stage

__all__ = ["exact_sums", "noise_of", "person_shift", "row_shift", "sum_noise", "tail"]

Sums = Callable[[Array, IntArray | None], IntArray]


def noise_of(test: PrivateTest, *, drawn: PrivateTest | None = None) -> Finding:
    """The noise of a test against itself moved as far as one block moves the statistic.

    `test` says what is claimed, and `drawn` draws: the test itself unless a broken one is tried.
    """
    claim, law = test.noise_claim(), test if drawn is None else drawn
    worst = max(
        law.noise_delta(price.epsilon, test.sensitivity) / price.delta for price in claim.prices
    )
    return within(
        claim.name,
        "delta(epsilon) / priced <= 1",
        worst,
        1 + claim.rounding,
        "exact, at epsilon " + ", ".join(f"{price.epsilon:.3g}" for price in claim.prices),
    )


def tail(test: PrivateTest, delta: float, label: str) -> Finding:
    """Passing with the fewest votes that can, where a neighbour may never: at most delta."""
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
    """The largest move of a stage's noisy sums that replacing a row achieves.

    Rows that the stage suggests, random rows, and a climb from the best of them; in units of the
    sensitivity that the noise covers.
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
    """The largest move of a stage's noisy sums that replacing a person achieves.

    Persons with different numbers of rows: all rows of one kind, as a single row could lie, and
    rows of many kinds.
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
    """Whether sums are the sums of what each row or person gives by itself, to the last unit.

    In another order, with one of them replaced amid all others, and with persons of other sizes.
    If rounding hung on the neighbours of a row, one row would move all of their contributions.
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
    """Gaussian noise of `multiplier` sensitivities: its exact delta against the Rényi price."""
    curve = gaussian_curve(multiplier)
    m = 1 / multiplier
    worst = 0.0
    for delta in (0.1, 1e-3, 1e-6, 1e-9):
        e = curve.epsilon(delta)
        exact = norm.cdf(m / 2 - e / m) - math.exp(e) * norm.cdf(-m / 2 - e / m)
        worst = max(worst, float(exact) / curve.delta(e))
    return within(
        f"{kind} noise, {label}multiplier={multiplier:.3g}",
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        "exact",
    )
