"""Any scikit-learn mixture estimator as a learner.

Each block gets an unfitted copy, so that no state goes from block to block. An error inside a fit
stays with its block and is reported. Importing this module imports scikit-learn.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.special import softmax
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from privgmm.arrays import Array, finite_array, one_blas_thread
from privgmm.covariance_structures import (
    DEFAULT,
    CovarianceStructure,
    all_structures,
    covariance_structure,
    structure_names,
)
from privgmm.errors import InvalidInput
from privgmm.learners.learner import BlockRandomness, ReasonedLearner, as_blocks, block_seeds
from privgmm.mixture import Mixture, MixtureBatch

__all__ = ["FromEstimator", "full_covariances"]

_FITTED = ("weights_", "means_", "covariances_")
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)
_FLAT = 1e-6  # deviation of a component's rows, the block having 1: below, it has collapsed
_HEARING = threading.RLock()
"""Warnings and BLAS threads are settings of the whole process: one fit at a time listens."""


def full_covariances(
    covariances: npt.ArrayLike, n_components: int, n_features: int, kind: str | None = None
) -> Array:
    """Convert covariances of scikit-learn's four layouts to (k, d, d).

    Parameters
    ----------
    covariances : array-like
        (k, d, d) for "full", (d, d) for "tied", (k, d) for "diag", (k,) for "spherical".
    n_components, n_features : int
        k and d.
    kind : str, optional
        What the estimator calls ``covariance_type``. Without it the shape decides, and where it
        cannot, a square matrix with k = d > 1, there is an error rather than a guess.

    Examples
    --------
    >>> full_covariances([4.0, 9.0], 2, 1).ravel().tolist()
    [4.0, 9.0]
    """
    k, d = n_components, n_features
    value = finite_array(covariances, "covariances_")
    structures = all_structures()
    fitting = [one for one in structures if value.shape == one.shape(k, d)]
    if kind is not None:
        named = covariance_structure(kind)
        if named not in fitting:
            raise InvalidInput(
                f"covariances_ of covariance_type {kind!r} must have shape {named.shape(k, d)}, "
                f"got {value.shape}"
            )
        fitting = [named]
    if not fitting:
        shapes = ", ".join(str(one.shape(k, d)) for one in structures)
        raise InvalidInput(f"covariances_ must have one of the shapes {shapes}, got {value.shape}")
    if len(fitting) > 1 and d > 1:
        readings = " or ".join(one.name for one in fitting)
        raise InvalidInput(
            f"covariances_ of shape {value.shape} may be {readings}: give the estimator an "
            "attribute covariance_type"
        )
    return fitting[0].expanded(value, k, d)


@dataclasses.dataclass(frozen=True)
class FromEstimator(ReasonedLearner):
    """A learner out of anything with scikit-learn's ``fit``, ``weights_`` and the rest.

    Parameters
    ----------
    estimator : estimator
        `GaussianMixture`, `BayesianGaussianMixture` or your own: after ``fit(X)`` it has
        ``weights_`` (k,), ``means_`` (k, d) and ``covariances_`` in one of scikit-learn's
        layouts. It is copied now and never fitted itself.
    n_jobs : int, optional
        Processes over blocks, as in joblib: None is one, -1 all cores. Fits do not depend on it.

    Attributes
    ----------
    n_components : int
        The estimator's ``n_components``, or the length of ``weights_`` if it is fitted.

    Notes
    -----
    Each block is given to a fresh copy whose ``random_state``, and those of its parts, are set
    from the block's seed. An estimator without ``random_state`` must not draw at random.

    A block has ``ok`` False, with a reason, if its rows are too few, or its fit raises, warns
    (other than about the future of code) or returns numbers that make no mixture, or if the rows
    of a component are a million times thinner than the block or do not span its directions at
    all: such a covariance is the estimator's regularisation and not the data's. For ``tied``,
    ``diag`` and ``spherical`` what counts as a direction is what that layout can express.

    scikit-learn's defaults (``tol=1e-3``, ``n_init=1``) stop early and at local optima, and
    blocks must agree for a release: pass ``tol=1e-6`` and several ``n_init``.

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> truth = Mixture([0.4, 0.6], [[0.0, 0.0], [6.0, 0.0]], [np.eye(2), np.eye(2)])
    >>> learner = FromEstimator(GaussianMixture(2, tol=1e-6))
    >>> fits = learner.fit_blocks(truth.sample(2000, rng=0).reshape(2, 1000, 2), rng=0)
    >>> bool(fits.ok.all()), np.sort(fits.weights, axis=1).round(1).tolist()[0]
    (True, [0.4, 0.6])
    """

    estimator: Any
    _: dataclasses.KW_ONLY
    n_jobs: int | None = None
    n_components: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        jobs = self.n_jobs
        if jobs is not None and (
            isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs == 0
        ):
            raise InvalidInput(f"n_jobs must be None, -1 or a number of processes, got {jobs!r}")
        estimator = _bare(self.estimator)
        object.__setattr__(self, "n_components", _components_of(estimator))
        object.__setattr__(self, "estimator", _unfitted(estimator))

    def fit_blocks_with_reasons(
        self, blocks: npt.ArrayLike, *, rng: BlockRandomness = None
    ) -> tuple[MixtureBatch, list[str]]:
        """Fit each block and give a reason per block: empty, or why it has no fit.

        The reasons speak about the data and are CONFIDENTIAL.
        """
        rows = as_blocks(blocks)
        t, _, d = rows.shape
        k = self.n_components
        seeds = block_seeds(rng, t)
        # processes, because warnings of different threads cannot be distinguished
        found = Parallel(n_jobs=self.n_jobs, backend="loky")(
            delayed(_fit_block)(self.estimator, k, block, int(seed))
            for block, seed in zip(rows, seeds, strict=True)
        )
        weights, means = np.full((t, k), np.nan), np.full((t, k, d), np.nan)
        roots, ok, reasons = np.full((t, k, d, d), np.nan), np.zeros(t, dtype=bool), [""] * t
        for i, fit in enumerate(found):
            if isinstance(fit, Mixture):
                weights[i], means[i], roots[i], ok[i] = fit.weights, fit.means, fit.cholesky, True
            else:
                reasons[i] = fit
        return MixtureBatch.from_cholesky(weights, means, roots, ok), reasons

    def remedy(self, reason: str) -> str:
        """Say what to do about one of the reasons."""
        if reason == "too few rows":
            return "use more rows or fewer components"
        return f"change the settings of {type(self.estimator).__name__} or the number of components"


def _bare(estimator: Any) -> Any:
    """Take the estimator out of a pipeline of one step; refuse what cannot be run by block."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
        if len(steps) != 1:
            raise InvalidInput(
                "estimator must not be a pipeline with transformers: its parameters would be in "
                "other units than the data. A release does not depend on units: pass the mixture "
                "estimator alone, or transform the rows first"
            )
        estimator = steps[0]
    if isinstance(estimator, type) or not callable(getattr(estimator, "fit", None)):
        raise InvalidInput(
            f"estimator must be an object with fit, such as GaussianMixture(2), got {estimator!r}"
        )
    for name, value in _settings(estimator).items():
        if name.split("__")[-1] == "warm_start" and value:
            raise InvalidInput(
                f"estimator must not have {name}=True: a fit would start from another block's"
            )
    kind = getattr(estimator, "covariance_type", None)
    if kind is not None and kind not in structure_names():
        raise InvalidInput(
            f"estimator must have a covariance_type among {', '.join(structure_names())}, "
            f"got {kind!r}"
        )
    return estimator


