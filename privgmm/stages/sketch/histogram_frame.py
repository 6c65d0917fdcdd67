"""Find a frame from histograms: widths and places of columns, then how they vary together.

Nothing is known of the rows beforehand, so histograms run over all numbers there are, and only bins
that hold many rows are shown. Columns are looked at one by one; what correlates them is found by a
few noisy moments afterwards, each seen in the coordinates that the one before it published.
Rows that share a value say nothing about a column's width, and are counted apart.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from privgmm.arrays import Array, BoolArray, IntArray, positive, whole_number
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian, NoiseSource
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.form import Form
from privgmm.stages.recorded import STEPS, Atom, coarsest_step, step_found, value_codes
from privgmm.stages.refinement.winsorised import (
    WinsorisedMoments,
    moment_row_sums,
    noisy_moments_of,
    variance_kept,
)
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.stage import Bottom, Drawn, RowSums, Stage, StageView, Work
from privgmm.stages.tails import SeenRange

__all__ = [
    "MOST_NOISE",
    "ZERO_BIN",
    "Histogram",
    "HistogramFrame",
    "HistogramFrameView",
    "PreparedHistogramFrame",
    "ValueCounts",
    "histogram_radius",
    "pair_bins",
    "place_bins",
    "radius_range",
    "variance_noise",
    "width_of",
]

MOST_NOISE = 1e5
"""Scale of the noise on counts, at most: counts with as much noise cost next to nothing."""
ZERO_BIN = -(10**6)
"""Bin of differences of zero: floats are at least 2^-1074, so others lie in bin -537 or above."""

_QUANTILE = 0.7
"""Choice: the quantile of differences that gives the width; few far rows hardly move it."""
_OF_NORMAL = 1.4657383
"""The 70 % quantile of the difference of two standard normal numbers, in size."""
_FARTHEST_BIN = 2.0**52
"""Up to here floats hold bins exactly."""
_WIDEST = 1e140
"""Columns wider than this, or narrower than one over it, get no frame: squares might overflow."""
_LEAST_SHARE = 0.05
"""Choice: share of the rows from which a value is called an atom."""
_ROUNDED = 1e-12
"""Relative slack for shares; by convention far above the rounding of a float."""
_SCALES = (0.1, 0.4, 1.0)
"""Choice: how counts, first and second moments are weighed against each other in a round."""
_THINNEST, _THICKEST = 0.01, 4.0
"""Choice: factors by which one round may change a variance."""
_COARSEST = 0.5
"""Choice: a round may always halve a variance, however noisy it is."""
_QUIET = 0.1
"""Choice: noise on a variance in a round, for which R is chosen."""
_BY_CHANCE = 3.0
"""Choice: a variance within this many deviations of noise from one is averaged with one."""
_COLLAPSED = 3.0
"""Choice: a round leaves a column at least this part of the width that its histogram shows. Where
most rows share a value, winsorised moments see that value only."""


def histogram_radius(n_features: int, multiplier: float, n_units: int) -> float:
    """Choose R for rounds of this noise on `n_units` rows: the largest that keeps it small.

    The noise on a variance grows like R^2, and pulling in many rows takes more rounds to find the
    shape: R is such that the noise is a tenth, but within `radius_range`.
    """
    least, most = radius_range(n_features)
    noise = variance_noise(n_features, multiplier, n_units, least)
    return min(max(least * math.sqrt(_QUIET / noise), least), most)


def radius_range(n_features: int) -> tuple[float, float]:
    """Return least and largest R for this many columns: 1.4 to 2.2 ``sqrt d``; 2 to 3 for one."""
    if n_features == 1:
        return 2.0, 3.0
    return 1.4 * math.sqrt(n_features), 2.2 * math.sqrt(n_features)


def variance_noise(n_features: int, multiplier: float, n_units: int, radius: float) -> float:
    """Compute the deviation of the noise on a variance in a round, in units of the frame."""
    return (
        float(WinsorisedMoments(radius, _SCALES).deviations(multiplier, n_features)[-1]) / n_units
    )


# ------------------------------------------------------------------------------------ histograms


@dataclasses.dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the bins that are not empty, before noise. CONFIDENTIAL.

    Parameters
    ----------
    bins : array of int (b,)
        In rising order.
    counts : array of int (b,)
    """

    bins: IntArray
    counts: IntArray

    @classmethod
    def of(cls, bins: IntArray) -> Histogram:
        """Count the bin of each row or pair."""
        values, counts = np.unique(bins, return_counts=True)
        return cls(values.astype(np.int64), counts.astype(np.int64))

    def released(
        self, sigma: float, threshold: int, source: NoiseSource
    ) -> tuple[IntArray, IntArray]:
        """Add noise; returns the bins whose noisy count reaches the threshold, and these counts."""
        # empty bins get no noise: what that may show is part of the price of `HistogramFrame`
        noisy = self.counts + source.discrete_gaussian(sigma, self.counts.size)
        shown: BoolArray = noisy >= threshold
        return self.bins[shown], noisy[shown]


