"""The README's example runs, and its table from paper to code is true."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.data.datasets import load_sample
from privgmm.errors import InvalidInput
from privgmm.methods.planner import best_plan, calibrate
from privgmm.release import Outcome, release

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
    section = TEXT.split("## From the paper to the code")[1].split("\n## ")[0]
    body = [line for line in section.splitlines() if line.startswith("| ")]
    assert len(statements) == len(body) - 1, "a row of the table is not of the expected form"
    assert len(set(statements)) == len(statements)


@pytest.mark.parametrize(("statement", "code", "test"), TABLE, ids=[row[0] for row in TABLE])
def test_every_row_names_code_and_a_test_of_that_statement(
    statement: str, code: str, test: str
) -> None:
    assert callable(_resolve(code))
    assert _mentions((ROOT / test).read_text(), statement), f"{test} does not test {statement}"


def _mentions(words: str, statement: str) -> bool:
    """Whether a test file speaks of a statement, in prose or in the name of a test."""
    kind, number = statement.rsplit(" ", 1)
    prose = rf"\b{kind}s? ([\w., –-]*?)\b{re.escape(number)}\b"
    name = rf"def test_{kind.lower()}_{number.lower().replace('.', '_?')}(_|\()"
    return bool(re.search(prose, words) or re.search(name, words))


def test_the_examples_run() -> None:
    first, second, third = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(first, "README.md", "exec"), {"__name__": "readme"})
    names: dict[str, object] = {"__name__": "readme"}
    # five noise scales from a refusal: one run in a million
    exec(compile(second, "README.md", "exec"), names)
    assert sorted(np.asarray(names["labels"]).tolist()) == [0, 1]
    exec(compile(third, "README.md", "exec"), names)
    assert isinstance(names["moments"], Outcome)
    assert names["moments"].curator.fits.ok.all()
    # The noise is not seeded, so either answer may come; the promise is the same.
    assert re.search(r"(released|refused) at a total of \(ε = (1|0\.9\d*), δ", said.getvalue())


def _price(method: str) -> float:
    """The rows the README states: ``25,000``, ``570 million`` or ``8 × 10¹⁸``."""
    stated = re.search(rf"^\| `{method}` \| [^|]* \| ([^|]+) \|$", TEXT, re.MULTILINE)
    assert stated is not None
    plain = stated.group(1).translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
    return float(plain.replace(",", "").replace(" million", "e6").replace(" × 10", "e"))


@pytest.mark.parametrize(("method", "blocks"), [("paper", None), ("tight", 400)])
def test_the_stated_prices_are_the_computed_ones(method: str, blocks: int | None) -> None:
    plan = calibrate(
        method,
        epsilon=1.0,
        delta=1e-6,
        alpha=0.5,
        n_components=2,
        n_features=2,
        n_blocks=blocks,
    )
    assert plan.rows_needed() == pytest.approx(_price(method), rel=0.1)


@pytest.mark.parametrize("method", ["lifted", "sketch"])
def test_the_stated_price_is_enough(method: str) -> None:
    """Eight runs with known noise from well separated rows: at most one refusal."""
    n = int(_price(method))
    plan = best_plan(n, method=method, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    truth = load_sample("well_separated_2d").truth
    assert truth is not None
    released = [release(truth.sample(n, rng=i), plan, rng=i).released for i in range(8)]
    assert sum(released) >= 7
    with pytest.raises(InvalidInput, match="no plan is expected"):
        best_plan(n // 3, method=method, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)


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
