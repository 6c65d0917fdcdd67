"""The project's prose does without the phrases of a short list; each has a plainer word.

Looked at are code, comments, docstrings and messages, the documentation and the notebooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

INSTEAD = {
    "so many": "per, given, this many",
    "whoever": "a person who, anyone who",
    "anew": "again, afresh",
    "nobody's": "no one's",
    "all the same": "anyway, still",
    "is no number": "is not a number",
    "hang on": "depend on",
    "hangs on": "depends on",
    "a coin has": "chance level is",
}
"""Each phrase, and what to write instead."""

FOLDERS = ("privgmm", "pages", "docs", "benchmarks", "tests", "notebooks")
ENDINGS = frozenset({".py", ".md", ".ipynb", ".css", ".js", ".html"})

# Words of a phrase may stand on two lines of a docstring, of a comment, or of a string that is
# written in pieces.
BETWEEN = r"""(?:[\s#>*]|(?:\b[fr]{1,2})?["'])+"""
PATTERNS = {
    phrase: re.compile(rf"\b{phrase.replace(' ', BETWEEN)}\b", re.IGNORECASE) for phrase in INSTEAD
}


def files() -> Iterator[Path]:
    """List the files with prose, but for this one."""
    yield from (path for path in (ROOT / "app.py", *ROOT.glob("*.md")) if path.is_file())
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(ROOT).parts)
            if path.suffix in ENDINGS and not hidden and path != Path(__file__).resolve():
                yield path


def hits(text: str) -> list[tuple[int, str]]:
    """List line numbers and phrases found in a text."""
    # a notebook's lines are strings that end in an escaped line break: put a plain one there
    text = re.sub(r"\\n\"?,?", lambda found: " " * len(found[0]), text)
    return sorted(
        (text.count("\n", 0, found.start()) + 1, phrase)
        for phrase, pattern in PATTERNS.items()
        for found in pattern.finditer(text)
    )


def test_prose_does_without_these_phrases() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r} (write: {INSTEAD[phrase]})"
        for path in files()
        for line, phrase in hits(path.read_text(encoding="utf-8"))
    ]
    assert found == [], f"{len(found)} places\n" + "\n".join(found)


PLANTED = {
    "in a docstring": ('"""Fit\n\nThe result hangs on the seed."""', 3, "hangs on"),
    "in a comment": ("x = 1  # computed Anew", 1, "anew"),
    "over two lines of a comment": ("# there are so\n# many of them", 1, "so many"),
    "in a string of two pieces": ('f"it spends {x} all "\n    f"the same"', 1, "all the same"),
    "in a list of a document": ("- first\n- whoever asks", 2, "whoever"),
    "with an apostrophe": ("these rows are nobody's", 1, "nobody's"),
    "over two lines of a notebook": ('"the cell is no\\n",\n"number",', 1, "is no number"),
    "in a sentence of a page": ('st.caption("a coin has 50 %")', 1, "a coin has"),
}


@pytest.mark.parametrize(("text", "line", "phrase"), PLANTED.values(), ids=PLANTED.keys())
def test_planted_phrases_are_found(text: str, line: int, phrase: str) -> None:
    assert hits(text) == [(line, phrase)]


@pytest.mark.parametrize("text", ["a new one", "also many", "canew", "who ever", "it hangs over"])
def test_other_words_are_left_alone(text: str) -> None:
    assert hits(text) == []


def test_every_kind_of_file_is_looked_at() -> None:
    looked_at = {str(path.relative_to(ROOT)) for path in files()}
    assert {"README.md", "CHANGELOG.md", "app.py", "privgmm/releases.py"} <= looked_at
    assert {path.suffix for path in files()} >= {".py", ".md", ".ipynb"}
