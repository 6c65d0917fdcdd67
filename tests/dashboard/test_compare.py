"""The page Compare: the runs of the package, what each learner was told, and a way to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from privgmm import Budget
from privgmm.baselines.comparison import Absent, Errors, LearningProblem, Result, contenders
from privgmm.dashboard.compare import runs
from privgmm.dashboard.compare.asking import CHANGE_PRESETS, WIDTHS, ComparisonQuestion
from privgmm.dashboard.compare.page import MEASURES, ContenderErrors, verdict
from privgmm.dashboard.compare.runs import (
    FEWEST_SEEDS,
    Place,
    place_asked,
    places_along_epsilon,
    places_along_rows,
    trials,
)
from privgmm.records.notebook import GeneratedRows
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.format import number_in_words

ROOT = Path(__file__).resolve().parents[2]
ROWS = GeneratedRows("well_separated", 2, 2, 2_000, 1)
ASKED = ComparisonQuestion(ROWS, Budget(1.0, 1e-6))
DISTANCE = MEASURES["Distance"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, float, int]]]:
    """Runs that end at once, with errors that tell who ran where; they are written down."""
    asked: list[tuple[str, int, float, int]] = []
    order = [one.key for one in contenders()]

    def quick(key: str, problem: LearningProblem, n: int, budget: Budget, seed: int) -> Result:
        asked.append((key, n, budget.epsilon, seed))
        if "paper" in key:
            return Absent(False, "too few", 1e18)
        error = 0.01 * (1 + order.index(key)) / budget.epsilon
        return Errors(error, 2 * error, 3 * error + problem.told.half[0] * 1e-9)

    monkeypatch.setattr(runs, "run", quick)
    monkeypatch.setattr(runs, "COMPARISON_POOL", WorkerPool(workers=1, keep=2048, waiting=12))
    yield asked
    runs.COMPARISON_POOL.settle()


def _open(**link: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    for name, value in ({"n": "2,000"} | link).items():
        app.query_params[name] = value
    return _checked(app.switch_page("pages/Compare.py").run())


def _checked(app: AppTest) -> AppTest:
    assert not app.exception
    return app


def _settled(app: AppTest) -> AppTest:
    """As it looks once all runs are in; in a browser a fragment sees to that."""
    for _ in range(60):
        runs.COMPARISON_POOL.settle()
        _checked(app.run())
        if "All 5" in _words(app):
            return app
    raise AssertionError("the runs did not end")


def _words(app: AppTest) -> str:
    return "\n".join(str(part.value) for part in (*app.info, *app.markdown, *app.caption))


def test_everything_asked_for_is_run_once_and_drawn(
    short: list[tuple[str, int, float, int]],
) -> None:
    app = _settled(_open())
    assert "At ε = 1 and 2,000 rows" in _words(app)
    assert "Medians of 5 runs each" in _words(app)
    # enough for a headline first, then one run everywhere
    before_all_else = {one[1:] for one in short[: FEWEST_SEEDS * len(contenders())]}
    assert before_all_else == {(2_000, 1.0, seed) for seed in range(FEWEST_SEEDS)}
    assert len(short) == len(set(short)) == len(contenders()) * len(trials(ASKED))
    assert short[0][1:] == (2_000, 1.0, 0)
    assert len(app.get("plotly_chart")) == 2
    assert "Rehearsal: nothing spent" in _words(app)
    table = app.table[0].value
    assert list(table.index) == [one.title for one in contenders()]
    assert list(table["Has to know"]) == [one.told for one in contenders()]
    assert table.iloc[:, -1].to_dict()["Paper"] == "cannot: takes 1 × 10¹⁸ rows"
    # another session asks the same: nothing is run again
    _settled(_open())
    assert len(short) == len(contenders()) * len(trials(ASKED))


def test_a_real_first_place_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the learners themselves, on few rows."""
    # a pool of its own: what other tests asked for is not known yet; later runs wait for the gate
    monkeypatch.setattr(runs, "COMPARISON_POOL", WorkerPool(workers=1, keep=2048, waiting=12))
    gate, real = threading.Event(), runs._run_trial

    def first_alone(problem: LearningProblem, trial: runs.Trial, delta: float) -> Any:
        assert trial.seed == 0 or gate.wait(600)
        return real(problem, trial, delta)

    monkeypatch.setattr(runs, "_run_trial", first_alone)
    app = _open(n="1,000")
    for _ in range(600):
        if "1 of the first" in _words(app):
            break
        time.sleep(0.2)
        _checked(app.run())
    # a picture, and no headline from one lucky run
    assert "1 of the first 3 runs are in" in _words(app)
    assert "At ε = 1 and 1,000 rows" not in _words(app)
    assert len(app.get("plotly_chart")) == 2
    cells = app.table[0].value.iloc[:, -1]
    assert "…" not in set(cells)
    # what was asked for next runs to its end here, and not in a test that counts its own runs
    gate.set()
    runs.COMPARISON_POOL.settle()


