"""The page Look again: all of it from one release or a receipt alone, and nothing is spent."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.budget import Budget
from privgmm.dashboard.look_again import densities, fit, looks, page, paid, synthetic_rows
from privgmm.dashboard.look_again.known_values import spread_of
from privgmm.dashboard.look_again.looks import path_of
from privgmm.dashboard.look_again.paid import (
    paid_example,
    paid_from_receipt,
    paid_from_release,
)
from privgmm.dashboard.shared.refresh import PAGE_POOL
from privgmm.data.datasets import Dataset, random_mixture
from privgmm.errors import InvalidInput
from privgmm.methods.planner import best_plan, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.receipt import make_receipt, receipt_text, sketch_of
from privgmm.releases import release
from privgmm.results import Refusal, Release
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.teaching.format import number_in_words, with_error
from tests.dashboard.test_ledger import open_app, press, the_account, turn_to, words

APP = str(Path(__file__).resolve().parents[2] / "app.py")
PAGE = "pages/Look_again.py"
VIEWS = (page.FIT, page.HOW_MANY, page.TWO, page.ONE, page.KNOWN, page.SYNTHETIC)
TRUTH = Mixture(
    [0.4, 0.6],
    [[-3.0, 100.0], [3.0, 100.0]],
    [[[1.0, 0.0], [0.0, 50.0]], [[1.0, 0.0], [0.0, 90.0]]],
)
COLUMNS = ("age", "in_come*")


def released(method: str = "sketch", n_rows: int = 6_000) -> Release:
    plan = best_plan(n_rows, method=method, epsilon=2.0, delta=1e-6, n_components=2, n_features=2)
    result = release(TRUTH.sample(n_rows, rng=1), plan, rng=2).result
    assert isinstance(result, Release)
    return result


@pytest.fixture(scope="module")
def result() -> Release:
    return released()


@pytest.fixture(scope="module")
def receipt(result: Release) -> dict[str, Any]:
    return make_receipt(result, columns=COLUMNS)


def settled(app: AppTest) -> AppTest:
    """As it looks once all questions are answered; in a browser fragments see to that."""
    while True:
        PAGE_POOL.settle()
        known = PAGE_POOL.n_known
        app.run()
        assert not app.exception
        if PAGE_POOL.n_known == known:
            return app


@pytest.fixture(autouse=True)
def _short_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths end once the choice is settled, as with many columns: it is the quicker way."""
    monkeypatch.setattr(looks, "_FEW_COLUMNS", 0)


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    return settled(app.switch_page(PAGE))


def with_receipt(content: str | dict[str, Any], **query: str) -> AppTest:
    text = content if isinstance(content, str) else receipt_text(content)
    app = opened(look_from=paid.RECEIPT, **query)
    file = ("receipt.json", text.encode(), "application/json")
    return settled(app.file_uploader(key="look_file").set_value(file).run())


def see(app: AppTest, view: str) -> AppTest:
    return settled(app.segmented_control(key="look_at").set_value(view).run())


def charts(app: AppTest) -> list[Any]:
    return [chart.proto for chart in app.get("plotly_chart")]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], str]]:
    """What the download buttons of the last run would give, by the names of their files."""
    given: dict[str, Callable[[], str]] = {}

    def take(_place: Any, _label: str, name: str, write: Callable[[], str]) -> None:
        given[name] = write

    for module in (fit, densities, synthetic_rows):
        monkeypatch.setattr(module, "offer", take)
    return given


# -------------------------------------------------------------------------- what is looked at


def test_cold_there_is_an_example_and_nothing_is_spent() -> None:
    app = opened()
    assert "You have paid once; nothing on this page costs anything." in words(app)
    assert "Generated heights and weights" in words(app)
    assert "δ = 10⁻⁶" in words(app)
    assert "3 components explain the rows" in words(app)
    assert len(charts(app)) == 1
    for view in VIEWS:
        see(app, view)
        assert all(chart.alt for chart in charts(app)), view
    # the header asks for accounts, and finds none
    assert "explore_ledgers" not in app.session_state or not app.session_state["explore_ledgers"]


