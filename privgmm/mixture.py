"""Gaussian mixtures as values: one mixture, one component, or t fits at once.

All other modules take and return these. They are checked when built and cannot change.
Covariances are kept together with their Cholesky factors: distances at condition numbers
beyond 1e8 must start from the factors, never from the products.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, BoolArray, column_names, finite_array, frozen, whole_number
from privgmm.errors import InvalidInput
from privgmm.showing.html import mixture_html
from privgmm.showing.shortcuts import plotted
from privgmm.showing.text import ErrorsLike, component_lines, component_table, mixture_title

__all__ = ["Component", "Mixture", "MixtureBatch", "cholesky_of_root"]

_ASYMMETRY = 1e-8  # of the scale of a covariance: what rounding leaves, and no more
_WEIGHT_SUM = 1e-6  # by which weights, rounded for print, may miss one; the constructor says so


class Component(NamedTuple):
    """One weighted Gaussian (w, mu, Sigma): weight, mean (d,), covariance (d, d)."""

    weight: float
    mean: Array
    covariance: Array


def cholesky_of_root(roots: Array) -> Array:
    """Compute lower Cholesky factors of ``A A^T`` from roots A (..., d, d), without squaring.

    With ``A^T = Q R`` one has ``A A^T = R^T R``; so the factor is ``R^T`` with the signs of its
    diagonal made positive. The condition number is that of A, not of ``A A^T``.
    """
    upper = np.linalg.qr(np.swapaxes(roots, -1, -2), mode="r")
    signs = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.swapaxes(upper * signs[..., :, None], -1, -2).copy()


@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class Mixture:
    """A mixture of k Gaussians in d dimensions (Definition 1.2).

    Parameters
    ----------
    weights : array-like (k,)
        Mixing weights, each >= 0, summing to one (to 1e-6; stored normalised).
    means : array-like (k, d)
    covariances : array-like (k, d, d)
        Symmetric positive definite.
    columns : sequence of str, optional
        Names of the d columns; x1, x2, .. if there are none.

    Notes
    -----
    The order of components carries meaning for privacy, so it is kept; two mixtures are equal
    (``==``) when all arrays agree exactly, order included, whatever their columns are called.
    Compare up to order with `dist_gmm`.
    """

    weights: Array
    means: Array
    covariances: Array
    columns: tuple[str, ...]
    cholesky: Array = dataclasses.field(repr=False)

    def __init__(
        self,
        weights: npt.ArrayLike,
        means: npt.ArrayLike,
        covariances: npt.ArrayLike,
        columns: Sequence[str] = (),
    ) -> None:
        w = finite_array(weights, "weights", (None,))
        k = w.shape[0]
        if k == 0:
            raise InvalidInput("weights must name at least one component")
        m = finite_array(means, "means", (k, None))
        d = m.shape[1]
        if d == 0:
            raise InvalidInput("means must have at least one column")
        s = finite_array(covariances, "covariances", (k, d, d))
        scale = np.sqrt(np.abs(np.einsum("kii->ki", s)))
        bound = _ASYMMETRY * scale[:, :, None] * scale[:, None, :]
        with np.errstate(over="ignore"):
            lopsided = (np.abs(s - s.swapaxes(1, 2)) > bound).any()
        if lopsided:
            raise InvalidInput(
                "covariances must be symmetric (to 1e-8 of their scale): pass (S + S.T) / 2"
            )
        s = s / 2 + s.swapaxes(1, 2) / 2
        try:
            factor: Array = np.asarray(np.linalg.cholesky(s), dtype=np.float64)
        except np.linalg.LinAlgError as problem:
            raise InvalidInput(
                "covariances must be positive definite: a component is flat in some direction"
            ) from problem
        self._store(w, m, s, factor, columns)

    def _store(
        self,
        weights: Array,
        means: Array,
        covariances: Array,
        factor: Array,
        columns: Sequence[str] = (),
    ) -> None:
        with np.errstate(over="ignore"):
            total = weights.sum()
        if (weights < 0).any() or abs(total - 1) > _WEIGHT_SUM:
            raise InvalidInput(f"weights must be >= 0 and sum to 1, got {weights.tolist()}")
        # weights already normalised up to rounding are kept as they are, bit by bit
        exact = weights if abs(total - 1) <= 1e-15 * len(weights) else weights / total
        for name, value in (
            ("weights", exact),
            ("means", means),
            ("covariances", covariances),
            ("cholesky", factor),
        ):
            object.__setattr__(self, name, frozen(value))
        object.__setattr__(self, "columns", column_names(columns, means.shape[1]))

    @classmethod
    def from_roots(
        cls,
        weights: npt.ArrayLike,
        means: npt.ArrayLike,
        roots: npt.ArrayLike,
        columns: Sequence[str] = (),
    ) -> Mixture:
        """Build from square roots A (k, d, d) of the covariances ``A A^T``, triangular or not.

        Keeps full accuracy where forming the covariance first would square the condition number.
        """
        w = finite_array(weights, "weights", (None,))
        m = finite_array(means, "means", (len(w), None))
        a = finite_array(roots, "roots", (len(w), m.shape[1], m.shape[1]))
        factor = cholesky_of_root(a)
        if (np.diagonal(factor, axis1=1, axis2=2) <= 0).any():
            raise InvalidInput("roots must be invertible: a component is flat in some direction")
        self = cls.__new__(cls)
        self._store(w, m, factor @ factor.swapaxes(1, 2), factor, columns)
        return self

    def with_columns(self, names: Sequence[str]) -> Mixture:
        """Return this mixture with its columns named."""
        return self._made(self.weights, self.means, self.covariances, self.cholesky, names)

    @classmethod
    def _made(cls, *parts: Any) -> Mixture:
        """Build from parts that were checked before, in the order of `_store`."""
        self = cls.__new__(cls)
        self._store(*parts)
        return self

    @property
    def n_components(self) -> int:
        """Number of components k."""
        return int(self.weights.shape[0])

    @property
    def n_features(self) -> int:
        """Dimension d."""
        return int(self.means.shape[1])

    def component(self, index: int) -> Component:
        """Return component `index` as (weight, mean, covariance)."""
        return Component(float(self.weights[index]), self.means[index], self.covariances[index])

    def sample(self, n: int, *, rng: np.random.Generator | int | None = None) -> Array:
        """Draw n rows (n, d)."""
        return self.sample_with_labels(n, rng=rng)[0]

    def sample_with_labels(
        self, n: int, *, rng: np.random.Generator | int | None = None
    ) -> tuple[Array, npt.NDArray[np.int64]]:
        """Draw n rows (n, d) and the component (n,) each came from."""
        if n < 0:
            raise InvalidInput(f"n must be >= 0, got {n}")
        generator = np.random.default_rng(rng)
        # labels first, then all rows at once: what a seed gives depends on this order
        labels = generator.choice(self.n_components, size=n, p=self.weights)
        rows = generator.standard_normal((n, self.n_features))
        for j in range(self.n_components):
            mine = labels == j
            rows[mine] = rows[mine] @ self.cholesky[j].T + self.means[j]
        return rows, labels

    def log_joint(self, rows: npt.ArrayLike) -> Array:
        """Compute ``ln(w_j N(x_i; mu_j, Sigma_j))`` as an array (n, k)."""
        # late, like all of SciPy in this module: a reader of receipts needs NumPy alone
        from scipy.linalg import solve_triangular

        x = finite_array(rows, "rows", (None, self.n_features))
        joint = np.empty((x.shape[0], self.n_components))
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        for j, factor in enumerate(self.cholesky):
            u = solve_triangular(factor, (x - self.means[j]).T, lower=True, check_finite=False)
            joint[:, j] = (
                log_weights[j]
                - 0.5 * np.einsum("ij,ij->j", u, u)
                - np.log(np.diagonal(factor)).sum()
                - 0.5 * self.n_features * np.log(2 * np.pi)
            )
        return joint

    def log_density(self, rows: npt.ArrayLike) -> Array:
        """Compute the natural log of the mixture density at each row: (n,)."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.log_joint(rows), axis=1), dtype=np.float64)

    def density(self, rows: npt.ArrayLike) -> Array:
        """Compute the mixture density at each row: (n,)."""
        return np.asarray(np.exp(self.log_density(rows)), dtype=np.float64)

    def sample_table(
        self,
        n: int,
        *,
        columns: Sequence[str] | None = None,
        whole: bool | Sequence[str | int] = (),
        limits: Mapping[Any, tuple[float | None, float | None]] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> Any:
        """Draw n rows as a pandas data frame; costs no privacy.

        Parameters
        ----------
        n : int
        columns : sequence of str, optional
            A name for each column, in order; by default the mixture's own.
        whole : sequence of column names or numbers, or bool
            Columns that hold whole numbers (age, a count): they are rounded, and come as integers.
            True rounds all of them. A mixture does not know which columns were whole.
        limits : mapping of column to (low, high), optional
            Values beyond a limit are moved onto it; None leaves an end open. The limits must come
            from what is known about the column in general (an age is not negative), never from
            the rows: the smallest value of a table is confidential.
        rng : Generator, int or None

        Examples
        --------
        >>> people = Mixture([1.0], [[40.2, 170.0]], [[[90.0, 0.0], [0.0, 60.0]]])
        >>> drawn = people.sample_table(3, columns=["age", "height"], whole=["age"], rng=0)
        >>> drawn.dtypes.astype(str).tolist()
        ['int64', 'float64']
        """
        rows = self.sample(whole_number(n, "n", 0), rng=rng)
        return self.as_table(rows, columns=columns, whole=whole, limits=limits)

    def as_table(
        self,
        rows: Array,
        *,
        columns: Sequence[str] | None = None,
        whole: bool | Sequence[str | int] = (),
        limits: Mapping[Any, tuple[float | None, float | None]] | None = None,
    ) -> Any:
        """Make a pandas data frame of drawn rows (n, d): see `sample_table`."""
        import pandas as pd

        names = self._names(columns)
        if isinstance(whole, bool):
            rounded = list(range(self.n_features)) if whole else []
        else:
            rounded = [self._column(one, names, "whole") for one in _several(whole)]
        bounds = {
            self._column(key, names, "limits"): _limits(key, pair)
            for key, pair in (limits or {}).items()
        }
        rows = rows.copy()
        for j, (low, high) in bounds.items():
            rows[:, j] = np.clip(rows[:, j], low, high)
        table = pd.DataFrame(rows, columns=pd.Index(names))
        for j in rounded:
            values = np.rint(rows[:, j])
            if (np.abs(values) >= 2.0**53).any():
                raise InvalidInput(
                    f"whole names {names[j]!r}, whose values are beyond 2^53, where floating point "
                    "no longer holds every whole number: leave it out"
                )
            table[names[j]] = values.astype(np.int64)
        return table

    def outlier_scores(
        self, rows: npt.ArrayLike, *, draws: int = 20_000, rng: np.random.Generator | int = 0
    ) -> Array:
        """Score how unusual each row is (n,): the share of the mixture's rows that are likelier.

        A score of 0.999 says that one in a thousand rows of the mixture is as unlikely as this one.
        CONFIDENTIAL: it speaks about the rows given.

        Parameters
        ----------
        rows : array-like (n, d)
        draws : int
            How many rows of the mixture are drawn to compare with; the standard error of a score s
            is ``sqrt(s (1 - s) / draws)``. Rows less likely than all draws have score 1: to rank
            those, use `log_density`.
        rng : Generator or int
            Of these draws; fixed, so that scores of different tables can be compared.

        Notes
        -----
        The score is the chance of the set where the density is larger than at the row. It does not
        change with units, shifts or turns of the data. For a single component it is exact:
        ``chi2.cdf(m, d)`` of the squared Mahalanobis distance m.

        Examples
        --------
        >>> line = Mixture([1.0], [[0.0]], [[[1.0]]])
        >>> line.outlier_scores([[0.0], [1.96], [9.0]]).round(3).tolist()
        [0.0, 0.95, 1.0]
        """
        x = finite_array(rows, "rows", (None, self.n_features))
        if self.n_components == 1:
            from scipy.linalg import solve_triangular
            from scipy.special import chdtr

            u = solve_triangular(self.cholesky[0], (x - self.means[0]).T, lower=True)
            return np.asarray(chdtr(self.n_features, np.einsum("ij,ij->j", u, u)), dtype=np.float64)
        count = whole_number(draws, "draws", 1)
        known = np.sort(self.log_density(self.sample(count, rng=rng)))
        above = count - np.searchsorted(known, self.log_density(x), side="right")
        return np.asarray(above / count, dtype=np.float64)

    def marginal(
        self,
        axes: int | str | Sequence[int | str],
        *,
        columns: Sequence[str] | None = None,
    ) -> Mixture:
        """Return the mixture of the chosen columns, in the order given.

        Parameters
        ----------
        axes : int, str, or a sequence of these
            Columns by number or by name.
        columns : sequence of str, optional
            Names of all columns, in order; by default the mixture's own.

        Examples
        --------
        >>> both = Mixture(
        ...     [1.0], [[1.0, 2.0]], [[[1.0, 0.8], [0.8, 3.0]]], columns=["height", "weight"]
        ... )
        >>> both.marginal("weight").means
        array([[2.]])
        """
        names = self._names(columns)
        listed = _several(axes)
        chosen = [
            self._column(one, names, "axes") if isinstance(one, str) else one for one in listed
        ]
        index = np.asarray(chosen, dtype=np.intp)
        if index.ndim != 1 or index.size == 0 or len(set(index.tolist())) != index.size:
            raise InvalidInput(f"axes must be distinct columns, got {listed!r}")
        if index.min() < 0 or index.max() >= self.n_features:
            raise InvalidInput(f"axes must lie in 0..{self.n_features - 1}, got {listed!r}")
        return Mixture(
            self.weights,
            self.means[:, index],
            self.covariances[:, index[:, None], index],
            [names[j] for j in index.tolist()],
        )

    def condition(
        self, given: Mapping[Any, float], *, columns: Sequence[str] | None = None
    ) -> Mixture:
        """Return the law of the other columns where some are known; they keep their order.

        Parameters
        ----------
        given : mapping of column to value
            A column is given by its number or its name.
        columns : sequence of str, optional
            Names of all columns, in order; by default the mixture's own.

        Notes
        -----
        With x_g known, component j has weight proportional to ``w_j N(x_g; mu_g, S_gg)``, mean
        ``mu_r + S_rg S_gg^-1 (x_g - mu_g)`` and covariance ``S_rr - S_rg S_gg^-1 S_gr``.

        >>> both = Mixture([1.0], [[0.0, 0.0]], [[[1.0, 0.8], [0.8, 1.0]]])
        >>> both.condition({"height": 2.0}, columns=["height", "weight"]).means
        array([[1.6]])
        """
        from scipy.linalg import solve_triangular

        names = self._names(columns)
        known = self._known(given, names)
        at = list(known)
        rest = [j for j in range(self.n_features) if j not in known]
        # known columns first: the lower block of the factor is then that of the conditional law
        factor = cholesky_of_root(self.cholesky[:, at + rest])
        g = len(at)
        gaps = np.array(list(known.values())) - self.means[:, at]
        u = np.stack(
            [solve_triangular(factor[j, :g, :g], gap, lower=True) for j, gap in enumerate(gaps)]
        )
        diagonals = np.diagonal(factor[:, :g, :g], axis1=1, axis2=2)
        with np.errstate(divide="ignore", over="ignore"):
            logs = np.log(self.weights) - np.log(diagonals).sum(axis=1) - 0.5 * (u**2).sum(axis=1)
        if not np.isfinite(logs).any():
            raise InvalidInput(
                f"given must lie where the mixture has rows, got {dict(given)!r}, so far out that "
                "every component's density underflows"
            )
        weights = np.exp(logs - logs.max())
        means = self.means[:, rest] + np.einsum("jrg,jg->jr", factor[:, g:, :g], u)
        left = [names[j] for j in rest]
        return Mixture.from_roots(weights / weights.sum(), means, factor[:, g:, g:], left)

    def _names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of all columns: those given, or the mixture's own."""
        if columns is None:
            return self.columns
        if not columns:
            raise InvalidInput(f"columns must be {self.n_features} different names, got none")
        return column_names(columns, self.n_features)

    def _column(self, key: Any, names: Sequence[str], argument: str) -> int:
        """Return the number of a column that is given by its number or its name."""
        d = self.n_features
        if isinstance(key, str):
            if key not in names:
                raise InvalidInput(
                    f"{argument} names a column {key!r}, but columns are {', '.join(names)}: "
                    f"use one of these, or numbers from 0 to {d - 1}"
                )
            return list(names).index(key)
        column = whole_number(key, f"a column of {argument}", 0)
        if column >= d:
            raise InvalidInput(f"{argument} must name columns below {d}, got {column}")
        return column

    def _known(self, given: Mapping[Any, float], names: Sequence[str]) -> dict[int, float]:
        """Return the numbers of known columns, and their values."""
        d = self.n_features
        known: dict[int, float] = {}
        for key, value in given.items():
            column = self._column(key, names, "given")
            if column in known:
                raise InvalidInput(f"given must name different columns, got {list(given)!r}")
            known[column] = float(finite_array(value, f"given[{key!r}]", ()))
        if not 0 < len(known) < d:
            raise InvalidInput(
                f"given must name at least one column and leave at least one of {d}, got "
                f"{len(known)}"
            )
        return known

    @property
    def precisions_cholesky(self) -> Array:
        """Upper factors P (k, d, d) of the precisions ``P P^T``, as scikit-learn has them."""
        from scipy.linalg import solve_triangular

        eye = np.eye(self.n_features)
        inverses = [solve_triangular(factor, eye, lower=True) for factor in self.cholesky]
        return np.swapaxes(np.stack(inverses), 1, 2).copy()

    @property
    def precisions(self) -> Array:
        """Inverses (k, d, d) of the covariances."""
        root = self.precisions_cholesky
        return np.asarray(root @ np.swapaxes(root, 1, 2), dtype=np.float64)

    def to_sklearn(self) -> Any:
        """Convert to a fitted `sklearn.mixture.GaussianMixture`.

        It predicts, scores and samples; what only a fit would set holds a placeholder.
        """
        from sklearn.mixture import GaussianMixture

        made = GaussianMixture(self.n_components, covariance_type="full")
        made.weights_ = self.weights.copy()
        made.means_ = self.means.copy()
        made.covariances_ = self.covariances.copy()
        made.precisions_cholesky_ = self.precisions_cholesky
        made.precisions_ = self.precisions
        made.n_features_in_ = self.n_features
        made.converged_, made.n_iter_, made.lower_bound_ = True, 0, float("nan")
        made.lower_bounds_ = []
        return made

    def permuted(self, order: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Mixture:
        """Return this mixture with its components in another order."""
        index = np.asarray(order, dtype=np.intp)
        if sorted(index.tolist()) != list(range(self.n_components)):
            raise InvalidInput(
                f"order must be a permutation of 0..{self.n_components - 1}, got {list(order)!r}"
            )
        return self._made(
            self.weights[index],
            self.means[index],
            self.covariances[index],
            self.cholesky[index],
            self.columns,
        )

    def transformed(self, matrix: npt.ArrayLike, shift: npt.ArrayLike) -> Mixture:
        """Return the law of ``A x + b``: means ``A mu + b``, covariances ``A Sigma A^T``."""
        d = self.n_features
        a = finite_array(matrix, "matrix", (d, d))
        b = finite_array(shift, "shift", (d,))
        return Mixture.from_roots(self.weights, self.means @ a.T + b, a @ self.cholesky)

    def summary(self, errors: ErrorsLike | None = None) -> Any:
        """Tabulate the mixture as a pandas data frame: a line per component and column.

        Parameters
        ----------
        errors : StandardErrors, optional
            Fills columns with the standard errors.

        Examples
        --------
        >>> people = Mixture([1.0], [[40.0]], [[[100.0]]], columns=["age"])
        >>> float(people.summary().loc[(1, "age"), "standard deviation"])
        10.0
        """
        return component_table(self, errors)

    def plot(self, **options: Any) -> Any:
        """Draw the mixture in two of its columns, as a Plotly figure (`figures.objects`)."""
        return plotted(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for JSON; the inverse of `from_dict`.

        The names of the columns stand in the document that holds the mixture, once for all of it.
        """
        return {
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "covariances": self.covariances.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Mixture:
        """Build a mixture from what `to_dict` returned."""
        if not (isinstance(data, dict) and {"weights", "means", "covariances"} <= data.keys()):
            raise InvalidInput("a mixture needs a JSON object of weights, means and covariances")
        return cls(data["weights"], data["means"], data["covariances"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("weights", "means", "covariances")
        )

    def __hash__(self) -> int:
        return hash((self.weights.tobytes(), self.means.tobytes(), self.covariances.tobytes()))

    def __repr__(self) -> str:
        return "\n".join([f"{mixture_title(self)}:", *component_lines(self)])

    def _repr_html_(self) -> str:
        return mixture_html(self)


def _several(chosen: Any) -> list[Any]:
    """Return columns as a list, one given by itself included."""
    return [chosen] if isinstance(chosen, str | int | np.integer) else list(chosen)


def _limits(key: Any, pair: Any) -> tuple[float, float]:
    """Return a lower and an upper limit; infinite where an end is open."""
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise InvalidInput(
            f"limits[{key!r}] must be (low, high), None for an open end, got {pair!r}"
        )
    low, high = (
        end if value is None else float(finite_array(value, f"limits[{key!r}]", ()))
        for value, end in zip(pair, (-np.inf, np.inf), strict=True)
    )
    if low > high:
        raise InvalidInput(f"limits[{key!r}] must have low <= high, got {pair!r}")
    return low, high


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class MixtureBatch:
    """t fits at once, one per block.

    Parameters
    ----------
    weights : array-like (t, k)
    means : array-like (t, k, d)
    covariances : array-like (t, k, d, d)
    ok : array-like of bool (t,)
        False where a block's fit failed; what the arrays hold there is ignored (stored as NaN).
    """

    weights: Array
    means: Array
    covariances: Array
    ok: BoolArray
    cholesky: Array = dataclasses.field(repr=False)

    def __init__(
        self,
        weights: npt.ArrayLike,
        means: npt.ArrayLike,
        covariances: npt.ArrayLike,
        ok: npt.ArrayLike,
    ) -> None:
        good, w, m = self._checked(weights, means, ok)
        s = np.array(covariances, dtype=np.float64)
        if s.shape != (*m.shape, m.shape[2]):
            raise InvalidInput(
                f"covariances must have shape {(*m.shape, m.shape[2])}, got {s.shape}"
            )
        s[~good] = np.nan
        if not np.isfinite(s[good]).all():
            raise InvalidInput("covariances must be finite wherever ok is True")
        factor = np.full_like(s, np.nan)
        try:
            factor[good] = np.linalg.cholesky((s[good] + s[good].swapaxes(-1, -2)) / 2)
        except np.linalg.LinAlgError as problem:
            raise InvalidInput(
                "covariances must be positive definite wherever ok is True"
            ) from problem
        self._store(w, m, s, good, factor)

    @staticmethod
    def _checked(
        weights: npt.ArrayLike, means: npt.ArrayLike, ok: npt.ArrayLike
    ) -> tuple[BoolArray, Array, Array]:
        good = np.array(ok, dtype=np.bool_)
        w = np.array(weights, dtype=np.float64)
        m = np.array(means, dtype=np.float64)
        if good.ndim != 1 or w.ndim != 2 or m.ndim != 3 or not len(good) == len(w) == len(m):
            raise InvalidInput(
                "ok, weights and means must have shapes (t,), (t, k), (t, k, d), "
                f"got {good.shape}, {w.shape}, {m.shape}"
            )
        if w.shape[1] != m.shape[1]:
            raise InvalidInput(f"weights name {w.shape[1]} components, means {m.shape[1]}")
        w[~good], m[~good] = np.nan, np.nan
        if not (np.isfinite(w[good]).all() and np.isfinite(m[good]).all()):
            raise InvalidInput("weights and means must be finite wherever ok is True")
        if (w[good] < 0).any() or (np.abs(w[good].sum(axis=1) - 1) > _WEIGHT_SUM).any():
            raise InvalidInput("weights must be >= 0 and sum to 1 wherever ok is True")
        return good, w, m

    def _store(self, w: Array, m: Array, s: Array, ok: BoolArray, factor: Array) -> None:
        parts = {"weights": w, "means": m, "covariances": s, "ok": ok, "cholesky": factor}
        for name, value in parts.items():
            object.__setattr__(self, name, frozen(value))

    @classmethod
    def from_cholesky(
        cls,
        weights: npt.ArrayLike,
        means: npt.ArrayLike,
        cholesky: npt.ArrayLike,
        ok: npt.ArrayLike,
    ) -> MixtureBatch:
        """Build from lower Cholesky factors (t, k, d, d); keeps them exactly as given."""
        good, w, m = cls._checked(weights, means, ok)
        factor = np.array(cholesky, dtype=np.float64)
        if factor.shape != (*m.shape, m.shape[2]):
            raise InvalidInput(
                f"cholesky must have shape {(*m.shape, m.shape[2])}, got {factor.shape}"
            )
        factor[~good] = np.nan
        diagonal = np.diagonal(factor[good], axis1=-2, axis2=-1)
        if not np.isfinite(factor[good]).all() or (diagonal <= 0).any():
            raise InvalidInput("cholesky factors must be finite with a positive diagonal")
        if np.triu(factor[good], 1).any():
            raise InvalidInput("cholesky factors must be lower triangular")
        self = cls.__new__(cls)
        self._store(w, m, factor @ factor.swapaxes(-1, -2), good, factor)
        return self

    @classmethod
    def of(cls, mixtures: Sequence[Mixture]) -> MixtureBatch:
        """Stack mixtures of equal k and d."""
        if not mixtures:
            raise InvalidInput("a batch needs at least one mixture")
        return cls.from_cholesky(
            [f.weights for f in mixtures],
            [f.means for f in mixtures],
            [f.cholesky for f in mixtures],
            np.ones(len(mixtures), dtype=bool),
        )

    @classmethod
    def concatenate(cls, batches: Sequence[MixtureBatch]) -> MixtureBatch:
        """Join the blocks of several batches, in order."""
        return cls.from_cholesky(
            np.concatenate([b.weights for b in batches]),
            np.concatenate([b.means for b in batches]),
            np.concatenate([b.cholesky for b in batches]),
            np.concatenate([b.ok for b in batches]),
        )

    def __len__(self) -> int:
        return int(self.ok.shape[0])

    def __getitem__(self, index: int) -> Mixture:
        if not self.ok[index]:
            raise InvalidInput(f"block {index} has no fit: its learner failed")
        return Mixture.from_roots(self.weights[index], self.means[index], self.cholesky[index])

    @property
    def n_components(self) -> int:
        """Number of components k."""
        return int(self.weights.shape[1])

    @property
    def n_features(self) -> int:
        """Dimension d."""
        return int(self.means.shape[2])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixtureBatch):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name != "ok")
            for name in ("weights", "means", "covariances", "ok")
        )

    __hash__ = None  # type: ignore[assignment]
