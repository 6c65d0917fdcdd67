"""The page Explore: every verdict, and noise drawn once and only behind the button."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.calibration import METHODS
from privgmm.dashboard.result import component_table, error_of, record
from privgmm.dashboard.state import Settings, Shown
from privgmm.dashboard.words import (
    chance_in_words,
    count_in_words,
    method_label,
    spreads_apart,
    times_short,
)
from privgmm.datasets import load_sample, random_mixture
from privgmm.mixture import Mixture
from privgmm.release import Refusal, Release

APP = str(Path(__file__).resolve().parent.parent / "app.py")


def _open() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120).run()
    assert not app.exception
    return app


def _small(app: AppTest) -> AppTest:
    app.select_slider(key="n").set_value(10_000)
    return app


def _press(app: AppTest) -> AppTest:
    app.button(key="release").click().run()
    assert not app.exception
    return app


def _shown(app: AppTest) -> Shown:
    value = app.session_state["explore_shown"]
    assert isinstance(value, Shown)
    return value


def _spends(app: AppTest) -> int:
    return sum(len(ledger.entries) for ledger in app.session_state["explore_ledgers"].values())


def _words(app: AppTest) -> str:
    parts = [*app.info, *app.success, *app.warning, *app.error, *app.markdown, *app.caption]
    return "\n".join(str(part.value) for part in parts)


@pytest.fixture
def refused() -> AppTest:
    app = _small(_open())
    app.segmented_control(key="method").set_value("paper").run()
    return _press(app)


@pytest.fixture(scope="module")
def released() -> AppTest:
    """A release: the lifted method with enough rows, a generous budget and known noise."""
    app = _open()
    app.segmented_control(key="method").set_value("lifted")
    app.toggle(key="seeded").set_value(True)
    app.select_slider(key="epsilon").set_value(8.0).run()
    return _press(app)


def test_nothing_is_drawn_before_the_button() -> None:
    app = _small(_open()).run()
    assert "explore_shown" not in app.session_state
    assert _spends(app) == 0
    assert "Press **Release**" in _words(app)
    assert len(app.get("plotly_chart")) == 1


def test_every_method_is_offered() -> None:
    control = _open().segmented_control(key="method")
    assert control.options == [method_label(method) for method in METHODS]


def test_refusal_is_shown_with_the_rows_it_would_take(refused: AppTest) -> None:
    result = _shown(refused).outcome.result
    assert isinstance(result, Refusal)
    words = _words(refused)
    assert "that is the guarantee at work" in words
    assert f"{count_in_words(result.rows_needed)} rows" in words
    assert "May be shared" in words
    assert "Not to be shared" in words
    # The fit without privacy is there to compare, marked with a lock.
    assert any("Non-private fit" in tab.label for tab in refused.tabs)
    assert not any("Private release" in tab.label for tab in refused.tabs)


def test_release_is_shown_with_its_promise(released: AppTest) -> None:
    result = _shown(released).outcome.result
    assert isinstance(result, Release)
    words = _words(released)
    assert chance_in_words(result.budget.guess_ceiling) in words
    assert "weak promise" in words
    assert "The noise came from a seed" in words
    assert released.tabs[0].label.endswith("Private release")
    error = error_of(result.mixture, load_truth(released))
    assert error is not None
    assert f"{error:.3f}" in [metric.value for metric in released.metric]


def load_truth(app: AppTest) -> Mixture:
    truth = _shown(app).dataset.truth
    assert truth is not None
    return truth


def test_a_rerun_never_draws_again(released: AppTest) -> None:
    before = _shown(released).outcome
    count = _spends(released)
    released.run()
    assert _shown(released).outcome is before
    assert _spends(released) == count


def test_changed_settings_mark_the_result_as_earlier(refused: AppTest) -> None:
    before = _shown(refused).outcome
    refused.select_slider(key="epsilon").set_value(2.0).run()
    assert "belongs to earlier settings: ε was 1.0" in _words(refused)
    assert _shown(refused).outcome is before
    assert _spends(refused) == 1
    refused.select_slider(key="epsilon").set_value(1.0).run()
    assert "belongs to earlier settings" not in _words(refused)


def test_other_rows_do_not_show_the_earlier_result(refused: AppTest) -> None:
    refused.number_input(key="data_seed").set_value(2).run()
    words = _words(refused)
    assert "made from other rows" in words
    assert not refused.tabs
    assert "Nothing has been spent on these rows" in words


def test_releases_add_up(refused: AppTest) -> None:
    once = _shown(refused).outcome.result.budget.epsilon
    _press(refused)
    assert _spends(refused) == 2
    assert f"Released 2 times from these rows in this session: together ε = {2 * once:.4g}" in (
        _words(refused)
    )


def test_too_few_rows_spend_nothing() -> None:
    app = _open()
    app.segmented_control(key="source").set_value("Sample").run()
    app.selectbox(key="sample").set_value("old_faithful").run()
    app.segmented_control(key="method").set_value("paper").run()
    _press(app)
    assert "explore_shown" not in app.session_state
    assert _spends(app) == 0
    assert any("272 rows" in error.value for error in app.error)


def test_a_plan_that_cannot_be_made_disables_the_button() -> None:
    app = _small(_open())
    app.segmented_control(key="method").set_value("lifted")
    app.toggle(key="auto").set_value(False).run()
    app.number_input(key="t").set_value(5).run()
    assert any("too few" in error.value for error in app.error)
    assert app.button(key="release").disabled


def test_seeded_noise_says_so_and_repeats() -> None:
    outcomes = []
    for _ in range(2):
        app = _small(_open())
        app.segmented_control(key="method").set_value("paper")
        app.toggle(key="seeded").set_value(True).run()
        assert "A seeded release gives no privacy" in _words(app)
        outcomes.append(_shown(_press(app)).outcome)
    assert outcomes[0].result.seeded
    assert outcomes[0].curator.noisy_statistic == outcomes[1].curator.noisy_statistic


def test_more_columns_let_one_choose_two() -> None:
    app = _small(_open())
    app.number_input(key="d").set_value(4).run()
    app.selectbox(key="across").set_value("x3").run()
    assert app.selectbox(key="up").options == ["x1", "x2", "x4"]
    assert not app.exception


def test_one_column_is_a_histogram() -> None:
    app = _small(_open())
    app.number_input(key="d").set_value(1).run()
    assert not app.exception
    assert "standard deviations" not in _words(app)


def test_fitted_components_follow_the_drawn_ones() -> None:
    app = _small(_open())
    app.number_input(key="true_k").set_value(3).run()
    assert app.number_input(key="k").value == 3
    app.segmented_control(key="source").set_value("Sample").run()
    app.selectbox(key="sample").set_value("ill_conditioned_5d").run()
    assert app.number_input(key="k").value == 3


def test_separation_can_be_chosen() -> None:
    app = _small(_open())
    app.selectbox(key="kind").set_value("choose").run()
    app.slider(key="separation").set_value(0.0).run()
    assert not app.exception


def test_upload_reads_columns_and_reports_bad_files() -> None:
    app = _open()
    app.segmented_control(key="source").set_value("Upload").run()
    assert "Choose data to begin" in _words(app)
    rows = "\n".join(f"{i},{i * i % 7},someone" for i in range(50))
    app.file_uploader(key="file").set_value(
        ("people.csv", f"a,b,name\n{rows}".encode(), "text/csv")
    )
    app.run()
    assert not app.exception
    assert app.multiselect[0].options == ["a", "b"]
    app.multiselect[0].set_value([]).run()
    assert "at least one column" in _words(app)
    app.file_uploader(key="file").set_value(("bad.csv", b"a,b\n1,2\n3\n", "text/csv")).run()
    assert any("Row #3" in error.value for error in app.error)
    app.file_uploader(key="file").set_value(("holes.csv", b"a,b\n1,\n3,4\n", "text/csv")).run()
    assert any("1 missing" in error.value for error in app.error)


def test_record_holds_nothing_but_what_may_be_shared(released: AppTest) -> None:
    shared = json.loads(json.dumps(record(_shown(released).outcome)))
    assert shared.keys() == {"released", "seeded", "budget", "mixture", "plan"}


def test_component_table_reads_back() -> None:
    mixture = random_mixture(3, 2, condition=4.0, rng=1)
    table = component_table(mixture, ("a", "b"))
    assert table["mean b"].tolist() == mixture.means[:, 1].tolist()
    rebuilt = table["sd a"] * table["sd b"] * table["correlation"]
    assert rebuilt.to_numpy() == pytest.approx(mixture.covariances[:, 0, 1])
    assert "correlation" not in component_table(random_mixture(1, 3, rng=1), ("a", "b", "c"))


def test_error_needs_equal_numbers_of_components() -> None:
    two, three = random_mixture(2, 2, rng=1), random_mixture(3, 2, rng=1)
    assert error_of(two, two) == pytest.approx(0.0, abs=1e-12)
    assert error_of(two, three) is None


def test_settings_name_what_changed() -> None:
    data = load_sample("old_faithful")
    first = Settings(data.fingerprint, data.name, "paper", 1.0, 1e-6, 0.5, 2, None, None)
    second = Settings("other", "other", "paper", 2.0, 1e-6, 0.5, 2, 50, None)
    assert first.changes_since(first) == []
    assert second.changes_since(first) == ["data was old_faithful", "ε was 1.0", "blocks was auto"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (12.2, "13"),
        (31_234, "31,200"),
        (999_999, "1,000,000"),
        (2.49e6, "2.5 million"),
        (996e6, "1 billion"),
        (3e8, "300 million"),
        (4.06e18, "4.1 × 10¹⁸"),
        (9.99e20, "1 × 10²¹"),
        (float("inf"), "no finite number of"),
    ],
)
def test_counts_in_words(number: float, words: str) -> None:
    assert count_in_words(number) == words


def test_comparison_in_words() -> None:
    assert times_short(100, 200).startswith("fewer than there are")
    assert times_short(500, 200) == "2.5 times the rows at hand"
    assert times_short(4e18, 100_000) == "40 trillion times the rows at hand"


def test_auto_says_when_no_plan_would_pass() -> None:
    app = _small(_open())
    app.segmented_control(key="method").set_value("lifted").run()
    assert any("no plan is expected to release" in error.value for error in app.error)
    assert "Turn off Auto" in _words(app)
    assert app.button(key="release").disabled
    app.toggle(key="auto").set_value(False).run()
    assert not app.button(key="release").disabled


@pytest.mark.parametrize("spreads", [0.5, 4.0, 9.0])
def test_spreads_apart_inverts_the_lifted_distance(spreads: float) -> None:
    """Against the lifted matrices themselves: w [[S + m m^T, m], [m^T, 1]], d = 2."""
    mean = np.array([spreads, 0.0])
    column = np.append(mean, 1.0)
    second = np.outer(column, column) + np.diag([1.0, 1.0, 0.0])
    distance = np.linalg.norm(np.log(np.linalg.eigvalsh(second)))
    assert spreads_apart(float(distance)) == pytest.approx(spreads)
