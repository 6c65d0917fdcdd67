"""Numbers, outcomes and methods in plain words. Pure functions: no Streamlit in here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privgmm.errors import InvalidInput, Problem, Wording
from privgmm.methods import registry

__all__ = [
    "all_of",
    "chance_in_words",
    "count_in_words",
    "error_in_words",
    "escaped",
    "method_title",
    "number_in_words",
    "problem_in_words",
    "spreads_apart",
    "times_short",
    "with_error",
]

_MARKS = frozenset("\\`*_[]<$:~")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def count_in_words(number: float) -> str:
    """Write a number of rows as people say it: ``31,000``, ``2.49 million``, ``4.06 × 10¹⁸``.

    Examples
    --------
    >>> count_in_words(31234), count_in_words(2.49e6), count_in_words(4.06e18)
    ('31,200', '2.49 million', '4.06 × 10¹⁸')
    """
    if not math.isfinite(number):
        return "no finite number of"
    if number < 1000:
        return f"{math.ceil(number):,}"
    if number < 1e6:
        return f"{float(f'{number:.3g}'):,.0f}"
    rounded = float(f"{number:.3g}")
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if size <= rounded < 1000 * size:
            return f"{rounded / size:g} {word}"
    lead, exponent = f"{number:.2e}".split("e")
    return f"{float(lead):g} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


_TINY = 1e-5
"""Share of a number below which its error has no say in its digits, by convention."""


def number_in_words(value: float, digits: int = 4) -> str:
    """Write a number with few digits, as people write it: no 1e-06.

    Examples
    --------
    >>> number_in_words(1e-6), number_in_words(2.5e-7), number_in_words(-4.01239)
    ('10⁻⁶', '2.5 × 10⁻⁷', '−4.012')
    >>> number_in_words(123456.0), number_in_words(0.01234567, 2), number_in_words(-0.0)
    ('123,500', '0.012', '0')
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return f"{value:.0f}"
    lead, exponent = f"{abs(value):.{digits - 1}e}".split("e")
    power, sign = int(exponent), "−" if value < 0 else ""
    if -4 < power < 6:
        text = f"{float(f'{lead}e{exponent}'):,.{max(0, digits - 1 - power)}f}"
        return sign + (text.rstrip("0").rstrip(".") if "." in text else text)
    ten = f"10{str(power).translate(_SUPERSCRIPTS)}"
    return f"{sign}{ten}" if float(lead) == 1 else f"{sign}{float(lead):g} × {ten}"


def error_in_words(error: float) -> str:
    """Write an error in dist_GMM with three decimals, or two digits where it is smaller.

    Examples
    --------
    >>> error_in_words(0.0971), error_in_words(0.00042), error_in_words(0.0)
    ('0.097', '4.2 × 10⁻⁴', '0')
    """
    return f"{error:.3f}" if error >= 0.001 else number_in_words(error, 2)


def with_error(value: float, error: float) -> str:
    """Write a number and its standard error, or its spread.

    The error gets two digits, and the number ends at the same decimal place. A number keeps two
    digits if the error is larger than itself, and four if it is tiny (less than 10⁻⁵ of it) or not
    known (NaN).

    Examples
    --------
    >>> with_error(167.914, 0.118), with_error(66.27, 10.2), with_error(-0.002925, 2.5e-4)
    ('167.91 ± 0.12', '66 ± 10', '(−2.92 ± 0.25) × 10⁻³')
    >>> with_error(0.0938, 1.0), with_error(0.5, 0.0)
    ('0.094 ± 1', '0.5 ± 0')
    >>> with_error(0.495, float("nan"))
    '0.495 ± not known'
    """
    if math.isnan(error):
        return f"{number_in_words(value)} ± not known"
    top = max(abs(value), error)
    power = math.floor(math.log10(top)) if top > 0 else 0
    if not -3 < power < 6:
        inner = with_error(value / 10.0**power, error / 10.0**power)
        return f"({inner}) × 10{str(power).translate(_SUPERSCRIPTS)}"
    if abs(value) >= error > _TINY * abs(value):
        # an error of 0.0996 is rounded to 0.10, and its number to two places as well
        places = 1 - math.floor(math.log10(float(f"{error:.1e}")))
        number, off = (f"{abs(round(x, places)):,.{max(0, places)}f}" for x in (value, error))
        return f"{'−' if value < 0 else ''}{number} ± {off}"
    number = number_in_words(value, 2 if error > abs(value) else 4)
    return f"{number} ± {number_in_words(error, 2)}"


