"""Runs of any learner on rows whose truth is known: ours, a baseline, or EM without privacy.

A `LearningProblem` is a mixture, the rows drawn from it after a change of units, and the bounds
that baselines are given. A `Contender` is a learner that takes part. All noise is seeded: these are
rehearsals on generated rows, nothing is spent and nothing is differentially private.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import warnings
from typing import TypeAlias

import numpy as np

from privgmm.arrays import Array, IntArray, frozen, positive
from privgmm.baselines import registry as baselines
from privgmm.baselines.baseline import Baseline
from privgmm.baselines.bounds import Box
from privgmm.budget import Budget
from privgmm.distances.matching import bottleneck_matching
from privgmm.distances.parameters import component_distances, dist_gmm
from privgmm.errors import InvalidInput, PrivacyWarning
from privgmm.learners.em import EM
from privgmm.methods import registry as methods
from privgmm.methods.method import Look, Method
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import rows_for
from privgmm.mixture import Mixture
from privgmm.releases import release
from privgmm.results import Release

__all__ = [
    "WITHOUT_PRIVACY",
    "Absent",
    "Contender",
    "Errors",
    "LearningProblem",
    "Result",
    "contender",
    "contenders",
    "measured_errors",
    "run",
]


@dataclasses.dataclass(frozen=True, eq=False)
class LearningProblem:
    """Rows from a known mixture, in some units, and the bounds that baselines are given.

    Parameters
    ----------
    mixture : Mixture
        What rows are drawn from, before their units are changed.
    matrix : array (d, d)
    shift : array (d,)
        A row x becomes ``matrix x + shift``.
    told : Box
        Bounds, for the learners that need them.
    """

    mixture: Mixture
    matrix: Array
    shift: Array
    told: Box

    @classmethod
    def changed(
        cls,
        mixture: Mixture,
        *,
        width: float = 1.0,
        shift: float = 0.0,
        scale: float = 1.0,
        shear: float = 0.0,
    ) -> LearningProblem:
        """Make a problem whose bounds were right before the units of the rows changed.

        Parameters
        ----------
        mixture : Mixture
        width : float
            Of the bounds, as a multiple of the right one: 1 holds every component by five
            deviations, less is too tight.
        shift : float
            Added to every column.
        scale : float
            All columns are multiplied by it.
        shear : float
            Adds this multiple of column 1 to the last column; does nothing with one column.

        Notes
        -----
        The bounds are those of the rows before the change; baselines are not informed of it.
        """
        d = mixture.n_features
        matrix = positive(scale, "scale") * np.eye(d)
        if d > 1:
            matrix[-1, 0] += scale * shear
        return cls(
            mixture,
            np.asarray(frozen(matrix)),
            np.asarray(frozen(np.full(d, float(shift)))),
            Box.around(mixture).widened(width),
        )

    @functools.cached_property
    def truth(self) -> Mixture:
        """Mixture of the rows in their units."""
        return self.mixture.transformed(self.matrix, self.shift)

    def rows(self, n: int, seed: int) -> tuple[Array, IntArray]:
        """Draw rows (n, d) and the component of each (n,); the units do not change the draw."""
        drawn, labels = self.mixture.sample_with_labels(n, rng=seed)
        return np.asarray(drawn @ self.matrix.T + self.shift), labels.astype(np.int64)

    def _key(self) -> tuple[object, ...]:
        return self.mixture, self.matrix.tobytes(), self.shift.tobytes(), self.told

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LearningProblem) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclasses.dataclass(frozen=True, slots=True)
class Errors:
    """How far a mixture is from the truth; none of it depends on the units of the rows.

    Parameters
    ----------
    distance : float
        dist_GMM (Definition 1.4), between 0 and 1.
    mean : float
        Of the worst component, in Mahalanobis distance of the true one.
    covariance : float
        Of the worst component: Frobenius norm of the whitened covariance minus the identity.
    """

    distance: float
    mean: float
    covariance: float


def measured_errors(truth: Mixture, found: Mixture) -> Errors:
    """Measure all errors; components are matched so that the worst one is as near as can be."""
    table = component_distances(
        truth.weights[:, None],
        truth.means[:, None],
        truth.cholesky[:, None],
        found.weights[None],
        found.means[None],
        found.cholesky[None],
    )
    other = found.permuted(bottleneck_matching(table).permutation)
    inverse = np.linalg.inv(truth.cholesky)
    means = np.einsum("kij,kj->ki", inverse, other.means - truth.means)
    roots = inverse @ other.cholesky
    white = roots @ roots.swapaxes(1, 2) - np.eye(truth.n_features)
    return Errors(
        dist_gmm(truth, found),
        float(np.linalg.norm(means, axis=1).max()),
        float(np.linalg.norm(white, axis=(1, 2)).max()),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Absent:
    """Why a run gave no mixture.

    Parameters
    ----------
    refused : bool
        Whether it was tried and refused, as opposed to not even planned for so few rows.
    reason : str
        In words.
    rows_needed : float or None
        How many rows would do for well separated components, where that is known.
    """

    refused: bool
    reason: str
    rows_needed: float | None = None


Result: TypeAlias = Errors | Absent
"""How one run ended."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Drawn:
    """Everything that a contender may use in one run."""

    problem: LearningProblem
    rows: Array
    labels: IntArray
    budget: Budget
    seed: int

    @property
    def n_components(self) -> int:
        return self.problem.mixture.n_components


