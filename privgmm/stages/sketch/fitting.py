"""Fit Gaussian mixtures to a noisy sketch, one per number of components: post-processing.

A sketch is a noisy characteristic function. That of a mixture is known exactly, so the mixture is
the solution of a least-squares problem; it needs no rows, costs no privacy, and may be solved as
often as needed. Everything here is in frame coordinates. The compiled work is in `kernels`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, eigh_tridiagonal, lapack, solve_triangular

from privgmm.arrays import (
    Array,
    BoolArray,
    finite_array,
    frozen,
    one_blas_thread,
    positive,
    upper_root,
    whole_number,
)
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture, cholesky_of_root
from privgmm.stages.refinement.noisy_moments import Pull
from privgmm.stages.sketch import kernels
from privgmm.stages.sketch.structures import (
    FULL,
    NARROWEST,
    MixtureArrays,
    Structure,
    local_slopes,
    pack,
    unpack,
)

__all__ = [
    "MISFIT",
    "NARROWEST",
    "FeatureLaw",
    "FrameFit",
    "PathSearch",
    "Sketched",
    "Viewpoint",
    "expected_information",
    "refit",
    "warm_fitting",
]

_Complex = npt.NDArray[np.complex128]

MISFIT = 5.0
"""Convention: above this many deviations of chi square a fit does not explain its sketch."""

_SEED = 20240611
"""Any number would do; a fixed one gives equal fits to equal sketches."""
_ATOMS, _FAR_ATOMS = 400, 200
"""Choice: atoms drawn where rows are, and farther out."""
_FAR_SPREAD = 5.0
"""Choice: far atoms spread five times as widely as the rows that the frame saw."""
_LIGHTEST_ATOM, _HEAVIEST_ATOM = 0.02, 0.3
"""Choice: bounds of the weight that an atom gets at first."""
_GREEDY = (6, 2, 2)  # from each of the solutions with a component less
_RANDOM = 10
"""Choice: random starts for each number of components, besides those from smaller solutions."""
_FIRST_TRIAL, _SECOND_TRIAL, _TRIAL_GAIN = 4, 8, 1e-2  # iterations; the better half goes on
_ITERATIONS, _GAIN = 150, 1e-4  # of the starts that are run to the end
_THINNED_FROM, _THINNED_PART, _SPARE = 6, 3, 1.2
"""Measured: from that many columns on starts are tried on a third of the frequencies, as long as
there are a fifth more numbers than free ones: errors are the same, in half the time."""
_RUN_ON, _KEPT, _POLISHED = 6, 3, 2  # starts run to the end, kept for k + 1, improved
_SAME = 0.1  # squared distance of predictions, in standard errors
_AXES = 4
"""Choice: longest axes of a component along which it is cut in two."""
_LIGHTEST_SPLIT = 0.02
"""Choice: lighter components are not cut."""
_CUMULANTS_FROM = 6  # dimensions
_ROUNDS, _STEPS = 3, 6  # of generalised least squares: covariances, and steps under each
_ROUND_GAIN, _STEP_GAIN = 1e-2, 1e-3  # in cost; a standard error is a half
_NUGGET = 1e-9  # keeps the covariance of one row positive definite in floating point
_LANCZOS = 80
"""Choice: Lanczos steps at most; the loop ends sooner, when the inflation settles to 0.1 %."""
_HOPELESS = 10.0  # times what is expected of the squares


class Sketched(Protocol):
    """The part of a sketch that fits read, as `PrivateSketch` has it."""

    @property
    def frequencies(self) -> Array:
        """Frequencies f (m, d)."""
        ...

    @property
    def values(self) -> _Complex:
        """Noisy means (m,) of exp(i f.z) over the units."""
        ...

    @property
    def deviations(self) -> Array:
        """Standard deviation (m,) of the noise on the real and on the imaginary part."""
        ...

    @property
    def fitted_from(self) -> int:
        """Index of the first frequency that fits read; those before it are left out."""
        ...

    @property
    def n_units(self) -> int:
        """Number of rows, or of persons, in the means."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class FrameFit:
    """The mixture of k components that explains a sketch best, in frame coordinates.

    Parameters
    ----------
    mixture : Mixture
        In frame coordinates.
    parameters : array (k, 1 + d + d (d + 1) / 2)
        The same mixture as free numbers, laid out as in `kernels`.
    chi_square : float
        Q, the squared residual in units of its covariance (sampling error and noise).
    degrees_of_freedom : int
        What Q is on average if the rows come from such a mixture.
    inflation : float
        How many times as large the noise was taken to be in the fit: 1, or, where the mixture
        cannot explain the sketch, as much as brings Q down to its degrees of freedom.
    information : array (F, F)
        Normal matrix of the generalised least squares, weak prior included, in the free numbers;
        its inverse is the covariance of their errors.
    floored : array (k,) of bool
        Components that came out narrower than `NARROWEST` in some direction and were widened.
    tangent : array (P, F) or None
        Derivative of the flattened parameters in the free numbers, where a covariance type leaves
        fewer of them; None where all parameters are free.
    """

    mixture: Mixture
    parameters: Array
    chi_square: float
    degrees_of_freedom: int
    inflation: float
    information: Array
    floored: BoolArray
    tangent: Array | None = None

    def __post_init__(self) -> None:
        for name in ("parameters", "information", "floored"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if self.tangent is not None:
            object.__setattr__(self, "tangent", frozen(self.tangent))

    @property
    def n_components(self) -> int:
        """Number of components k."""
        return self.mixture.n_components

    @property
    def misfit(self) -> float:
        """``(Q - dof) / sqrt(2 dof)``: about standard normal if k is right."""
        return (self.chi_square - self.degrees_of_freedom) / math.sqrt(2 * self.degrees_of_freedom)

    def compute_local_covariance(self) -> Array:
        """Compute the covariance (P, P) of the errors, in the coordinates of refinement.

        Singular where a covariance type ties numbers together.
        """
        inverse = np.linalg.inv(self.information)
        if self.tangent is not None:
            inverse = self.tangent @ inverse @ self.tangent.T
        back = np.linalg.inv(local_slopes(self.mixture.cholesky))
        return np.asarray(back @ inverse @ back.T)

    @property
    def explains(self) -> bool:
        """Whether the sketch looks like one of such a mixture: misfit at most `MISFIT`."""
        return self.misfit <= MISFIT

    @property
    def criterion(self) -> float:
        """``Q + F ln(2 m)`` for F free numbers and m frequencies; the smallest is preferred."""
        size = len(self.information)
        return self.chi_square + size * math.log(self.degrees_of_freedom + size - 1)


class _Solution(NamedTuple):
    """Parameters (k, width) and their cost."""

    theta: Array
    cost: float


# ------------------------------------------------------------------------- the problem


class _Problem:
    """A sketch as a least-squares problem; arrays (2 m,) are real parts, then imaginary parts."""

    def __init__(
        self,
        frequencies: Array,
        values: _Complex,
        deviations: Array,
        n: float,
        structure: Structure = FULL,
    ) -> None:
        self.structure = structure
        self.frequencies = np.array(frequencies, order="C")  # writable: the kernels know one type
        self.m: int = frequencies.shape[0]
        self.d: int = frequencies.shape[1]
        self.target: Array = np.concatenate([values.real, values.imag])
        self.noise: Array = np.tile(deviations**2, 2)
        self.n = float(n)
        # of one row, for the search, in which errors are taken to be independent
        variance = np.clip(0.5 * (1 - np.minimum(np.abs(values) ** 2, 1)), 0.02, 0.5)
        self.variance: Array = np.tile(variance, 2)

    @classmethod
    def of(cls, sketched: Sketched, structure: Structure = FULL) -> _Problem:
        frequencies = finite_array(sketched.frequencies, "frequencies", (None, None))
        m = len(frequencies)
        deviations = finite_array(sketched.deviations, "deviations", (m,))
        values = np.asarray(sketched.values, dtype=np.complex128)
        if values.shape != (m,) or not np.isfinite(values).all():
            raise InvalidInput(f"values must be {m} finite complex numbers, one per frequency")
        if (deviations < 0).any():
            raise InvalidInput("deviations must not be negative")
        n, first = whole_number(sketched.n_units, "n_units", 1), sketched.fitted_from
        return cls(frequencies[first:], values[first:], deviations[first:], n, structure)

    def thinned(self, part: int) -> _Problem:
        """Keep one of `part` frequencies, drawn from a fixed seed: quicker, and less exact."""
        drawn = np.random.default_rng(_SEED).permutation(self.m)[: self.m // part]
        kept = np.sort(drawn)
        values = self.target[kept] + 1j * self.target[self.m + kept]
        deviations = np.sqrt(self.noise[kept])
        return _Problem(self.frequencies[kept], values, deviations, self.n, self.structure)

    def degrees_of_freedom(self, theta: Array) -> int:
        """Count them: weights sum to one, so a mixture has one number less than are free."""
        return 2 * self.m - self.structure.n_free(len(theta), self.d) + 1

    def scale(self, inflation: float) -> Array:
        """Compute one over the deviation of each number, as if all were independent."""
        return np.asarray(1 / np.sqrt(inflation**2 * self.noise + self.variance / self.n))

    def predicted(self, theta: Array) -> Array:
        values = np.empty(2 * self.m)
        kernels.characteristic(
            *unpack(theta, self.d), self.frequencies, values, np.empty((0, theta.size))
        )
        return values

    def slopes(self, theta: Array, tangent: Array | None = None) -> Array:
        """Differentiate the predicted values in the free numbers (2 m, F)."""
        slopes = np.empty((2 * self.m, theta.size))
        parts = unpack(theta, self.d)
        kernels.characteristic(*parts, self.frequencies, np.empty(2 * self.m), slopes)
        return slopes if tangent is None else np.asarray(slopes @ tangent)

    def prior(self, theta: Array, tangent: Array | None = None) -> tuple[float, Array, Array]:
        """Compute the weak prior's cost, minus its gradient (F,) and its precision (F, F)."""
        pull, precision = np.empty(theta.size), np.empty(theta.size)
        cost = kernels.prior(theta, self.d, pull, precision)
        if tangent is None:
            return cost, pull, np.diag(precision)
        return cost, pull @ tangent, np.asarray((tangent.T * precision) @ tangent)

    def sampling(self, theta: Array) -> Array:
        """Compute the covariance of one row's features at theta, lower triangle only."""
        parts = unpack(theta, self.d)
        out = np.zeros((2 * self.m, 2 * self.m))
        kernels.wave_covariance(*parts, self.frequencies, self.predicted(theta), out)
        return out

    def whitener(self, sampling: Array, inflation: float) -> Array:
        """Compute an upper U, ``U' U`` the sketch's covariance; its lower triangle is arbitrary.

        What `sampling` gave is written over.
        """
        sampling /= self.n
        np.einsum("ii->i", sampling)[:] += inflation**2 * self.noise + _NUGGET / self.n
        return upper_root(sampling)


def _whitened(factor: Array, columns: Array) -> Array:
    solved, _ = lapack.dtrtrs(factor, columns, lower=0, trans=1)
    return np.asarray(solved)


def _normal_matrix(problem: _Problem, theta: Array, factor: Array) -> Array:
    """Compute the information in the free numbers, the weak prior's precision included."""
    tangent = problem.structure.tangent(theta, problem.d)
    slopes = _whitened(factor, problem.slopes(theta, tangent))
    return np.asarray(slopes.T @ slopes + problem.prior(theta, tangent)[2])


def _quadratic(problem: _Problem, theta: Array, factor: Array) -> float:
    residual = _whitened(factor, problem.target - problem.predicted(theta))
    return float(residual @ residual)


# ------------------------------------------------------------------------------ starts


class _Piece(NamedTuple):
    """Half of a component cut in two: its share, its mean, and any square root of its covariance.

    Roots, not covariances: they stay invertible however flat a component is.
    """

    share: float
    mean: Array
    root: Array


def _replaced(parts: MixtureArrays, c: int, first: _Piece, second: _Piece) -> Array:
    """Replace component c by two; returns theta."""
    weights, means, roots = parts.weights.copy(), parts.means.copy(), parts.roots.copy()
    weights[c], means[c] = first.share * parts.weights[c], first.mean
    roots[c] = cholesky_of_root(first.root)
    return pack(
        np.append(weights, second.share * parts.weights[c]),
        np.vstack([means, second.mean]),
        np.concatenate([roots, cholesky_of_root(second.root)[None]]),
    )


def _stretched(root: Array, towards: Array, variance: float) -> Array:
    """Multiply the variance of a root along a unit vector, in own coordinates, by `variance`."""
    return np.asarray(root + (math.sqrt(variance) - 1) * np.outer(root @ towards, towards))


def _splits(problem: _Problem, theta: Array, *, thorough: bool) -> Iterator[Array]:
    """Cut each component in two: along its long axes, narrow inside wide, along cumulants."""
    parts = unpack(theta, problem.d)
    for c in np.flatnonzero(parts.weights >= _LIGHTEST_SPLIT).tolist():
        mean, root = parts.means[c], parts.roots[c]
        axes = np.linalg.svd(root)[2]  # in own coordinates, the longest first
        for towards in axes[: _AXES if thorough else 1]:
            yield _halved(parts, c, towards)
        yield _replaced(parts, c, _Piece(0.6, mean, 0.6 * root), _Piece(0.4, mean, 1.4 * root))
        if thorough and problem.d >= _CUMULANTS_FROM:
            yield from _cumulant_splits(problem, theta, parts, c)


def _halved(parts: MixtureArrays, c: int, towards: Array) -> Array:
    """Cut component c into equal halves, apart along a unit vector in its own coordinates."""
    thin = _stretched(parts.roots[c], towards, 0.4)
    shift = 0.75 * parts.roots[c] @ towards
    halves = (_Piece(0.5, parts.means[c] + sign * shift, thin) for sign in (1, -1))
    return _replaced(parts, c, *halves)


def _cumulant_splits(
    problem: _Problem, theta: Array, parts: MixtureArrays, c: int
) -> Iterator[Array]:
    """Cut component c along the directions of its largest fourth and third cumulants.

    Notes
    -----
    To first order a component with cumulants kappa has the characteristic function
    ``g(f) (1 + kappa4(f) / 24 - i kappa3(f) / 6)``, g that of the Gaussian. Two clusters whose
    means differ by x have ``kappa4(f)`` and ``kappa3(f)`` proportional to ``(f.x)^4``,
    ``(f.x)^3``: so the residual, seen against the phase of g, gives x as a rank-one fit.
    A fourth cumulant below zero is that of two clusters apart, above zero that of two widths.
    """
    m, mean, root = problem.m, parts.means[c], parts.roots[c]
    residual = problem.target - problem.predicted(theta)
    values = problem.predicted(pack(np.ones(1), mean[None], root[None]))
    size = np.hypot(values[:m], values[m:]) + 1e-300
    cosine, sine = values[:m] / size, values[m:] / size
    scale = problem.scale(1.0)[:m]
    even = scale * (residual[:m] * cosine + residual[m:] * sine)
    odd = scale * (residual[:m] * sine - residual[m:] * cosine)
    for found, sign in _directions(problem.frequencies, even, size * scale, 4, 2):
        towards = _unit(solve_triangular(root, found, lower=True))
        if sign < 0:
            yield _halved(parts, c, towards)
        else:
            thin, wide = _stretched(root, towards, 0.4), _stretched(root, towards, 2.0)
            yield _replaced(parts, c, _Piece(0.6, mean, thin), _Piece(0.4, mean, wide))
    for found, sign in _directions(problem.frequencies, odd, size * scale, 3, 1):
        towards = sign * _unit(solve_triangular(root, found, lower=True))
        thin, shift = _stretched(root, towards, 0.6), root @ towards
        light = _Piece(0.25, mean + 1.1 * shift, thin)
        yield _replaced(parts, c, light, _Piece(0.75, mean - 0.37 * shift, thin))


def _unit(vector: Array) -> Array:
    return np.asarray(vector / np.linalg.norm(vector))


def _directions(
    frequencies: Array, target: Array, size: Array, power: int, count: int
) -> list[tuple[Array, float]]:
    """Find `count` terms, (x, sign), of a greedy fit of `target` by `size` (f.x)^power."""
    unit = frequencies / np.linalg.norm(frequencies, axis=1, keepdims=True)
    unit = unit[np.unique(np.round(unit, 6), axis=0, return_index=True)[1]]
    shapes = size[:, None] * (frequencies @ unit.T) ** power
    lengths = np.einsum("ij,ij->j", shapes, shapes)
    found = []
    for _ in range(count):
        promise = (target @ shapes) ** 2 / lengths
        tried = [
            kernels.rank_one(unit[j], frequencies, target, size, power, 40)
            for j in np.argsort(-promise)[:6]
        ]
        x, sign, _ = max(tried, key=lambda one: one[2])
        if not x.any():
            break
        found.append((x, sign))
        target = target - sign * size * (frequencies @ x) ** power
    return found


class _Atoms:
    """Round Gaussians, drawn once, that may be added to a mixture where it lacks mass.

    Most lie where the frame says that rows are. The rest lie farther out, for clusters that the
    frame did not see, and are wide: a wide one leads to a narrow cluster from farther away.
    """

    def __init__(self, problem: _Problem) -> None:
        rng = np.random.default_rng(_SEED)
        frequencies = problem.frequencies
        spread = np.concatenate(
            [rng.choice([0.7, 1.3, 2.0], _ATOMS), np.full(_FAR_ATOMS, _FAR_SPREAD)]
        )
        self.means: Array = spread[:, None] * rng.standard_normal((len(spread), problem.d))
        widths = rng.uniform(math.log(0.12), 0.1, _ATOMS)
        self.widths: Array = np.exp(np.append(widths, rng.uniform(-0.7, 0.5, _FAR_ATOMS)))
        phase = frequencies @ self.means.T
        norms = np.einsum("ij,ij->i", frequencies, frequencies)
        size = np.exp(-0.5 * norms[:, None] * self.widths**2)
        self.values: Array = np.concatenate([size * np.cos(phase), size * np.sin(phase)])

    def added(self, problem: _Problem, theta: Array, scale: Array, count: int) -> Iterator[Array]:
        """Move some of the mixture's weight to one of the most promising atoms, each in turn."""
        predicted = problem.predicted(theta)
        moved = (self.values - predicted[:, None]) * scale[:, None]
        along = (problem.target - predicted) * scale @ moved
        square = np.einsum("ij,ij->j", moved, moved)
        parts = unpack(theta, problem.d)
        picked: list[int] = []
        for i in np.argsort(-along / np.sqrt(square)).tolist():
            if len(picked) == count:
                break
            if all(self._differ(i, j) for j in picked):
                picked.append(i)
                share = min(max(along[i] / square[i], _LIGHTEST_ATOM), _HEAVIEST_ATOM)
                yield pack(
                    np.append((1 - share) * parts.weights, share),
                    np.vstack([parts.means, self.means[i]]),
                    np.concatenate([parts.roots, self.widths[i] * np.eye(problem.d)[None]]),
                )

    def _differ(self, i: int, j: int) -> bool:
        apart = float(np.linalg.norm(self.means[i] - self.means[j]))
        return apart > 0.5 or abs(math.log(self.widths[i] / self.widths[j])) > 0.7


def _random_starts(k: int, d: int) -> Iterator[Array]:
    rng = np.random.default_rng([_SEED, k])
    for _ in range(_RANDOM):
        means = rng.standard_normal((k, d)) * rng.choice([0.7, 1.2])
        widths = np.exp(rng.uniform(math.log(0.2), 0, k))
        yield pack(rng.dirichlet(np.full(k, 3.0)), means, widths[:, None, None] * np.eye(d))


def _starts(
    problem: _Problem, atoms: _Atoms, k: int, smaller: Sequence[_Solution], scale: Array
) -> Iterator[Array]:
    """List starts for k components, given the solutions for k - 1, best first."""
    if k == 1:
        for width in (1.0, 0.4, 2.5):
            yield pack(np.ones(1), np.zeros((1, problem.d)), width * np.eye(problem.d)[None])
        return
    for rank, (solution, count) in enumerate(zip(smaller, _GREEDY, strict=False)):
        yield from atoms.added(problem, solution.theta, scale, count)
        yield from _splits(problem, solution.theta, thorough=rank == 0)
    yield from _random_starts(k, problem.d)


def _allowed_starts(
    problem: _Problem, atoms: _Atoms, k: int, smaller: Sequence[_Solution], scale: Array
) -> Iterator[Array]:
    """List the starts, with covariances of the type that is asked for."""
    for theta in _starts(problem, atoms, k, smaller, scale):
        yield problem.structure.nearest(theta, problem.d)


def _descended(
    problem: _Problem, theta: Array, scale: Array, iterations: int, gain: float
) -> _Solution:
    if problem.structure.tangent(theta, problem.d) is not None:
        return _descended_along(problem, theta, scale, iterations, gain)
    found, cost = kernels.descend(
        theta, problem.frequencies, problem.target, scale, iterations, gain
    )
    return _Solution(found, cost)


def _descended_along(
    problem: _Problem, theta: Array, scale: Array, iterations: int, tolerance: float
) -> _Solution:
    """Run Levenberg-Marquardt as `kernels.descend` does, in a covariance type's free numbers."""
    structure, d = problem.structure, problem.d
    residual = (problem.target - problem.predicted(theta)) * scale
    cost = 0.5 * float(residual @ residual) + problem.prior(theta)[0]
    damping = kernels.FIRST_DAMPING
    for _ in range(iterations):
        tangent = structure.tangent(theta, d)
        slopes = problem.slopes(theta, tangent) * scale[:, None]
        _, pull, precision = problem.prior(theta, tangent)
        normal = slopes.T @ slopes + precision
        downhill = slopes.T @ residual + pull
        gain = -1.0
        for _ in range(8):
            step = kernels.damped_step(normal, downhill, damping)
            new = structure.moved(theta, step, d)
            new_residual = (problem.target - problem.predicted(new)) * scale
            new_cost = 0.5 * float(new_residual @ new_residual) + problem.prior(new)[0]
            if new_cost < cost:
                gain = cost - new_cost
                theta, cost, residual = new, new_cost, new_residual
            damping = kernels.next_damping(damping, gain >= 0)
            if gain >= 0:
                break
        if gain < tolerance:
            break
    return _Solution(theta, cost)


def _search(
    problem: _Problem, atoms: _Atoms, k: int, smaller: Sequence[_Solution], inflation: float
) -> list[_Solution]:
    """Find the best distinct solutions, best first, taking errors to be independent."""
    scale = problem.scale(inflation)

    def run(
        what: _Problem, thetas: Iterator[Array], iterations: int, gain: float
    ) -> list[_Solution]:
        seen = what.scale(inflation)
        done = (_descended(what, theta, seen, iterations, gain) for theta in thetas)
        return sorted(done, key=lambda solution: solution.cost)

    # most starts lead nowhere: a few steps for each, more for the better half, the best to the end
    trial = problem
    if problem.d >= _THINNED_FROM:
        enough = 2 * problem.m >= _THINNED_PART * _SPARE * problem.structure.n_free(k, problem.d)
        trial = problem.thinned(_THINNED_PART) if enough else problem
    starts = _allowed_starts(problem, atoms, k, smaller, scale)
    tried = run(trial, starts, _FIRST_TRIAL, _TRIAL_GAIN)
    half = tried[: max(_RUN_ON, len(tried) // 2)]
    tried = run(trial, (one.theta for one in half), _SECOND_TRIAL, _TRIAL_GAIN)
    best = run(problem, (one.theta for one in tried[:_RUN_ON]), _ITERATIONS, _GAIN)
    kept: list[tuple[_Solution, Array]] = []
    for solution in best:
        predicted = problem.predicted(solution.theta) * scale
        if all(np.sum((predicted - other) ** 2) > _SAME for _, other in kept):
            kept.append((solution, predicted))
    return [solution for solution, _ in kept[:_KEPT]]


# ------------------------------------------------------------ generalised least squares


def _improve(problem: _Problem, theta: Array, factor: Array) -> tuple[Array, float, float]:
    """Take Gauss-Newton steps under a given covariance: theta, its chi square, gain in cost."""
    structure, d = problem.structure, problem.d
    residual = _whitened(factor, problem.target - problem.predicted(theta))
    cost = first = 0.5 * float(residual @ residual) + problem.prior(theta)[0]
    damping = 1e-4
    for _ in range(_STEPS):
        tangent = structure.tangent(theta, d)
        slopes = _whitened(factor, problem.slopes(theta, tangent))
        _, pull, precision = problem.prior(theta, tangent)
        normal = slopes.T @ slopes + precision
        downhill = slopes.T @ residual + pull
        gain = 0.0
        for _ in range(6):
            damped = normal + damping * np.diag(np.diag(normal))
            step: Array = np.asarray(np.linalg.solve(damped, downhill))
            step /= max(1.0, float(np.abs(step).max()))
            new = structure.moved(theta, step, d)
            new_residual = _whitened(factor, problem.target - problem.predicted(new))
            new_cost = 0.5 * float(new_residual @ new_residual) + problem.prior(new)[0]
            if new_cost < cost:
                gain = cost - new_cost
                theta, residual, cost = new, new_residual, new_cost
                damping /= 5
                break
            damping *= 10
        if gain < _STEP_GAIN:
            break
    return theta, float(residual @ residual), float(first - cost)


def _balanced(problem: _Problem, theta: Array, sampling: Array) -> float:
    """Find the inflation of the noise, at least 1, at which chi square equals its dof.

    Notes
    -----
    In units of the noise the covariance is ``B + h I``, h the square of the inflation, and
    ``b' (B + h I)^-1 b`` is wanted for many h: Lanczos' tridiagonal matrix, started at b, has the
    nodes and weights of a Gauss rule that gives it for all of them.
    """
    wanted = float(problem.degrees_of_freedom(theta))
    deviation = np.sqrt(problem.noise + _NUGGET / problem.n)
    vector = (problem.target - problem.predicted(theta)) / deviation
    total = float(vector @ vector)
    basis = [vector / math.sqrt(total)]
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    level = 1.0
    for count in range(1, _LANCZOS + 1):
        image = blas.dsymv(1 / problem.n, sampling.T, basis[-1] / deviation, lower=0) / deviation
        diagonal.append(float(basis[-1] @ image))
        known = np.array(basis)
        for _ in range(2):  # twice is enough to keep them orthogonal
            image -= known.T @ (known @ image)
        if count % 4 == 0:
            nodes, vectors = eigh_tridiagonal(diagonal, off_diagonal)
            shares = total * vectors[0] ** 2
            before, level = level, _root(np.maximum(nodes, 0.0), shares, wanted)
            if abs(level / before - 1) < 1e-3:
                break
        off_diagonal.append(float(np.linalg.norm(image)))
        if off_diagonal[-1] < 1e-12 * max(diagonal):
            break
        basis.append(image / off_diagonal[-1])
    return math.sqrt(level)


def _root(nodes: Array, shares: Array, wanted: float) -> float:
    """Find the h >= 1 with ``sum shares / (nodes + h) = wanted``; 1 if the sum is smaller."""
    h = 1.0
    for _ in range(60):
        terms = shares / (nodes + h)
        total = float(terms.sum())
        if total <= wanted * (1 + 1e-9):
            break
        # Newton on the reciprocal of the sum, which is concave in h: from below, never beyond
        slope = float((terms / (nodes + h)).sum()) / total**2
        h += (1 / wanted - 1 / total) / slope
    return h


def _z(problem: _Problem, theta: Array, chi: float) -> float:
    wanted = problem.degrees_of_freedom(theta)
    return (chi - wanted) / math.sqrt(2 * wanted)


def _polish(
    problem: _Problem, candidates: Sequence[Array], *, rough: bool
) -> tuple[Array, float, Array, float]:
    """Improve candidates by generalised least squares; returns what is known of the best.

    That is theta, its chi square, its information, and the inflation of the noise. The covariance
    is computed at the candidate, and again until it changes nothing. If the candidates are `rough`
    (found with inflated noise), they are sharpened first.
    """
    if not candidates:
        raise InvalidInput("candidates must not be empty")
    starts, candidate = list(candidates), candidates[0]
    if rough:
        scale = problem.scale(1.0)
        starts = [_descended(problem, one, scale, _ITERATIONS, _GAIN).theta for one in starts]
    if not all(_hopeless(problem, theta) for theta in starts):
        tried = []
        for start in starts:
            factor = problem.whitener(problem.sampling(start), 1.0)
            tried.append((*_improve(problem, start, factor), factor))
        best = min(range(len(tried)), key=lambda i: tried[i][1])
        candidate, (theta, chi, gain, factor) = candidates[best], tried[best]
        for _ in range(1, _ROUNDS):
            if _z(problem, theta, chi) > MISFIT or gain < _ROUND_GAIN:
                break
            factor = problem.whitener(problem.sampling(theta), 1.0)
            theta, chi, gain = _improve(problem, theta, factor)
        if _z(problem, theta, chi) <= MISFIT:
            return theta, chi, _normal_matrix(problem, theta, factor), 1.0
    # What no mixture of this size can explain counts as noise
    theta, inflation = candidate, 1.0
    sampling = problem.sampling(theta)
    for _ in range(2):
        inflation = _balanced(problem, theta, sampling)
        factor = problem.whitener(sampling, inflation)
        theta, _, _ = _improve(problem, theta, factor)
        sampling = problem.sampling(theta)
    chi = _quadratic(problem, theta, problem.whitener(sampling, 1.0))
    return theta, chi, _normal_matrix(problem, theta, factor), inflation


def _hopeless(problem: _Problem, theta: Array) -> bool:
    """Decide whether a mixture explains so little that correlated errors need not be computed.

    Even where few errors of the rows move all waves together, the mean of all squared errors, each
    in units of its own variance, is not many times its expectation.
    """
    residual = (problem.target - problem.predicted(theta)) * problem.scale(1.0)
    return float(residual @ residual) > _HOPELESS * problem.degrees_of_freedom(theta)


def _finished(problem: _Problem, candidates: Sequence[Array], *, rough: bool) -> FrameFit:
    """Build the fit of the best candidate, its widths bounded below."""
    theta, chi, information, inflation = _polish(problem, candidates, rough=rough)
    theta, floored = problem.structure.widened(theta, problem.d)
    if floored.any():
        sampling = problem.sampling(theta)
        chi = _quadratic(problem, theta, problem.whitener(sampling.copy(), 1.0))
        if _z(problem, theta, chi) > MISFIT:
            inflation = _balanced(problem, theta, sampling)
        information = _normal_matrix(problem, theta, problem.whitener(sampling, inflation))
    return FrameFit(
        mixture=Mixture.from_roots(*unpack(theta, problem.d)),
        parameters=theta,
        chi_square=chi,
        degrees_of_freedom=problem.degrees_of_freedom(theta),
        inflation=inflation,
        information=information,
        floored=floored,
        tangent=problem.structure.tangent(theta, problem.d),
    )


# ------------------------------------------------------------------------------ public


class PathSearch:
    """Fits of a sketch with 1, 2, 3, .. components, each computed when first asked for.

    Deterministic, and the fit for k does not depend on how far the path is followed.

    Parameters
    ----------
    sketched : Sketched
    structure : Structure
        What the covariance type leaves free.
    """

    def __init__(self, sketched: Sketched, structure: Structure = FULL) -> None:
        self._problem = _Problem.of(sketched, structure)
        self._fits: list[FrameFit] = []
        self._solutions: list[_Solution] = []
        self._lock = threading.Lock()

    @functools.cached_property
    def _atoms(self) -> _Atoms:
        return _Atoms(self._problem)

    @property
    def longest(self) -> int:
        """Largest number of components with fewer free numbers than the sketch has."""
        problem, k = self._problem, 1
        while problem.structure.n_free(k + 1, problem.d) <= 2 * problem.m:
            k += 1
        return k

    def upto(self, n_components: int) -> tuple[FrameFit, ...]:
        """Fit 1, 2, .. `n_components` components."""
        problem = self._problem
        k_most = whole_number(n_components, "n_components", 1)
        if (free := problem.structure.n_free(k_most, problem.d)) > 2 * problem.m:
            raise InvalidInput(
                f"n_components must leave fewer free numbers than the sketch has, {2 * problem.m}, "
                f"got {k_most} components with {free} of them: ask for fewer components or take a "
                "sketch with more frequencies"
            )
        with self._lock, one_blas_thread():
            while len(self._fits) < k_most:
                self._go_on()
            return tuple(self._fits[:k_most])

    def _go_on(self) -> None:
        k = len(self._fits) + 1
        inflation = self._fits[-1].inflation if self._fits else 1.0
        solutions = _search(self._problem, self._atoms, k, self._solutions, inflation)
        candidates = [one.theta for one in solutions[:_POLISHED]]
        found = _finished(self._problem, candidates, rough=inflation > 1)
        solutions[0] = _Solution(found.parameters.copy(), found.chi_square)
        self._fits.append(found)
        self._solutions = solutions


def refit(sketched: Sketched, start: FrameFit) -> FrameFit:
    """Fit another sketch in the same frame, from where `start` ended."""
    problem = _Problem.of(sketched)
    if start.mixture.n_features != problem.d:
        raise InvalidInput(
            f"start must have as many features as the sketch, {problem.d}, "
            f"got {start.mixture.n_features}"
        )
    with one_blas_thread():
        return _finished(problem, [start.parameters.copy()], rough=start.inflation > 1)


def _of_mixture(mixture: Mixture, d: int) -> Array:
    if mixture.n_features != d:
        raise InvalidInput(
            f"mixture must have as many features as the frequencies, {d}, got {mixture.n_features}"
        )
    return pack(mixture.weights, mixture.means, mixture.cholesky)


def expected_information(
    mixture: Mixture, frequencies: npt.ArrayLike, deviations: npt.ArrayLike, n_units: float
) -> Array:
    """Compute a fit's information (P, P) in local coordinates if rows come from `mixture`.

    They are those in which refinement moves a mixture: per component the logarithm of its
    weight, its mean in its own units (``L^-1`` times the change), and the logarithm M of its
    covariance relative to itself (``L exp(M) L'``), as svec: the upper triangle row by row, with
    the entries off the diagonal times sqrt 2.

    Parameters
    ----------
    mixture : Mixture
        In frame coordinates.
    frequencies : array-like (m, d)
    deviations : array-like (m,)
        Standard deviation of the noise on the real and on the imaginary part of each value.
    n_units : float
        Rows, or persons, in the sketch.
    """
    where = finite_array(frequencies, "frequencies", (None, None))
    noise = finite_array(deviations, "deviations", (len(where),))
    nothing = np.zeros(len(where), dtype=np.complex128)
    problem = _Problem(where, nothing, noise, positive(n_units, "n_units"))
    theta = _of_mixture(mixture, problem.d)
    with one_blas_thread():
        factor = problem.whitener(problem.sampling(theta), 1.0)
        slopes = local_slopes(mixture.cholesky)
        return np.asarray(slopes.T @ _normal_matrix(problem, theta, factor) @ slopes)


class FeatureLaw(NamedTuple):
    """Information of a sketch about a mixture, in its local coordinates.

    Parameters
    ----------
    information : array (P, P)
        Normal matrix, weak prior included.
    known : array (P, P)
        Normal matrix without the prior.
    pulls : array (P, 2 m)
        Slopes times the inverse covariance: what each error of the sketch adds to the equations.
    """

    information: Array
    known: Array
    pulls: Array


class Viewpoint:
    """A sketch and its covariance at a mixture in frame coordinates, computed once.

    Parameters
    ----------
    sketched : Sketched
    mixture : Mixture
    """

    def __init__(self, sketched: Sketched, mixture: Mixture) -> None:
        self.sketched, self.mixture = sketched, mixture
        self._problem = _Problem.of(sketched)
        self._theta = _of_mixture(mixture, self._problem.d)
        with one_blas_thread():
            self._factor = self._problem.whitener(self._problem.sampling(self._theta), 1.0)

    @property
    def chi_square(self) -> float:
        """Q of the mixture: how badly it explains the sketch."""
        with one_blas_thread():
            return _quadratic(self._problem, self._theta, self._factor)

    @property
    def law(self) -> FeatureLaw:
        """Information of the sketch about the mixture, if the rows follow it."""
        problem, theta = self._problem, self._theta
        to_theta = local_slopes(self.mixture.cholesky)
        with one_blas_thread():
            slopes = _whitened(self._factor, problem.slopes(theta) @ to_theta)
            known = slopes.T @ slopes
            pulls, _ = lapack.dtrtrs(self._factor, slopes, lower=0, trans=0)
        information = known + (to_theta.T * np.diagonal(problem.prior(theta)[2])) @ to_theta
        return FeatureLaw(information, known, np.asarray(pulls.T))

    def pull(self, mixture: Mixture) -> Pull:
        """Compute how the sketch pulls at any mixture near by, for `solve_moments`."""
        problem = self._problem
        theta = _of_mixture(mixture, problem.d)
        to_theta = local_slopes(mixture.cholesky)
        slopes = _whitened(self._factor, problem.slopes(theta) @ to_theta)
        residual = _whitened(self._factor, problem.target - problem.predicted(theta))
        _, towards, precision = problem.prior(theta)
        return Pull(
            np.asarray(slopes.T @ slopes + to_theta.T @ precision @ to_theta),
            np.asarray(slopes.T @ residual + to_theta.T @ towards),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Example:
    """A tiny sketch, to compile on."""

    frequencies: Array
    values: _Complex
    deviations: Array
    n_units: int
    fitted_from: int = 0


def warm_fitting() -> None:
    """Compile the kernels on something tiny."""
    rng = np.random.default_rng(0)
    d = _CUMULANTS_FROM
    frequencies = rng.standard_normal((60, d))
    values = np.exp(-0.5 * (frequencies**2).sum(axis=1)) * np.cos(frequencies[:, 0]) + 0j
    PathSearch(_Example(frequencies, values, np.full(60, 0.1), 100)).upto(2)
