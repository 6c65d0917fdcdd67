"""The tables of rows in the README and the pages are those that the planner computes."""

from __future__ import annotations

import math

from docs import rows_table


def test_the_tables_are_up_to_date() -> None:
    assert rows_table.main(["--check"]) == 0


def test_rows_in_words() -> None:
    words = [rows_table.rows_in_words(rows) for rows in (23_800, 5.65e8, 1.98e18, math.inf)]
    assert words == ["23,800", "565 million", "1.98 × 10¹⁸", "none"]


def test_a_table_goes_between_its_markers() -> None:
    page = f"before\n{rows_table.BEGIN}\nold\n{rows_table.END}\nafter\n"
    fresh = rows_table.with_table(page, "new")
    assert fresh == f"before\n{rows_table.BEGIN}\nnew\n{rows_table.END}\nafter\n"
    assert rows_table.with_table(fresh, "new") == fresh