class Contender(abc.ABC):
    """A learner that takes part in a comparison."""

    key: str
    """Different for each."""
    title: str
    sentence: str
    look: Look
    told: str
    """What it must be given besides rows, budget and number of components, in words."""
    private: bool = True

    @abc.abstractmethod
    def learn(self, drawn: _Drawn) -> Mixture | Absent:
        """Learn a mixture, or say why there is none."""


class _Ours(Contender):
    """A method of the package, with its automatic plan; given nothing more."""

    told = "nothing"

    def __init__(self, method: Method) -> None:
        self.key, self.title = f"ours:{method.name}", method.title
        self.sentence, self.look = method.sentence, method.look
        self._name = method.name

    def learn(self, drawn: _Drawn) -> Mixture | Absent:
        n, d = drawn.rows.shape
        planned = _plan(self._name, n, drawn.n_components, d, drawn.budget)
        if isinstance(planned, Absent):
            return planned
        with warnings.catch_warnings():
            # repeated rehearsals of one table with a seed are what this is for
            warnings.simplefilter("ignore", PrivacyWarning)
            result = release(drawn.rows, planned, rng=drawn.seed).result
        return result.mixture if isinstance(result, Release) else Absent(True, result.reason)


@functools.lru_cache(maxsize=512)
def _plan(name: str, n: int, k: int, d: int, budget: Budget) -> Plan | Absent:
    """Make the automatic plan, or say why it is not worth running."""
    request = PlanRequest(
        n_components=k,
        n_features=d,
        n_rows=n,
        epsilon=budget.epsilon,
        delta=budget.delta,
        method=name,
    )
    try:
        answer = plan_for(request)
    except InvalidInput as problem:
        return Absent(False, str(problem), rows_for(request.but(n_rows=None)))
    if answer.shortage:
        return Absent(False, str(answer.shortage), answer.plan.rows_needed())
    return answer.plan


class _Baseline(Contender):
    """A baseline, given the bounds of the problem and, where it needs them, the labels."""

    def __init__(self, baseline: Baseline) -> None:
        self.key, self.title = f"baseline:{baseline.name}", baseline.title
        self.sentence, self.look = baseline.sentence, baseline.look
        self.told = baseline.needs.words
        self._baseline = baseline

    def learn(self, drawn: _Drawn) -> Mixture | Absent:
        try:
            return self._baseline.release(
                drawn.rows,
                n_components=drawn.n_components,
                budget=drawn.budget,
                bounds=drawn.problem.told,
                labels=drawn.labels if self._baseline.needs.labels else None,
                rng=drawn.seed,
            ).mixture
        except InvalidInput as reason:
            return Absent(False, str(reason))


class _WithoutPrivacy(Contender):
    """EM on the rows as they are."""

    key = "without"
    title = "Without privacy"
    sentence = "runs EM on the rows as they are: no one is protected"
    look = Look("#2583C4", "dot", 2.8)
    told = "nothing"
    private = False

    def learn(self, drawn: _Drawn) -> Mixture | Absent:
        try:
            return EM(drawn.n_components).fit(drawn.rows, rng=drawn.seed)
        except InvalidInput as reason:
            return Absent(False, str(reason))


WITHOUT_PRIVACY: Contender = _WithoutPrivacy()


def contenders() -> tuple[Contender, ...]:
    """List the package's methods, the default first, the baselines, and EM without privacy."""
    ours = (_Ours(method) for method in methods.all_methods())
    others = (_Baseline(baseline) for baseline in baselines.all_baselines())
    return (*ours, *others, WITHOUT_PRIVACY)


def contender(key: str) -> Contender:
    """Return the contender with a key, or raise a clear error."""
    for one in contenders():
        if one.key == key:
            return one
    raise InvalidInput(f"no contender is called {key!r}")


def run(key: str, problem: LearningProblem, n: int, budget: Budget, seed: int) -> Result:
    """Draw n rows, learn, and measure; everything follows from the seed."""
    rows_seed, noise_seed = (int(x) for x in np.random.SeedSequence([seed, n]).generate_state(2))
    rows, labels = problem.rows(n, rows_seed)
    found = contender(key).learn(_Drawn(problem, rows, labels, budget, noise_seed))
    return found if isinstance(found, Absent) else measured_errors(problem.truth, found)
