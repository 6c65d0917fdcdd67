"""Find the mixture that soft looks saw: exactly for each component, overlap corrected.

Post-processing: everything here reads public numbers only. Seen through its own component a
Gaussian's moments are inverted in closed form (`soft_moments`). What components share is corrected
by the difference that sharing makes at the candidate itself, until that no longer moves. Several
looks, each through another mixture, are solved together: a candidate moves by the mean of what
they ask for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from privgmm.arrays import Array, frozen
from privgmm.mixture import Mixture
from privgmm.stages.refinement.soft_looks import SeenMoments, SoftLook
from privgmm.stages.refinement.soft_moments import (
    Expectations,
    Gaussian,
    expectations,
    gaussian_of,
    slopes_at_normal,
)

__all__ = [
    "LookResult",
    "Seen",
    "Spread",
    "expected_spread",
    "shaped",
    "shrunk",
    "solve_looks",
    "solve_tied_look",
]

_ROUNDS, _CLOSE, _SETTLED = (25, 8), 1e-3, 1e-2
"""Choice: rounds of the correction at most, with few draws and with all; the move of any number at
which they end, and the move up to which the correction has come to rest."""
_MEMORY, _STRAYED = 4, 3.0
"""Choice: steps that the next one is combined of, and the growth of a move that starts over."""
_PILOT, _MOST_DRAWS = 11, 15
"""Choice: powers of two of draws: of those that tell how much components share and how candidates
move at first, and of the most that the correction uses."""
_EVENNESS = 5.0
"""Measured, d = 10 to 50: independent draws that are as good as one of those spread evenly."""
_CORRECTION_NOISE = 0.3
"""Choice: error of the correction by drawing, as a share of that of the look."""
_ALONE, _NEVER = 1e-4, 1e-7
"""Rows that belong to their component up to the first share move no sum by more than that; those
that do up to the second are not drawn again for candidates near by."""
_LEAST_SHARE = 0.02
"""Choice: least weight of a component, in shares of 1/k; also twice the noise on it."""
_FARTHEST = 3.0
"""Choice: the farthest that a look moves a mean, in units of the component looked through."""
_WIDTHS = (0.1, 10.0)
"""Choice: how far a look moves a variance, at most."""
_FLOOR, _NOISY_FLOOR, _LEAST = 0.25, 0.5, 0.02
"""Choice: least eigenvalue after the last look, in units of the common shape: this share of the
noise's spread, no more than the second, no less than the third."""
_REPLICAS, _HARDLY = 2, 0.003
"""Choice: pairs of imitations of looks, from which we learn how sharing enlarges their errors, and
the share of rows that components share up to which it does not."""
_SEED = 20231117
"""Any fixed number does: the same noisy numbers then give the same mixture."""


class Seen(NamedTuple):
    """One look: what it shows, and the public mixture that it is through."""

    moments: SeenMoments
    public: Mixture
    look: SoftLook


