"""Where EM starts: greedy k-means++ seeds, tried on a subsample, halved until one is left.

Above `privgmm.learners.em.ascent`, below `em`. Compiled; one block, in its whitened coordinates
(layouts: `kernels`), so a start does not depend on units either. Randomness is a counter-based
stream keyed by the block's own seed: it cannot depend on other blocks or on threads.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.learners.em.ascent import accelerated_em
from privgmm.learners.kernels import CHUNK, compiled, merged, sweep
from privgmm.learners.learner import Seeds

__all__ = ["search", "spread_start", "uniform"]

_LLOYD = 8  # steps of k-means before a cold start
_SEED_ROWS = 512  # rows that k-means looks at
_WIDE_PASSES = 8  # of a wide start before the first half is dropped
_PLAIN = 2  # plain passes of a cold start before acceleration
_FEW, _SETTLING = 3, 20  # a winner on a third of the rows or less first settles there
_EASY = 0.1  # nats that all runs of EM but the winner's last may leave
_AGREE = 0.3  # log-likelihoods this close belong to one optimum
_SMALLEST, _LARGEST = -1.6, 0.3  # logarithms of the sizes of components in a wide start


@compiled
def uniform(state: Seeds) -> float:
    """Draw a number in [0, 1) from the stream `state` = [key, counter] (SplitMix64)."""
    state[1] += np.uint64(1)
    z = state[0] + state[1] * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 1.1102230246251565e-16


@sweep
def _lloyd_step(points: Array, n: int, means: Array) -> float:
    """Move each centre to the mean of its cell; return the squared distances summed before."""
    k, d = means.shape
    c = points.shape[2]
    cell, nearest = np.empty((k, c)), np.empty(c)
    sums, counts = np.zeros((k, d)), np.zeros(k)
    potential = 0.0
    for chunk in range((n + c - 1) // c):
        m = min(c, n - chunk * c)
        for i in range(m):
            nearest[i] = np.inf
        for j in range(k):
            for i in range(m):
                cell[j, i] = 0.0
            for a in range(d):
                here = means[j, a]
                for i in range(m):
                    cell[j, i] += (points[chunk, a, i] - here) ** 2
            for i in range(m):
                new, old = cell[j, i], nearest[i]
                nearest[i] = new if new < old else old
        for i in range(m):
            potential += nearest[i]
        for j in range(k):
            total = 0.0
            for i in range(m):
                inside = 1.0 if cell[j, i] <= nearest[i] else 0.0
                cell[j, i] = inside
                total += inside
            counts[j] += total
            for a in range(d):
                total = 0.0
                for i in range(m):
                    total += cell[j, i] * points[chunk, a, i]
                sums[j, a] += total
    for j in range(k):
        for a in range(d):
            if counts[j] > 0.0:
                means[j, a] = sums[j, a] / counts[j]
    return potential


@sweep
def spread_start(
    points: Array, n: int, state: Seeds, wide: bool, weights: Array, means: Array, roots: Array
) -> None:
    """Choose a start from the first n points by k-means++ and some steps of k-means.

    Weights are equal and components are round.

    Each next centre is the best of ``2 + ln k`` draws, a draw being proportional to the squared
    distance to the nearest centre so far (Arthur and Vassilvitskii, 2007). A step of k-means
    costs a d-th of an EM pass, so a few of them save many. All components get the variance
    within cells.

    A wide start is any k points instead, each with a random size. Where components are not clusters
    (one wide around one narrow, long ones that cross), k-means leads every start into the same poor
    optimum; from a wide start EM can reach any.
    """
    k, d = means.shape
    if wide:
        for j in range(k):
            chosen = min(int(uniform(state) * n), n - 1)
            size = np.exp(_SMALLEST + (_LARGEST - _SMALLEST) * uniform(state))
            weights[j] = 1.0 / k
            for a in range(d):
                means[j, a] = points[chosen // CHUNK, a, chosen % CHUNK]
                for b in range(d):
                    roots[j, a, b] = size if a == b else 0.0
        return
    c = CHUNK
    chunks = (n + c - 1) // c
    nearest = np.full((chunks, c), np.inf)
    trial = np.empty((chunks, c))
    closest = np.empty((chunks, c))
    inside = np.empty(chunks)
    potential = np.inf
    for j in range(k):
        best = np.inf
        for _ in range(1 if j == 0 else 2 + int(np.log(k))):
            chosen = n - 1
            if j == 0:
                chosen = min(int(uniform(state) * n), n - 1)
            else:
                left = uniform(state) * potential
                for chunk in range(chunks):
                    if left < inside[chunk]:
                        chosen = min((chunk + 1) * c, n) - 1
                        for i in range(min(c, n - chunk * c)):
                            left -= nearest[chunk, i]
                            if left < 0.0:
                                chosen = chunk * c + i
                                break
                        break
                    left -= inside[chunk]
            total = 0.0
            for chunk in range(chunks):
                m = min(c, n - chunk * c)
                for i in range(m):
                    trial[chunk, i] = 0.0
                for a in range(0, points.shape[1], 2):
                    x0 = points[chosen // c, a, chosen % c]
                    x1 = points[chosen // c, a + 1, chosen % c]
                    for i in range(m):
                        y0, y1 = points[chunk, a, i] - x0, points[chunk, a + 1, i] - x1
                        trial[chunk, i] += y0 * y0 + y1 * y1
                for i in range(m):
                    new, old = trial[chunk, i], nearest[chunk, i]
                    trial[chunk, i] = new if new < old else old
                    total += trial[chunk, i]
            if total < best:
                best = total
                trial, closest = closest, trial
                for a in range(d):
                    means[j, a] = points[chosen // c, a, chosen % c]
        nearest, closest = closest, nearest
        potential = 0.0
        for chunk in range(chunks):
            total = 0.0
            for i in range(min(c, n - chunk * c)):
                total += nearest[chunk, i]
            inside[chunk] = total
            potential += total
    for _ in range(_LLOYD):
        potential = _lloyd_step(points, n, means)
    spread = np.sqrt(potential / (n * d))
    for j in range(k):
        weights[j] = 1.0 / k
        for a in range(d):
            for b in range(d):
                roots[j, a, b] = spread if a == b else 0.0


@merged
def search(
    points: Array,
    n: int,
    s: int,
    state: Seeds,
    starts: int,
    telling: float,
    trial: int,
    passes: int,
    tol: float,
    prior: float,
    weights: Array,
    means: Array,
    roots: Array,
) -> int:
    """Fit from several starts, the rows of `weights` (.., k); return the best one's number, or -1.

    Each of the first `starts` makes `trial` passes over the first n of s points; no more are
    tried once two agree (three for k >= 5, or without wide starts to fall back on). Then successive
    halving: copies of a better start are dropped, the better half goes on twice as long, and the
    last two, if close, meet on all rows. The winner settles on the rows it knows, if these are few,
    and makes up to `passes` more on all.

    If the winner's misfit is at least `telling`, the remaining rows of `weights` are wide
    starts that go the same way on more rows, and the better of the two winners is taken.
    """
    nothing = np.empty(0)
    most = weights.shape[0]
    score, order = np.full(most, -np.inf), np.empty(most, np.int64)
    for i in range(starts):
        order[i] = i
    first, tried, alive = 0, starts, starts
    champion = -1
    # A fit that explains the rows needs less support from others.
    enough = 2 if starts < most and weights.shape[1] < 5 else 3
    rows, length, plain = n, trial, _PLAIN
    cold, last, judging, settled = True, False, False, False
    value = 0.0
    ease = max(tol, _EASY / n)
    # Two fits of as many parameters to n rows differ by about their root, by chance alone.
    d = means.shape[2]
    margin = np.sqrt(weights.shape[1] * (1 + d * (d + 3) // 2))
    while True:
        for i in range(alive):
            j = order[i]
            if cold:
                seen = rows if first > 0 else min(n, _SEED_ROWS)
                spread_start(points, seen, state, first > 0, weights[j], means[j], roots[j])
            value = accelerated_em(
                points, rows, weights[j], means[j], roots[j], plain, length, ease, prior, nothing
            )
            if judging:
                break
            score[j] = value
            if cold and score[j] > -np.inf:
                agree = 0
                for other in range(first, j + 1):
                    if abs(score[other] - score[j]) < _AGREE:
                        agree += 1
                if agree >= enough and first == 0:
                    tried = alive = j + 1
                    break
        over = judging or last
        if alive == 1 and not judging and score[order[0]] == -np.inf:
            # It collapsed: the best of the others takes its place.
            for j in range(first, tried):
                if score[j] > score[order[0]]:
                    order[0] = j
            if score[order[0]] > -np.inf:
                continue
            over = True
        half = (alive + 1) // 2 if alive > 2 or rows == s else 2
        distinct = 0
        for i in range(alive):
            for j in range(i + 1, alive):
                if score[order[j]] > score[order[i]]:
                    order[i], order[j] = order[j], order[i]
            if score[order[i]] > -np.inf and (
                distinct == 0
                or (distinct < half and score[order[i]] < score[order[distinct - 1]] - _AGREE)
            ):
                order[distinct] = order[i]
                distinct += 1
        if over or distinct == 0:
            j = order[0]
            if score[j] > -np.inf and (champion < 0 or score[j] > score[champion]):
                champion = int(j)
            if first > 0 or starts == most or (judging and value < telling):
                return champion
            if champion >= 0 and not judging:
                # with no passes, `accelerated_em` says how well the champion explains the rows
                order[0], alive = champion, 1
                rows, length, cold, judging = s, 0, False, True
                continue
            judging = False
            first, tried, alive = starts, most, most - starts
            for i in range(alive):
                order[i] = starts + i
            rows, length, plain = min(s, 4 * n), _WIDE_PASSES, _PLAIN
            cold, last, settled = True, False, False
            ease = max(tol, _EASY / rows)
            continue
        length, plain, cold = 2 * length, 1, False
        if alive == 2 and distinct == 2 and rows < s:
            rows, length, ease = s, 2 * trial, max(tol, _EASY / s)
            if score[order[1]] < score[order[0]] - margin:
                distinct = 1
        alive, last = distinct, distinct == 1
        if last and not settled and _FEW * rows <= s:
            # Passes over few rows save passes over all of them.
            length, last, settled = _SETTLING, False, True
        elif last:
            rows, length, ease = s, passes, tol
