"""The page on threats states the ceilings that plans have, and the script behind it can be run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import attacks
from privgmm.budget import Budget, percent_at_most
from privgmm.methods import names
from tests.audit.mutations import MUTATIONS

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "threats.md").read_text("utf-8")


def ceilings() -> dict[float, list[str]]:
    """Read the table of the page: what each method promises at each epsilon."""
    rows = re.findall(r"^\| ([\d.]+) \| (.*) \|$", TEXT, re.MULTILINE)
    return {float(epsilon): re.sub(r" %", "%", rest).split(" | ") for epsilon, rest in rows}


def test_the_table_is_that_of_the_plans() -> None:
    """Check `sketch` at every epsilon; `python docs/attacks.py` has the others, which are slow."""
    table = ceilings()
    assert list(table) == [0.3, 1.0, 2.0, 4.0, 8.0]
    for epsilon, (*_, sketch, alone) in table.items():
        plan = attacks.planned(10**6, "sketch", epsilon)
        assert sketch == percent_at_most(plan.ceiling)
        assert alone == percent_at_most(Budget(epsilon, 1e-6).guess_ceiling)


def test_the_page_speaks_of_every_method_and_counts_the_mutations() -> None:
    for method in names():
        assert f"`{method}`" in TEXT
    assert f"change {len(MUTATIONS)} single lines" in " ".join(TEXT.split())


def test_all_noise_at_its_worst_stays_below_the_ceiling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    attacks.at_the_worst(20_000)
    printed = capsys.readouterr().out
    assert printed.count("right guesses at the worst") == 4
    assert "passed=False" not in printed