class Spread(NamedTuple):
    """Deviations (k,) of the errors of weights, of means' coordinates, and of covariances' svec.

    In each component's own units.
    """

    weights: Array
    means: Array
    entries: Array

    @classmethod
    def of_looks(cls, looks: Sequence[SoftLook], weights: Array, n: int, d: int) -> Spread:
        """Compute the errors that looks leave together where components share no rows.

        Sampling error is the same in all looks.
        """
        k = len(weights)
        parts: list[tuple[Array, Array, Array]] = []
        sampled: list[tuple[float, float]] = []
        for look in looks:
            noise, slopes = look.noise(n, k, d), slopes_at_normal(d, look.softness)
            parts.append(
                (
                    np.full(k, noise.share**-2),
                    (noise.first / (weights * slopes.first)) ** -2,
                    (noise.second / (weights * slopes.second)) ** -2,
                )
            )
            sampled.append((slopes.level / slopes.first**2, 2 * slopes.fourth / slopes.second**2))
        level, fourth = sampled[-1]
        share, mean, entry = (1 / np.sum([part[i] for part in parts], axis=0) for i in range(3))
        return cls(
            np.sqrt(share + weights * (1 - weights) / n),
            np.sqrt(mean + level / (n * weights)),
            np.sqrt(entry + fourth / (n * weights)),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class LookResult:
    """What looks saw together, in the units of the looks.

    Parameters
    ----------
    mixture : Mixture
        Its covariances are shrunk where they are mostly noise.
    raw : array (k, d, d)
        Covariances without shrinking, symmetric but perhaps not positive definite.
    noise : array (k,)
        Deviation of the noise on an entry of a covariance's svec, in units of the component that
        the last look was through.
    spread : Spread
        Of all errors, sampling and sharing included.
    quarrel : array (k,)
        By how many deviations looks differ more than looks do that saw one mixture.
    moved : array (k,)
        How far means lie from those that the last look was through, in their units.
    shared : float
        Share of rows that more than one component claims, as far as it says something.
    settled : bool
        Whether the correction for what components share came to rest.
    """

    mixture: Mixture
    raw: Array
    noise: Array
    spread: Spread
    quarrel: Array
    moved: Array
    shared: float
    settled: bool

    def __post_init__(self) -> None:
        for name in ("raw", "noise", "quarrel", "moved"):
            object.__setattr__(self, name, frozen(getattr(self, name)))


def shrunk(matrix: Array, deviation: float) -> Array:
    """Shrink the eigenvalues of a symmetric matrix (d, d) whose svec has noise of this deviation.

    Notes
    -----
    The best estimate that keeps the noisy eigenvectors moves an eigenvalue x to
    ``x - 2 sigma^2 Re G(x)``, ``sigma^2 = d deviation^2 / 2`` and G the mean of ``1 / (x - y)``
    over the eigenvalues y (Bun, Allez, Bouchaud and Potters, 2016), here smoothed over about the
    gap between neighbours.
    """
    d = len(matrix)
    values, vectors = np.linalg.eigh(matrix)
    variance = d * deviation**2 / 2
    gap = values[:, None] - values
    smooth = max(variance / d, 1e-24)
    pull = (gap / (gap**2 + smooth)).sum(axis=1) / d
    return np.asarray((vectors * (values - 2 * variance * pull)) @ vectors.T)


@functools.lru_cache(maxsize=4)
def _even_draws(d: int, bits: int) -> Array:
    """Draw standard normal vectors (2^bits, d), always the same, spread evenly."""
    sobol = scipy.stats.qmc.Sobol(d, scramble=True, rng=np.random.default_rng(_SEED))
    return frozen(ndtri(np.clip(sobol.random_base2(bits), 1e-12, 1 - 1e-12)))


class _Sharing:
    """The difference that sharing rows makes to a look's moments, at a candidate.

    It is ``sum over b of w_b E_b[(r_a - 1{a = b}) phi_a]``, by draws that are the same for every
    candidate: spread evenly, most of all along the lines between means, and few until a candidate
    is near.
    """

    def __init__(self, public: Mixture, look: SoftLook, n: int) -> None:
        self.public, self.look = public, look
        k, d = public.n_components, public.n_features
        self._inverses = np.linalg.inv(public.cholesky)
        diagonals = np.einsum("kii->ki", self._inverses)
        self._logs = np.log(public.weights) + np.log(diagonals).sum(axis=1)
        self._turns = []
        for b in range(k):
            gaps = self._inverses[b] @ (np.delete(public.means, b, axis=0) - public.means[b]).T
            self._turns.append(np.linalg.qr(np.concatenate([gaps, np.eye(d)], axis=1))[0])
        self.begin(_PILOT)
        alike = Gaussian(np.zeros(d), np.eye(d))
        alone = [self._seen(b, alike)[2][b].mean() for b in range(k)]
        self.shared = float(public.weights @ (1 - np.array(alone)))
        # an entry of v v^T has a size of 1/d; errors of the look are noise and sampling
        noise = look.noise(n, k, d).second
        variance = (d * noise) ** 2 + float(public.weights.min()) / n
        draws = self.shared / (_EVENNESS * _CORRECTION_NOISE**2 * variance)
        self.enough = min(max(math.ceil(math.log2(max(draws, 1.0))), _PILOT), _MOST_DRAWS)

    def begin(self, bits: int) -> None:
        """Take 2^bits draws from here on."""
        even = _even_draws(self.public.n_features, bits)
        self._draws = [even @ turn.T for turn in self._turns]
        self._round, self._count = 0, len(even)

    def _seen(self, b: int, found: Gaussian) -> tuple[list[Array], Array, Array]:
        """Compute own coordinates, squared lengths and shares (k, N) of component b's draws."""
        root, place = self.public.cholesky[b], self.public.means[b]
        mean, factor = place + root @ found.mean, root @ np.linalg.cholesky(found.covariance)
        own = [
            (inverse @ factor) @ self._draws[b].T + (inverse @ (mean - other))[:, None]
            for inverse, other in zip(self._inverses, self.public.means, strict=True)
        ]
        squares = np.stack([np.einsum("ji,ji->i", u, u) for u in own])
        joint = self._logs[:, None] - 0.5 * squares
        joint -= joint.max(axis=0)
        np.exp(joint, out=joint)
        joint /= joint.sum(axis=0)
        return own, squares, joint

    def moments(self, weights: Array, found: list[Gaussian]) -> SeenMoments:
        """Compute the difference for components found in units of the public ones."""
        k, d = self.public.means.shape
        out = SeenMoments(np.zeros(k), np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d)))
        for b in range(k):
            own, squares, r = self._seen(b, found[b])
            for a in range(k):
                on = np.flatnonzero(r[b] < 1 - _ALONE if a == b else r[a] > _ALONE)
                part = (r[a, on] - (a == b)) * (weights[b] / self._count)
                square = squares[a, on]
                v = own[a][:, on] / np.sqrt(self.look.softness + square)
                out.shares[a] += part.sum()
                out.psi[a] += part @ np.exp(-square / d)
                out.first[a] += v @ part
                out.second[a] += (v * part) @ v.T
            if self._round == 1:
                # candidates hardly move from here on: draws that are far from shared stay so
                self._draws[b] = self._draws[b][r[b] < 1 - _NEVER]
        self._round += 1
        return out


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidate:
    """Shares of rows (k,), not added up to one, and components in units of the last look's.

    `raw` (k, d, d) are the covariances before they were shrunk.
    """

    shares: Array
    found: list[Gaussian]
    raw: Array

    @functools.cached_property
    def numbers(self) -> Array:
        """Logarithms of shares and covariances, and means, in one vector."""
        parts = [np.log(self.shares)]
        for one in self.found:
            values, vectors = np.linalg.eigh(one.covariance)
            parts += [one.mean, ((vectors * np.log(values)) @ vectors.T).ravel()]
        return np.concatenate(parts)

    @classmethod
    def of(cls, numbers: Array, k: int) -> _Candidate:
        """Return the candidate of these numbers."""
        own = numbers[k:].reshape(k, -1)
        d = math.isqrt(own.shape[1])
        found = []
        for one in own:
            logs = one[d:].reshape(d, d)
            values, vectors = np.linalg.eigh((logs + logs.T) / 2)
            values = np.clip(values, *np.log(_WIDTHS))
            found.append(Gaussian(one[:d], (vectors * np.exp(values)) @ vectors.T))
        raw = np.stack([one.covariance for one in found])
        return cls(np.exp(np.clip(numbers[:k], -30.0, 0.0)), found, raw)


