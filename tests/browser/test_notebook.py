"""The notebook in JupyterLab: it runs, sliders move what they should, and moving spends nothing."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser

from docs import notebook

pytestmark = pytest.mark.browser

_EXPLORE, _GUESS, _RELEASE, _LOOK, _THEOREM, _ACCOUNT, _OWN = range(7)
_ELLIPSE = """([cell, name]) => {
  const plots = document.querySelectorAll('.jp-CodeCell')[cell].querySelectorAll('.js-plotly-plot');
  for (const plot of plots) for (const trace of plot.data || [])
    if (trace.name === name && trace.mode === 'lines') return Array.from(trace.x).slice(0, 40);
  return null; }"""


@pytest.fixture(scope="module")
def lab(browser: Browser) -> Iterator[notebook.Lab]:
    """The notebook, all of whose cells have run."""
    for name in ("jupyterlab", "anywidget"):
        if importlib.util.find_spec(name) is None:
            if os.environ.get("REQUIRE_BROWSER") == "1":
                pytest.fail(f"{name} is missing: pip install 'privgmm[notebook]'")
            pytest.skip(f"{name} is missing: pip install 'privgmm[notebook]'")
    with notebook.open_notebook(browser) as opened:
        opened.run_all()
        yield opened


def ellipse(lab: notebook.Lab, cell: int, name: str) -> list[float]:
    """Return the line of that name in the first figure of a cell that has one."""
    lab.page.wait_for_function(f"(found) => ({_ELLIPSE})(found) !== null", arg=[cell, name])
    found: list[float] = lab.page.evaluate(_ELLIPSE, [cell, name])
    return found


def move(lab: notebook.Lab, cell: int, slider: int, name: str, key: str) -> list[float]:
    """Move a slider by a key, and return the line once it has moved."""
    before = ellipse(lab, cell, name)
    handle = lab.output(cell).locator(".noUi-handle").nth(slider)
    handle.scroll_into_view_if_needed()
    handle.focus()
    lab.page.keyboard.press(key)
    lab.page.wait_for_function(
        f"([found, before]) => JSON.stringify(({_ELLIPSE})(found)) !== before",
        arg=[[cell, name], lab.page.evaluate("JSON.stringify", before)],
    )
    return ellipse(lab, cell, name)


def test_every_cell_runs_and_sliders_move_what_they_say(lab: notebook.Lab) -> None:
    assert lab.errors() == []
    assert "made with a seed" in lab.output(_RELEASE).inner_text()
    spent = lab.output(_ACCOUNT).inner_text()
    assert "1 spend" in spent
    # ε: the first slider of Explore
    before = ellipse(lab, _EXPLORE, "Private release")
    after = move(lab, _EXPLORE, 0, "Private release", "ArrowRight")
    assert len(after) == len(before)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 1e-3
    # k: the first slider of Look again
    move(lab, _LOOK, 0, "mixture", "ArrowRight")
    lab.page.wait_for_function(
        "cell => document.querySelectorAll('.jp-CodeCell')[cell].innerText"
        ".includes('Another fit to the same sketch')",
        arg=_LOOK,
    )
    assert lab.output(_ACCOUNT).inner_text() == spent
    # every piece is a widget with a figure or a button, none an error
    for cell in (_GUESS, _THEOREM, _OWN):
        assert lab.output(cell).locator(".js-plotly-plot, button").count() > 0
    assert lab.errors() == []


def code_cells() -> list[Any]:
    book = nbformat.read(notebook.PATH, as_version=4)
    nbformat.validate(book)
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_it_is_stored_with_pictures_for_those_who_only_read() -> None:
    for cell in code_cells():
        (output,) = cell.outputs
        if "widgets." in cell.source:
            assert output["data"]["image/png"]
        else:
            assert "weight" in output["text"]


def test_it_uses_public_names_only() -> None:
    for cell in code_cells():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom):
                module: Any = importlib.import_module(str(node.module))
                # the room of widgets is no name of the root: it needs an extra
                assert {alias.name for alias in node.names} <= {*module.__all__, "widgets"}
            elif isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_")
