"""The private mixture as a scikit-learn estimator; a front door over `best_plan` and `release`.

Importing this module imports scikit-learn, so the package does it only when asked for
`PrivateGaussianMixture`. Methods that need a mixture are absent after a refusal (`of_mixture`).
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from scipy.special import softmax
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from privgmm import methods
from privgmm.arrays import Array, IntArray, whole_number
from privgmm.budget import Unit
from privgmm.data.rows import checked_groups
from privgmm.errors import InvalidInput, ReleaseRefused
from privgmm.learners.em import EM
from privgmm.learners.learner import Learner
from privgmm.ledger.protocol import Ledger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest
from privgmm.mixture import Mixture
from privgmm.release import Outcome, Release, release

__all__ = ["NoMixture", "PrivateGaussianMixture", "of_mixture"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class NoMixture(ReleaseRefused, AttributeError):
    """What asking a refused estimator for a method of the mixture raises."""


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

    Then ``hasattr`` says no, as scikit-learn expects of whatever cannot be done, and a call says
    why and what would help. Before fitting the method is there.
    """
    return cast(_Function, _OfMixture(method))


Auto = Literal["auto"]
_FITTED = ("weights_", "means_", "covariances_", "outcome_", "mixture_")


class PrivateGaussianMixture(DensityMixin, BaseEstimator):
    """A Gaussian mixture learned under differential privacy, as a scikit-learn estimator.

    `fit` spends the budget once and either releases a mixture or refuses. What it releases
    (``weights_``, ``means_``, ``covariances_`` and everything `sample` draws) may be shown to
    anyone. What it computes from rows afterwards may not, unless those rows are public:
    **the outputs of** `predict`, `predict_proba`, `score_samples`, `score`, `bic` **and** `aic`
    **are as private as the rows they are given**, also when these are the rows of `fit`.

    Parameters
    ----------
    n_components : int
        k, the number of Gaussians.
    epsilon, delta : float
        The TOTAL budget of a `fit`; neighbouring tables differ by replacing one row.
    alpha : float or "auto"
        Accuracy of the coarse release, see `calibrate`. "auto" lets `best_plan` choose.
    n_blocks : int or "auto"
        Blocks the rows are dealt into. "auto" lets `best_plan` choose.
    method : str
        A name in `privgmm.methods.names()`.
    refine : bool
        Whether to sharpen the coarse release by noisy passes over all rows (`lifted`).
    forgiving : bool
        Whether to plan for real data, see `best_plan`: components near each other and fits that
        scatter more widely (`lifted`). Costs some accuracy and rows, no privacy.
    learner : Learner, optional
        Any non-private learner of block fits; `EM` by default.
    n_jobs : int, optional
        Threads of the default learner: None is one, -1 all cores. The fits do not depend on it.
    random_state : None, int, RandomState or Generator
        None draws cryptographic noise. Anything else is repeatable: a demonstration that says
        so (``outcome_.result.seeded``), NOT a private release.

    Attributes
    ----------
    released_ : bool
        Whether there is a mixture. If not, `fit` has warned with `ReleaseRefused`, and the
        methods that need the mixture are gone: calling one raises it with the remedy.
    reason_ : str
        Why there is none, and what would help; empty after a release.
    weights_, means_, covariances_ : arrays (k,), (k, d), (k, d, d)
        The released mixture; absent after a refusal.
    mixture_ : Mixture
        The same as one value; absent after a refusal.
    budget_ : Budget or None
        What was spent. None if nothing was: so few rows that no plan exists, which is public.
    plan_ : Plan or None
        How it was made.
    outcome_ : Outcome or None
        The result, and beside it the NON-private ``curator`` view, which holds the rows. It is
        left out of pickles and deep copies, so these can be shared after a release.
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
        n_components: int = 1,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        alpha: float | Auto = "auto",
        n_blocks: int | Auto = "auto",
        method: str = DEFAULT_METHOD,
        refine: bool = True,
        forgiving: bool = False,
        learner: Learner | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.n_blocks = n_blocks
        self.method = method
        self.refine = refine
        self.forgiving = forgiving
        self.learner = learner
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------- fitting

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 - scikit-learn's signature
        *,
        groups: npt.ArrayLike | None = None,
        ledger: Ledger | None = None,
    ) -> Self:
        """Release a mixture from the rows of X once, or refuse.

        Parameters
        ----------
        X : array-like or data frame (n, d)
            One row per person; n is public.
        y : ignored
        groups : array-like (n,), optional
            Who each row belongs to, to protect all rows of a person together.
        ledger : Ledger, optional
            Told of the spend before noise is drawn.

        Raises
        ------
        InvalidInput
            If a parameter or the table breaks a rule. Nothing is spent then.

        Warns
        -----
        ReleaseRefused
            If there is no mixture to show: the private test said no, or, with nothing spent,
            there are too few rows for any plan.
        """
        self._check_parameters()
        rows: Array = validate_data(self, X, dtype=np.float64)
        unit: Unit = "row" if groups is None else "person"
        plan, problem = self._plan(self._units(rows, groups), rows.shape[1], unit)
        outcome: Outcome | None = None
        if plan is not None and not problem:
            outcome = release(
                rows,
                plan,
                learner=self._learner(),
                rng=self._noise(),
                ledger=ledger,
                groups=groups,
            )
        self._store(plan, outcome, problem)
        return self

    def _check_parameters(self) -> None:
        """Every rule that the data have no part in."""
        methods.get(self.method).check(self._request(None, 1))
        for name in ("refine", "forgiving"):
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise InvalidInput(f"{name} must be True or False, got {value!r}")
        if self.n_jobs is not None:
            jobs = whole_number(self.n_jobs, "n_jobs", -(2**31))
            if jobs == 0:
                raise InvalidInput("n_jobs must not be 0: pass None for one thread, -1 for all")
        if self.learner is not None and not hasattr(self.learner, "fit_blocks"):
            raise InvalidInput(
                f"learner must have fit_blocks, like EM; got {type(self.learner).__name__}"
            )
        self._noise_is_known()

    def _request(self, n_rows: int | None, n_features: int, unit: Unit = "row") -> PlanRequest:
        """The question that the parameters ask."""
        return PlanRequest(
            n_components=self.n_components,
            n_features=n_features,
            n_rows=n_rows,
            epsilon=self.epsilon,
            delta=self.delta,
            method=self.method,
            unit=unit,
            alpha=None if self.alpha == "auto" else self.alpha,
            n_blocks=None if self.n_blocks == "auto" else self.n_blocks,
            forgiving=bool(self.forgiving),
            refine=bool(self.refine),
        )

    def _noise_is_known(self) -> None:
        state = self.random_state
        if isinstance(state, np.random.Generator):
            return
        try:
            check_random_state(state)
        except ValueError as problem:
            raise InvalidInput(
                f"random_state must be None (private), a seed in 0..2^32 - 1, a RandomState or a "
                f"Generator, got {state!r}"
            ) from problem

    def _units(self, rows: Array, groups: npt.ArrayLike | None) -> int:
        """Who can be dealt into blocks: rows, or persons where rows are grouped."""
        if groups is None:
            return len(rows)
        return len(np.unique(checked_groups(groups, len(rows))))

    def _plan(self, n: int, d: int, unit: Unit) -> tuple[Plan | None, str]:
        """A plan from public numbers, or why there is none; the parameters are valid."""
        try:
            answer = plan_for(self._request(n, d, unit))
        except InvalidInput as problem:
            return None, _unspent(str(problem))
        return answer.plan, _unspent(answer.shortage) if answer.shortage else ""

    def _learner(self) -> Learner:
        if self.learner is not None:
            return self.learner
        return EM(int(self.n_components), n_threads=int(effective_n_jobs(self.n_jobs)))

    def _noise(self) -> np.random.Generator | int | None:
        """What `release` calls rng; None stays None, so that nothing repeatable slips in."""
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
        self.released_ = isinstance(result, Release)
        if isinstance(result, Release):
            self.reason_ = ""
            self.mixture_ = result.mixture
            self.weights_ = result.mixture.weights
            self.means_ = result.mixture.means
            self.covariances_ = result.mixture.covariances
            return
        self.reason_ = problem if result is None else result.reason
        warnings.warn(ReleaseRefused(self.reason_), stacklevel=3)

    def __getstate__(self) -> dict[str, Any]:
        """What may leave the process: all but the curator's view, which holds the rows."""
        state = dict(super().__getstate__())
        state.pop("outcome_", None)
        return state

    # ------------------------------------------------------------------- using the mixture

    def _released(self) -> Mixture:
        check_is_fitted(self, "released_")
        return self.mixture_

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self, "released_")
        rows: Array = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _joint(self, X: Any) -> Array:
        rows = self._rows(X)
        return self._released().log_joint(rows)

    @of_mixture
    def score_samples(self, X: Any) -> Array:
        """Log density at each row (n,). NOT private: it speaks about the rows given."""
        rows = self._rows(X)
        return self._released().log_density(rows)

    @of_mixture
    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002 - scikit-learn's signature
        """Mean log density. NOT private: it speaks about the rows given."""
        return float(np.mean(self.score_samples(X)))

    @of_mixture
    def predict(self, X: Any) -> IntArray:
        """The likeliest component of each row (n,). NOT private: it speaks about the rows."""
        return np.asarray(np.argmax(self._joint(X), axis=1), dtype=np.int64)

    @of_mixture
    def predict_proba(self, X: Any) -> Array:
        """Chances of the components (n, k). NOT private: it speaks about the rows given."""
        return np.asarray(softmax(self._joint(X), axis=1), dtype=np.float64)

    @of_mixture
    def sample(self, n_samples: int = 1) -> tuple[Array, IntArray]:
        """Draw rows (n, d) and their components (n,) from the release; costs no privacy."""
        mixture = self._released()
        n = whole_number(n_samples, "n_samples", 1)
        state = self._noise()
        if isinstance(state, int):
            # not the stream the noise came from: rows must not repeat it
            state = np.random.default_rng([state, 1])
        return mixture.sample_with_labels(n, rng=state)

    def _n_parameters(self) -> int:
        k, d = self._released().means.shape
        return int(k * d * (d + 1) // 2 + k * d + k - 1)

    @of_mixture
    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X, lower is better. NOT private."""
        scores = self.score_samples(X)
        return float(-2 * scores.sum() + self._n_parameters() * np.log(len(scores)))

    @of_mixture
    def aic(self, X: Any) -> float:
        """Akaike information criterion on X, lower is better. NOT private."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._n_parameters())


def _unspent(problem: str) -> str:
    return f"Nothing was spent: {problem}."