def _at_rest(
    step: Callable[[_Candidate], _Candidate], start: _Candidate, rounds: int
) -> tuple[_Candidate, bool]:
    """Find a candidate that a step hardly moves, and say whether there is one.

    Anderson's acceleration: the next candidate is the combination of what the last steps led to
    whose moves cancel best.
    """
    at, best, least = start, start, math.inf
    ends: list[Array] = []
    moves: list[Array] = []
    for _ in range(rounds):
        end = step(at)
        move = end.numbers - at.numbers
        moved = float(np.abs(move).max())
        if moved < least:
            best, least = end, moved
        if moved < _CLOSE:
            break
        if moved > _STRAYED * least:
            ends, moves, at = [], [], best
            continue
        ends, moves = [*ends[-_MEMORY:], end.numbers], [*moves[-_MEMORY:], move]
        numbers = ends[-1]
        if len(moves) > 1:
            part = np.linalg.lstsq(np.diff(moves, axis=0).T, moves[-1], rcond=1e-6)[0]
            numbers = numbers - part @ np.diff(ends, axis=0)
        at = _Candidate.of(numbers, len(start.shares))
    return best, least < _SETTLED


class _View:
    """One look, as it asks candidates to move.

    Components of this look are those of the last one, in other units: ``own = turn u + shift``.
    """

    def __init__(self, seen: Seen, last: Mixture, n: int) -> None:
        self.seen = seen
        k, d = last.means.shape
        self.noise, self.slopes = (
            seen.look.noise(n, k, d),
            slopes_at_normal(d, seen.look.softness),
        )
        self.sharing = _Sharing(seen.public, seen.look, n) if k > 1 else None
        inverses = np.linalg.inv(seen.public.cholesky)
        self._turns = inverses @ last.cholesky
        self._backs = np.linalg.inv(self._turns)
        self._shifts = np.einsum("aij,aj->ai", inverses, last.means - seen.public.means)

    def asks(self, at: _Candidate, moments: SeenMoments, *, shrink: bool) -> _Candidate:
        """Find each component by itself, once the difference that sharing makes is taken off."""
        k, d = self.seen.public.means.shape
        near = [
            Gaussian(turn @ one.mean + shift, turn @ one.covariance @ turn.T)
            for turn, shift, one in zip(self._turns, self._shifts, at.found, strict=True)
        ]
        left = moments
        if self.sharing is not None:
            shared = self.sharing.moments(at.shares / at.shares.sum(), near)
            left = SeenMoments(*(all_ - part for all_, part in zip(moments, shared, strict=True)))
        shares, found, raw = np.empty(k), [], np.empty((k, d, d))
        for a in range(k):
            count = max(float(left.shares[a]), 2 * self.noise.share, _LEAST_SHARE / k)
            second = left.second[a] / count
            quiet = shrunk(second, self.noise.second / count) if shrink else second
            one = gaussian_of(
                Expectations(left.first[a] / count, quiet, float(left.psi[a]) / count),
                self.seen.look.softness,
                start=near[a],
                widths=_WIDTHS,
            )
            mean = one.mean * min(1.0, _FARTHEST / max(float(np.linalg.norm(one.mean)), 1e-300))
            gap = second - quiet
            gap = gap - np.eye(d) * np.trace(gap) / d
            back = self._backs[a]
            shares[a] = count
            raw[a] = back @ (one.covariance + gap / self.slopes.second) @ back.T
            found.append(Gaussian(back @ (mean - self._shifts[a]), back @ one.covariance @ back.T))
        return _Candidate(shares, found, raw)