def test_a_receipt_alone_is_enough(
    receipt: dict[str, Any], taken: dict[str, Callable[[], str]]
) -> None:
    sketch = sketch_of(receipt)
    assert sketch is not None
    app = with_receipt(receipt)
    assert "6,000 rows" in words(app)
    assert "for teaching only" in words(app)
    record = json.loads(taken["privgmm-fit.json"]())
    # what was released is shown as it was
    assert "the mixture that was released" in words(app)
    assert record["mixture"] == receipt["mixture"]
    assert record["standard_errors"] == receipt["standard_errors"]
    for k, kind in ((3, "full"), (2, "diag")):
        app.slider(key="look_k").set_value(k)
        settled(app.segmented_control(key="look_type").set_value(kind).run())
        other = json.loads(taken["privgmm-fit.json"]())
        expected = sketch.fit(k, kind)
        assert other["mixture"] == expected.mixture.to_dict()
        assert other["misfit"] == expected.misfit
        assert other["verdict"] == expected.verdict
        assert (other["n_components"], other["covariance_type"]) == (k, kind)
        assert "the mixture that was released" not in words(app)
    assert not app.main.toggle, "without rows none can be shown"


def test_the_table_holds_every_number_and_its_error(
    receipt: dict[str, Any], taken: dict[str, Callable[[], str]]
) -> None:
    app = with_receipt(receipt)
    table = pd.read_csv(io.StringIO(taken["privgmm-components.csv"]()))
    mixture, errors = receipt["mixture"], receipt["standard_errors"]
    assert table["weight"].tolist() == pytest.approx(mixture["weights"])
    assert table["± mean age"].tolist() == pytest.approx([row[0] for row in errors["means"]])
    assert table["mean in_come*"].tolist() == pytest.approx([row[1] for row in mixture["means"]])
    shown = app.dataframe[0].value
    assert list(shown["weight"]) == [
        with_error(w, e) for w, e in zip(mixture["weights"], errors["weights"], strict=True)
    ]


@pytest.mark.parametrize("broken", ["changed", "refused", "text", "older"])
def test_what_is_no_receipt_of_a_release_is_named(
    result: Release, receipt: dict[str, Any], broken: str
) -> None:
    if broken == "changed":
        content = receipt_text(receipt).replace('"epsilon": 2', '"epsilon": 1', 1)
        said = "not a receipt as it was written"
    elif broken == "refused":
        refusal = Refusal(
            budget=Budget(2.0, 1e-6), plan=result.plan, seeded=False, why="They did not agree."
        )
        content = receipt_text(make_receipt(refusal))
        said = "receipt of a refusal"
    elif broken == "text":
        content, said = "not JSON", "not a receipt as it was written"
    else:
        content, said = json.dumps({"schema": "privgmm/receipt-1"}), "not a receipt"
    app = with_receipt(content)
    assert said in "".join(str(part.value).replace("\\", "") for part in app.error)
    assert not charts(app)
    with pytest.raises(InvalidInput, match="receipt"):
        paid_from_receipt(content.encode(), "receipt.json")


def test_without_a_sketch_it_says_so_and_shows_what_there_is() -> None:
    app = with_receipt(make_receipt(released("lifted", 100_000)))
    assert "publishes a mixture and no sketch" in words(app)
    assert "release with the method **Sketch**" in words(app)
    assert not app.slider
    views = app.segmented_control(key="look_at")
    assert views.options == [page.FIT, page.KNOWN, page.SYNTHETIC]
    for view in views.options:
        see(app, view)
        assert len(charts(app)) == 1


def test_an_upload_outlives_a_look_at_another_page(receipt: dict[str, Any]) -> None:
    app = with_receipt(receipt)
    turn_to(app, "pages/Ledger.py")
    settled(turn_to(app, PAGE))
    assert "In use: receipt.json" in words(app)
    assert len(charts(app)) == 1
    app.button(key="look_forget").click().run()
    assert "Upload the receipt" in words(app)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_the_covariance_type_of_a_release_is_kept(kind: str) -> None:
    """The request holds it, so neither a release nor its receipt needs another fit."""
    request = PlanRequest(
        n_components=2, n_features=2, n_rows=6_000, epsilon=2.0, covariance_type=kind
    )
    rows = TRUTH.sample(6_000, rng=1)
    made = release(rows, plan_for(request).plan, rng=2).result
    assert isinstance(made, Release)
    data = Dataset(rows, None, COLUMNS, "rows", "rows")
    from_receipt = paid_from_receipt(receipt_text(make_receipt(made)).encode(), "r.json")
    for one in (from_receipt, paid_from_release(made, data, "last")):
        assert one.covariance_type == kind
        assert one.mixture == made.mixture


