"""Spaces in which fits are compared and masked: a distance, a representative and a mask.

Algorithm 1 is written against `Space` alone, so it runs in any semimetric space. The two of
this package are `paper_space.PaperSpace` (Sections 4 and 5 as printed) and
`lifted_space.LiftedSpace`. A space owns the price of its mask.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol, TypeVar

from privgmm.arrays import Array, IntArray
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.noise import Randomness

__all__ = ["Space", "SpaceWords"]

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
    mask : str
        What is special about its mask.
    noise : str
        What its noise levels are relative to.
    """

    distance: str
    chosen_label: str
    chosen_title: str
    mask: str
    noise: str


class Space(Protocol[Items, Item]):
    """A semimetric space (Definition 2.1) with a masking mechanism (Definition 2.2)."""

    lifted: ClassVar[bool]
    """Whether its distance is that of lifted matrices, for simulating how fits scatter in it."""
    averages: ClassVar[bool]
    """Whether what is masked is a mean of the fits that agree, and not one of them."""
    words: ClassVar[SpaceWords]

    def mask_curve(self, gamma: float, n_features: int) -> RenyiCurve:
        """The Rényi price of masking one component that can move by gamma."""
        ...

    def noise(self) -> dict[str, float]:
        """Its noise levels by name, as plain numbers for JSON."""
        ...

    def distances(self, items: Items) -> Array:
        """All distances (t, t); infinite, diagonal included, for an item that is no item."""
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
        """A noisy version of `item`, the only thing that may be shown."""
        ...