class _Views:
    """Several looks, and what they ask of candidates together: by inverse variance of noise."""

    def __init__(self, looked: Sequence[Seen], n: int, *, shrink: bool) -> None:
        self.looked, self.n, self.shrink = looked, n, shrink
        self.last = looked[-1].public
        self.views = [_View(one, self.last, n) for one in looked]
        k = self.last.n_components
        self.shared = max(
            (v.sharing.shared for v in self.views if v.sharing is not None), default=0.0
        )
        self.levels: list[int] = []
        if k > 1:
            enough = max(v.sharing.enough for v in self.views if v.sharing is not None)
            self.levels = sorted({_PILOT, enough})
        self._parts = np.array(
            [
                (v.noise.share**-2, (v.slopes.first / v.noise.first) ** 2, self._entry(v) ** -2)
                for v in self.views
            ]
        )

    @staticmethod
    def _entry(view: _View) -> float:
        return view.noise.second / view.slopes.second

    def begin(self, bits: int) -> None:
        """Take 2^bits draws in every look from here on."""
        for view in self.views:
            if view.sharing is not None:
                view.sharing.begin(bits)

    def noise(self, shares: Array) -> Array:
        """Compute the deviation (k,) of the noise on an entry of a covariance's svec."""
        return np.asarray(self._parts[:, 2].sum() ** -0.5 / shares)

    def answers(self, at: _Candidate, moments: Sequence[SeenMoments]) -> list[_Candidate]:
        """Compute what every look asks for."""
        return [
            view.asks(at, seen, shrink=self.shrink)
            for view, seen in zip(self.views, moments, strict=True)
        ]

    def together(self, answers: list[_Candidate]) -> _Candidate:
        """Average what looks ask for, and shrink what is mostly noise."""
        if len(answers) == 1:
            return answers[0]
        share, mean, entry = (self._parts / self._parts.sum(axis=0)).T
        shares = np.array(share @ [one.shares for one in answers])
        means = np.tensordot(mean, [[g.mean for g in one.found] for one in answers], 1)
        raw = np.tensordot(entry, [one.raw for one in answers], 1)
        found = []
        for a, deviation in enumerate(self.noise(shares)):
            values, vectors = np.linalg.eigh(shrunk(raw[a], deviation) if self.shrink else raw[a])
            found.append(Gaussian(means[a], (vectors * np.clip(values, *_WIDTHS)) @ vectors.T))
        return _Candidate(shares, found, raw)

    def solved(
        self, start: _Candidate, moments: Sequence[SeenMoments], rounds: int
    ) -> tuple[_Candidate, bool]:
        """Find the candidate that looks ask to stay where it is."""
        return _at_rest(lambda at: self.together(self.answers(at, moments)), start, rounds)

    def imitated(
        self, near: _Candidate, rng: np.random.Generator, sign: float
    ) -> list[SeenMoments]:
        """Add noise as of the looks, and sampling error, to what they show."""
        k, d = self.last.means.shape
        w = near.shares / near.shares.sum()
        row, column = np.triu_indices(d)
        spread_of_psi = (1 + 4 / d) ** (-d / 2) - (1 + 2 / d) ** -d
        common = [rng.standard_normal(s) for s in (k, k, (k, d), (k, len(row)))]
        out = []
        for view in self.views:
            noise, slopes = view.noise, view.slopes
            own = [rng.standard_normal(one.shape) for one in common]
            rates = (
                w * (1 - w),
                w * spread_of_psi,
                w[:, None] * slopes.level,
                2 * w[:, None] * slopes.fourth,
            )
            share, psi, first, svec = (
                sign * (deviation * mine + np.sqrt(rate / self.n) * all_)
                for deviation, mine, rate, all_ in zip(
                    (noise.share, noise.psi, noise.first, noise.second),
                    own,
                    rates,
                    common,
                    strict=True,
                )
            )
            second = np.zeros((k, d, d))
            second[:, row, column] = np.where(row == column, 1.0, math.sqrt(0.5)) * svec
            second = second + np.transpose(np.triu(second, 1), (0, 2, 1))
            seen = view.seen.moments
            out.append(
                SeenMoments(
                    seen.shares + share, seen.psi + psi, seen.first + first, seen.second + second
                )
            )
        return out


