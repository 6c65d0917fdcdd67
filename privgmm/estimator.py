"""Offer releases as a scikit-learn estimator: a front door over `plan_for` and `release`.

Importing this module imports scikit-learn, so the package does it only when asked for
`PrivateGaussianMixture`. Methods that need a mixture are absent after a refusal (`of_mixture`).
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from scipy.linalg import solve_triangular
from scipy.special import softmax
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from privgmm import methods
from privgmm.arrays import Array, IntArray, whole_number
from privgmm.budget import Unit
from privgmm.covariance_structures import DEFAULT as FULL
from privgmm.covariance_structures import covariance_structure
from privgmm.data.rows import (
    MemorySource,
    checked_frame_names,
    collected,
    is_stored,
    row_source,
)
from privgmm.data.source import RowSource, count_groups
from privgmm.errors import InaccurateRelease, InvalidInput, NoMixture, Problem, ReleaseRefused
from privgmm.learners.em import EM
from privgmm.learners.learner import Learner
from privgmm.ledger.cautions import level_outside
from privgmm.ledger.protocol import Ledger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest, components_asked
from privgmm.mixture import Mixture
from privgmm.releases import Executor, Outcome, Release, release
from privgmm.showing.progress import step_lines
from privgmm.showing.shortcuts import plotted
from privgmm.showing.text import component_table
from privgmm.stages.recorded import as_published

__all__ = ["PrivateGaussianMixture", "of_mixture"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _OfMixture:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type) -> Callable[..., Any]:
        if model is None:
            return self._method
        if not model.__dict__.get("released_", True):
            raise NoMixture(model.reason_)
        return types.MethodType(self._method, model)


def of_mixture(method: _Function) -> _Function:
    """Mark a method that an estimator has unless its release was refused.

    After a refusal ``hasattr`` is False, as scikit-learn expects of a method that cannot be called,
    and a call says why and what would help. Before fitting the method is present.
    """
    return cast(_Function, _OfMixture(method))


_FITTED = (
    "weights_",
    "means_",
    "covariances_",
    "precisions_",
    "precisions_cholesky_",
    "mixture_",
    "n_components_",
    "choice_",
    "standard_errors_",
    "expected_error_",
    "misfit_",
    "resolution_",
    "atoms_",
    "steps_",
    "usefulness_",
    "sketch_",
    "outcome_",
)


class PrivateGaussianMixture(DensityMixin, BaseEstimator):
    """Learn a Gaussian mixture under differential privacy, as a scikit-learn estimator.

    `fit` spends the budget once and either releases a mixture or refuses. What it releases
    (``weights_``, ``means_``, ``covariances_`` and everything `sample` draws) may be shown to
    anyone. What it computes from rows afterwards may not, unless those rows are public:
    **the outputs of** `predict`, `predict_proba`, `score_samples`, `score`, `bic` **and** `aic`
    **are as confidential as the rows they are given**, also when these are the rows of `fit`.

    Parameters
    ----------
    n_components : int or "auto"
        k, the number of Gaussians. "auto" chooses it, up to `max_components`, from the noisy
        sketch: that costs nothing more, and is as differentially private as the sketch.
    epsilon, delta : float
        The TOTAL budget of a `fit`; neighbouring tables differ by replacing one row.
    alpha : float, optional
        Accuracy that is asked for: the mixture is to be within alpha of the truth in dist_GMM (0 is
        perfect, 1 is wrong), in nine of ten releases. `fit` warns with `InaccurateRelease` where
        that is not to be expected, or not found. 0.2 unless given.
    mask_accuracy : float, optional
        How far a mask may move what blocks agree on; by default the method chooses.
    n_blocks : int, optional
        Blocks the rows are dealt into; by default `best_plan` chooses.
    method : str
        A name in `privgmm.methods.names()`.
    covariance_type : {"full", "tied", "diag", "spherical"}
        What components may differ in, as in scikit-learn. All but "full" are fitted to a noisy
        sketch, and so is a number of components left to "auto": both need a method that publishes
        one, as `sketch` does.
    max_components : int
        How many components "auto" offers.
    learner : Learner, optional
        Any learner of block fits, without noise of its own; `EM` by default.
    n_jobs : int, optional
        Threads of the default learner: None is one, -1 all cores. The fits do not depend on it.
    random_state : None, int, RandomState or Generator
        None draws cryptographic noise. Anything else is repeatable: a demonstration that warns
        (`SeededRelease`) and says so (``seeded_``). It is NOT differentially private.
    verbose : bool
        Whether `fit` prints how far it is: a bar per step of the work. It shows numbers of rows and
        blocks, which are public where rows are protected; times may depend on the rows, so what is
        printed is for the owner of the data. Callbacks of scikit-learn (since 1.9) are not taken.

    Attributes
    ----------
    released_ : bool
        Whether there is a mixture. If not, `fit` has warned with `ReleaseRefused`, and the
        methods that need the mixture are absent: calling one raises it with the remedy.
    reason_ : str
        Why there is no mixture, and what would help; empty after a release.
    weights_, means_, covariances_ : arrays (k,), (k, d), (k, d, d)
        The released mixture; absent after a refusal, like all up to `sketch_`. Covariances are
        (d, d) if tied, (k, d) if diag and (k,) if spherical, as in scikit-learn.
    precisions_, precisions_cholesky_ : arrays, as `covariances_`
        Their inverses, and P with P Pᵀ = inverse, as in scikit-learn.
    mixture_ : Mixture
        The mixture as one value.
    n_components_ : int
        Its number of components.
    choice_ : Choice or None
        Which numbers of components were tried and how well each does; None where k was given.
    standard_errors_ : StandardErrors or None
        How far its numbers may be off; None where the method cannot say.
    expected_error_ : ExpectedError or None
        Law of the distance dist_GMM to the truth, from published numbers; None where such a mixture
        does not explain the rows, or the error is not known.
    resolution_ : tuple of str
        Of each component "resolved", "poorly resolved" or "not resolved"; empty where not known.
    usefulness_ : Usefulness
        Whether the mixture is as accurate as asked for, from published numbers, and why not.
    atoms_ : tuple of Atom
        Values that many rows share, with their noisy shares; empty where none was found.
    steps_ : tuple of float or None
        Step of the grid that each column is recorded on; None without one, empty where no column
        has one.
    misfit_ : float or None
        How badly such a mixture explains the rows, in standard deviations: beyond 5 it does not.
        None without a sketch.
    sketch_ : PrivateSketch or None
        The noisy sketch, public: other fits and pictures of the density are free. None where the
        method publishes none.
    seeded_ : bool
        Whether the noise can be repeated, so that nothing here is differentially private. Kept by
        pickles.
    budget_ : Budget or None
        What was spent. None if nothing was: so few rows that no plan exists, which is public.
    plan_ : Plan or None
        Plan of the release.
    outcome_ : Outcome or None
        The result, and the CONFIDENTIAL ``curator`` view, which holds the rows. It is left out of
        pickles and deep copies, so these can be shared after a release.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal([5.0], [2.0], size=(4000, 1))
    >>> model = PrivateGaussianMixture(epsilon=4.0, random_state=0).fit(rows)
    >>> model.released_, model.means_.round(0).tolist()
    (True, [[5.0]])
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        alpha: float | None = None,
        mask_accuracy: float | None = None,
        n_blocks: int | None = None,
        method: str = DEFAULT_METHOD,
        covariance_type: str = FULL,
        max_components: int = 8,
        learner: Learner | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.mask_accuracy = mask_accuracy
        self.n_blocks = n_blocks
        self.method = method
        self.covariance_type = covariance_type
        self.max_components = max_components
        self.learner = learner
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------- fitting

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 - scikit-learn's signature
        *,
        groups: npt.ArrayLike | str | None = None,
        ledger: Ledger | None = None,
        executor: Executor = None,
        **refused: Any,
    ) -> Self:
        """Release a mixture from the rows of X once, or refuse.

        Parameters
        ----------
        X : array-like, data frame, Parquet file or folder, pyarrow dataset or Dask collection
            Rows (n, d), one per person; n is public. Files, datasets and Dask collections are read
            part by part, and all of their columns are taken but that of `groups`; to choose
            others, pass ``row_source(X, columns)``.
        y : ignored
        groups : array-like (n,) or name of a column, optional
            Who each row belongs to, to protect all rows of a person together. A column of a data
            frame or file that says so is not fitted.
        ledger : Ledger, optional
            Records the spend before noise is drawn.
        executor : "threads", "dask", address of a Dask scheduler, or executor, optional
            Where blocks are fitted and files are read, as for `release`.
        **refused : any
            ``sample_weight``, which is refused: a row of weight w moves every sum w times as far,
            so noise for the promise would have to grow with the largest weight.

        Raises
        ------
        InvalidInput
            If a parameter or the table breaks a rule. Nothing is spent then.

        Warns
        -----
        ReleaseRefused
            If there is no mixture to show: a noisy test did not pass, or, with nothing spent,
            there are too few rows for any plan.
        InaccurateRelease
            If the mixture is not within alpha of the truth, as surely as asked, by what was
            published: `usefulness_` says why.
        PrivacyWarning
            If the promise is weaker than it may seem: the noise is seeded (`SeededRelease`),
            epsilon or delta are large (`WeakBudget`), rows were fitted before without a ledger
            (`RepeatedSpend`) or were scaled by their own statistics (`ScaledRows`).
        SuspectColumn
            If a column of a data frame has the name of an identifier.
        """
        _refuse_weights(refused)
        self._check_parameters()
        X = collected(X)
        self._frames_ = _frames_of(X)
        checked_frame_names(X, stacklevel=level_outside() or 1)
        table = self._table(X, groups)
        n_units, d = self._units(table, groups), table.n_features
        unit: Unit = "row" if groups is None else "person"
        # how many components a method takes depends on the number of columns
        methods.get(self.method).check(self._request(None, d, unit))
        plan, problem = self._plan(n_units, d, unit)
        outcome: Outcome | None = None
        if plan is not None and not problem:
            outcome = release(
                table,
                plan,
                learner=self._learner(plan.n_components),
                rng=self._noise(),
                ledger=ledger,
                groups=groups,
                executor=executor,
                watch=step_lines(sys.stdout) if self.verbose else None,
            )
        self._store(plan, outcome, problem)
        return self

    @of_mixture
    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> IntArray:
        """Fit, and return the likeliest component of each row (n,). CONFIDENTIAL, like the rows.

        Raises
        ------
        ReleaseRefused
            If the release is refused, as there are no components then. To try again, call `fit`.
        """
        return self.fit(X, y, **options).predict(X)

    def _check_parameters(self) -> None:
        """Check every rule that does not depend on the data."""
        self._request(None, 1)
        if self.n_jobs is not None:
            jobs = whole_number(self.n_jobs, "n_jobs", -(2**31))
            if jobs == 0:
                raise InvalidInput("n_jobs must not be 0: pass None for one thread, -1 for all")
        learner: object = self.learner
        if isinstance(learner, type):
            name = learner.__name__
            raise InvalidInput(f"learner must be a learner, got the class {name}: pass {name}(...)")
        if learner is not None and not hasattr(learner, "fit_blocks"):
            raise InvalidInput(
                f"learner must have fit_blocks, like EM; got {type(learner).__name__}"
            )
        self._noise_is_known()

    def _request(self, n_rows: int | None, n_features: int, unit: Unit = "row") -> PlanRequest:
        """Build the request of the parameters; an open k asks for up to `max_components`."""
        k, is_open = components_asked(self.n_components, self.max_components)
        return PlanRequest(
            n_components=k,
            n_features=n_features,
            n_rows=n_rows,
            epsilon=self.epsilon,
            delta=self.delta,
            method=self.method,
            unit=unit,
            alpha=self.alpha,
            mask_accuracy=self.mask_accuracy,
            n_blocks=self.n_blocks,
            choose_components=is_open,
            covariance_type=self.covariance_type,
        )

    def _noise_is_known(self) -> None:
        state = self.random_state
        if isinstance(state, np.random.Generator):
            return
        try:
            check_random_state(state)
        except ValueError as problem:
            raise InvalidInput(
                "random_state must be None (cryptographic noise), a seed in 0..2^32 - 1, a "
                f"RandomState or a Generator, got {state!r}"
            ) from problem

    def _table(self, X: Any, groups: npt.ArrayLike | str | None) -> RowSource:
        """Open the rows, and note how many columns there are and what they are called."""
        if isinstance(X, RowSource) or is_stored(X) or isinstance(groups, str):
            table = row_source(X, without=(groups,) if isinstance(groups, str) else ())
            self.n_features_in_ = table.n_features
            self.feature_names_in_ = np.array(table.columns, dtype=object)
            return table
        if self._frames_ is not None:
            table = MemorySource(X)
            validate_data(self, X, skip_check_array=True)
        else:
            # the package reports what is not finite: the usual advice, to drop rows, is wrong here
            rows = validate_data(self, X, dtype=np.float64, ensure_all_finite=False)
            table = MemorySource(rows)
        table.rows()
        return table

    def _units(self, rows: RowSource, groups: npt.ArrayLike | str | None) -> int:
        """Count what is protected: rows, or persons where rows are grouped."""
        if groups is None:
            return rows.n_rows
        if isinstance(groups, str):
            return rows.count_persons(groups)
        return count_groups(groups, rows.n_rows)

    def _plan(self, n: int, d: int, unit: Unit) -> tuple[Plan | None, str]:
        """Make a plan from public numbers, or say why there is none; parameters are valid."""
        try:
            answer = plan_for(self._request(n, d, unit))
        except InvalidInput as problem:
            return None, _unspent(problem)
        return answer.plan, _unspent(answer.shortage) if answer.shortage else ""

    def _learner(self, n_components: int) -> Learner:
        if self.learner is not None:
            return self.learner
        return EM(n_components, n_threads=int(effective_n_jobs(self.n_jobs)))

    def _noise(self) -> np.random.Generator | int | None:
        """Convert to the rng of `release`; None stays None, so that no noise is repeatable."""
        state = self.random_state
        if state is None or isinstance(state, np.random.Generator):
            return state
        if isinstance(state, (int, np.integer)):
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _store(self, plan: Plan | None, outcome: Outcome | None, problem: str) -> None:
        for name in _FITTED:
            self.__dict__.pop(name, None)
        result = None if outcome is None else outcome.result
        self.plan_ = plan
        self.outcome_ = outcome
        self.budget_ = None if result is None else result.budget
        self.seeded_ = False if result is None else result.seeded
        self.released_ = isinstance(result, Release)
        if isinstance(result, Release):
            self.reason_ = ""
            self._store_mixture(result)
            if not self.usefulness_.is_useful:
                told = InaccurateRelease(str(self.usefulness_))
                warnings.warn(told, stacklevel=level_outside() or 1)
            return
        self.reason_ = problem if result is None else result.reason
        warnings.warn(ReleaseRefused(self.reason_), stacklevel=level_outside() or 1)

    def _store_mixture(self, result: Release) -> None:
        mixture = result.mixture
        self.mixture_ = mixture
        self.n_components_ = mixture.n_components
        self.weights_ = mixture.weights
        self.means_ = mixture.means
        factors = _precisions_cholesky(mixture)
        full = factors @ factors.swapaxes(1, 2)
        structure = covariance_structure(result.covariance_type)
        self.covariances_ = structure.reduced(mixture.covariances)
        self.precisions_ = structure.reduced(full)
        self.precisions_cholesky_ = structure.reduced(factors)
        self.standard_errors_ = result.standard_errors
        self.expected_error_ = result.expected_error
        self.resolution_ = result.resolution
        self.atoms_ = result.atoms
        self.steps_ = result.steps
        self.usefulness_ = result.usefulness()
        self.misfit_ = result.misfit
        self.choice_ = result.choice
        self.sketch_ = result.sketch

    def __getattr__(self, name: str) -> Any:
        """Say why there is no mixture, where an attribute of one is asked for after a refusal."""
        # what `of_mixture` raises ends here too, as an attribute that is not there
        of_one = name in _FITTED or hasattr(type(self), name)
        if of_one and self.__dict__.get("released_") is False:
            raise NoMixture(self.reason_)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        words = str(super().__repr__(N_CHAR_MAX))
        seeded = self.__dict__.get("seeded_")
        return f"{words}  # seeded: NOT differentially private" if seeded else words

    def __getstate__(self) -> dict[str, Any]:
        """Return what may leave the process: all but the curator's view, which holds the rows."""
        state = dict(super().__getstate__())
        state.pop("outcome_", None)
        return state

    # ------------------------------------------------------------------- using the mixture

    def _released(self) -> Mixture:
        check_is_fitted(self, "released_")
        return self.mixture_

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self, "released_")
        X = collected(X)
        if _frames_of(X) is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            return MemorySource(X).rows()
        rows: Array = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _joint(self, X: Any) -> Array:
        rows = self._rows(X)
        return self._released().log_joint(rows)

    @of_mixture
    def score_samples(self, X: Any) -> Array:
        """Compute the log density at each row (n,). CONFIDENTIAL, like the rows given."""
        rows = self._rows(X)
        return self._released().log_density(rows)

    @of_mixture
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 - scikit-learn's signature
        """Compute the mean log density. CONFIDENTIAL, like the rows given."""
        return float(np.mean(self.score_samples(X)))

    @of_mixture
    def predict(self, X: Any) -> IntArray:
        """Find the likeliest component of each row (n,). CONFIDENTIAL, like the rows given."""
        return np.asarray(np.argmax(self._joint(X), axis=1), dtype=np.int64)

    @of_mixture
    def predict_proba(self, X: Any) -> Array:
        """Compute chances of the components (n, k). CONFIDENTIAL, like the rows given."""
        return np.asarray(softmax(self._joint(X), axis=1), dtype=np.float64)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what rows `sample` gives: "pandas", "polars", or arrays with "default".

        As in scikit-learn. None leaves it as it is: a frame of the kind that was fitted, and an
        array for an array.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise InvalidInput(
                f"transform must be 'default', 'pandas', 'polars' or None, got {transform!r}"
            )
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @of_mixture
    def summary(self) -> Any:
        """Tabulate the mixture as a pandas data frame, with standard errors where known."""
        return component_table(self._released(), self.standard_errors_, self.resolution_)

    @of_mixture
    def plot(self, **options: Any) -> Any:
        """Draw the mixture, with standard errors where known: a Plotly figure."""
        outcome = getattr(self, "outcome_", None)
        return plotted(self._released() if outcome is None else outcome.result, **options)

    @of_mixture
    def sample(
        self,
        n_samples: int = 1,
        *,
        whole: bool | Sequence[str | int] = (),
        limits: Mapping[Any, tuple[float | None, float | None]] | None = None,
    ) -> tuple[Any, IntArray]:
        """Draw rows (n, d) and their components (n,) from the release; costs no privacy.

        Values and grids that the release names are drawn as `Release.sample` draws them: values of
        `atoms_` as often as they were found, other values on their grid, and whole numbers as
        integers in a frame. After a fit to a data frame the rows are a data frame too; see
        `set_output`. For `whole` and `limits` see `Mixture.sample_table`.
        """
        mixture = self._released()
        n = whole_number(n_samples, "n_samples", 1)
        state = self._noise()
        if isinstance(state, int):
            # another stream than that of the noise: rows must not repeat it
            state = np.random.default_rng([state, 1])
        rows, labels = mixture.sample_with_labels(n, rng=state)
        rows, whole = as_published(rows, mixture, self.atoms_, self.steps_, whole)
        asked = getattr(self, "_sklearn_output_config", {}).get("transform", self._frames_)
        frames = None if asked == "default" else asked
        if frames is None and not whole and limits is None:
            return rows, labels
        table = mixture.as_table(rows, whole=whole, limits=limits)
        if frames is None:
            return table.to_numpy(), labels
        if frames == "polars":
            import polars as pl

            return pl.DataFrame({name: table[name].to_numpy() for name in table}), labels
        return table, labels

    def _n_parameters(self) -> int:
        k, d = self._released().means.shape
        structure = covariance_structure(self.covariance_type)
        return int(structure.n_parameters(k, d) + k * d + k - 1)

    @of_mixture
    def bic(self, X: Any) -> float:
        """Compute the Bayesian information criterion on X, lower is better. CONFIDENTIAL."""
        scores = self.score_samples(X)
        return float(-2 * scores.sum() + self._n_parameters() * np.log(len(scores)))

    @of_mixture
    def aic(self, X: Any) -> float:
        """Compute the Akaike information criterion on X, lower is better. CONFIDENTIAL."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._n_parameters())


def _frames_of(X: Any) -> str | None:
    """Return which kind of data frame this is, by the name of its library; None for others."""
    if isinstance(X, RowSource) or not hasattr(X, "columns"):
        return None
    return "polars" if type(X).__module__.partition(".")[0] == "polars" else "pandas"


def _refuse_weights(given: dict[str, Any]) -> None:
    """Reject weights of rows, and every argument that `fit` does not know."""
    if given.pop("sample_weight", None) is not None:
        raise InvalidInput(
            "sample_weight must be None: a row of weight w moves what is published w times as far, "
            "so the noise would have to grow with the largest weight, and the promise with it. "
            "Leave it out; or release each stratum of equal weight by itself, and mix the releases "
            "by the public sizes of the strata"
        )
    if given:
        raise TypeError(f"fit() got unexpected arguments: {', '.join(sorted(given))}")


def _precisions_cholesky(mixture: Mixture) -> Array:
    """Compute P (k, d, d), upper triangular, with P Pᵀ the inverse covariances."""
    eye = np.eye(mixture.n_features)
    inverse = [solve_triangular(factor, eye, lower=True).T for factor in mixture.cholesky]
    return np.asarray(inverse, dtype=np.float64)


def _unspent(problem: InvalidInput | Problem) -> str:
    return f"Nothing was spent: {problem}."
