"""Say whether a release is useful, released but not as accurate as asked, or refused.

Every door asks this one object, so that all of them give the same answer. Before a release
`Plan.usefulness` forecasts it, and `planner.usefulness_for` does so for a request that may have no
plan. After a release `Release.usefulness` and `Refusal.usefulness` state it from published numbers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from privgmm.arrays import positive
from privgmm.errors import InvalidInput
from privgmm.stages.accuracy import ExpectedError

__all__ = [
    "LESS_ACCURATE",
    "REFUSED",
    "USEFUL",
    "USUAL_ALPHA",
    "USUAL_BETA",
    "Usefulness",
    "checked_alpha",
]

USEFUL, LESS_ACCURATE, REFUSED = "useful", "released, but not as accurate as asked", "refused"

USUAL_ALPHA = 0.2
"""Accuracy that answers are measured by where none is asked for, in dist_GMM; by convention. A mean
that is off by half a standard deviation is 0.2 off."""
USUAL_BETA = 0.1
"""Chance with which that accuracy may be missed; by convention."""
_NEARLY_SURE = 0.95
"""A chance of a release from here on is not mentioned; by convention, that of enough rows."""
_EVEN = 0.5
"""A release that is less likely than this is called refused; by convention."""


def checked_alpha(alpha: float) -> float:
    """Return an accuracy that may be asked for; raise `InvalidInput` beyond one."""
    if positive(alpha, "alpha") > 1:
        raise InvalidInput(
            "must be at most 1",
            argument="alpha",
            value=alpha,
            remedy="it is a distance dist_GMM, which is 1 for a release that is wrong",
        )
    return float(alpha)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usefulness:
    """Hold the answer to "will this be useful?", or "is it?", with the numbers behind it.

    Parameters
    ----------
    chance : float
        Chance of a release; 1 or 0 once it is known.
    expected_error : ExpectedError or None
        Law of the distance dist_GMM between what is released and the truth; None where it is not
        known, or where there is no truth to be near.
    alpha : float
        Accuracy asked for: the release is to be within alpha of the truth.
    beta : float
        Chance with which it may miss alpha.
    concerns : tuple of str
        Sentences that say why it is not useful whatever the expected error: why it is refused,
        that such a mixture does not explain the rows, or that components are not resolved.
    is_over : bool
        Whether this is about a release that was made, and not a forecast.

    Notes
    -----
    Show `answer` as the light (three values: `USEFUL`, `LESS_ACCURATE`, `REFUSED`), `title` as the
    headline, and `sentence` below it. `within` is the number to compare with ``1 - beta``.

    Examples
    --------
    >>> from privgmm.stages.accuracy import CHANCES
    >>> law = ExpectedError(tuple(0.1 * (1 + chance) for chance in CHANCES))
    >>> Usefulness(chance=0.99, expected_error=law).answer
    'useful'
    >>> found = Usefulness(chance=0.99, expected_error=law, alpha=0.1)
    >>> print(found.title, "|", found.sentence)
    Released, but not as accurate as asked | Half of all releases are expected within 0.15 of the \
truth, nine in ten between 0.11 and 0.2; 0.1 is asked for. (dist_GMM: 0 is perfect, 1 is wrong.)
    """

    chance: float
    expected_error: ExpectedError | None
    alpha: float = USUAL_ALPHA
    beta: float = USUAL_BETA
    concerns: tuple[str, ...] = ()
    is_over: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))
        object.__setattr__(self, "beta", positive(self.beta, "beta", below=1.0))

    @property
    def within(self) -> float:
        """Return the chance of a release within alpha of the truth; a refusal is a miss."""
        if self.expected_error is None:
            return 0.0
        return self.chance * self.expected_error.within(self.alpha)

    @property
    def answer(self) -> str:
        """Return `USEFUL`, `LESS_ACCURATE` or `REFUSED`."""
        if self.chance < _EVEN:
            return REFUSED
        if self.within >= 1 - self.beta and not self.concerns:
            return USEFUL
        return LESS_ACCURATE

    @property
    def is_useful(self) -> bool:
        """Check whether the answer is `USEFUL`: nothing else deserves a green light."""
        return self.answer == USEFUL

    @property
    def title(self) -> str:
        """Name the answer in a headline; between useful and not, it says what is in doubt."""
        answer = self.answer
        if answer == REFUSED:
            return "Refused" if self.is_over else "Probably refused"
        if answer == USEFUL or self.concerns or self.expected_error is None:
            return "Useful" if answer == USEFUL else "Released, but not to be relied on"
        if self.expected_error.value > self.alpha:
            return "Released, but not as accurate as asked"
        if self.expected_error.within(self.alpha) >= 1 - self.beta:
            return "Useful, but may be refused"
        return "Released, but perhaps not as accurate as asked"

    @property
    def sentence(self) -> str:
        """Say what error to expect, compared with what is asked for; concerns come first."""
        words = list(self.concerns)
        if 0 < self.chance < _NEARLY_SURE:
            words.append(f"The chance of a release is {_percent(self.chance)}.")
        if self.expected_error is not None and self.chance > 0:
            words.append(self._error_in_words(self.expected_error))
        elif not words:
            words.append("How far it is from the truth is not known.")
        return " ".join(words)

    def _error_in_words(self, law: ExpectedError) -> str:
        low, high = f"{law.low:.2g}", f"{law.high:.2g}"
        asked = f"{self.alpha:g} is asked for. (dist_GMM: 0 is perfect, 1 is wrong.)"
        if self.is_over:
            return (
                f"It is estimated to be {law.value:.2g} from the truth, with 90 % probability "
                f"between {low} and {high}; {asked}"
            )
        return (
            f"Half of all releases are expected within {law.value:.2g} of the truth, nine in ten "
            f"between {low} and {high}; {asked}"
        )

    def __str__(self) -> str:
        return f"{self.title}. {self.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        law = self.expected_error
        return {
            "answer": self.answer,
            "alpha": self.alpha,
            "beta": self.beta,
            "chance": float(f"{self.chance:.6g}"),
            "within": float(f"{self.within:.6g}"),
            "expected_error": None if law is None else law.to_dict(),
            "sentence": self.sentence,
        }


def _percent(chance: float) -> str:
    """Write a chance between 0 and 1 as a percentage that is neither 0 nor 100."""
    return f"{min(max(round(100 * chance), 1), 99)} %"