def solve_looks(
    looked: Sequence[Seen], n: int, *, shrink: bool = True, imitate: bool = True
) -> LookResult:
    """Find the mixture that shows these moments through these public ones.

    Parameters
    ----------
    looked : sequence of Seen
        One look or several, in the same coordinates; components have the same order in all.
    n : int
        Rows, or persons.
    shrink : bool
        Whether noisy covariances are shrunk.
    imitate : bool
        Whether looks are imitated to find how far sharing enlarges errors.

    Notes
    -----
    With rows shared by a public mixture's shares r, component a shows
    ``w_a E_a[phi_a] + sum over b of w_b E_b[(r_a - 1{a = b}) phi_a]``. The second term is computed
    at the candidate and taken off, and the first is inverted exactly. A candidate that all looks
    together, weighed by their noise, ask to stay where it is solves their equations.

    Where components share rows, errors are larger than the noise. How much, is found by imitation:
    noise and sampling error are added to what was seen, and the equations solved again.
    """
    views = _Views(looked, n, shrink=shrink)
    last, moments = views.last, [one.moments for one in looked]
    k, d = last.means.shape
    start = _Candidate(
        last.weights, [Gaussian(np.zeros(d), np.eye(d))] * k, np.tile(np.eye(d), (k, 1, 1))
    )
    if not views.levels:
        now, settled = views.together(views.answers(start, moments)), True
    else:
        now, settled = start, False
        for bits, rounds in zip(views.levels, _ROUNDS, strict=False):
            views.begin(bits)
            now, settled = views.solved(now, moments, rounds)
    alone = Spread.of_looks([one.look for one in looked], now.shares, n, d)
    spread = _enlarged(alone, views, now) if imitate and views.shared > _HARDLY else alone
    quarrel = np.zeros(k)
    if len(looked) > 1:
        quarrel = _quarrel(views, now, spread.means / alone.means, spread.entries / alone.entries)
    roots = last.cholesky
    means = last.means + np.einsum("aij,aj->ai", roots, np.stack([g.mean for g in now.found]))
    factors = roots @ np.stack([np.linalg.cholesky(g.covariance) for g in now.found])
    return LookResult(
        Mixture.from_roots(now.shares / now.shares.sum(), means, factors),
        roots @ now.raw @ np.transpose(roots, (0, 2, 1)),
        views.noise(now.shares),
        spread,
        quarrel,
        np.array([np.linalg.norm(one.mean) for one in now.found]),
        views.shared,
        settled,
    )


