"""Refine a public coarse mixture by noisy moments of all rows, seen through it.

Once a coarse mixture is public, unbounded data becomes bounded: in a component's own
coordinates u = L^-1 (x - mu), rows with ||u|| > R count for nothing, and the rest contribute
bounded moments, softly shared between components. Their sums are integers and so is the noise;
they are all that is taken from the data. Solving for the mixture that would produce them is
post-processing.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numba as nb
import numpy as np
import scipy
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from privgmm.arrays import Array, IntArray, positive
from privgmm.data.people import People, PersonSum, one_person
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve, gaussian_losses
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.accuracy import accuracy_of
from privgmm.stages.fixed_point import fixed_scale, rounded_sensitivity
from privgmm.stages.form import Form
from privgmm.stages.refinement.moment_law import refined_covariance
from privgmm.stages.stage import Drawn, Published, RowSums, Stage, Work
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "MomentSolution",
    "PreparedRefinement",
    "Pull",
    "Refinement",
    "add_moments",
    "component_offsets",
    "cut_features",
    "cut_sums",
    "inverse_factors",
    "log_densities",
    "moment_sums",
    "refine",
    "solve_moments",
    "winsorised_features",
]

_MOST_NOISE_BITS = 24
"""Noise of more than this many bits of sensitivities gets a coarser unit, to fit 64 bits."""
_QUADRATURE_BITS = 12
"""Choice: 8,192 points; with many rows sampling errors are smaller, so the solver takes more."""
_CLOSE_ENOUGH = 1e-4
"""Squared length of a step in standard errors: stop at a hundredth of one."""
_CONVERGED = 1e-2
"""Squared length of the last step in standard errors: a tenth of one, small next to the noise."""
_STEP_LIMIT = 0.5
"""Choice: the most that a local coordinate moves in a step, where the linear model still holds."""


@dataclasses.dataclass(frozen=True)
class Refinement(Stage):
    """Noisy steps on all rows, from the mixture that the stage before it published.

    Parameters
    ----------
    multipliers : tuple of float
        Noise of each step, in units of the L2 sensitivity of its sums.
    radii : tuple of float
        R of each step: rows farther from a component, in its own units, do not count for it.
    scales : tuple of three floats
        How counts, first and second moments are weighed against each other in the sums,
        ``(c0 r, c1 r u/R, c2 r svec(u u^T)/R^2)``; needs ``c1^2 <= 2 c0 c2``.

    Notes
    -----
    Responsibilities r sum to at most one, and ||u|| <= R, so a row's contribution has norm at
    most ``|c|``. For two rows it has, per component, inner product
    ``r r' (c0^2 + c1^2 z + c2^2 z^2)`` with z in [-1, 1], never negative if
    ``c1^2 <= 2 c0 c2``. So replacing a row moves the sums by at most ``sqrt 2 |c|``. A person
    contributes the average over their rows: inner products of averages are averages of inner
    products, hence the same bound.

    Contributions, divided by |c|, are rounded to integers (`fixed_point`), the rounding is added
    to the sensitivity, and noise is a discrete Gaussian on the integers.
    """

    multipliers: tuple[float, ...]
    radii: tuple[float, ...]
    scales: tuple[float, float, float] = (0.4, 0.6, 1.0)

    kind: ClassVar[str] = "refinement"

    def __post_init__(self) -> None:
        if not self.multipliers or len(self.multipliers) != len(self.radii):
            raise InvalidInput("multipliers and radii must name the same steps, at least one")
        for value in (*self.multipliers, *self.radii, *self.scales):
            positive(value, "every multiplier, radius and scale")
        if self.scales[1] ** 2 > 2 * self.scales[0] * self.scales[2]:
            raise InvalidInput(
                f"scales must satisfy c1^2 <= 2 c0 c2 to keep the sensitivity, got {self.scales}"
            )

    @property
    def steps(self) -> int:
        """Number of passes over the rows."""
        return len(self.multipliers)

    @property
    def sensitivity(self) -> float:
        """``sqrt 2 |c|``: how far replacing one row moves the scaled sums."""
        return math.sqrt(2) * math.hypot(*self.scales)

    def units(self, step: int, d: int) -> Array:
        """Return what one of each scaled sum stands for: ``|c| (1/c0, R/c1, R^2/c2)``, repeated."""
        c0, c1, c2 = self.scales
        radius = self.radii[step]
        sizes = [1, d, d * (d + 1) // 2]
        return math.hypot(*self.scales) * np.repeat([1 / c0, radius / c1, radius**2 / c2], sizes)

    def deviations(self, step: int, d: int) -> Array:
        """Compute the deviation (1 + d + d(d+1)/2,) of the noise on each unscaled moment sum."""
        return self.multipliers[step] * math.sqrt(2) * self.units(step, d)

    def unit(self, step: int, n_units: int) -> float:
        """Choose the integers per one of a step's scaled sums, from public numbers alone."""
        excess = math.ceil(math.log2(self.multipliers[step])) - _MOST_NOISE_BITS
        return math.ldexp(fixed_scale(n_units), -max(0, excess))

    def sigma(self, step: int, unit: float, size: int) -> float:
        """Compute the discrete Gaussian's parameter for each of `size` integer sums of a step."""
        return self.multipliers[step] * rounded_sensitivity(math.sqrt(2), unit, size)

    def price(self) -> Price:
        """Price one Gaussian mechanism per step; the stage never refuses."""
        return Price(tuple(map(gaussian_curve, self.multipliers)))

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves each step's sums by their sensitivity."""
        total = np.zeros(n)
        for sigma in self.multipliers:
            total += gaussian_losses(sigma, n, rng=rng)
        return total

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List each step's sums, seen through two components near each other, far and very far."""
        return tuple(
            self._sums_through(apart, step, n_features)
            for step, radius in enumerate(self.radii)
            for apart in (1.0, 3 * radius, 1e3 * radius)
        )

    def _sums_through(self, apart: float, step: int, d: int) -> RowSums:
        radius, multiplier = self.radii[step], self.multipliers[step]
        means = np.zeros((2, d))
        means[1, 0] = apart
        public = Mixture([0.5, 0.5], means, np.broadcast_to(np.eye(d), (2, d, d)))

        def persons(first: Array, second: Array) -> float:
            unit = self.unit(step, 2)
            one, two = (
                cut_sums(one_person(rows), public, radius, self.scales, unit)
                for rows in (first, second)
            )
            sigma = self.sigma(step, unit, one.size)
            return float(np.linalg.norm(one - two)) / sigma * multiplier if sigma > 0 else math.inf

        edge = radius * (1 - 1e-12) * np.eye(d)
        starts = (
            means + edge[:1],
            means + np.stack([-edge[0], edge[0]]),
            np.stack([edge[0], -edge[0]]),
            np.stack([edge[0], edge[-1]]),
            np.stack([edge[0], np.full(d, 1e9)]),
        )
        return RowSums(
            multiplier, lambda rows: persons(rows[:1], rows[1:]), starts, radius, persons
        )

    def prepare(self, work: Work, public: Mixture) -> PreparedRefinement:
        """Keep rows and mixture: each step looks through what the step before it published."""
        return PreparedRefinement(self, work, public)

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        return [f"It is then sharpened by {self.steps} noisy passes over all rows."]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "refine": {
                "steps": self.steps,
                "multiplier": list(self.multipliers),
                "radius": list(self.radii),
                "scales": list(self.scales),
            }
        }

    @classmethod
    def from_form(cls, form: Form) -> Refinement:
        """Read the stage back from a plan, and check its form."""
        scales, multipliers = form.numbers("scales"), form.numbers("multiplier")
        if len(scales) != 3 or form.of("steps") != len(multipliers):
            raise InvalidInput(
                f"{form.name} must have three scales and as many multipliers as steps"
            )
        return cls(multipliers, form.numbers("radius"), scales)


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedRefinement:
    """Rows and the public mixture through which they will be seen. CONFIDENTIAL."""

    stage: Refinement
    work: Work
    public: Mixture

    def draw(self, source: NoiseSource) -> Drawn:
        """Run the noisy steps."""
        work, stage = self.work, self.stage
        found = refine(work.people, self.public, stage, rng=source)
        covariance = _covariance_of(found, stage, len(work.people))
        # whether such a mixture explains the rows is not known: blocks agreed on it
        error, resolution = accuracy_of(found, covariance, well_specified=True)
        errors = None
        if covariance is not None:
            errors = StandardErrors.from_local(found.weights, found.cholesky, covariance)
        return Drawn(
            Published(
                mixture=found,
                standard_errors=errors,
                expected_error=error,
                resolution=resolution,
            )
        )


