"""The README's example runs, and its table from paper to code is true."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from pathlib import Path

import pytest

from privgmm.budget import Budget
from privgmm.calibration import calibrate

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
LINKS = sorted(set(re.findall(r"\]\(([\w./-]+)\)", TEXT)))
TABLE = re.findall(r"^\| ([^|`]+?), [^|]*\| `([\w.]+)` \| `([\w./]+)` \|$", TEXT, re.MULTILINE)


def _resolve(dotted: str) -> object:
    """The module, then attributes, that a dotted name stands for."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            found: object = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not name.startswith(problem.name):
                raise
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(dotted)


def test_the_table_is_there() -> None:
    statements = [statement for statement, _, _ in TABLE]
    body = [line for line in TEXT.splitlines() if line.startswith("| ")]
    assert len(statements) == len(body) - 1, "a row of the table is not of the expected form"
    assert len(set(statements)) == len(statements)


@pytest.mark.parametrize(("statement", "code", "test"), TABLE, ids=[row[0] for row in TABLE])
def test_every_row_names_code_and_a_test_of_that_statement(
    statement: str, code: str, test: str
) -> None:
    assert callable(_resolve(code))
    words = (ROOT / test).read_text()
    kind, number = statement.rsplit(" ", 1)
    short = {"Definition": "Def.", "Theorem": "Thm", "Lemma": "Lemma"}.get(kind, kind)
    assert re.search(
        rf"\b({kind}s?|{re.escape(short)}) ([\w., –-]*?)\b{re.escape(number)}\b", words
    ), f"{test} does not mention {statement}"


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 1
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(blocks[0], "README.md", "exec"), {"__name__": "readme"})
    assert "Refusal at a total of (ε = " in said.getvalue()


def test_the_stated_price_is_the_computed_one() -> None:
    stated = re.search(r"(\d) × 10¹⁸ rows", TEXT)
    assert stated is not None
    plan = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    assert plan.rows_needed() == pytest.approx(int(stated.group(1)) * 1e18, rel=0.25)


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_two_commands_exist() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert command in targets


def test_the_stated_guess_ceiling_is_right() -> None:
    stated = re.search(r"at most (\d+)% success", TEXT)
    assert stated is not None
    assert int(stated.group(1)) == round(100 * Budget(1.0, 1e-6).guess_ceiling)