def _enlarged(spread: Spread, views: _Views, now: _Candidate) -> Spread:
    """Enlarge errors as sharing does: by solving what looks might have shown as well."""
    row, column = np.triu_indices(views.last.n_features)
    entry = np.where(row == column, 1.0, math.sqrt(2))
    weights, means, entries = [], [], []
    for replica in range(_REPLICAS):
        pair = []
        for sign in (1.0, -1.0):
            views.begin(_PILOT)
            rng = np.random.default_rng([_SEED, replica])
            pair.append(views.solved(now, views.imitated(now, rng, sign), _ROUNDS[1])[0])
        one, two = pair
        weights.append((one.shares - two.shares) / 2)
        means.append([(a.mean - b.mean) / 2 for a, b in zip(one.found, two.found, strict=True)])
        entries.append((one.raw - two.raw)[:, row, column] * entry / 2)

    def size(drawn: list[Any], of: Array) -> Array:
        ratio = np.array(drawn) / of.reshape(-1, *[1] * (np.ndim(drawn) - 2))
        return np.asarray(np.sqrt((ratio**2).mean(axis=tuple({0, *range(2, ratio.ndim)}))))

    of_weights = np.sqrt(np.mean(size(weights, spread.weights) ** 2))
    return Spread(
        spread.weights * max(1.0, float(of_weights)),
        spread.means * np.maximum(1.0, size(means, spread.means)),
        spread.entries * np.maximum(1.0, size(entries, spread.entries)),
    )


