"""Notebook displays: well formed, escaped, true to the numbers, and cut short where long."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.data.datasets import random_mixture
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture
from privgmm.releases import Refusal, Release
from privgmm.showing.html import mixture_html, refusal_html
from privgmm.stages.standard_errors import StandardErrors

WHY = "The fits of the blocks did not agree closely enough."


class Reader(HTMLParser):
    """Collect cells and check that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


PLAN = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2)


def test_table_holds_the_numbers() -> None:
    mixture = Mixture(
        [0.25, 0.75], [[1.5, -2.0], [3.0, 4.0]], [[[4, 0], [0, 9]], [[1, 0], [0, 16]]]
    )
    cells = read(mixture_html(mixture)).cells
    assert cells == ["1", "0.25", "(1.5, -2)", "(2, 3)", "2", "0.75", "(3, 4)", "(1, 4)"]


@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 2), (3, 5), (20, 9)])
def test_every_shape_is_well_formed(k: int, d: int) -> None:
    text = random_mixture(k, d, rng=1)._repr_html_()
    reader = read(text)
    assert ("svg" in reader.tags) == (d >= 2)
    assert reader.tags.count("path") == (2 * k if d >= 2 else 0)
    assert ("8 more components" in text) == (k == 20)
    assert ("…" in text) == (d == 9)


def test_ellipses_fill_the_drawing_and_stay_inside() -> None:
    text = mixture_html(random_mixture(3, 2, separation=8.0, condition=4.0, rng=2))
    numbers = [
        np.array(re.findall(r"-?[\d.]+", path), dtype=float).reshape(-1, 2)
        for path in re.findall(r'<path d="([^"]+)"', text)
    ]
    points = np.concatenate(numbers)
    assert points.min() >= 0
    assert points.max() <= 150
    assert np.ptp(points, axis=0).max() == pytest.approx(134, abs=0.2)


def test_a_flat_needle_is_drawn_too() -> None:
    text = mixture_html(random_mixture(2, 2, condition=1e14, rng=3))
    assert "nan" not in text
    read(text)


@pytest.mark.parametrize("unit", ["row", "person"])
def test_release_says_its_promise(unit: Any) -> None:
    result = Release(
        mixture=random_mixture(2, 2, rng=1),
        budget=Budget(1.0, 1e-6),
        plan=PLAN,
        seeded=False,
        unit=unit,
    )
    text = result._repr_html_()
    assert "may be shared" in text
    assert PLAN.attacker(unit) in text
    assert f"every other {unit}" in text
    assert result.mixture._repr_html_() in text
    read(text)


def test_a_seed_breaks_the_promise_and_no_number_hides_it() -> None:
    mixture = random_mixture(2, 2, rng=1)
    for result in (
        Release(mixture=mixture, budget=Budget(1.0, 1e-6), plan=PLAN, seeded=True),
        Refusal(budget=Budget(1.0, 1e-6), plan=PLAN, seeded=True, why=WHY),
    ):
        text = result._repr_html_()
        assert "NOT differentially private" in text
        assert "may be shared" not in text
        assert PLAN.attacker() not in text
        read(text)
        unseeded = dataclasses.replace(result, seeded=False)._repr_html_()
        assert "NOT differentially private" not in unseeded


def test_refusal_gives_its_reason() -> None:
    result = Refusal(budget=Budget(1.0, 1e-6), plan=PLAN, seeded=False, why=WHY)
    text = result._repr_html_()
    assert "Refused" in text
    assert "did not agree closely enough" in text
    read(text)


def test_plan_is_words_and_numbers() -> None:
    text = PLAN._repr_html_()
    cells = read(text).cells
    assert cells[0::2] == list(PLAN.to_dict())
    assert all(line in text for line in PLAN.explain().splitlines()[:1])


def test_words_from_outside_are_escaped() -> None:
    @dataclasses.dataclass
    class Hostile:
        reason: str = "<script>alert(1)</script>"
        budget: Budget = Budget(1.0, 1e-6)  # noqa: RUF009 - frozen
        seeded: bool = False
        attacker: str = "<script>alert(2)</script>"

    text = refusal_html(Hostile())
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_a_release_shows_misfit_and_standard_errors() -> None:
    mixture = Mixture([0.25, 0.75], [[1.5], [3.0]], [[[4.0]], [[16.0]]])
    off, wide = np.array([0.1, 0.2]), np.array([0.4, 0.8])
    errors = StandardErrors(
        np.full(2, 0.01), off[:, None], wide[:, None, None], off[:, None, None] ** 2
    )
    made = Release(
        mixture=mixture,
        budget=Budget(1.0, 1e-6),
        plan=PLAN,
        seeded=False,
        misfit=0.3,
        standard_errors=errors,
    )
    text = made._repr_html_()
    # of a standard deviation: that of the variance over twice the deviation
    assert read(text).cells[:4] == ["1", "0.25 ± 0.01", "(1.5 ± 0.1)", "(2 ± 0.1)"]
    assert "explains the rows to within the noise" in text
    assert "± are standard errors" in text
    poor = dataclasses.replace(made, misfit=80.0)._repr_html_()
    assert "does not explain the rows: its misfit is 80" in poor
    plain = dataclasses.replace(made, misfit=None, standard_errors=None)._repr_html_()
    assert "±" not in plain
    assert "explain" not in plain
