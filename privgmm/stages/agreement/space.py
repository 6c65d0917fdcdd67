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
from privgmm.stages.agreement.votes import Verdict
from privgmm.stages.stage import Number

__all__ = ["ChosenWords", "MixtureSpace", "Places", "Space", "SpaceWords"]

Items = TypeVar("Items", contravariant=True)
Item = TypeVar("Item", covariant=True)


@dataclasses.dataclass(frozen=True)
class SpaceWords:
    """How a space is spoken of.

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
    """What goes to the mask after one verdict, in words. NOT private.

    Parameters
    ----------
    sentences : str
        Which blocks it was made of, and why one row moves it by little.
    name : str
        What it is called beside a picture.
    numbers : tuple of Number
    """

    sentences: str
    name: str
    numbers: tuple[Number, ...]


@runtime_checkable
class Places(Protocol[Items]):
    """A space that can tell who lies within a radius sooner than how far everybody is apart."""

    def placed(self, items: Items, radius: float) -> Array:
        """All distances (t, t), where nothing counts but who lies within the radius.

        Any other number on the same side may stand for a distance that is off the radius by a
        thousandth or more.
        """
        ...


class Space(Protocol[Items, Item]):
    """A semimetric space (Definition 2.1) with a masking mechanism (Definition 2.2)."""

    def distances(self, items: Items) -> Array:
        """All distances (t, t); infinite, diagonal included, where an item does not exist."""
        ...

    def between(self, items: Items, first: IntArray, second: IntArray) -> Array:
        """Distances (m,) of the pairs (first, second), each from its two items alone.

        To the last bit: no third item may have a say, not even through rounding.
        """
        ...

    def representative(self, items: Items, weights: Array, reference: int) -> Any:
        """What to mask when the test passes.

        Parameters
        ----------
        weights : array (t,)
            How much each item counts; zero outside the agreeing core.
        reference : int
            The first item that the test selected.
        """
        ...

    def mask(self, item: Any, *, rng: Randomness) -> Item:
        """A noisy version of `item`, the only thing that may be shown: on a public grid.

        It must not raise, whatever the item and the noise are.
        """
        ...


class MixtureSpace(Space[MixtureBatch, Mixture], Protocol):
    """A space of mixtures that can say what its mask costs, and be spoken of."""

    lifted: ClassVar[bool]
    """Whether its distance is that of lifted matrices, for simulating how fits scatter in it."""
    averages: ClassVar[bool]
    """Whether what is masked is a mean of the fits that agree, and not one of them."""
    words: ClassVar[SpaceWords]

    def scattered(self, items: MixtureBatch, factor: float) -> Array:
        """The distances (t, t) of fits like these that scatter `factor` times as widely.

        Fits of more rows scatter less. Components lie as far apart as they do in `items`.
        """
        ...

    def describe_chosen(self, verdict: Verdict) -> ChosenWords:
        """What is masked after this verdict, in words. NOT private."""
        ...

    def mask_curve(self, gamma: float, n_features: int) -> RenyiCurve:
        """The Rényi price of masking one component that can move by gamma."""
        ...

    def misrounding(self, n_components: int, n_features: int) -> float:
        """How often what the mask publishes is not what real numbers would give, at most."""
        ...

    def noise(self) -> dict[str, float]:
        """Its noise levels by name, as plain numbers for JSON."""
        ...

    # ------------------------------------------------------------- what the audit asks for

    def distance(self, first: Any, second: Any) -> float:
        """Between two representatives, their components under the best order."""
        ...

    def tables(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Distances (m, k, k) of all components of the pairs (first, second), pair by pair."""
        ...

    def scaling(self, radius: float, n_features: int) -> float:
        """The x for which covariances S and ``exp(x / sqrt d) S`` are `radius` apart."""
        ...

    def gaussian_pair(self, item_a: Any, item_b: Any) -> GaussianPair:
        """What the mask draws for either of two representatives, before squaring and shuffling.

        Components are matched first: whoever sees the pair is told which is which.
        """
        ...

    def worst_pair(self, gamma: float, n_components: int, n_features: int) -> GaussianPair:
        """The same for two representatives as far apart as gamma allows, in each component."""
        ...

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        """What the mask draws for one component and others gamma away, in many directions."""
        ...

    def equal_components(self, n: int, n_features: int) -> Any:
        """A representative of n equal components, at the origin and of unit covariance."""
        ...

    def formula(self, n: int, n_features: int, *, rng: np.random.Generator) -> Array:
        """What the mask should make of `equal_components`, drawn by its bare formula.

        Array (3, n): weights before they are normalised, and the first entries of means and
        covariances.
        """
        ...
