"""Define covariance structures: what components of a mixture may differ in, one object for each.

The names are scikit-learn's. An object holds what people read (title, sentence), how scikit-learn
lays out such covariances, and how many free numbers they have. `stages.sketch.structures` has the
classes that fit each structure to a sketch.

Examples
--------
>>> tied = covariance_structure("tied")
>>> tied.shape(3, 2), tied.n_parameters(3, 2)
((2, 2), 3)
>>> structure_names()
('full', 'tied', 'diag', 'spherical')
"""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array
from privgmm.errors import InvalidInput

__all__ = [
    "DEFAULT",
    "CovarianceStructure",
    "all_structures",
    "covariance_structure",
    "register_structure",
    "structure_names",
    "unregister_structure",
]

DEFAULT = "full"
"""By convention, as in scikit-learn: nothing is assumed about covariances."""


class CovarianceStructure(abc.ABC):
    """Describe which covariances (k, d, d) a mixture may have."""

    name: ClassVar[str]
    """Value of scikit-learn's ``covariance_type``."""
    title: ClassVar[str]
    """Words on a button."""
    adjective: ClassVar[str]
    """Word before "covariances"."""
    sentence: ClassVar[str]
    """Meaning, for readers who do not know the name."""
    correlated: ClassVar[bool] = True
    """Whether columns may be correlated within a component."""

    @abc.abstractmethod
    def shape(self, k: int, d: int) -> tuple[int, ...]:
        """Return the shape of scikit-learn's ``covariances_``."""

    @abc.abstractmethod
    def n_parameters(self, k: int, d: int) -> int:
        """Count the free numbers of all covariances together."""

    @abc.abstractmethod
    def reduced(self, matrices: Array) -> Array:
        """Convert matrices (k, d, d) of this structure to scikit-learn's layout."""

    @abc.abstractmethod
    def expanded(self, layout: Array, k: int, d: int) -> Array:
        """Convert scikit-learn's layout to matrices (k, d, d)."""

    @abc.abstractmethod
    def least_rows(self, k: int, d: int) -> int:
        """Return the fewest rows with which k components are determined."""

    @abc.abstractmethod
    def least_variance(self, scatter: Array, mass: Array) -> float:
        """Return the smallest variance in any direction that a fit of this structure sees.

        Parameters
        ----------
        scatter : array (k, d, d)
            Covariance of the rows of each component.
        mass : array (k,)
            How many rows each component has.
        """


class _Full(CovarianceStructure):
    name: ClassVar[str] = "full"
    title: ClassVar[str] = "Full"
    adjective: ClassVar[str] = "full"
    sentence: ClassVar[str] = "Every component has an ellipse of its own."

    def shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d, d)

    def n_parameters(self, k: int, d: int) -> int:
        return k * d * (d + 1) // 2

    def reduced(self, matrices: Array) -> Array:
        return matrices

    def expanded(self, layout: Array, k: int, d: int) -> Array:
        return layout.reshape(k, d, d)

    def least_rows(self, k: int, d: int) -> int:
        return k * (d + 1)

    def least_variance(self, scatter: Array, mass: Array) -> float:  # noqa: ARG002 - each by itself
        return float(np.linalg.eigvalsh(scatter).min())


class _Tied(CovarianceStructure):
    name: ClassVar[str] = "tied"
    title: ClassVar[str] = "Tied"
    adjective: ClassVar[str] = "tied"
    sentence: ClassVar[str] = "All components share one shape."

    def shape(self, k: int, d: int) -> tuple[int, ...]:  # noqa: ARG002 - one for all
        return (d, d)

    def n_parameters(self, k: int, d: int) -> int:  # noqa: ARG002 - one for all
        return d * (d + 1) // 2

    def reduced(self, matrices: Array) -> Array:
        return np.asarray(matrices[0], dtype=np.float64)

    def expanded(self, layout: Array, k: int, d: int) -> Array:
        return np.repeat(layout.reshape(1, d, d), k, axis=0)

    def least_rows(self, k: int, d: int) -> int:
        return k + d

    def least_variance(self, scatter: Array, mass: Array) -> float:
        pooled = np.tensordot(mass / mass.sum(), scatter, 1)
        return float(np.linalg.eigvalsh(pooled).min())


class _Diagonal(CovarianceStructure):
    name: ClassVar[str] = "diag"
    title: ClassVar[str] = "Diag"
    adjective: ClassVar[str] = "diagonal"
    sentence: ClassVar[str] = "Ellipses lie along the axes: no correlation."
    correlated: ClassVar[bool] = False

    def shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d)

    def n_parameters(self, k: int, d: int) -> int:
        return k * d

    def reduced(self, matrices: Array) -> Array:
        return np.diagonal(matrices, axis1=1, axis2=2).copy()

    def expanded(self, layout: Array, k: int, d: int) -> Array:
        variances = np.broadcast_to(layout.reshape(k, -1), (k, d))
        return np.asarray(variances[:, :, None] * np.eye(d), dtype=np.float64)

    def least_rows(self, k: int, d: int) -> int:  # noqa: ARG002 - two rows have a spread per column
        return 2 * k

    def least_variance(self, scatter: Array, mass: Array) -> float:  # noqa: ARG002 - each by itself
        return float(np.einsum("kii->ki", scatter).min())


class _Spherical(_Diagonal):
    name: ClassVar[str] = "spherical"
    title: ClassVar[str] = "Spherical"
    adjective: ClassVar[str] = "spherical"
    sentence: ClassVar[str] = "Every component has one spread, the same in every column."

    def shape(self, k: int, d: int) -> tuple[int, ...]:  # noqa: ARG002 - one per component
        return (k,)

    def n_parameters(self, k: int, d: int) -> int:  # noqa: ARG002 - one per component
        return k

    def reduced(self, matrices: Array) -> Array:
        return np.diagonal(matrices, axis1=1, axis2=2)[:, 0].copy()

    def least_rows(self, k: int, d: int) -> int:  # noqa: ARG002 - one row more than components
        return k + 1

    def least_variance(self, scatter: Array, mass: Array) -> float:  # noqa: ARG002 - each by itself
        return float(np.einsum("kii->ki", scatter).mean(axis=1).min())


_STRUCTURES: dict[str, CovarianceStructure] = {}


def register_structure(structure: CovarianceStructure) -> None:
    """Offer a structure everywhere; its name must be new."""
    if structure.name in _STRUCTURES:
        raise InvalidInput(
            f"there is a covariance structure {structure.name!r} already: choose another name"
        )
    _STRUCTURES[structure.name] = structure


def unregister_structure(name: str) -> None:
    """Remove a structure, for example one that a test has added."""
    del _STRUCTURES[covariance_structure(name).name]


def structure_names() -> tuple[str, ...]:
    """List the names of all structures, the default first."""
    return tuple(_STRUCTURES)


def all_structures() -> tuple[CovarianceStructure, ...]:
    """Return all structures in that order."""
    return tuple(_STRUCTURES.values())


def covariance_structure(name: str) -> CovarianceStructure:
    """Return the structure of that name, or raise a clear error."""
    if not isinstance(name, str) or name not in _STRUCTURES:
        raise InvalidInput(
            f"must be one of {', '.join(_STRUCTURES)}", argument="covariance_type", value=name
        )
    return _STRUCTURES[name]


for _structure in (_Full(), _Tied(), _Diagonal(), _Spherical()):
    register_structure(_structure)
