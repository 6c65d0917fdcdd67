"""The first sentence of every door states what is promised, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_a_limit_is_promised_and_not_that_no_one_is_found(page: str) -> None:
    """Epsilon limits what is learned. The default unit is a row, so the row is named first."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    first = text[text.index("Learn a Gaussian mixture") :].partition(". ")[0]
    assert "a proven limit on what anyone can learn from it about one row" in first
    assert "or about one person if you say whose rows are whose" in first
    for claim in ("no single person", "can be found", "anonymous"):
        assert claim not in text[:2_000]
