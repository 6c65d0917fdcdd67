"""Histograms with unlimited bins: how far counts move, and how often a bin of one row is shown.

Bins have independent noise, so what a histogram shows on two neighbours differs in two bins only,
and its law is a product over them. The law is taken from the real code, one value of the noise at
a time, and the divergence of the two products is exact.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.audit.wiretap import Side, Tap
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian, SeededNoise
from privgmm.stages.recorded import coarsest_step, value_codes
from privgmm.stages.sketch.histogram_frame import Histogram, HistogramFrame, place_bins

__all__ = ["counts_move", "lone_bins", "shown_law"]

_DELTAS = (0.1, 1e-3, 1e-6)
"""Where the two bins are held against the price: typical, rare and as in a usual budget."""
_IMPOSSIBLE = 1e-40
"""Outcomes less likely than this are left out: together they change no digit of a delta."""
_ENDLESS = 60.0
"""An epsilon so large that only outcomes count which the neighbour never has."""


class _Scripted(SeededNoise):
    """Noise with given values."""

    def __init__(self, noise: IntArray) -> None:
        super().__init__(np.random.default_rng(0))
        object.__setattr__(self, "noise", noise)

    noise: IntArray

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:  # noqa: ARG002 - the noise is given
        return self.noise[:size]


def shown_law(
    histogram: type[Histogram], count: int, sigma: float, threshold: int, *, most: int
) -> Array:
    """Compute chances (m,) of what a bin of `count` rows shows: nothing, or each noisy count.

    Every value of the noise goes through the real code once; an empty bin is not stored at all.
    Laws of counts up to `most` have the same length m.
    """
    law = DiscreteGaussian(sigma)
    noise = law.support.astype(np.int64)
    reach = int(noise.max()) + most
    chances = np.zeros(2 * reach + 2)
    copies = np.arange(noise.size if count else 0, dtype=np.int64)
    bins = histogram(copies, np.full(copies.size, count, dtype=np.int64))
    shown, values = bins.released(sigma, threshold, _Scripted(noise))
    np.add.at(chances, 1 + reach + values, law.probabilities[shown])
    chances[0] = 1.0 if not count else max(0.0, 1.0 - math.fsum(law.probabilities[shown].tolist()))
    return chances


def _delta(first: tuple[Array, Array], second: tuple[Array, Array], epsilon: float) -> float:
    """Compute ``sum of (P - e^epsilon Q)+`` over the outcomes of two bins."""
    parts = []
    for one, two in zip(first, second, strict=True):
        seen = one > _IMPOSSIBLE
        parts.append((one[seen], two[seen]))
    (a, c), (b, d) = parts
    gain = np.outer(a, b) - math.exp(epsilon) * np.outer(c, d)
    return float(np.maximum(gain, 0.0).sum())


def lone_bins(stage: HistogramFrame, *, histogram: type[Histogram] = Histogram) -> list[Finding]:
    """Compare what two bins show when a row leaves one for the other with the price.

    `histogram` is what is run: another one than the real one only if a broken one is tried.
    """
    worst, lone, beyond = 0.0, 0.0, 0.0
    values = stage.values
    for sigma, threshold in (
        (stage.scale_sigma, stage.scale_threshold),
        (stage.location_sigma, stage.location_threshold),
        *([] if values is None else [(values.sigma, values.threshold)]),
    ):
        law = functools.cache(
            lambda count, s=sigma, t=threshold: shown_law(histogram, count, s, t, most=t + 1)
        )
        curve = gaussian_curve(sigma / math.sqrt(2))
        # a count that is shown half of the time, and counts that one row can make or empty
        middle = threshold
        pairs = [(1, 0), (2, 0), (1, 1), (middle, 0), (1, middle), (middle, middle)]
        never = 0.0
        for left, entered in pairs:
            first = law(left), law(entered)
            second = law(left - 1), law(entered + 1)
            for one, two in ((first, second), (second, first)):
                never = max(never, _delta(one, two, _ENDLESS))
                for delta in _DELTAS:
                    epsilon = curve.epsilon(delta)
                    priced = curve.delta(epsilon) + 2 * stage.miss
                    worst = max(worst, _delta(one, two, epsilon) / priced)
        beyond += stage.n_features * never
        lone = max(lone, 1 - float(law(1)[0]))
    name = f"histograms, d={stage.n_features}"
    how = "exact, every value of the noise through the code"
    return [
        within(f"{name}: bins", "delta(epsilon) of two bins / priced <= 1", worst, 1.0, how),
        within(f"{name}: lone rows", "P(a bin of one row shows) <= miss", lone, stage.miss, how),
        within(
            f"{name}: beyond the curve",
            "chance of what a neighbour never shows <= shortfall",
            beyond,
            stage.price().shortfall,
            how,
        ),
    ]


def _gap(first: Histogram, second: Histogram) -> float:
    """Compute the L2 distance of two histograms over all their bins."""
    counts: dict[int, int] = {}
    for sign, one in ((1, first), (-1, second)):
        for where, count in zip(one.bins.tolist(), one.counts.tolist(), strict=True):
            counts[where] = counts.get(where, 0) + sign * count
    return math.sqrt(sum(gap * gap for gap in counts.values()))


def counts_move(stage: HistogramFrame, *, tries: int = 30, rng: np.random.Generator) -> Finding:
    """Measure how far replacing a row, or a person with several, moves the counts of a column.

    It uses the real pairs and bins, and rows near and far, ties, and the largest floats.
    """
    d, n = stage.n_features, 41
    worst = 0.0
    for i in range(tries):
        rows = np.round(rng.standard_normal((n, d)), int(rng.integers(0, 4)))
        far = float(rng.choice([0.1, 3.0, 1e6, 1e308]))
        other = far * rng.uniform(-1, 1, size=(int(rng.integers(1, 4)), d))
        who = int(rng.integers(n))
        sides = [Side(rows), Side(np.concatenate([rows[:who], other[:1], rows[who + 1 :]]))]
        if i % 2:
            member = np.arange(n, dtype=np.int64)
            kept = np.flatnonzero(member != who)
            sides = [
                Side(rows, member),
                Side(
                    np.concatenate([rows[kept], other]),
                    np.concatenate([member[kept], np.full(len(other), who, dtype=np.int64)]),
                ),
            ]
        works = [side.work(Tap(i)) for side in sides]
        ready = [stage.prepare(work, None) for work in works]
        for j in range(d):
            worst = max(worst, _gap(*(one.widths[j] for one in ready)))
            scale, offset = math.exp(rng.normal()), float(rng.random())
            places = [Histogram.of(place_bins(one.chosen[:, j], scale, offset)) for one in ready]
            worst = max(worst, _gap(*places))
            for counted in (value_codes, coarsest_step):
                values = [Histogram.of(counted(one.chosen[:, j])) for one in ready]
                worst = max(worst, _gap(*values))
    return within(
        f"histograms, d={d}: counts",
        "move of the counts of a column / sqrt 2 <= 1",
        worst / math.sqrt(2),
        1 + 1e-12,
        f"{tries} rows and persons replaced",
    )
