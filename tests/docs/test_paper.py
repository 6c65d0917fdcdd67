"""The page on the paper: every numbered statement has a row, and what the row says exists."""

from __future__ import annotations

import re

import pytest

from privgmm.dashboard.shared.layout import PAGES
from tests.docs.names import ROOT, mentions, resolve

TEXT = (ROOT / "docs" / "paper.md").read_text("utf-8")
ROW = re.compile(
    r"^\| (\w+ [\w.]+), [^|]+ \| `([\w.]+)` \| (?:behind )?([\w. ]+) \| `([\w./]+)` \|$",
    re.MULTILINE,
)
TABLE = ROW.findall(TEXT)

NUMBERS = {
    "Definition": "1.2 1.3 1.4 1.5 1.6 1.7 2.1 2.2 3.1 3.3 6.1 6.4 C.1 C.2 C.3 C.5",
    "Theorem": "1.1 1.8 2.3 6.2 6.5 B.1 B.2 C.4 C.6 C.7",
    "Lemma": "3.2 3.4 3.5 3.6 4.1 4.2 5.1 5.2 6.3 A.4 A.5 A.6 A.8 B.3 B.4 B.5 C.8 C.9 "
    "F.1 F.2 F.3 F.4 F.5 F.6 F.7",
    "Corollary": "6.6",
    "Remark": "1.9 2.4 F.8",
    "Fact": "A.1 A.2 A.3 A.7 A.9",
    "Algorithm": "1 2",
}
STATEMENTS = [f"{kind} {number}" for kind, numbers in NUMBERS.items() for number in numbers.split()]


def test_every_statement_has_exactly_one_row() -> None:
    assert len(STATEMENTS) == 62
    assert sorted(statement for statement, *_ in TABLE) == sorted(STATEMENTS)


def test_no_row_has_another_form() -> None:
    body = [line for line in TEXT.splitlines() if line.startswith("| ") and "Statement" not in line]
    assert len(body) == len(TABLE)


@pytest.mark.parametrize(("statement", "code", "page", "test"), TABLE, ids=[r[0] for r in TABLE])
def test_a_row_names_code_a_page_and_a_test_of_the_statement(
    statement: str, code: str, page: str, test: str
) -> None:
    assert callable(resolve(code))
    (shown,) = [known for known in PAGES if known.label == page]
    assert (ROOT / shown.path).is_file()
    words = (ROOT / test).read_text("utf-8")
    assert "def test_" in words
    assert mentions(words, statement), f"{test} does not test {statement}"
