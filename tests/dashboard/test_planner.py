"""The page Planner: every question it can be asked, and the answers the package gives."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.planner import solve as foresight
from privgmm.dashboard.planner.page import _without_privacy, answer_in_words, heading, variations
from privgmm.dashboard.planner.solve import (
    PLANNER_POOL,
    SOLVE_ALPHA,
    SOLVE_EPSILON,
    SOLVE_ROWS,
    PlannerQuestion,
    prospect_curve,
    telling_rows,
)
from privgmm.methods import registry
from privgmm.methods.method import Method
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import alpha_for, epsilon_for, rows_for
from privgmm.teaching.format import count_in_words

ROOT = Path(__file__).resolve().parents[2]
PLANE = PlanRequest(n_components=2, n_features=2, n_rows=10**10, alpha=0.2, method="lifted")
ORDER = ("sketch", "lifted", "tight", "paper")


def _open(**link: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    for name, value in link.items():
        app.query_params[name] = value
    return _settled(app.switch_page("pages/Planner.py").run())


def _settled(app: AppTest) -> AppTest:
    """As it looks once all questions are answered; in a browser a fragment sees to that."""
    for _ in range(12):
        PLANNER_POOL.settle()
        app.run()
        assert not app.exception
        open_cells = [(table.value == "…").to_numpy().sum() for table in app.dataframe]
        if "Computing" not in _words(app) and not sum(open_cells):
            break
    return app


@pytest.fixture
def app() -> AppTest:
    return _open()


def _put_to(method: Method) -> PlanRequest:
    """`PLANE` as the page puts it to a method."""
    return PLANE.but(method=method.name)


def _answers(app: AppTest) -> list[str]:
    assert not app.exception
    return [metric.value for metric in app.metric]


def _words(app: AppTest) -> str:
    parts = [*app.info, *app.error, *app.markdown, *app.caption]
    return "\n".join(str(part.value) for part in parts)


def test_rows_are_those_of_the_package(app: AppTest) -> None:
    assert tuple(method.name for method in registry.all_methods()) == ORDER
    assert [metric.label for metric in app.metric] == [
        heading(SOLVE_ROWS, registry.get(name)) for name in ORDER
    ]
    rows = [rows_for(_put_to(method)) for method in registry.all_methods()]
    assert _answers(app) == [count_in_words(n) for n in rows]
    assert f"Paper takes **{count_in_words(rows[-1])} rows** for it" in _words(app)
    assert f"Sketch {count_in_words(rows[-1] / rows[0])} times fewer" in _words(app)
    assert "Overlap asks for more rows" in _words(app)
    assert len(app.get("plotly_chart")) == 2


def test_epsilon_is_solved_for() -> None:
    app = _open(solve=SOLVE_EPSILON, rows="10 billion")
    older = [method for method in registry.all_methods() if method.name != "sketch"]
    expected = [epsilon_for(_put_to(method)) for method in older]
    assert _answers(app)[1:] == [answer_in_words(SOLVE_EPSILON, value) for value in expected]
    assert _answers(app)[-1] == "out of reach"
    assert "Each curve is drawn at the ε found" in _words(app)
    with pytest.raises(KeyError):
        app.select_slider(key="budget")


def test_epsilon_is_solved_for_a_sketch_of_few_rows() -> None:
    app = _open(solve=SOLVE_EPSILON, rows="1,000")
    expected = epsilon_for(_put_to(registry.get("sketch")).but(n_rows=1_000))
    assert 0.5 < expected < 2.0
    out = ["out of reach"] * (len(ORDER) - 1)
    assert _answers(app) == [answer_in_words(SOLVE_EPSILON, expected), *out]


def test_alpha_is_solved_for() -> None:
    app = _open(solve=SOLVE_ALPHA, rows="10 billion")
    sketch, lifted, tight, paper = _answers(app)
    assert tight == answer_in_words(SOLVE_ALPHA, alpha_for(PLANE.but(method="tight")))
    assert paper == "out of reach"
    assert lifted == answer_in_words(SOLVE_ALPHA, alpha_for(PLANE))
    # ten billion rows, two components: an error of the order of 1e-5 per unit spread
    assert 1e-5 < float(lifted) < 1e-4
    assert 1e-5 < float(sketch) < 1e-4
    assert [metric.label for metric in app.metric] == [
        *("Sketch · α", "Lifted · α", "Tight · α", "Paper · α")
    ]


def test_the_sketch_has_curves_as_far_as_it_can_count() -> None:
    """It counts no more than about 10^13 rows, and the curves of others go on."""
    asked = PlannerQuestion(SOLVE_ROWS, PLANE).of_method("sketch")
    enough = rows_for(asked.request)
    points = prospect_curve(asked, "sketch", enough).result(60)
    assert points[0].n_rows == min(telling_rows(enough))
    assert points[-1].n_rows > 1e11
    chances = [point.pass_probability for point in points]
    assert chances[0] == 0.0
    assert enough == rows_for(asked.request) > rows_for(asked.request.but(alpha=None))
    assert all(point.accuracy() <= 0.2 for point in points if point.n_rows >= enough)
    errors = [point.error for point in points if point.pass_probability > 0.95]
    assert errors[-1] < 1e-2 * errors[0]


def test_too_few_rows_for_anything() -> None:
    app = _open(solve=SOLVE_EPSILON, rows="100", columns="12")
    assert _answers(app) == ["out of reach"] * len(ORDER)
    assert "bring more rows" in app.info[0].value
    _settled(app.segmented_control(key="solve").set_value(SOLVE_ALPHA).run())
    assert _answers(app) == ["out of reach"] * len(ORDER)
    assert "raise ε" in app.info[0].value


def test_a_weight_that_cannot_be_is_refused_in_words(app: AppTest) -> None:
    app.number_input(key="weight").set_value(0.9).run()
    assert not app.exception
    assert "smallest weight" in app.error[0].value
    assert not app.metric


def test_one_component_has_no_smallest_weight() -> None:
    line = PlanRequest(n_components=1, n_features=1, n_rows=10**5, alpha=0.5)
    names = [name for name, _ in variations(PlannerQuestion(SOLVE_ROWS, line))]
    assert "a component half as large" not in names
    assert "one more component" in names


def test_what_ifs_change_one_thing_each() -> None:
    for unknown in (SOLVE_ROWS, SOLVE_EPSILON, SOLVE_ALPHA):
        asked = PlannerQuestion(unknown, PLANE.but(smallest_weight=0.4))
        (first, same), *others = variations(asked)
        assert (first, same) == ("as asked", asked)
        assert len({name for name, _ in others}) == len(others)
        assert all(other != asked for _, other in others)
        assert ("ε halved" in dict(others)) == (unknown != SOLVE_EPSILON)
        assert ("ten times the rows" in dict(others)) == (unknown != SOLVE_ROWS)
        # three components cannot all have 0.4
        assert "one more component" not in dict(others)


@pytest.mark.parametrize("unknown", [SOLVE_ROWS, SOLVE_EPSILON, SOLVE_ALPHA])
def test_what_does_not_matter_to_a_method_makes_no_other_question(unknown: str) -> None:
    """Each answer is worked out once, whatever the controls hold that do not count for it."""
    idle: dict[str, dict[str, object]] = {
        SOLVE_ROWS: {"n_rows": 7},
        SOLVE_EPSILON: {"epsilon": 7.0},
        SOLVE_ALPHA: {"alpha": 0.7},
    }
    asked = PlannerQuestion(unknown, PLANE)
    other = PlannerQuestion(unknown, PLANE.but(**idle[unknown]))
    for method in registry.all_methods():
        mine = asked.of_method(method.name)
        assert mine == other.of_method(method.name)
        assert mine.request.method == method.name
        method.check(mine.request)
        finer = PlannerQuestion(unknown, PLANE.but(alpha=0.05)).of_method(method.name)
        assert (finer != mine) == (unknown != SOLVE_ALPHA)


def test_what_ifs_are_worked_out_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[PlannerQuestion] = []

    def solved(asked: PlannerQuestion) -> float:
        seen.append(asked)
        known = {"sketch": 700.0, "lifted": 1e5, "tight": 3e8, "paper": math.inf}
        return known[asked.request.method]

    monkeypatch.setattr(foresight, "solve_for", solved)
    # a question nobody else asks: answers are kept for as long as the process lives
    app = _open(weight="0.37")
    assert not app.dataframe
    assert len(set(seen)) <= len(ORDER)
    _settled(app.toggle(key="whatif").set_value(True).run())
    table = app.dataframe[0].value
    assert table["what if"][0] == "as asked"
    assert table.columns.tolist() == [
        "what if",
        *(heading(SOLVE_ROWS, m) for m in registry.all_methods()),
    ]
    assert table["Paper · rows"].tolist() == ["out of reach"] * len(table)
    assert table["Lifted · rows"].tolist() == ["100,000"] * len(table)
    assert {asked.request.n_features for asked in seen} == {2, 3}


def test_while_it_works_the_page_answers_and_marks_what_is_old(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is held up: the page must not wait for it, nor show numbers of other settings."""
    go = threading.Event()
    real = foresight.solve_for

    def held(asked: PlannerQuestion) -> float:
        assert go.wait(60)
        return real(asked)

    monkeypatch.setattr(foresight, "solve_for", held)
    before = _answers(app)
    curves = _curves(app)
    assert not any("earlier" in name for name in curves)
    try:
        app.select_slider(key="failure").set_value(1e-7).run()
        assert _answers(app) == ["…"] * len(ORDER)
        titles = [method.title for method in registry.all_methods()]
        assert f"Computing the answer for {', '.join(titles)}" in _words(app)
        assert {f"{title}, earlier settings" for title in titles} <= set(_curves(app))
    finally:
        go.set()
    _settled(app)
    assert _answers(app) != before
    lifted = count_in_words(rows_for(PLANE.but(delta=1e-7)))
    assert _answers(app)[ORDER.index("lifted")] == lifted
    assert _curves(app) == curves
    assert "Computing" not in _words(app)


def _curves(app: AppTest) -> list[str]:
    figures = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    return [trace["name"] for figure in figures for trace in figure["data"]]


@pytest.mark.parametrize("enough", [5e3, 1e9, 8e18, 1e25])
def test_curves_are_drawn_where_they_rise(enough: float) -> None:
    rows = telling_rows(enough)
    assert rows == sorted(rows)
    assert (rows[0], rows[-1]) == (1e2, 1e20)
    assert len(rows) < 40
    if enough < 1e19:
        assert sum(enough / 8 <= n <= 4 * enough for n in rows) >= 10


@pytest.mark.parametrize(("k", "d"), [(2, 2), (3, 2), (2, 5)])
def test_the_error_without_privacy_falls_with_the_rows_up_to_the_most(k: int, d: int) -> None:
    """As one over their root, once there are many."""
    rows, errors = _without_privacy(k, d, None)
    assert np.all(np.diff(errors) < 0)
    many = rows > 1e6
    scaled = errors[many] * np.sqrt(rows[many])
    assert scaled.max() < 1.02 * scaled.min()