def _covariance_of(mixture: Mixture, stage: Refinement, n: int) -> Array | None:
    """Compute public errors (P, P) after the last step; None where moments do not fix them."""
    noise = stage.deviations(stage.steps - 1, mixture.n_features) / n
    try:
        return refined_covariance(mixture, stage.radii[-1], noise, n, cut_features)
    except (InvalidInput, np.linalg.LinAlgError):
        return None


@nb.njit(cache=True, nogil=True)
def _responsibilities(
    row: Array,
    offsets: Array,
    means: Array,
    inverses: Array,
    u: Array,
    squares: Array,
    share: Array,
) -> float:
    """Fill a row's own coordinates u (k, d), their squared lengths and its shares (k,).

    Shares are to be divided by what is returned; 0 for a row that counts for no component.
    """
    k, d = u.shape
    best = -np.inf
    for a in range(k):
        total = 0.0
        for p in range(d):
            value = 0.0
            for q in range(p + 1):
                value += inverses[a, p, q] * (row[q] - means[a, q])
            u[a, p] = value
            total += value * value
        if not total < np.inf:
            # overflow: infinitely far, not a number that spoils the other shares
            total = np.inf
        squares[a] = total
        share[a] = offsets[a] - 0.5 * total
        if share[a] > best:
            best = share[a]
    if not best > -np.inf:
        # so far out that every density underflows
        return 0.0
    norm = 0.0
    for a in range(k):
        share[a] = math.exp(share[a] - best)
        norm += share[a]
    return norm