def pair_bins(first: Array, second: Array, offset: float) -> IntArray:
    """Find the bin (m,) of each ``|first - second|``: bins are a factor of four wide."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = np.nan_to_num(np.abs(first - second), nan=0.0)
        bins = np.floor(0.5 * np.log2(size) + offset)
    return np.where(size > 0, np.maximum(bins, ZERO_BIN + 1), ZERO_BIN).astype(np.int64)


def place_bins(values: Array, width: float, offset: float) -> IntArray:
    """Find the bin (m,) of each value: bins have equal width; the last takes what is far."""
    with np.errstate(over="ignore", invalid="ignore"):
        bins = np.floor(values / width + offset)
    far = _FARTHEST_BIN
    near = np.clip(np.nan_to_num(bins, nan=0.0, posinf=far, neginf=-far), -far, far)
    return np.asarray(near, dtype=np.int64)


def _quantile(bins: IntArray, counts: IntArray, share: float) -> float:
    """Find where the share is reached, in bins: the whole part names the bin."""
    part = np.cumsum(counts) / counts.sum()
    i = min(int(np.searchsorted(part, share)), bins.size - 1)
    before = float(part[i - 1]) if i else 0.0
    inside = (share - before) / (float(part[i]) - before)
    return float(bins[i]) + min(max(inside, 0.0), 1.0)


def width_of(bins: IntArray, counts: IntArray, offset: float) -> float | None:
    """Estimate the deviation of Gaussian rows whose differences have this 70 % quantile.

    None if nothing but differences of zero, or nothing at all, was shown.
    """
    moved = bins != ZERO_BIN
    if not moved.any():
        return None
    exponent = 2 * (_quantile(bins[moved], counts[moved], _QUANTILE) - offset)
    width = 2.0 ** min(max(exponent, -1020.0), 1020.0) / _OF_NORMAL
    return width if 1 / _WIDEST < width < _WIDEST else None


# --------------------------------------------------------------------------------------- moments


def _moved(
    centre: Array,
    root: Array,
    mean: Array,
    second: Array,
    noise: float,
    number: int,
    thinnest: float,
) -> tuple[Array, Array]:
    """Move the frame so that the noisy mean is zero and the noisy variance one, within limits.

    Variances that differ from one by no more than the noise of a round are averaged over the
    rounds: this is the `number`-th.
    """
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    same = np.abs(values - 1) <= _BY_CHANCE * noise
    values = np.where(same, 1 + (values - 1) / number, values)
    values = np.clip(values, thinnest, _THICKEST)
    factor = np.linalg.cholesky((vectors * values) @ vectors.T)
    return centre + root @ mean, np.tril(root @ factor)


def _kept_wide(root: Array, scales: Array) -> Array:
    """Stretch columns that are much narrower in the frame than their histograms show."""
    widths = np.linalg.norm(root, axis=1)
    return np.asarray(root * np.maximum(1.0, scales / (_COLLAPSED * widths))[:, None])


# ----------------------------------------------------------------------------------------- stage


@dataclasses.dataclass(frozen=True)
class ValueCounts:
    """Noisy counts of single values, and of values on grids, in each column.

    Parameters
    ----------
    sigma : float
        Scale of the discrete Gaussian noise on the count of a value.
    threshold : int
        Least noisy count with which a value is shown.
    grid_sigma : float
        Scale of the noise on the counts of values by the coarsest grid that they lie on.
    """

    sigma: float
    threshold: int
    grid_sigma: float

    def __post_init__(self) -> None:
        positive(self.sigma, "sigma", below=MOST_NOISE)
        object.__setattr__(self, "threshold", whole_number(self.threshold, "threshold", 2))
        positive(self.grid_sigma, "grid_sigma", below=MOST_NOISE)

    def found(
        self, column: int, values: Array, source: NoiseSource
    ) -> tuple[list[Atom], float | None]:
        """Draw the atoms of a column of rows, and the step of its grid."""
        histogram = Histogram.of(value_codes(values))
        codes, counts = histogram.released(self.sigma, self.threshold, source)
        shares = np.minimum(counts / len(values), 1.0)
        atoms = [
            Atom(column, value, share)
            for value, share in zip(codes.view(np.float64).tolist(), shares.tolist(), strict=True)
            if share >= _LEAST_SHARE
        ]
        # every place has a count, so these are a Gaussian mechanism and nothing else
        places = np.bincount(coarsest_step(values), minlength=len(STEPS) + 2).astype(np.int64)
        noisy = places + source.discrete_gaussian(self.grid_sigma, places.size)
        return atoms, step_found(noisy, self.grid_sigma)

    def contradictions(
        self, atoms: Sequence[Atom], steps: Sequence[float | None], n: int
    ) -> Iterator[str]:
        """Say what among atoms and steps could not be found in n rows."""
        if len({(atom.column, atom.value) for atom in atoms}) < len(atoms):
            yield "an atom is named twice"
        for atom in atoms:
            count = atom.share * n
            if abs(count - round(count)) > _ROUNDED * n:
                yield f"the share of an atom, {atom.share!r}, is no part of {n} rows"
            if round(count) < self.threshold or atom.share < _LEAST_SHARE:
                yield f"the share of an atom, {atom.share!r}, is below what the plan shows"
        for step in steps:
            if step is not None and step not in STEPS:
                yield f"no grid of step {step!r} is looked for"


@dataclasses.dataclass(frozen=True, eq=False)
class HistogramFrameView(StageView):
    """What a histogram frame saw. CONFIDENTIAL.

    Parameters
    ----------
    widths, places : tuple of Histogram
        Of the differences of pairs, and of the rows, by column; places end where it refused.
    stage : HistogramFrame
        With the thresholds that noisy counts had to reach.
    refused : bool
        Whether a column showed no bin, and there is no frame.
    """

    widths: tuple[Histogram, ...]
    places: tuple[Histogram, ...]
    stage: HistogramFrame
    refused: bool = False

    def hint(self, take: Callable[[IntArray], Array]) -> str | None:  # noqa: ARG002 - counts say it all
        """Say which columns have no bin that reaches its threshold; None if there is a frame."""
        if not self.refused:
            return None
        words = [
            *map(self._of_widths, range(len(self.widths)), self.widths),
            *map(self._of_places, range(len(self.places)), self.places),
        ]
        return " ".join(filter(None, words)) or (
            "Every column has a bin with enough rows: the noise was unlucky, and another try may "
            "pass."
        )

    def _of_widths(self, column: int, pairs: Histogram) -> str:
        """Say why the differences of a column give no width; empty if they do."""
        total, moved = int(pairs.counts.sum()), pairs.bins != ZERO_BIN
        largest, least = int(pairs.counts[moved].max(initial=0)), self.stage.scale_threshold
        if largest >= least:
            return ""
        equal = int(pairs.counts[~moved].sum())
        heap = f"{100 * equal / total:.0f} % of the pairs hold equal values, and " if equal else ""
        return (
            f"Column {column + 1}: {heap}of the others the fullest bin holds {largest:,} of "
            f"{total:,} pairs of rows, where about {least:,} are needed."
        )

    def _of_places(self, column: int, rows: Histogram) -> str:
        """Say why the values of a column give no place; empty if they do."""
        largest, least = int(rows.counts.max(initial=0)), self.stage.location_threshold
        if largest >= least:
            return ""
        return (
            f"Column {column + 1}: the fullest bin holds {largest:,} rows, where about {least:,} "
            "are needed."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistogramFrame(Stage):
    """Noisy histograms of each column, then rounds of noisy moments: a frame, or ⊥.

    Parameters
    ----------
    n_features : int
        Columns d.
    scale_sigma, location_sigma : float
        Scale of the discrete Gaussian noise on the counts of pairs and of rows.
    miss : float
        A bin that a single row or pair could have filled is shown with at most this chance.
    multipliers : tuple of float
        Noise of each round of moments, in units of their L2 sensitivity.
    radius : float
        R: in a round, rows farther from the centre, in units of the frame, are pulled in to it.
    most_units : int or None
        Rows or persons that are taken, at most; None for all.
    values : ValueCounts or None
        How values that many rows share, and grids, are looked for; None if they are not.

    Notes
    -----
    *Widths.* Rows are paired at random, by position, each in one pair at most. Differences in size
    are counted in bins a factor of four wide, with a random offset: nothing depends on the unit of
    the column. Pairs of equal values have a bin of their own; the 70 % quantile of the others gives
    the width. *Places.* Rows are counted in bins of twice that width, with a random offset; the
    median of what is shown is the place. *Moments.* In coordinates of the frame so far, rows are
    pulled in to a ball, and their noisy mean and second moments move the frame. A column that most
    rows share a value of keeps about the width of its histogram.

    *Which rows.* A person gives one row. Of more than `most_units` rows or persons only that many
    are taken, by position and chance, and all of the above is done with these. Which ones depends
    on no value: replacing one row or person replaces one of those taken, or none. The price is for
    one, with no credit for what is left out.

    *Values.* Of each column single values are counted in the rows taken, and those that many rows
    share are shown with their shares. This is a histogram like the others, with a value in place of
    a bin, and has their proof. Its threshold is so high that a smooth table, in which each value
    occurs once, shows one in hardly any release. Each value is then put down to the coarsest grid
    that it lies on. These counts are of places that do not depend on the rows, and all get noise:
    a row moves one count down and one up, a Gaussian mechanism of sensitivity ``sqrt 2``.

    *Price of a histogram.* Fix two neighbours, all coins and all that was shown before. One row
    is replaced, so one pair or one row leaves a bin a and enters a bin b: the counts move by at
    most ``sqrt 2``. Let A be the bins that are not empty for one or the other data set, and
    suppose noise were added to all of A: P* and Q*, the laws of what would be shown, are those of
    a Gaussian mechanism of sensitivity ``sqrt 2``, followed by a threshold. In truth, P and Q,
    noise is added only to bins that are not empty. The only bin of A that can be empty for the
    first data set is b, and only a for the second.

    Let P' be P*, restricted to outcomes that do not show b where b is empty for the first, nor a
    where a is empty for the second. Bins have independent noise; so on these outcomes P* is P
    times the chance that b, being empty, stays below the threshold, hence ``P' <= P``; likewise
    ``Q* <= Q``, so that ``(dP'/dQ)^a dQ <= (dP*/dQ*)^a dQ*`` for every a > 1: P' satisfies the
    curve. What P' lacks is at most the chance that b is shown with a count of zero, and that a is
    shown with the count of one that it then has in the first data set: with threshold theta,
    ``P(Z >= theta) + P(Z >= theta - 1)``. That is the shortfall which the account asks for (see
    `privacy.composition`). theta is such that the second term, the larger, is at most `miss`;
    2 d histograms lack at most ``4 d miss``.

    The exact account of Gaussian mechanisms holds for P' as well: on outcomes that P' allows
    ``P' = P*`` and ``Q >= Q*``, so for every event E and every real t, ``P'(E) - e^t Q(E)`` is at
    most what it is for P* and Q*.

    (The plain argument, "the real mechanism is within `miss` of the other on both sides", gives
    ``(1 + e^epsilon) 2 d miss``, which is more for every epsilon and would make the price of a
    stage depend on that of the whole release.)

    *Price of a round.* That of one Gaussian mechanism: see `WinsorisedMoments`, here of one
    component, of which every row is a part. Sums are integers and so is the noise.

    All that is computed from what was shown, the refusal included, costs nothing.
    """

    n_features: int
    scale_sigma: float
    location_sigma: float
    miss: float
    multipliers: tuple[float, ...]
    radius: float
    most_units: int | None = None
    values: ValueCounts | None = None

    kind: ClassVar[str] = "histogram frame"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_features", whole_number(self.n_features, "n_features", 1))
        object.__setattr__(self, "multipliers", tuple(self.multipliers))
        positive(self.scale_sigma, "scale_sigma", below=MOST_NOISE)
        positive(self.location_sigma, "location_sigma", below=MOST_NOISE)
        positive(self.miss, "miss", below=0.5)
        positive(self.radius, "radius", below=1e6)
        for multiplier in self.multipliers:
            positive(multiplier, "every multiplier", below=1e6)
        if self.most_units is not None:
            object.__setattr__(self, "most_units", whole_number(self.most_units, "most_units", 2))

    # --------------------------------------------------------------------------------- price

    @property
    def scale_threshold(self) -> int:
        """Least noisy count of pairs with which a bin is shown."""
        return 1 + _upper_point(self.scale_sigma, self.miss)

    @property
    def location_threshold(self) -> int:
        """Least noisy count of rows with which a bin is shown."""
        return 1 + _upper_point(self.location_sigma, self.miss)

    @property
    def shortfall(self) -> float:
        """Delta that all histograms need besides their curves; at most ``4 d miss``."""
        widths = _shown(self.scale_sigma, self.scale_threshold)
        places = _shown(self.location_sigma, self.location_threshold)
        of_values = self.values
        values = 0.0 if of_values is None else _shown(of_values.sigma, of_values.threshold)
        return self.n_features * (widths + places + values)

    @property
    def _sigmas(self) -> tuple[float, ...]:
        """Scales of the noise on counts, of each kind of histogram; a row moves them by root 2."""
        counted = (self.scale_sigma, self.location_sigma)
        if self.values is None:
            return counted
        return (*counted, self.values.sigma, self.values.grid_sigma)

    @property
    def moments(self) -> WinsorisedMoments:
        """The moments that a round sums."""
        return WinsorisedMoments(self.radius, _SCALES)

    def _multipliers(self) -> list[float]:
        """List noise over sensitivity of every Gaussian mechanism in the stage."""
        histograms = [sigma / math.sqrt(2) for sigma in self._sigmas]
        return [*histograms * self.n_features, *self.multipliers]

    def price(self) -> Price:
        """Price a Gaussian mechanism per histogram and round, and what bins of one row may show."""
        root_two = math.sqrt(2)
        histograms = [
            gaussian_curve(sigma / root_two, sensitivity=root_two) for sigma in self._sigmas
        ]
        rounds = map(gaussian_curve, self.multipliers)
        return Price((*histograms * self.n_features, *rounds), self.shortfall, exact=True)

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves every count and sum by its sensitivity."""
        mu = math.sqrt(math.fsum(multiplier**-2 for multiplier in self._multipliers()))
        return np.asarray(mu * rng.standard_normal(n) + mu**2 / 2)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List the moments of each round, in units of the frame."""
        d = n_features
        public = Mixture([1.0], np.zeros((1, d)), np.eye(d)[None])
        return tuple(
            moment_row_sums(multiplier, self.moments, public) for multiplier in self.multipliers
        )

    def least_units(self) -> int:
        """Return the fewest rows with which a bin that holds all of them reaches the thresholds."""
        return max(2 * self.scale_threshold, self.location_threshold)

    def units_of(self, n_units: int) -> int:
        """Return how many of `n_units` rows or persons are taken."""
        return n_units if self.most_units is None else min(n_units, self.most_units)

    # ------------------------------------------------------------------------------- running

    def prepare(self, work: Work, public: Any) -> PreparedHistogramFrame:  # noqa: ARG002 - the first
        """Take rows, pair them and count their differences: that needs nothing public."""
        people = work.people
        if people.n_features != self.n_features:
            raise InvalidInput(
                f"the frame is planned for {self.n_features} columns, but the rows have "
                f"{people.n_features}"
            )
        if len(people) < 2:
            raise InvalidInput(f"a frame needs at least two rows or persons, got {len(people)}")
        seed = work.source.seed()
        coins = np.random.default_rng(seed)
        positions = deal(len(people), 1, seed=seed, rows_per_block=self.most_units)[0]
        order = coins.permutation(positions.size)
        half = order.size // 2
        chosen = people.take(positions).rows
        first, second = order[:half], order[half : 2 * half]
        offsets = coins.uniform(size=(2, self.n_features))
        widths = tuple(
            Histogram.of(pair_bins(chosen[first, j], chosen[second, j], float(offsets[0, j])))
            for j in range(self.n_features)
        )
        return PreparedHistogramFrame(self, chosen, offsets, widths)

    # --------------------------------------------------------------------------------- words

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        part = "" if self.most_units is None else f" of {self.most_units:,} rows picked at random"
        said = [
            f"How wide each column is and where it lies is read from noisy histograms{part}; a bin "
            f"is shown only if it holds about {self.scale_threshold} pairs of rows or "
            f"{self.location_threshold} rows, or more. Pairs of equal values do not count for the "
            "width."
        ]
        if self.values is not None:
            said.append(
                f"Values that about {self.values.threshold} rows or more share in a column are "
                "named with their shares, and whether a column holds whole numbers, tenths or the "
                "like is read from noisy counts."
            )
        if self.multipliers:
            said.append(
                f"Rounds of noisy moments of rows in these units, {len(self.multipliers)} in "
                "all, then find how the columns vary together."
            )
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "histogram_frame": {
                "n_features": self.n_features,
                "scale_sigma": self.scale_sigma,
                "location_sigma": self.location_sigma,
                "miss": self.miss,
                "multipliers": list(self.multipliers),
                "radius": self.radius,
                # written only where some rows are left out
                **({} if self.most_units is None else {"most_units": self.most_units}),
                **({} if self.values is None else {"values": dataclasses.asdict(self.values)}),
                "thresholds": [self.scale_threshold, self.location_threshold],
            }
        }

    @classmethod
    def from_form(cls, form: Form) -> HistogramFrame:
        """Read the stage back from a plan, and check its form."""
        values = form.part("values") if "values" in form.data else None
        stage = cls(
            n_features=form.whole("n_features", 1),
            scale_sigma=form.number("scale_sigma"),
            location_sigma=form.number("location_sigma"),
            miss=form.number("miss"),
            multipliers=form.numbers("multipliers"),
            radius=form.number("radius"),
            most_units=form.whole("most_units", 2) if "most_units" in form.data else None,
            values=None
            if values is None
            else ValueCounts(
                values.number("sigma"), values.whole("threshold", 2), values.number("grid_sigma")
            ),
        )
        wanted = (float(stage.scale_threshold), float(stage.location_threshold))
        if form.numbers("thresholds") != wanted:
            raise InvalidInput(
                f"{form.name}.thresholds must be {wanted} for these numbers, "
                f"got {form.of('thresholds')!r}"
            )
        return stage


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedHistogramFrame:
    """The rows taken, the offsets of all bins, and the counts of differences. CONFIDENTIAL."""

    stage: HistogramFrame
    chosen: Array
    offsets: Array
    widths: tuple[Histogram, ...]

    def draw(self, source: NoiseSource) -> Drawn:
        """Draw widths, places, rounds: a frame, or ⊥ if a column shows no bin."""
        scales = self._scales(source)
        if isinstance(scales, Bottom):
            return Drawn(scales, self._view((), refused=True))
        places: list[Histogram] = []
        ranges: list[SeenRange] = []
        centre = self._centre(scales, places, ranges, source)
        if isinstance(centre, Bottom):
            return Drawn(centre, self._view(places, refused=True))
        root = np.diag(scales)
        for number in range(1, len(self.stage.multipliers) + 1):
            centre, root = self._round(number, centre, root, source)
            root = _kept_wide(root, scales)
        facts = {"ranges": tuple(ranges), **self._facts(source)}
        rotation = random_rotation(self.stage.n_features, rng=source)
        return Drawn(Frame.published(centre, root, rotation=rotation), self._view(places), facts)

    def _facts(self, source: NoiseSource) -> dict[str, Any]:
        """Draw the atoms and the grids of all columns."""
        if self.stage.values is None:
            return {}
        found = [
            self.stage.values.found(j, self.chosen[:, j], source)
            for j in range(self.stage.n_features)
        ]
        return {
            "atoms": tuple(atom for atoms, _ in found for atom in atoms),
            "steps": tuple(step for _, step in found),
        }

    def _view(self, places: Sequence[Histogram], *, refused: bool = False) -> HistogramFrameView:
        return HistogramFrameView(self.widths, tuple(places), self.stage, refused)

    def _scales(self, source: NoiseSource) -> Array | Bottom:
        stage, found = self.stage, []
        for j, (histogram, offset) in enumerate(
            zip(self.widths, self.offsets[0].tolist(), strict=True)
        ):
            bins, counts = histogram.released(stage.scale_sigma, stage.scale_threshold, source)
            width = width_of(bins, counts, offset)
            if width is None:
                return Bottom(_ONE_VALUE if (bins == ZERO_BIN).any() else _NO_WIDTH, j)
            found.append(width)
        return np.array(found)

    def _centre(
        self,
        scales: Array,
        places: list[Histogram],
        ranges: list[SeenRange],
        source: NoiseSource,
    ) -> Array | Bottom:
        stage, found = self.stage, []
        for j, (scale, offset) in enumerate(
            zip(scales.tolist(), self.offsets[1].tolist(), strict=True)
        ):
            bins = place_bins(self.chosen[:, j], 2 * scale, offset)
            places.append(Histogram.of(bins))
            shown, counts = places[-1].released(
                stage.location_sigma, stage.location_threshold, source
            )
            if not shown.size:
                return Bottom(_NO_PLACE, j)
            found.append(2 * scale * (_quantile(shown, counts, 0.5) - offset))
            ranges.append(
                SeenRange.of_bins(
                    j,
                    (shown, counts),
                    2 * scale,
                    offset,
                    n=len(self.chosen),
                    sigma=stage.location_sigma,
                    centre=found[-1],
                )
            )
        return np.array(found)

    def _round(
        self,
        number: int,
        centre: Array,
        root: Array,
        source: NoiseSource,
    ) -> tuple[Array, Array]:
        stage, n = self.stage, len(self.chosen)
        d, moments = stage.n_features, stage.moments
        public = Mixture.from_roots([1.0], centre[None], root[None])
        multiplier = stage.multipliers[number - 1]
        people = ArrayPeople(self.chosen)
        sums = noisy_moments_of(people, public, moments, multiplier, source)[0] / n
        mean = sums[1 : 1 + d]
        mean = mean * min(1.0, stage.radius / max(float(np.linalg.norm(mean)), 1e-300))
        kept = variance_kept(stage.radius, d)
        row, column = np.triu_indices(d)
        # from svec: the upper triangle with half the diagonal, to which its transpose is added
        half = np.zeros((d, d))
        half[row, column] = sums[1 + d :] / kept * np.where(row == column, 0.5, math.sqrt(0.5))
        noise = float(moments.deviations(multiplier, d)[-1]) / (n * kept)
        # what a round makes too thin the next one widens again; the last one must not
        floor = noise if number == len(stage.multipliers) else noise / 2
        thinnest = min(max(floor, _THINNEST), _COARSEST)
        return _moved(centre, root, mean, half + half.T, noise, number, thinnest)


_ONE_VALUE = (
    "In column {column} most rows share one value, and no other difference between rows shows "
    "through the noise: leave the column out, or bring more rows."
)
_NO_WIDTH = "In column {column} no difference between rows is common enough to outweigh the noise."
_NO_PLACE = "In column {column} no range of values holds enough rows to show through the noise."


@functools.lru_cache(maxsize=256)
def _upper_point(sigma: float, miss: float) -> int:
    return DiscreteGaussian(sigma).upper_point(miss)


@functools.lru_cache(maxsize=256)
def _shown(sigma: float, threshold: int) -> float:
    """Add the chances that an empty bin and a bin of one row are shown."""
    law = DiscreteGaussian(sigma)
    return law.survival(threshold) + law.survival(threshold - 1)
