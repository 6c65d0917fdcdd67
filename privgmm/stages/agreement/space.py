"""Spaces in which fits are compared and masked: a distance, a representative and a mask.

Algorithm 1 is written against `Space` alone, so it runs in any semimetric space. The two of
this package are `paper.PaperSpace` (Sections 4 and 5 as printed) and `lifted.LiftedSpace`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

from privgmm.arrays import Array, IntArray

__all__ = ["Randomness", "Space"]

Items = TypeVar("Items", contravariant=True)
Item = TypeVar("Item", covariant=True)


@runtime_checkable
class Randomness(Protocol):
    """What a mask draws: standard normals and uniform permutations."""

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Independent standard normal draws."""
        ...

    def permutation(self, n: int) -> IntArray:
        """A uniformly random order of 0..n-1."""
        ...


class Space(Protocol[Items, Item]):
    """A semimetric space (Definition 2.1) with a masking mechanism (Definition 2.2)."""

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
