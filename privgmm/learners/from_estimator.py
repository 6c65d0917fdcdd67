"""Any scikit-learn mixture estimator as a learner.

One unfitted copy a block, so that no state goes from block to block; what goes wrong inside a fit
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
from privgmm.errors import InvalidInput
from privgmm.learners.learner import BlockRandomness, ReasonedLearner, as_blocks, block_seeds
from privgmm.mixture import Mixture, MixtureBatch

__all__ = ["FromEstimator", "full_covariances"]

_KINDS = ("full", "tied", "diag", "spherical")
_FITTED = ("weights_", "means_", "covariances_")
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)
_FLAT = 1e-6
_HEARING = threading.RLock()
"""Warnings and BLAS threads are settings of the whole process: one fit at a time listens."""


def full_covariances(
    covariances: npt.ArrayLike, n_components: int, n_features: int, kind: str | None = None
) -> Array:
    """Covariances (k, d, d) from scikit-learn's four layouts.

    Parameters
    ----------
    covariances : array-like
        (k, d, d) for "full", (d, d) for "tied", (k, d) for "diag", (k,) for "spherical".
    n_components, n_features : int
        k and d.
    kind : {"full", "tied", "diag", "spherical"}, optional
        What the estimator calls ``covariance_type``. Without it the shape decides, and where it
        cannot, a square matrix with k = d > 1, there is an error rather than a guess.

    Examples
    --------
    >>> full_covariances([4.0, 9.0], 2, 1).ravel().tolist()
    [4.0, 9.0]
    """
    k, d = n_components, n_features
    value = finite_array(covariances, "covariances_")
    shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
    fitting = [name for name in _KINDS if value.shape == shapes[name]]
    if kind is not None:
        if kind not in shapes:
            raise InvalidInput(f"covariance_type must be one of {', '.join(_KINDS)}, got {kind!r}")
        if kind not in fitting:
            raise InvalidInput(
                f"covariances_ of covariance_type {kind!r} must have shape {shapes[kind]}, "
                f"got {value.shape}"
            )
        fitting = [kind]
    if not fitting:
        raise InvalidInput(
            f"covariances_ must have one of the shapes {', '.join(map(str, shapes.values()))}, "
            f"got {value.shape}"
        )
    if len(fitting) > 1 and d > 1:
        raise InvalidInput(
            f"covariances_ of shape {value.shape} may be {' or '.join(fitting)}: give the "
            "estimator an attribute covariance_type"
        )
    if fitting[0] == "full":
        return value
    if fitting[0] == "tied":
        return np.repeat(value[None], k, axis=0)
    variances = np.broadcast_to(value.reshape(k, -1), (k, d))
    return np.asarray(variances[:, :, None] * np.eye(d), dtype=np.float64)


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
        """Like `fit_blocks`, with a reason a block: empty, or why it has no fit.

        The reasons speak about the data: for the curator only.
        """
        rows = as_blocks(blocks)
        t, _, d = rows.shape
        k = self.n_components
        seeds = block_seeds(rng, t)
        # processes, because warnings cannot be told apart between threads
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
        """What to do about one of the reasons."""
        if reason == "too few rows":
            return "use more rows or fewer components"
        return f"change the settings of {type(self.estimator).__name__} or the number of components"


def _bare(estimator: Any) -> Any:
    """The estimator itself, out of a pipeline of one step; refuse what cannot be run by block."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
        if len(steps) != 1:
            raise InvalidInput(
                "estimator must not be a pipeline with transformers: its parameters would be in "
                "other units than the data. The release itself is free of units: pass the mixture "
                "estimator alone, or transform the rows first if you must"
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
    if kind is not None and kind not in _KINDS:
        raise InvalidInput(
            f"estimator must have a covariance_type among {', '.join(_KINDS)}, got {kind!r}"
        )
    return estimator


def _settings(estimator: Any) -> dict[str, Any]:
    """Parameters by name, those of its parts too; attributes where there is no ``get_params``."""
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
    """A copy that shares nothing with the original, without its fit."""
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    try:
        return clone(estimator)
    except (RuntimeError, TypeError) as problem:
        raise InvalidInput(f"estimator cannot be copied by scikit-learn: {problem}") from problem


def _seeded(estimator: Any, seed: int) -> Any:
    """A copy with every ``random_state`` in it set from the seed."""
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
    """What this thread is warned of, in words; warnings of other threads are passed on."""
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
    """The fit of one block, or why there is none."""
    s, d = block.shape
    kind = getattr(estimator, "covariance_type", None)
    least = {"full": n_components * (d + 1), "tied": n_components + d, "diag": 2 * n_components}
    if s < least.get(str(kind), n_components + 1):
        return "too few rows"
    rows = np.array(block, order="C")  # its own, so that nothing can be written to other blocks
    with _heard() as heard:
        try:
            model = _seeded(estimator, seed)
            model.fit(rows)
            mixture = _mixture_of(model, n_components, d)
            thin = _thin_component(np.asarray(block), mixture, kind)
        except Exception as problem:  # noqa: BLE001 - foreign code; told as the block's reason
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


def _thin_component(rows: Array, mixture: Mixture, kind: str | None) -> str:
    """Why a component is not carried by its rows, or nothing.

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
    if kind not in ("diag", "spherical"):
        left, singular, _ = np.linalg.svd(y, full_matrices=False)
        if len(y) < y.shape[1] or singular[-1] <= 1e-10 * singular[0]:
            return "rank-deficient"
        y = left * np.sqrt(len(y))
    share = softmax(mixture.log_joint(rows), axis=1)
    mass = np.maximum(share.sum(axis=0), np.finfo(float).tiny)
    offsets = y[None] - ((share.T @ y) / mass[:, None])[:, None]
    scatter = np.einsum("nk,kni,knj->kij", share / mass, offsets, offsets, optimize=True)
    variances = np.einsum("kii->ki", scatter)
    if kind == "spherical":
        least = float(variances.mean(axis=1).min())
    elif kind == "diag":
        least = float(variances.min())
    elif kind == "tied":
        least = float(np.linalg.eigvalsh(np.tensordot(mass / mass.sum(), scatter, 1)).min())
    else:
        least = float(np.linalg.eigvalsh(scatter).min())
    return "component collapsed" if least <= _FLAT**2 else ""