def times_short(needed: float, have: int) -> str:
    """Compare the rows that are needed with those at hand, as a clause.

    Examples
    --------
    >>> times_short(3_100, 3_000), times_short(5_000, 2_000)
    ('4% more than the rows at hand', '2.5 times the rows at hand')
    """
    ratio = needed / have
    if ratio <= 1:
        return "fewer than there are: such rows are harder than well separated ones"
    if ratio < 2:
        return f"{math.ceil(100 * (ratio - 1))}% more than the rows at hand"
    if ratio < 10:
        return f"{ratio:.1f} times the rows at hand"
    return f"{count_in_words(ratio)} times the rows at hand"


def chance_in_words(chance: float) -> str:
    """Write a chance in per cent, never rounded up to certainty.

    Examples
    --------
    >>> chance_in_words(0.7311), chance_in_words(0.99966)
    ('73%', '99.96%')
    """
    if chance < 0.99:
        return f"{chance:.0%}"
    return f"{math.floor(chance * 1e4) / 100:.2f}%"


def spreads_apart(lifted: float) -> float:
    """Convert a lifted distance to standard deviations between two means.

    For two components of equal weight and shape whose means differ by s standard deviations, the
    matrix to compare has eigenvalues ``x`` and ``1/x`` with ``x + 1/x = 2 + s²``, so the lifted
    distance is ``2 sqrt(2) asinh(s / 2)``.

    Examples
    --------
    >>> round(spreads_apart(2 * 2**0.5 * math.asinh(4 / 2)), 9)
    4.0
    """
    return 2 * math.sinh(lifted / (2 * math.sqrt(2)))


def method_title(name: str) -> str:
    """Return the title of a method, or its name if it is not registered.

    A ledger may hold releases of a method that is no longer registered.

    Examples
    --------
    >>> method_title("lifted"), method_title("forgotten")
    ('Lifted', 'Forgotten')
    """
    return registry.get(name).title if name in registry.names() else name.capitalize()


def all_of(words: Sequence[str]) -> str:
    """List words as a sentence does.

    Examples
    --------
    >>> all_of(["a"]), all_of(["a", "b"]), all_of(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


_ON_SCREEN = Wording(
    {
        "n_blocks": "t",
        "n_components": "k",
        "epsilon": "ε",
        "delta": "δ",
        "alpha": "α",
        "mask_accuracy": "the mask accuracy",
        "X": "the table",
    },
    number=lambda number: number_in_words(number),
    method=lambda name: f"method {method_title(name)}",
)
"""How pages name what has a control on them."""


def problem_in_words(problem: Problem | Exception | str) -> str:
    r"""Say what is wrong, as a sentence for the page, in the page's own words.

    Nothing in it is read as Markdown.

    Examples
    --------
    >>> few = Problem("= 20 is too few within {delta} = {most}", "n_blocks", facts={"most": 1e-6})
    >>> print(problem_in_words(few))
    t = 20 is too few within δ = 10⁻⁶.
    >>> print(problem_in_words(InvalidInput("has a column '*a*'", argument="X", remedy="drop it")))
    The table has a column '\*a\*'\: drop it.
    """
    if isinstance(problem, InvalidInput):
        problem = problem.problem
    words = problem.worded(_ON_SCREEN) if isinstance(problem, Problem) else str(problem)
    if words[1:2] != " ":
        # a sign that stands next to a control is not a word
        words = words[:1].upper() + words[1:]
    return escaped(words if words.endswith((".", "?", "!")) else f"{words}.")


def escaped(text: str) -> str:
    r"""Escape text from outside, so that nothing in it is read as Markdown.

    Examples
    --------
    >>> print(escaped("*a* [x](y)"))
    \*a\* \[x\](y)
    """
    return "".join(f"\\{mark}" if mark in _MARKS else mark for mark in text)