def test_a_session_that_stops_asks_for_no_more(short: list[tuple[str, int, float, int]]) -> None:
    app = _open()
    app.button(key="compare_stop").click().run()
    runs.COMPARISON_POOL.settle()
    before = len(short)
    for _ in range(3):
        _checked(app.run())
        runs.COMPARISON_POOL.settle()
    assert len(short) == before < len(contenders()) * len(trials(ASKED))
    assert "Stopped at" in _words(app)
    app.button(key="compare_on").click().run()
    _settled(app)
    assert len(short) > before


@pytest.mark.parametrize("number", range(len(CHANGE_PRESETS)))
def test_presets_move_the_sliders(number: int, short: list[tuple[str, int, float, int]]) -> None:
    app = _open(told_width="100 times too wide", shear="10")
    _checked(app.button(key=f"preset_{number}").click().run())
    wanted = {"told_width": 1.0, "shift": 0.0, "scale": 1.0, "shear": 0.0}
    wanted |= list(CHANGE_PRESETS.values())[number]
    assert {key: app.select_slider(key=key).value for key in wanted} == wanted


def test_another_measure_needs_no_other_run(short: list[tuple[str, int, float, int]]) -> None:
    app = _settled(_open())
    count, before = len(short), app.table[0].value.iloc[0, -1]
    _checked(app.segmented_control(key="error_shown").set_value("Means").run())
    assert len(short) == count
    assert (before, app.table[0].value.iloc[0, -1]) == (
        number_in_words(0.01),
        number_in_words(0.02),
    )


def test_the_mixture_of_explore_is_found_here() -> None:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    app.selectbox(key="kind").set_value("overlapping").run()
    app.number_input(key="true_k").set_value(3).run()
    _checked(app.switch_page("pages/Compare.py").run())
    assert app.selectbox(key="kind").value == "overlapping"
    assert app.number_input(key="true_k").value == 3


def test_places_go_through_the_one_asked_for() -> None:
    for n, epsilon in ((2_000, 1.0), (70_000, 0.7), (1_000_000, 10.0)):
        rows = GeneratedRows("overlapping", 2, 2, n, 1)
        asked = ComparisonQuestion(rows, Budget(epsilon, 1e-6))
        assert place_asked(asked) == Place(n, epsilon)
        for places in (places_along_epsilon(asked), places_along_rows(asked)):
            assert place_asked(asked) in places
            assert list(places) == sorted(places)
        assert trials(asked)[0] == (place_asked(asked), 0)
        assert len(set(trials(asked))) == len(trials(asked))
        assert max(place.n_rows for place in places_along_rows(asked)) <= 1_000_000


def test_bounds_are_the_only_thing_that_changes_with_width() -> None:
    told = {
        ComparisonQuestion(ROWS, Budget(1.0, 1e-6), width=width).problem().told for width in WIDTHS
    }
    assert len(told) == len(WIDTHS)


def _standing(key: str, *results: Result) -> ContenderErrors:
    one = next(one for one in contenders() if one.key == key)
    return ContenderErrors(one, results, DISTANCE)


def test_the_verdict_says_who_is_nearer() -> None:
    ours = next(one.key for one in contenders() if one.told == "nothing")
    other = next(one.key for one in contenders() if one.told != "nothing")
    near, far = Errors(0.01, 0.0, 0.0), Errors(0.4, 0.0, 0.0)
    assert "40 times as much" in verdict([_standing(ours, near), _standing(other, far)])
    assert "is nearer" in verdict([_standing(ours, far), _standing(other, near)])
    refused = Absent(True, "no")
    words = verdict([_standing(ours, refused), _standing(other, near)])
    assert "None of our methods releases here" in words
    # without privacy there is no contest
    assert verdict([_standing("without", near), _standing(ours, far)]) == ""


def test_how_a_learner_did_in_words() -> None:
    key = contenders()[0].key
    good, bad = Errors(0.01, 0.0, 0.0), Errors(0.03, 0.0, 0.0)
    refused = Absent(True, "no")
    assert _standing(key).in_words == "…"
    assert _standing(key, refused, refused).in_words == "refused (2 of 2 runs)"
    assert _standing(key, Absent(False, "few", 2e6)).in_words == "cannot: takes 2 million rows"
    assert _standing(key, Absent(False, "few")).in_words == "cannot release"
    assert _standing(key, good, bad, refused).in_words == "0.02 (0.01 to 0.03); 1 refused"