@nb.njit(cache=True, nogil=True)
def log_densities(rows: Array, offsets: Array, means: Array, inverses: Array, out: Array) -> None:
    """Compute the log density of each row, up to a constant; -inf where it underflows.

    The operations for a row do not depend on other rows, so neither do its last bits.
    """
    k, d = means.shape
    u = np.empty((k, d))
    squares, share = np.empty(k), np.empty(k)
    for i in range(rows.shape[0]):
        norm = _responsibilities(rows[i], offsets, means, inverses, u, squares, share)
        if norm == 0.0:
            out[i] = -np.inf
            continue
        best = -np.inf
        for a in range(k):
            best = max(best, offsets[a] - 0.5 * squares[a])
        out[i] = best + math.log(norm)


@nb.njit(cache=True, nogil=True)
def add_moments(
    rows: Array,
    starts: IntArray,
    offsets: Array,
    means: Array,
    inverses: Array,
    radius: float,
    scales: Array,
    unit: float,
    winsorise: bool,
    sums: IntArray,
) -> None:
    """Add the rounded contributions of all persons to `sums` (k, 1 + d + d(d+1)/2).

    A row gives ``(c0 r, c1 r v, c2 r svec(v v^T))``, v = u / R, each rounded to an integer of
    units; a person the average of these integers, rounded once more. So the sums are the same for
    any order of rows. Beyond R a row is pulled in to it (`winsorise`), or counts for nothing.
    """
    k, d = means.shape
    width = sums.shape[1]
    u = np.empty((k, d))
    squares, share = np.empty(k), np.empty(k)
    person = np.zeros((k, width), dtype=np.int64)
    root_two = math.sqrt(2.0)
    for p in range(starts.size - 1):
        size = starts[p + 1] - starts[p]
        person[:] = 0
        for i in range(starts[p], starts[p + 1]):
            norm = _responsibilities(rows[i], offsets, means, inverses, u, squares, share)
            if norm == 0.0:
                continue
            for a in range(k):
                r = share[a] / norm * unit
                # no scale exceeds one: all of it would be rounded to nothing
                if not r >= 0.5 or not squares[a] < np.inf:
                    continue
                pull = 1.0 / radius
                if squares[a] > radius * radius:
                    if not winsorise:
                        continue
                    pull = 1.0 / math.sqrt(squares[a])
                person[a, 0] += math.floor(scales[0] * r + 0.5)
                at = 1 + d
                for j in range(d):
                    v = u[a, j] * pull
                    person[a, 1 + j] += math.floor(scales[1] * r * v + 0.5)
                    person[a, at] += math.floor(scales[2] * r * v * v + 0.5)
                    at += 1
                    for q in range(j + 1, d):
                        cross = scales[2] * r * root_two * v * (u[a, q] * pull)
                        person[a, at] += math.floor(cross + 0.5)
                        at += 1
        for a in range(k):
            for j in range(width):
                if size == 1:
                    sums[a, j] += person[a, j]
                else:
                    sums[a, j] += (2 * person[a, j] + size) // (2 * size)