# -------------------------------------------------------------------------- this session's release


@pytest.fixture
def session(seeded_once: None) -> AppTest:
    """A release by method sketch on Explore."""
    return press(open_app(method="Sketch", n="2,000", seeded="true"))


def test_explore_leads_here_after_a_sketch_only(session: AppTest) -> None:
    links = [str(link.proto.label) for link in session.get("page_link")]
    assert "Look again: it costs nothing" in links
    other = press(
        open_app(method="Lifted", kind="Well separated", n="100,000", epsilon="1", seeded="true")
    )
    assert "Look again: it costs nothing" not in [
        str(link.proto.label) for link in other.get("page_link")
    ]
    settled(turn_to(other, PAGE))
    assert "publishes a mixture and no sketch" in words(other)


def test_looking_spends_nothing(session: AppTest, taken: dict[str, Callable[[], str]]) -> None:
    settled(turn_to(session, PAGE))
    before = the_account(session).entries
    assert len(before) == 1
    assert "Your last release" in words(session)
    for view in VIEWS:
        see(session, view)
    session.slider(key="look_k").set_value(4).run()
    settled(session)
    assert the_account(session).entries == before


def test_rows_are_shown_to_the_curator_only_and_never_taken_home(
    session: AppTest, taken: dict[str, Callable[[], str]]
) -> None:
    settled(turn_to(session, PAGE))
    pictures = {
        page.FIT: "privgmm-fit.html",
        page.TWO: "privgmm-density.html",
        page.ONE: "privgmm-column.html",
    }
    shown: dict[str, list[str]] = {}
    for on in (False, True):
        session.toggle(key="look_rows").set_value(on)
        for view, file in pictures.items():
            see(session, view)
            traces = [one for chart in charts(session) for one in json.loads(chart.spec)["data"]]
            assert any("rows" in one.get("name", "") for one in traces) == on, view
            assert ("**Confidential" in words(session)) == on, view
            drawn = taken[file]()
            # what is drawn; before it come the library and a random name
            start = drawn.index("[", drawn.rindex("Plotly.newPlot("))
            shown.setdefault(view, []).append(drawn[start:])
    for view, (without, beside) in shown.items():
        assert without == beside, view
        assert " rows" not in without, view
    assert "look_rows" not in session.query_params


def test_another_release_begins_at_its_own_number(receipt: dict[str, Any]) -> None:
    app = opened(look_k="5")
    assert app.slider(key="look_k").value == 5
    app.segmented_control(key="look_from").set_value(paid.RECEIPT).run()
    file = ("receipt.json", receipt_text(receipt).encode(), "application/json")
    settled(app.file_uploader(key="look_file").set_value(file).run())
    assert app.slider(key="look_k").value == 2


# ----------------------------------------------------------------------------------------- views


def test_too_few_components_are_said_to_be_and_one_click_helps() -> None:
    app = opened(look_k="1")
    warned = "".join(str(part.value) for part in app.warning)
    assert "One component is not enough: try 3, it costs nothing." in warned
    settled(app.button(key="look_try").click().run())
    assert app.slider(key="look_k").value == 3
    assert "3 components explain the rows" in words(app)