def expected_spread(mixture: Mixture, look: SoftLook, n: int) -> Spread:
    """Forecast the errors of a look through the mixture that the rows come from."""
    k, d = mixture.means.shape
    alone = Spread.of_looks([look], mixture.weights, n, d)
    sharing = _Sharing(mixture, look, n)
    if sharing.shared <= _HARDLY:
        return alone
    whole = np.tile(np.eye(d), (k, 1, 1))
    found = [Gaussian(np.zeros(d), one) for one in whole]
    shared = sharing.moments(mixture.weights, found)
    seen, w = expectations(np.zeros(d), np.ones(d), look.softness), mixture.weights
    moments = SeenMoments(
        w + shared.shares,
        w * seen.psi + shared.psi,
        shared.first,
        w[:, None, None] * seen.second + shared.second,
    )
    views = _Views([Seen(moments, mixture, look)], n, shrink=False)
    return _enlarged(alone, views, _Candidate(w, found, whole))


def _quarrel(views: _Views, now: _Candidate, of_means: Array, of_entries: Array) -> Array:
    """Compute by how many deviations what looks ask for differs, component by component.

    Errors (k,) are enlarged by these factors.
    """
    k, d = views.last.means.shape
    answers = views.answers(now, [one.moments for one in views.looked])
    stat = np.zeros(k)
    for view, answer in zip(views.views, answers, strict=True):
        alone = Spread.of_looks([view.seen.look], now.shares, views.n, d)
        for a in range(k):
            root = np.linalg.cholesky(now.found[a].covariance)
            gap = np.linalg.norm(np.linalg.solve(root, answer.found[a].mean - now.found[a].mean))
            inner = np.linalg.solve(root, np.linalg.solve(root, answer.raw[a] - now.raw[a]).T)
            stat[a] += (gap / (of_means[a] * alone.means[a])) ** 2
            stat[a] += (np.linalg.norm(inner) / (of_entries[a] * alone.entries[a])) ** 2
    df = (len(answers) - 1) * (d + d * (d + 1) / 2)
    return np.asarray((stat - df) / math.sqrt(2 * df))


def solve_tied_look(
    seen: SeenMoments, public: Mixture, shape: Array, look: SoftLook, n: int
) -> tuple[Array, Array, Array]:
    """Find weights (k,), means (k, d) and the common covariance (d, d) that a tied look saw."""
    k, d = public.n_components, public.n_features
    noise = look.noise(n, k, d)
    quiet = shrunk(seen.second[0], noise.second)
    common = gaussian_of(
        Expectations(np.zeros(d), quiet, float(seen.psi[0])), look.softness, widths=_WIDTHS
    )
    counts = np.maximum(seen.shares, _LEAST_SHARE / k)
    moves = seen.first / counts[:, None] / slopes_at_normal(d, look.softness).first
    lengths = np.linalg.norm(moves, axis=1, keepdims=True)
    moves = moves * np.minimum(1.0, _FARTHEST / np.maximum(lengths, 1e-300))
    return (
        counts / counts.sum(),
        public.means + moves @ shape.T,
        shape @ common.covariance @ shape.T,
    )


def shaped(result: LookResult, common: Array) -> Mixture:
    """Shrink covariances in units of a common shape, of which this is the lower factor (d, d)."""
    k, d = result.mixture.means.shape
    roots = np.empty((k, d, d))
    for a in range(k):
        inside = _in_units(common, result.mixture.covariances[a])
        # noise in units of the component, seen in those of the common shape
        larger = (np.trace(inside) ** 2 + (inside**2).sum()) / (d * (d + 1))
        spread = math.sqrt(larger) * float(result.spread.entries[a])
        values, vectors = np.linalg.eigh(shrunk(_in_units(common, result.raw[a]), spread))
        least = max(_LEAST, min(_NOISY_FLOOR, _FLOOR * spread * math.sqrt(d)))
        roots[a] = common @ (vectors * np.sqrt(np.maximum(values, least)))
    covariances = roots @ np.transpose(roots, (0, 2, 1))
    return Mixture(result.mixture.weights, result.mixture.means, covariances)


def _in_units(root: Array, covariance: Array) -> Array:
    """Express a covariance (d, d) in units of a lower factor."""
    half = solve_triangular(root, covariance, lower=True)
    inside = solve_triangular(root, half.T, lower=True)
    return np.asarray((inside + inside.T) / 2)
