"""Spaces in which fits are compared and masked: a distance, a representative and a mask.

Algorithm 1 is written against `Space` alone, so it runs in any semimetric space. The two of
this package are `paper_space.PaperSpace` (Sections 4 and 5 as printed) and
`lifted_space.LiftedSpace`; they own the price of their masks (`MixtureSpace`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.privacy.noise import Randomness
from privgmm.stages.agreement.reading import Number
from privgmm.stages.agreement.votes import Verdict

__all__ = ["ChosenWords", "MixtureSpace", "Places", "Space", "SpaceWords"]

Items_contra = TypeVar("Items_contra", contravariant=True)
Item_co = TypeVar("Item_co", covariant=True)


@dataclasses.dataclass(frozen=True)
class SpaceWords:
    """The words in which pages and reports describe a space.

    Parameters
    ----------
    distance : str
        What is special about its distance.
    chosen_label, chosen_title : str
        What is made of the fits that agree: in a word, and as a title.
    chosen : str
        How that departs from the paper; empty if one of the fits is picked.
    mask : str
        What is special about its mask.
    noise : str
        What its noise levels are relative to.
    """

    distance: str
    chosen_label: str
    chosen_title: str
    chosen: str
    mask: str
    noise: str


@dataclasses.dataclass(frozen=True)
class ChosenWords:
    """What goes to the mask after one verdict, in words. CONFIDENTIAL.

    Parameters
    ----------
    sentences : str
        Which blocks it was made of, and why one row moves it by little.
    name : str
        What it is called in a picture.
    numbers : tuple of Number
    """

    sentences: str
    name: str
    numbers: tuple[Number, ...]


@runtime_checkable
class Places(Protocol[Items_contra]):
    """A space that finds the pairs within a radius faster than all distances."""

    def placed(self, items: Items_contra, radius: float) -> Array:
        """Compute numbers (t, t) that lie on the same side of the radius as the distances.

        Any other number on the same side may stand for a distance that is off the radius by a
        thousandth or more.
        """
        ...


class Space(Protocol[Items_contra, Item_co]):
    """A semimetric space (Definition 2.1) with a masking mechanism (Definition 2.2)."""

    def distances(self, items: Items_contra) -> Array:
        """Compute all distances (t, t); infinite, diagonal included, where an item is missing."""
        ...

    def between(self, items: Items_contra, first: IntArray, second: IntArray) -> Array:
        """Compute the distances (m,) of pairs (first, second), each from its two items alone.

        To the last bit: no third item may change them, not even through rounding. Sensitivity
        rests on it.
        """
        ...

    def representative(self, items: Items_contra, weights: Array, reference: int) -> Any:
        """Compute what is masked when the test passes.

        Parameters
        ----------
        weights : array (t,)
            How much each item counts; zero outside the agreeing core.
        reference : int
            The first item that the test selected.
        """
        ...

    def mask(self, item: Any, *, rng: Randomness) -> Item_co:
        """Draw a noisy version of `item` on a public grid, the only one that may be published.

        It must not raise for any item and any noise: the budget is spent by then.
        """
        ...


class MixtureSpace(Space[MixtureBatch, Mixture], Protocol):
    """A space of mixtures that prices its mask and describes itself."""

    lifted: ClassVar[bool]
    """Whether its distance is that of lifted matrices; simulations of fits need to know."""
    averages: ClassVar[bool]
    """Whether a mean of the agreeing fits is masked, and not one of them."""
    words: ClassVar[SpaceWords]

    def scattered(self, items: MixtureBatch, factor: float) -> Array:
        """Compute distances (t, t) of fits that scatter `factor` times as widely as these.

        Fits of more rows scatter less. Components lie as far apart as they do in `items`.
        """
        ...

    def describe_chosen(self, verdict: Verdict) -> ChosenWords:
        """Say what is masked after this verdict. CONFIDENTIAL."""
        ...

    def mask_curve(self, gamma: float, n_features: int) -> RenyiCurve:
        """Compute the Rényi price of masking one component that can move by gamma."""
        ...

    def misrounding(self, n_components: int, n_features: int) -> float:
        """Bound the chance that the mask publishes something else than real numbers would give."""
        ...

    def mask_variances(self, weights: Array, n_features: int) -> Array:
        """Compute the variances (k, 1 + d + d(d+1)/2) of what the mask adds, to first order.

        In local coordinates of components of these weights (k,), as `StandardErrors.from_local`
        has them.
        """
        ...

    def noise(self) -> dict[str, float]:
        """Return the noise levels by name, as plain numbers for JSON."""
        ...

    # ------------------------------------------------------------- what the audit asks for

    def distance(self, first: Any, second: Any) -> float:
        """Compute the distance of two representatives, components under the best matching."""
        ...

    def tables(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Compute distances (m, k, k) of all components of pairs (first, second), pair by pair."""
        ...

    def scaling(self, radius: float, n_features: int) -> float:
        """Find the x for which covariances S and ``exp(x / sqrt d) S`` are `radius` apart."""
        ...

    def gaussian_pair(self, item_a: Any, item_b: Any) -> GaussianPair:
        """Describe what the mask draws for two representatives, before squaring and shuffling.

        Components are matched first: an attacker is assumed to know which is which.
        """
        ...

    def worst_pair(self, gamma: float, n_components: int, n_features: int) -> GaussianPair:
        """Describe the mask's draws for representatives as far apart as gamma allows."""
        ...

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        """List the mask's draws for one component and others gamma away, in many directions."""
        ...

    def equal_components(self, n: int, n_features: int) -> Any:
        """Make a representative of n equal components, at the origin and of unit covariance."""
        ...

    def formula(self, n: int, n_features: int, *, rng: np.random.Generator) -> Array:
        """Draw what the mask should make of `equal_components`, by its bare formula.

        Array (3, n): weights before they are normalised, and the first entries of means and
        covariances.
        """
        ...
