"""Rounding: the computed mean must not depend on where it was computed.

The mean of a core is computed in the coordinates of a reference fit, and the reference may be
the block that changes. In exact arithmetic all references give the same mean; in floating point
they must agree to within the tolerance that gamma allows for, however far the data lie from the
origin and however nearly flat they are. Distances are measured in rational arithmetic.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.cores import Mechanism
from privgmm.audit.findings import Finding, within
from privgmm.audit.neighbours import Neighbours, cloud, flattened, moved_far
from privgmm.stages.agreement.lifted_space import Anchored, mean_tolerance
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import friend_counts

__all__ = ["exact_distance", "reference_free"]

Rational = list[list[Fraction]]

_OFFSETS = (0.0, 1e6, 1e12, 1e15)
_CONDITIONS = (1e3, 1e5, 1e6, 1e8, 1e10, 1e12)


def _rational(matrix: Array) -> Rational:
    return [[Fraction(float(x)) for x in row] for row in matrix]


def _product(a: Rational, b: Rational) -> Rational:
    columns = list(zip(*b, strict=True))
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for column in columns]
        for row in a
    ]


def _solved(a: Rational, b: Rational) -> Rational:
    """``a^-1 b`` by elimination, exactly."""
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


def _root(item: Anchored, a: int) -> Rational:
    """``[[L, mu], [0, 1]] R`` of component a: a root of its lifted matrix over the weight."""
    d = item.means.shape[1]
    whole = np.eye(d + 1)
    whole[:d, :d] = item.cholesky[a]
    whole[:d, d] = item.means[a]
    return _product(_rational(whole), _rational(item.roots[a]))


def exact_distance(first: Anchored, second: Anchored) -> float:
    """Largest lifted distance of equally placed components, rounded only at the very end.

    ``K = N N^T - I`` with ``N = U_1^-1 U_2`` is formed in rational arithmetic; only then are
    its eigenvalues taken. Meant for representatives that are nearly the same.
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
    sets = [moved_far(cloud(stage, 0.05, rng), offset) for offset in _OFFSETS]
    if stage.n_features > 1:
        sets += [flattened(cloud(stage, 0.05, rng), condition) for condition in _CONDITIONS]
        sets += [moved_far(flattened(cloud(stage, 0.05, rng), 1e3), 1e12)]
    return sets


def reference_free(
    stage: AveragedAgreement, *, references: int = 3, rng: np.random.Generator
) -> Finding:
    """The same core averaged from several references, far away and nearly flat.

    Fits too flat to be computed with must have no friends at all; then there is no core.
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