def _settings(estimator: Any) -> dict[str, Any]:
    """Return parameters by name, nested ones too; attributes if there is no ``get_params``."""
    if hasattr(estimator, "get_params"):
        return dict(estimator.get_params(deep=True))
    return {name: value for name, value in vars(estimator).items() if not name.endswith("_")}


def _components_of(estimator: Any) -> int:
    k = getattr(estimator, "n_components", None)
    if k is None and hasattr(estimator, "weights_"):
        k = len(estimator.weights_)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidInput(
            "estimator must say how many components it fits: an attribute n_components >= 1, "
            f"got {k!r} in {type(estimator).__name__}"
        )
    return int(k)


def _unfitted(estimator: Any) -> Any:
    """Copy an estimator without its fit; the copy shares nothing with the original."""
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    try:
        return clone(estimator)
    except (RuntimeError, TypeError) as problem:
        raise InvalidInput(f"estimator cannot be copied by scikit-learn: {problem}") from problem


def _seeded(estimator: Any, seed: int) -> Any:
    """Copy an estimator and set every ``random_state`` in it from the seed."""
    model = _unfitted(estimator)
    names = sorted(n for n in _settings(model) if n.split("__")[-1] == "random_state")
    states = np.random.SeedSequence(seed).generate_state(max(len(names), 1))
    values = {name: int(state) for name, state in zip(names, states, strict=False)}
    if hasattr(model, "set_params"):
        model.set_params(**values)
    else:
        for name, value in values.items():
            setattr(model, name, value)
    return model


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect the warnings of this thread, in words; pass on those of other threads."""
    heard: list[str] = []
    me = threading.get_ident()
    with _HEARING, warnings.catch_warnings(), one_blas_thread():
        shown = warnings.showwarning

        def hear(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if threading.get_ident() != me:
                shown(message, category, filename, lineno, file, line)
            elif not issubclass(category, _ABOUT_CODE):
                heard.append(f"{category.__name__}: {message}")

        warnings.simplefilter("always")
        warnings.showwarning = hear
        yield heard


def _fit_block(estimator: Any, n_components: int, block: Array, seed: int) -> Mixture | str:
    """Fit one block, or say why there is no fit."""
    s, d = block.shape
    kind = getattr(estimator, "covariance_type", None)
    # an estimator that names no structure is held to the least that any asks for
    structure = covariance_structure(DEFAULT if kind is None else kind)
    least = n_components + 1 if kind is None else structure.least_rows(n_components, d)
    if s < least:
        return "too few rows"
    rows = np.array(block, order="C")  # its own, so that nothing can be written to other blocks
    with _heard() as heard:
        try:
            model = _seeded(estimator, seed)
            model.fit(rows)
            mixture = _mixture_of(model, n_components, d)
            thin = _thin_component(np.asarray(block), mixture, structure)
        except Exception as problem:  # noqa: BLE001 - foreign code; becomes the block's reason
            return _in_one_line(f"{type(problem).__name__}: {problem}")
    if heard:
        return _in_one_line(heard[0])
    return thin or mixture


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:157] + "..."


def _mixture_of(model: Any, n_components: int, n_features: int) -> Mixture:
    missing = [name for name in _FITTED if not hasattr(model, name)]
    if missing:
        raise InvalidInput(f"no {' and no '.join(missing)} after fit")
    weights = finite_array(model.weights_, "weights_", (n_components,))
    means = finite_array(model.means_, "means_", (n_components, n_features))
    kind = getattr(model, "covariance_type", None)
    return Mixture(
        weights, means, full_covariances(model.covariances_, n_components, n_features, kind)
    )


def _thin_component(rows: Array, mixture: Mixture, structure: CovarianceStructure) -> str:
    """Say why a component is not supported by its rows; empty if all are.

    The rows are whitened by the block's own spread, shared out by responsibility, and the
    scatter of each share, seen through the covariance layout, must exceed `_FLAT` squared in
    every direction.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        centred = rows - rows.mean(axis=0)
        scale = np.sqrt(np.mean(centred**2, axis=0))
    if not np.isfinite(scale).all():
        return "out of range"
    if (scale <= 1e-12 * np.abs(rows).max(axis=0)).any():
        return "rank-deficient"
    y = centred / scale
    if structure.correlated:
        left, singular, _ = np.linalg.svd(y, full_matrices=False)
        if len(y) < y.shape[1] or singular[-1] <= 1e-10 * singular[0]:
            return "rank-deficient"
        y = left * np.sqrt(len(y))
    share = softmax(mixture.log_joint(rows), axis=1)
    mass = np.maximum(share.sum(axis=0), np.finfo(float).tiny)
    offsets = y[None] - ((share.T @ y) / mass[:, None])[:, None]
    scatter = np.einsum("nk,kni,knj->kij", share / mass, offsets, offsets, optimize=True)
    least = structure.least_variance(scatter, mass)
    return "component collapsed" if least <= _FLAT**2 else ""
