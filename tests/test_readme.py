"""The README's examples run, and the numbers it states are those of the package."""

from __future__ import annotations

import contextlib
import io
import math
import re
from pathlib import Path

import pytest

from privgmm import methods
from privgmm.budget import Budget
from privgmm.cli.main import main
from privgmm.data.datasets import load_sample
from privgmm.errors import InvalidInput
from privgmm.methods.planner import best_plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import rows_for
from privgmm.releases import release

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
LINKS = sorted(set(re.findall(r"\]\(([\w./-]+)\)", TEXT)))


def test_the_lines_print_what_stands_below_them() -> None:
    lines, shown = re.findall(r"```(?:python|text)\n(.*?)```", TEXT, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(lines, "README.md", "exec"), {"__name__": "readme"})
    assert [line.rstrip() for line in said.getvalue().splitlines()] == [
        line.rstrip() for line in shown.splitlines()
    ]


def test_it_is_of_one_screen_and_leads_to_no_server_of_ones_own() -> None:
    assert len(TEXT.splitlines()) <= 110
    assert "localhost" not in TEXT
    assert "places" not in TEXT


def _price(method: str) -> float:
    """Read the rows for any answer that the README states, in the last column of its table."""
    stated = re.search(rf"^\| `{method}` \| .* \| ([^|]+) \|$", TEXT, re.MULTILINE)
    assert stated is not None
    plain = stated.group(1).translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
    return float(plain.replace(",", "").replace(" million", "e6").replace(" × 10", "e"))


def test_the_stated_prices_are_those_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Compare with `privgmm plan` and `rows_for`, to the last digit, for every method."""
    assert main(["plan", "--k", "2", "--d", "2"]) == 0
    line = r"^  (\w+) +[\d.,e+]+ +([\d.,e+]+)$"
    printed = dict(re.findall(line, capsys.readouterr().out, re.MULTILINE))
    for method in methods.names():
        request = PlanRequest(n_components=2, n_features=2, method=method)
        assert _price(method) == rows_for(request) == float(printed[method].replace(",", ""))


@pytest.mark.parametrize("method", ["lifted", "sketch"])
def test_the_stated_price_is_enough(method: str) -> None:
    """Of eight runs with known noise from well separated rows, at most one is refused."""
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


def test_the_stated_ceilings_on_guesses_are_right() -> None:
    proved = re.search(r"at most (\d+)% success", TEXT)
    alone = re.search(r"alone\s+would allow (\d+)%", TEXT)
    assert proved is not None
    assert alone is not None
    assert int(alone.group(1)) == round(100 * Budget(1.0, 1e-6).guess_ceiling)
    ceilings = [
        best_plan(n, epsilon=1.0, delta=1e-6, n_components=k, n_features=d).ceiling
        for n, k, d in ((2000, 2, 2), (40_000, 2, 2), (10**6, 3, 5))
    ]
    assert int(proved.group(1)) == math.ceil(100 * max(ceilings))
