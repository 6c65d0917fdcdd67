"""The teaching notebook: it runs from top to bottom in a kernel of its own, and is right."""

from __future__ import annotations

import ast
import importlib
import json
import math
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "notebooks" / "private_mixtures.ipynb"
FOUND = """
import json, privgmm
print(json.dumps({
    "file": privgmm.__file__,
    "what_if": [float(error) for error in what_if.values()],
    "released": bool(result.released),
    "errors": [float(private_error), float(plain_error)],
    "spends": len(ledger.entries),
    "total": ledger.standing().total.epsilon,
    "stopped": type(stopped).__name__,
    "verified": [genuine_ok, forged_ok],
    "synthetic": synthetic.mean(axis=0).tolist(),
    "rows": data.rows.mean(axis=0).tolist(),
    "refused": [refused.released, refused.budget.epsilon, refused.reason],
    "chosen": [found.choice.n_components, found.mixture.n_components, found.verdict],
    "tied": [tied.covariance_type, tied.explains],
    "standard_errors": float(found.standard_errors.weights.max()),
    "picture": float(picture_error),
    "given": given.means.shape,
    "estimator": [bool(model.released_), labels.tolist()],
}))
"""


def sources() -> list[str]:
    book = nbformat.read(PATH, as_version=4)
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the notebook's names hold after it has run."""
    book = nbformat.read(PATH, as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(FOUND))
    folder = str(tmp_path_factory.mktemp("notebook"))
    client = NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute()
    told: dict[str, Any] = json.loads(book.cells[-1].outputs[0].text)
    return told


def test_it_has_twelve_cells_of_code_with_words_between() -> None:
    book = nbformat.read(PATH, as_version=4)
    nbformat.validate(book)
    kinds = [cell.cell_type for cell in book.cells]
    assert kinds.count("code") == 12
    assert all(kinds[i - 1] == "markdown" for i, kind in enumerate(kinds) if kind == "code")
    # it is stored as it looks after a run, for those who only read
    assert all(cell.outputs for cell in book.cells if cell.cell_type == "code")


def test_it_uses_public_names_only() -> None:
    for source in sources():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                module: Any = importlib.import_module(str(node.module))
                assert module.__name__.startswith("privgmm")
                assert {alias.name for alias in node.names} <= set(module.__all__)
            elif isinstance(node, ast.Import):
                assert [alias.name for alias in node.names] == ["numpy"]
            elif isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_")


def test_it_releases_compares_and_proves(found: dict[str, Any]) -> None:
    assert Path(found["file"]) == ROOT / "privgmm" / "__init__.py"
    assert found["released"]
    private, plain = found["errors"]
    assert 0 < plain < 0.02
    assert 0 < private < 0.03
    assert found["verified"] == [True, False]
    # four standard errors of a mean of 50,000 rows with a deviation below 4.2
    width = 4 * 4.2 / math.sqrt(50_000) + private * 8
    for drawn, real in zip(found["synthetic"], found["rows"], strict=True):
        assert abs(drawn - real) < width


def test_what_if_says_that_privacy_costs_accuracy(found: dict[str, Any]) -> None:
    errors = found["what_if"]
    assert errors[0] == math.inf
    assert errors[1:] == sorted(errors[1:], reverse=True)
    assert len(set(errors)) == len(errors)


def test_the_ledger_stops_the_third_and_two_cost_less_than_their_sum(
    found: dict[str, Any],
) -> None:
    assert found["spends"] == 2
    assert found["stopped"] == "BudgetExceeded"
    assert 1.0 < found["total"] < 1.5


def test_it_is_refused_on_purpose_and_pays(found: dict[str, Any]) -> None:
    released, epsilon, reason = found["refused"]
    assert not released
    assert epsilon > 0
    assert "did not agree" in reason


def test_free_looks_are_right(found: dict[str, Any]) -> None:
    chosen, released, verdict = found["chosen"]
    assert chosen == released == 2
    assert "explains the rows" in verdict
    assert found["tied"] == ["tied", False]
    assert 0 < found["standard_errors"] < 0.01
    assert 0 < found["picture"] < 0.04
    assert found["given"] == [2, 1]


def test_the_estimator_tells_the_two_apart(found: dict[str, Any]) -> None:
    released, labels = found["estimator"]
    assert released
    assert sorted(labels) == [0, 1]