def test_the_criterion_is_followed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few columns, where it is quick."""
    monkeypatch.setattr(looks, "_FEW_COLUMNS", 3)
    app = see(opened(look_k="6"), page.HOW_MANY)
    assert "The criterion takes 3 components" in words(app)
    (chart,) = charts(app)
    assert "Chosen: 3" in chart.alt
    assert "8: misfit" in chart.alt
    settled(app.button(key="look_best").click().run())
    assert app.slider(key="look_k").value == 3


def test_known_values_are_those_of_the_conditional_mixture() -> None:
    app = see(opened(), page.KNOWN)
    settled(app.slider(key="given_0").set_value(180.0).run())
    expected = paid_example().mixture.condition({0: 180.0})
    (table,) = (frame.value for frame in app.dataframe)
    assert table["share then"].tolist() == [f"{weight:.1%}" for weight in expected.weights]
    assert f"weight is about **{with_error(*spread_of(expected, 0))}**" in words(app)
    app.multiselect(key="known").set_value([]).run()
    assert "at least one column" in words(app)


def test_synthetic_rows_are_drawn_from_the_fit(taken: dict[str, Callable[[], str]]) -> None:
    app = see(opened(), page.SYNTHETIC)
    app.segmented_control(key="synthetic").set_value(100).run()
    app.number_input(key="synthetic_seed").set_value(9).run()
    rows = pd.read_csv(io.StringIO(taken["privgmm-synthetic.csv"]()))
    assert list(rows.columns) == ["height", "weight"]
    assert rows.to_numpy() == pytest.approx(paid_example().mixture.sample(100, rng=9), rel=1e-5)


# ---------------------------------------------------------------------------- beside the page


def named(result: Release, first: str) -> dict[str, Any]:
    """The release under another name of a column: nothing is known of it yet."""
    return make_receipt(result, columns=(first, "other"))


def test_a_long_fit_runs_beside_the_page(result: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, real = threading.Event(), PrivateSketch.fit

    def slow(self: PrivateSketch, *which: Any) -> Any:
        assert go_on.wait(60)
        return real(self, *which)

    app = opened(look_from=paid.RECEIPT)
    monkeypatch.setattr(PrivateSketch, "fit", slow)
    monkeypatch.setattr(page, "_SECONDS", 0.0)
    text = receipt_text(named(result, "slow"))
    app.file_uploader(key="look_file").set_value(("r.json", text.encode(), "application/json"))
    try:
        app.run()
        # the receipt itself may take a moment
        while not app.slider:
            app.run()
        assert not app.exception
        (bar,) = app.get("progress")
        assert bar.proto.text == "Fitting: 0 of 2 components…"
        assert "Trying other numbers" in words(app)
        assert not charts(app)
    finally:
        go_on.set()
    monkeypatch.setattr(page, "_SECONDS", 5.0)
    settled(app)
    assert len(charts(app)) == 1
    assert not app.get("progress")


def test_the_same_work_is_done_once_for_all_sessions(
    result: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []
    real = PrivateSketch.fit

    def counted(self: PrivateSketch, *which: Any) -> Any:
        asked.append(which)
        return real(self, *which)

    monkeypatch.setattr(PrivateSketch, "fit", counted)
    again = named(result, "again")
    with_receipt(again)
    count = len(asked)
    assert count > 0
    with_receipt(again)
    assert len(asked) == count


def test_with_many_columns_the_path_ends_once_the_choice_is_settled() -> None:
    truth = random_mixture(1, 4, rng=0)
    plan = best_plan(8_000, method="sketch", epsilon=2.0, delta=1e-6, n_components=1, n_features=4)
    result = release(truth.sample(8_000, rng=1), plan, rng=2).result
    assert isinstance(result, Release)
    assert result.sketch is not None
    for _ in range(4):
        path = path_of(result.sketch, "full", 1)
        PAGE_POOL.settle()
    # one explains the rows, and two more did not help
    assert [answer.result().n_components for answer in path] == [1, 2, 3]


# ----------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1e-6, 4, "10⁻⁶"),
        (2.5e-7, 4, "2.5 × 10⁻⁷"),
        (-4.01239, 4, "−4.012"),
        (123456.0, 4, "123,500"),
        (9.9999e5, 4, "10⁶"),
        (0.5, 4, "0.5"),
        (100.0, 4, "100"),
        (0.0, 4, "0"),
    ],
)
def test_numbers_are_written_as_people_write_them(value: float, digits: int, text: str) -> None:
    assert number_in_words(value, digits) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (167.914, 0.118, "167.91 ± 0.12"),
        (66.27, 10.2, "66 ± 10"),
        (0.0938, 1.0, "0.094 ± 1"),
        (-0.002925, 2.5e-4, "(−2.92 ± 0.25) × 10⁻³"),
        (3e7, 2e6, "(3.00 ± 0.20) × 10⁷"),
        (0.5, 0.0, "0.5 ± 0"),
        (0.3991, 0.00301, "0.3991 ± 0.0030"),
        (157.914, 0.0996, "157.91 ± 0.10"),
        (12_345.6, 234.0, "12,350 ± 230"),
        (157.914, 1e-9, "157.9 ± 10⁻⁹"),
        (0.0, 0.0, "0 ± 0"),
    ],
)
def test_errors_say_how_many_digits_mean_something(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text


def test_the_example_is_what_it_says() -> None:
    example = paid_example()
    assert example.dataset is not None
    assert example.dataset.truth is not None
    assert example.seeded
    means = np.sort(example.mixture.means[:, 0])
    assert means == pytest.approx(np.sort(example.dataset.truth.means[:, 0]), abs=1.0)
