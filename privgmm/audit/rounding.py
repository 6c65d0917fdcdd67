"""Rounding: the computed mean must not depend on the reference fit it was computed from.

The mean of a core is computed in the coordinates of a reference fit, and the reference may be
the block that changes. In exact arithmetic all references give the same mean. In floating point
they must agree to within the tolerance that gamma allows for, also for data far from the origin
or nearly flat. Distances are measured in rational arithmetic.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.cores import Mechanism
from privgmm.audit.findings import Finding, within
from privgmm.audit.neighbours import Neighbours, flattened, moved_far, random_fits
from privgmm.stages.agreement.lifted_space import Anchored, mean_tolerance
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import friend_counts

__all__ = ["exact_distance", "reference_free"]

_Rational = list[list[Fraction]]

_OFFSETS = (0.0, 1e6, 1e12, 1e15)
"""Distances from the origin, in standard deviations; at 1e15 floats resolve an eighth of one."""
_CONDITIONS = (1e3, 1e5, 1e6, 1e8, 1e10, 1e12)
"""Condition numbers of the data: on both sides of what is taken for too flat."""


def _rational(matrix: Array) -> _Rational:
    return [[Fraction(float(x)) for x in row] for row in matrix]


def _product(a: _Rational, b: _Rational) -> _Rational:
    columns = list(zip(*b, strict=True))
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for column in columns]
        for row in a
    ]


def _solved(a: _Rational, b: _Rational) -> _Rational:
    """Solve ``a x = b`` by elimination, exactly."""
    n = len(a)
    rows = [[*a[i], *b[i]] for i in range(n)]
    for c in range(n):
        pivot = next(r for r in range(c, n) if rows[r][c] != 0)
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(n):
            if r != c and rows[r][c] != 0:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[n:] for row in rows]


def _root(item: Anchored, a: int) -> _Rational:
    """Compute ``[[L, mu], [0, 1]] R`` of component a: a root of its lifted matrix / weight."""
    d = item.means.shape[1]
    whole = np.eye(d + 1)
    whole[:d, :d] = item.cholesky[a]
    whole[:d, d] = item.means[a]
    return _product(_rational(whole), _rational(item.roots[a]))


def exact_distance(first: Anchored, second: Anchored) -> float:
    """Compute the largest lifted distance of components with equal labels, rounded once at the end.

    ``K = N N^T - I`` with ``N = U_1^-1 U_2`` is formed in rational arithmetic before its
    eigenvalues are computed. Meant for representatives that are nearly the same.
    """
    worst = 0.0
    for a in range(len(first.weights)):
        N = _solved(_root(first, a), _root(second, a))
        square = _product(N, [list(column) for column in zip(*N, strict=True)])
        ratio = Fraction(float(second.weights[a])) / Fraction(float(first.weights[a]))
        excess = np.array(
            [
                [float(x * ratio - (i == j)) for j, x in enumerate(row)]
                for i, row in enumerate(square)
            ]
        )
        worst = max(worst, float(np.linalg.norm(np.log1p(np.linalg.eigvalsh(excess)))))
    return worst


def _sets(stage: AveragedAgreement, rng: np.random.Generator) -> list[Neighbours]:
    sets = [moved_far(random_fits(stage, 0.05, rng), offset) for offset in _OFFSETS]
    if stage.n_features > 1:
        sets += [flattened(random_fits(stage, 0.05, rng), condition) for condition in _CONDITIONS]
        sets += [moved_far(flattened(random_fits(stage, 0.05, rng), 1e3), 1e12)]
    return sets


def reference_free(
    stage: AveragedAgreement, *, references: int = 3, rng: np.random.Generator
) -> Finding:
    """Average one core from several references, also far away and nearly flat.

    Fits that are too flat for the computation must have no friends, so that there is no core.
    """
    mechanism = Mechanism(stage)
    worst, where, cores = 0.0, "none", 0
    sets = _sets(stage, rng)
    for pair in sets:
        batch = pair.first.batch()
        counts = friend_counts(mechanism.distances(batch), stage.tau)
        members = np.flatnonzero(2 * counts > stage.n_blocks)
        if members.size < 2:
            continue
        cores += 1
        weights = np.isin(np.arange(stage.n_blocks), members).astype(np.float64)
        chosen = rng.choice(members, size=min(references, members.size), replace=False)
        means = [stage.space.representative(batch, weights, int(r)) for r in chosen]
        for mean in means[1:]:
            found = exact_distance(means[0], mean)
            if found > worst:
                worst, where = found, pair.name
    return within(
        f"rounding of the mean, k={stage.n_components}, d={stage.n_features}",
        "distance of means from two references <= 2 tolerances",
        worst,
        2 * mean_tolerance(stage.tau),
        f"{len(sets)} sets, {cores} with a core; worst: {where}",
    )
