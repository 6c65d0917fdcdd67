"""Describe how a test reads votes, as plain data for pictures and pages.

Each test knows what its votes mean and which noise it adds (`votes.AgreementTest`,
`algorithm_1.PopulousTest`). It says so in the shapes defined here, which are the same for every
test, so that code that draws them need not know which test it is. All of it is CONFIDENTIAL,
except for `VoteWords`, which do not depend on any data.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from privgmm.arrays import Array, BoolArray

__all__ = ["NoisyLaw", "Number", "VoteBand", "VoteLine", "VoteMark", "VoteWords", "VotesReading"]


class Number(NamedTuple):
    """A number to show: what it is called, its value as text, and what it means."""

    label: str
    value: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class VoteWords:
    """The words in which pages and reports describe a test.

    Parameters
    ----------
    letter : str
        What its statistic is called.
    votes : str
        How friends are counted and made into the statistic.
    statistic : str
        How the statistic departs from the paper's; empty if it does not.
    change : str
        How far replacing one row can move the statistic.
    picked : str
        Which block is picked, where that departs from the paper's rule; empty if it does not.
    """

    letter: str
    votes: str
    statistic: str
    change: str
    picked: str


class VoteBand(NamedTuple):
    """Blocks with at least `least` friends, and fewer than the band before it requires."""

    least: int
    name: str
    label: str


class VoteLine(NamedTuple):
    """A line across the votes, from one (rank, friends) to another.

    Its role is to show the statistic itself ("value"), the way to it ("guide"), or something that
    must be reached ("limit").
    """

    label: str
    start: tuple[float, float]
    end: tuple[float, float]
    role: Literal["value", "guide", "limit"]


class VoteMark(NamedTuple):
    """A point among the votes, at (rank, friends)."""

    label: str
    text: str
    place: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class VotesReading:
    """What a test reads from friend counts. CONFIDENTIAL.

    Parameters
    ----------
    bands : tuple of VoteBand
        The kinds of blocks, those with most friends first.
    lines : tuple of VoteLine
    mark : VoteMark or None
        Where the statistic is read off, if that is a point.
    numbers : tuple of Number
        The statistic and what it was made with.
    words : str
        The counts in one sentence, for readers who cannot see the picture.
    """

    bands: tuple[VoteBand, ...]
    lines: tuple[VoteLine, ...]
    mark: VoteMark | None
    numbers: tuple[Number, ...]
    words: str


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyLaw:
    """The law of a statistic with its noise, centred at the statistic. CONFIDENTIAL.

    Parameters
    ----------
    values, heights : arrays (m,)
        What may come out, and its chance; a density where `whole` is False.
    passes : array of bool (m,)
        Whether the test passes there.
    whole : bool
        Whether only whole numbers come out.
    words : str
        How the noise departs from the paper's; empty if it does not.
    """

    values: Array
    heights: Array
    passes: BoolArray
    whole: bool
    words: str