def component_offsets(mixture: Mixture) -> Array:
    """Compute ``ln w - ln det L`` of each component (k,), from which its log density starts."""
    with np.errstate(divide="ignore"):
        logs = np.log(mixture.weights)
    return np.asarray(
        logs - np.log(np.diagonal(mixture.cholesky, axis1=1, axis2=2)).sum(axis=1),
        dtype=np.float64,
    )


def inverse_factors(mixture: Mixture) -> Array:
    """Invert the lower factors (k, d, d)."""
    eye = np.eye(mixture.n_features)
    return np.stack([solve_triangular(factor, eye, lower=True) for factor in mixture.cholesky])


@dataclasses.dataclass(frozen=True, eq=False)
class _MomentTask(PersonSum):
    """Moment sums over some of the persons, by `add_moments`."""

    offsets: Array
    means: Array
    inverses: Array
    radius: float
    scales: Array
    unit: float
    winsorise: bool

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """Sum over these persons (k, 1 + d + d(d+1)/2)."""
        k, d = self.means.shape
        sums = np.zeros((k, 1 + d + d * (d + 1) // 2), dtype=np.int64)
        add_moments(
            rows,
            starts,
            self.offsets,
            self.means,
            self.inverses,
            self.radius,
            self.scales,
            self.unit,
            self.winsorise,
            sums,
        )
        return sums


def moment_sums(
    people: People,
    public: Mixture,
    radius: float,
    scales: Array,
    unit: float,
    *,
    winsorise: bool,
) -> IntArray:
    """Sum the moments of all persons (k, 1 + d + d(d+1)/2). CONFIDENTIAL without noise."""
    offsets, inverses = component_offsets(public), inverse_factors(public)
    task = _MomentTask(offsets, public.means, inverses, radius, scales, unit, winsorise)
    return people.total(task, "summing moments")


def cut_sums(
    people: People,
    public: Mixture,
    radius: float,
    scales: tuple[float, float, float],
    unit: float,
) -> IntArray:
    """Sum soft, cut moments (k, 1 + d + d(d+1)/2) of all rows under a mixture, as integers.

    Sums over persons of counts, ``r u / R`` and ``r svec(u u^T) / R^2`` (off-diagonals times
    sqrt 2), weighed by ``c / |c|``, in units of `1/unit`. CONFIDENTIAL without noise.
    """
    weights = np.asarray(scales) / math.hypot(*scales)
    return moment_sums(people, public, radius, weights, unit, winsorise=False)


@functools.lru_cache(maxsize=16)
def _normal_points(d: int, bits: int) -> tuple[Array, Array]:
    """Make 2^(bits+1) points (N, d) and weights (N,) for expectations under a normal law.

    Quasi-random in the radius and in the direction, each with its mirror image. The cut at R
    depends on the radius alone (nearly so in a moved component), so the radius is evenly
    stratified, with more points, of less weight, towards the tail.
    """
    sobol = scipy.stats.qmc.Sobol(d + 1, scramble=True, rng=np.random.default_rng(20230609))
    unit = np.clip(sobol.random_base2(bits), 1e-12, 1 - 1e-12)
    tail = (1 - unit[:, 0]) ** 2
    radius = np.sqrt(scipy.stats.chi2.isf(tail, d))
    towards = ndtri(unit[:, 1:])
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    points = radius[:, None] * towards
    weights = 2 * (1 - unit[:, 0])
    weights /= 2 * weights.sum()
    return np.concatenate([points, -points]), np.concatenate([weights, weights])


def _svec(u: Array) -> Array:
    """Compute ``svec(u u^T)`` of each row (n, d): (n, d (d + 1) / 2)."""
    row, column = np.triu_indices(u.shape[1])
    return np.asarray(
        u[:, row] * u[:, column] * np.where(row == column, 1.0, math.sqrt(2)), dtype=np.float64
    )


def cut_features(rows: Array, public: Mixture, radius: float) -> tuple[Array, Array]:
    """Compute what rows contribute (n, k, 1 + d + d(d+1)/2), with the cut and without it."""
    joint = public.log_joint(rows)
    share = np.exp(joint - joint.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    whole = []
    for a in range(public.n_components):
        u = solve_triangular(public.cholesky[a], (rows - public.means[a]).T, lower=True).T
        share[:, a] *= np.einsum("ij,ij->i", u, u) <= radius**2
        whole.append(np.concatenate([np.ones((len(u), 1)), u, _svec(u)], axis=1))
    moments = np.stack(whole, axis=1)
    return share[:, :, None] * moments, moments


def winsorised_features(rows: Array, public: Mixture, radius: float) -> tuple[Array, Array]:
    """Compute what rows contribute, winsorised (pulled in to the radius) and as they are."""
    joint = public.log_joint(rows)
    share = np.exp(joint - joint.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    seen, whole = [], []
    for a in range(public.n_components):
        u = solve_triangular(public.cholesky[a], (rows - public.means[a]).T, lower=True).T
        length = np.sqrt(np.einsum("ij,ij->i", u, u))
        v = u * np.minimum(1.0, radius / np.maximum(length, np.finfo(float).tiny))[:, None]
        ones = np.ones((len(u), 1))
        whole.append(np.concatenate([ones, u, _svec(u)], axis=1))
        seen.append(share[:, a, None] * np.concatenate([ones, v, _svec(v)], axis=1))
    return np.stack(seen, axis=1), np.stack(whole, axis=1)


def _scores(rows: Array, current: Mixture) -> Array:
    """Differentiate the log density in local coordinates: (n, k (1 + d + d(d+1)/2)).

    The coordinates of a component are its log-weight, its mean in units of its own spread and
    the logarithm of its covariance relative to itself.
    """
    joint = current.log_joint(rows)
    share = np.exp(joint - joint.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    d = current.n_features
    eye = _svec(np.eye(d)).sum(axis=0)
    parts = []
    for a in range(current.n_components):
        v = solve_triangular(current.cholesky[a], (rows - current.means[a]).T, lower=True).T
        local = np.concatenate([np.ones((len(v), 1)), v, 0.5 * (_svec(v) - eye)], axis=1)
        scored = share[:, a, None] * local
        scored[:, 0] -= current.weights[a]
        parts.append(scored)
    return np.concatenate(parts, axis=1)


def _exact_moments(current: Mixture, public: Mixture) -> Array:
    """Compute each component's uncut moments in its own public coordinates, times its weight."""
    rows = []
    for a in range(current.n_components):
        low = public.cholesky[a]
        shift = solve_triangular(low, current.means[a] - public.means[a], lower=True)
        root = solve_triangular(low, current.cholesky[a], lower=True)
        second = _svec(root.T).sum(axis=0) + _svec(shift[None])[0]
        rows.append(current.weights[a] * np.concatenate([[1.0], shift, second]))
    return np.stack(rows)


def _moved(current: Mixture, step: Array) -> Mixture:
    """Move a mixture along its local coordinates (k, 1 + d + d(d+1)/2)."""
    d = current.n_features
    row, column = np.triu_indices(d)
    weights = current.weights * np.exp(step[:, 0] - step[:, 0].max())
    means = current.means + np.einsum("kij,kj->ki", current.cholesky, step[:, 1 : 1 + d])
    logs = np.zeros((current.n_components, d, d))
    logs[:, row, column] = step[:, 1 + d :] / np.where(row == column, 1.0, math.sqrt(2))
    logs = logs + np.swapaxes(logs, 1, 2) * (1 - np.eye(d))
    values, vectors = np.linalg.eigh(logs)
    half = np.einsum("kij,kj,klj->kil", vectors, np.exp(values / 2), vectors)
    return Mixture.from_roots(weights / weights.sum(), means, current.cholesky @ half)


_Features = Callable[[Array, Mixture, float], tuple[Array, Array]]


class Pull(NamedTuple):
    """Information on a mixture from elsewhere than the moments, in its local coordinates.

    Parameters
    ----------
    information : array (P, P)
    downhill : array (P,)
        Minus the gradient of half the squared misfit.
    """

    information: Array
    downhill: Array


@dataclasses.dataclass(frozen=True, eq=False)
class MomentSolution:
    """A mixture that explains noisy moments, and the information about it.

    Parameters
    ----------
    mixture : Mixture
    converged : bool
        Whether the last step was below a tenth of a standard error.
    information : array (P, P)
        The normal matrix at the end, in local coordinates, prior included.
    """

    mixture: Mixture
    converged: bool
    information: Array


def solve_moments(
    public: Mixture,
    target: Array,
    radius: float,
    deviations: Array,
    n_rows: int,
    *,
    prior: float | Callable[[Mixture], Pull] = 1.0,
    iterations: int = 25,
    features: _Features = cut_features,
) -> MomentSolution:
    """Find the mixture whose expected moments match the noisy ones: post-processing.

    Parameters
    ----------
    public : Mixture
        Through which the rows were seen.
    target : array (k, 1 + d + d(d+1)/2)
        Noisy moment sums divided by n.
    radius : float
        R at which the moments were cut or winsorised.
    deviations : array (1 + d + d(d+1)/2,)
        Standard deviation of the noise on each of `target`.
    n_rows : int
        n, for the weight of sampling error against noise.
    prior : float or callable
        Standard deviation, in local coordinates, of how far the answer may lie from `public`; it
        matters only where the moments say nothing. Or what pulls at any mixture besides them,
        for example the misfit of a sketch that is known already.
    features : callable
        What a row contributes: `cut_features` or `winsorised_features`.

    Notes
    -----
    A plain M step is biased: rows beyond R are missing, and shared rows are shared by the
    public model, not by the truth. Here the expectation of the very same cut and shared
    moments is computed under the candidate, by quasi-random points with the exact Gaussian
    moments as control variate, and generalised least squares (Gauss-Newton, derivatives by
    scores) finds the candidate that matches. Where components hardly overlap and R is large
    this is one maximum-likelihood step.

    A pull is computed again at every candidate, so what is found minimises the misfit of the
    moments and that of the pull together, however far `public` is from it.

    It never raises for any noise on the moments, since the budget is spent by then: where a step
    cannot be taken, the last mixture stands, and has not converged.
    """
    k, width = target.shape
    bits = _QUADRATURE_BITS + (n_rows > 300_000) + (n_rows > 3_000_000)
    points, mass = _normal_points(public.n_features, bits)
    current, travelled = public, np.zeros(k * width)
    moved, normal = math.inf, np.eye(k * width)
    for _ in range(iterations):
        expected = _exact_moments(current, public)
        slope = np.zeros((k * width, k * width))
        second = np.zeros((k * width, k * width))
        for b in range(k):
            rows = points @ current.cholesky[b].T + current.means[b]
            seen, whole = features(rows, public, radius)
            part = seen.copy()
            part[:, b] -= whole[:, b]
            share = current.weights[b] * mass
            expected += np.einsum("i,ijk->jk", share, part)
            flat = seen.reshape(len(rows), -1)
            weighed = (flat * share[:, None]).T
            slope += weighed @ _scores(rows, current)
            second += weighed @ flat
        mean = expected.reshape(-1)
        covariance = (second - np.outer(mean, mean)) / n_rows
        covariance[np.diag_indices_from(covariance)] += np.tile(deviations**2, k)
        try:
            if callable(prior):
                pull = prior(current)
            else:
                pull = Pull(np.eye(k * width) * prior**-2, -travelled * prior**-2)
            whitened = np.linalg.solve(covariance, slope)
            normal = slope.T @ whitened + pull.information
            downhill = whitened.T @ (target.reshape(-1) - mean) + pull.downhill
            step = np.linalg.solve(normal, downhill)
            length = np.abs(step).max()
            if length > _STEP_LIMIT:
                step *= _STEP_LIMIT / length
            current = _moved(current, step.reshape(k, width))
        except (InvalidInput, np.linalg.LinAlgError):
            # noise is drawn already: what was reached so far is kept, which public numbers decide
            moved = math.inf
            break
        travelled += step
        moved = float(step @ normal @ step)
        # a hundredth of a standard error
        if moved < _CLOSE_ENOUGH:
            break
    return MomentSolution(current, moved < _CONVERGED, normal)


def refine(people: People, coarse: Mixture, refinement: Refinement, *, rng: NoiseSource) -> Mixture:
    """Run the noisy steps from the public coarse mixture; returns the last, also public.

    Persons count equally, however many rows they have.
    """
    current = coarse
    n, d = len(people), people.n_features
    for step in range(refinement.steps):
        radius = refinement.radii[step]
        unit = refinement.unit(step, n)
        sums = cut_sums(people, current, radius, refinement.scales, unit)
        sigma = refinement.sigma(step, unit, sums.size)
        noise = rng.discrete_gaussian(sigma, sums.size).reshape(sums.shape)
        noisy = (sums + noise) / (unit * n) * refinement.units(step, d)
        deviations = refinement.deviations(step, d) / n
        current = solve_moments(current, noisy, radius, deviations, n).mixture
    return current
