"""The page Explore: every verdict, and noise drawn once and only behind the button."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.explore import controls, rehearsal
from privgmm.dashboard.explore import page as explore
from privgmm.dashboard.explore import page as explore_page
from privgmm.dashboard.explore import release_job as running
from privgmm.dashboard.explore.feasibility import Feasibility, feasibility_of
from privgmm.dashboard.explore.picture import BANDS
from privgmm.dashboard.explore.possible_releases import Cloud
from privgmm.dashboard.explore.release_job import Running
from privgmm.dashboard.explore.result import comparison_table, error_of, record
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.answers import PLAN_POOL, blocks_of, fewest_rows
from privgmm.dashboard.shared.lessons import LESSONS, link_to
from privgmm.dashboard.shared.refresh import PAGE_POOL
from privgmm.dashboard.shared.state import Settings, Shown
from privgmm.data.datasets import load_sample, random_mixture
from privgmm.distances.parameters import dist_gmm, matched
from privgmm.errors import PrivGMMError
from privgmm.learners import registry as learners
from privgmm.learners.em import EM
from privgmm.learners.registry import LEARNERS, OFFERED, LearnerKind
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest
from privgmm.methods.what_if import rows_for
from privgmm.mixture import Mixture
from privgmm.records.notebook import GeneratedRows, SampleRows, script
from privgmm.releases import Outcome, PreparedRelease, Refusal, Release, prepare
from privgmm.stages.agreement.stage import Agreement, AgreementView
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.histogram_frame import PreparedHistogramFrame
from privgmm.stages.stage import Bottom
from privgmm.teaching.background import JobControl
from privgmm.teaching.format import (
    count_in_words,
    escaped,
    method_title,
    spreads_apart,
    times_short,
)

APP = str(Path(__file__).resolve().parents[2] / "app.py")


PLAIN = {"kind": "Well separated", "epsilon": "1"}
"""An easy question, unless a test asks another one."""


LIKELY = r"Chance of a release: (over 99|9[5-9])%"


def _open(**parameters: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in (PLAIN | parameters).items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def _settled(app: AppTest) -> AppTest:
    """As it looks once all questions are answered; in a browser fragments see to that."""
    for _ in range(3):
        PLAN_POOL.settle()
        app.run()
    assert not app.exception
    return app


def _small(app: AppTest) -> AppTest:
    app.select_slider(key="n").set_value(10_000)
    return app


def _press(app: AppTest) -> AppTest:
    app.button(key="release").click().run()
    if "explore_running" in app.session_state:
        _running(app).job.problem(timeout=120)
        app.run()
    assert not app.exception
    assert "explore_running" not in app.session_state
    return app


def _running(app: AppTest) -> Running:
    value = app.session_state["explore_running"]
    assert isinstance(value, Running)
    return value


def _shown(app: AppTest) -> Shown:
    value = app.session_state["explore_shown"]
    assert isinstance(value, Shown)
    return value


def _spends(app: AppTest) -> int:
    return sum(len(ledger.entries) for ledger in app.session_state["explore_ledgers"].values())


def _words(app: AppTest) -> str:
    page = app.main
    parts = [*page.info, *page.success, *page.warning, *page.error, *page.markdown, *page.caption]
    drawn = [re.sub("<[^>]*>", " ", part.proto.body) for part in page.get("html")]
    return "\n".join([*(str(part.value) for part in parts), *drawn])


def _rehearsed(app: AppTest) -> AppTest:
    """As it looks once its rehearsal is there."""
    rehearsal.ON_SCREEN.settle()
    app.run()
    assert not app.exception
    return app


@pytest.fixture
def refused() -> AppTest:
    return _press(_open(method="Paper", n="10,000"))


@pytest.fixture
def released(seeded_once: None) -> AppTest:
    """A release: the lifted method with enough rows, a generous budget and known noise."""
    return _press(_open(method="Lifted", epsilon="8", seeded="true", n="30,000"))


def _released_once(app: AppTest) -> None:
    if "explore_running" in app.session_state:
        _running(app).job.problem(timeout=120)
        app.run()
    app.run()
    assert not app.exception
    assert _spends(app) == 1


def test_a_click_whose_call_was_forgotten_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it comes while the page is drawn again, and the button has not been reached."""
    monkeypatch.setattr(explore_page, "_note_click", lambda: None)
    app = _open(method="Paper", n="10,000")
    _released_once(app.button(key="release").click().run())


def test_a_click_that_the_button_forgot_counts_once() -> None:
    """As where another run begins after the call, and before the button is reached."""
    app = _open(method="Paper", n="10,000")
    app.session_state["explore_clicked"] = True
    _released_once(app.run())


def test_nothing_is_drawn_before_the_button() -> None:
    app = _rehearsed(_small(_open()).run())
    assert "explore_shown" not in app.session_state
    assert _spends(app) == 0
    assert "Rehearsal: nothing spent" in _words(app)


def test_every_method_is_offered() -> None:
    app = _open()
    control = app.selectbox(key="method")
    assert control.options == [registry.get(name).title for name in registry.names()]
    assert control.value == DEFAULT_METHOD
    for name in registry.names():
        assert registry.get(name).sentence in control.help


def test_a_method_that_is_gone_goes_by_its_name() -> None:
    assert method_title("lifted") == "Lifted"
    assert method_title("forgotten") == "Forgotten"


# Verdicts


def test_refusal_is_shown_with_the_rows_it_would_take(refused: AppTest) -> None:
    result = _shown(refused).outcome.result
    assert isinstance(result, Refusal)
    words = _words(refused)
    assert "that is the guarantee at work" in words
    assert f"{count_in_words(result.rows_needed)} rows" in words
    assert "May be shared" in words
    assert "not to be shared" in words
    assert set(refused.dataframe[-1].value["mixture"]) == {"True", "Non-private"}
    _settled(refused)
    assert refused.dataframe[0].value["Method"].tolist() == [
        registry.get(name).title for name in registry.names()
    ]


def test_refusal_for_lack_of_blocks_says_so() -> None:
    """With five blocks the paper's noise may outweigh any agreement: no rows would do."""
    app = _open(method="Paper", n="1,000", t="5", seeded="true")
    result = _shown(_press(app)).outcome.result
    assert isinstance(result, Refusal)
    assert "cannot be sure to pass with any rows" in _words(app)
    assert "The noise came from a seed" in _words(app)


def test_release_is_shown_with_its_promise(released: AppTest) -> None:
    result = _shown(released).outcome.result
    assert isinstance(result, Release)
    words = _words(released)
    assert result.attacker in words
    assert "weak promise" in words
    assert "The noise came from a seed" in words
    truth = _shown(released).chosen.dataset.truth
    assert truth is not None
    error = dist_gmm(result.mixture, truth)
    assert re.search(rf"Error with privacy\s+{error:.3f}", words)
    table = released.dataframe[0].value
    assert table["mixture"].tolist() == ["True", "Non-private", "Private release"] * 2
    assert table[table["mixture"] == "Private release"]["error"].max() == pytest.approx(error)


def test_a_strong_private_release_says_neither_weak_nor_seeded() -> None:
    app = _press(_open(epsilon="2", n="50,000"))
    result = _shown(app).outcome.result
    assert isinstance(result, Release)
    words = _words(app)
    assert result.attacker in words
    assert result.plan.ceiling < 0.6 < 0.88 < result.budget.guess_ceiling
    assert "weak promise" not in words
    assert "came from a seed" not in words
    assert "spends again" in words


def test_other_components_than_the_truth_has_leave_no_error_to_measure() -> None:
    app = _press(_open(epsilon="10", n="30,000", k="1", seeded="true"))
    assert isinstance(_shown(app).outcome.result, Release)
    assert "Error with" not in _words(app)
    assert "Attacker" in _words(app)


# Noise is drawn once


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
    assert not refused.dataframe
    assert "Nothing has been spent on these rows" in words


def test_releases_add_up(refused: AppTest) -> None:
    once = _shown(refused).outcome.result.budget.epsilon
    _press(refused)
    assert _spends(refused) == 2
    said = f"2 releases so far; ε used: {2 * once:.3g}**, δ used: 2 × 10⁻⁶ in this session"
    assert said in _words(refused)


def test_seeded_noise_says_so_and_repeats(refused: AppTest) -> None:
    outcomes = []
    for _ in range(2):
        app = _open(method="Paper", n="10,000", seeded="true")
        assert "no privacy" in app.toggle(key="seeded").label
        outcomes.append(_shown(_press(app)).outcome)
    assert outcomes[0].result.seeded
    assert (
        outcomes[0].curator.view(AgreementView).verdict.noisy_statistic
        == outcomes[1].curator.view(AgreementView).verdict.noisy_statistic
    )


# Endings without a result


@pytest.mark.parametrize("blocks", [{}, {"t": "200"}])
def test_a_plan_that_cannot_run_leaves_nothing_to_press(blocks: dict[str, str]) -> None:
    """More blocks than rows: it is said in words, before the button and not after it."""
    app = _settled(_open(source="Sample", sample="Old faithful", method="Paper", **blocks))
    assert app.button(key="release").disabled
    assert "there are 272" in app.warning[0].value
    assert "n_blocks" not in _words(app)
    assert "Chance of a release: none" in _words(app)
    assert _spends(app) == 0


def _held_release(
    monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> tuple[threading.Event, threading.Event]:
    """A release that waits to be let go on, before or after the ledger is told."""
    at_gate, go = threading.Event(), threading.Event()

    def held(*arguments: Any, **options: Any) -> PreparedRelease:
        step = options.pop("progress")

        def progress(done: int, total: int) -> None:
            if not told and done > 0:
                at_gate.set()
                go.wait(60)
            step(done, total)

        return prepare(*arguments, progress=progress, **options)

    def drawn(outcome: Outcome) -> Outcome:
        if told:
            at_gate.set()
            go.wait(60)
        return outcome

    _after_drawing(monkeypatch, drawn, held)
    return at_gate, go


def _after_drawing(
    monkeypatch: pytest.MonkeyPatch,
    then: Callable[[Outcome], Outcome],
    make: Callable[..., PreparedRelease] = prepare,
) -> None:
    """Do this after the noise of a release is drawn; rehearsals, which all tests share, do not."""

    def prepared(*arguments: Any, **options: Any) -> PreparedRelease:
        made = make(*arguments, **options)
        draw = made.draw
        monkeypatch.setattr(made, "draw", lambda ledger: then(draw(ledger)))
        return made

    monkeypatch.setattr(running, "prepare", prepared)


def test_cancel_before_the_noise_spends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_gate, go = _held_release(monkeypatch, told=False)
    app = _open(method="Paper", n="10,000")
    app.button(key="release").click().run()
    assert at_gate.wait(60)
    app.run()
    assert app.button(key="release").disabled
    app.button(key="cancel").click().run()
    assert app.button(key="cancel").label == "Stopping…"
    go.set()
    _running(app).job.problem(timeout=60)
    app.run()
    assert "Cancelled.** Nothing was drawn and nothing spent" in _words(app)
    assert _spends(app) == 0
    assert "explore_shown" not in app.session_state
    assert not app.button(key="release").disabled


def test_cancel_after_the_noise_comes_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    at_gate, go = _held_release(monkeypatch, told=True)
    app = _open(method="Paper", n="10,000")
    app.button(key="release").click().run()
    assert at_gate.wait(60)
    app.run()
    assert app.button(key="cancel").disabled
    assert "The noise is drawn" in _words(app)
    job = _running(app).job
    job.cancel()
    go.set()
    job.problem(timeout=60)
    app.run()
    assert "Too late to cancel" in _words(app)
    assert _spends(app) == 1
    assert isinstance(_shown(app).outcome.result, Refusal)


def test_trouble_after_spending_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Outcome) -> Outcome:
        raise PrivGMMError("the machine caught *fire*")

    _after_drawing(monkeypatch, broken)
    app = _press(_open(method="Paper", n="10,000"))
    assert any("The budget is spent, but there is no result" in e.value for e in app.error)
    assert any(r"caught \*fire\*" in e.value for e in app.error)
    assert _spends(app) == 1


# What it takes, before spending


def test_enough_rows_are_said_to_be_enough() -> None:
    app = _settled(_open(epsilon="8", method="Lifted", n="100,000"))
    words = _words(app)
    assert "check_circle:] **Chance of a release: over 99%**" in words
    assert re.search(r"An answer needs about [\d,]+ rows; you have 100,000\.", words)
    assert "Works if cluster centres are at least" in words
    assert not app.warning
    assert _spends(app) == 0


def test_each_fix_leads_to_settings_that_pass() -> None:
    """Too few rows: one click on any of the offers, and the light turns green."""
    for fix in ("fix_epsilon", "fix_rows"):
        app = _settled(
            _open(
                epsilon="3",
                n="5,000",
                method="Lifted",
                kind="Choose the separation…",
                separation="12",
            )
        )
        assert "you need about" in app.warning[0].value
        assert app.button(key="release").disabled
        assert "set t yourself" in _words(app)
        app.button(key=fix).click().run()
        _settled(app)
        assert re.search(LIKELY, _words(app)), fix
        assert not app.button(key="release").disabled
        assert _spends(app) == 0


def test_hopeless_methods_point_to_the_one_that_passes() -> None:
    app = _settled(_open(method="Paper", epsilon="8", n="30,000"))
    assert "1.98 × 10¹⁸ rows" in app.warning[0].value
    assert not app.button(key="release").disabled
    app.button(key="fix_method").click().run()
    assert app.selectbox(key="method").value == DEFAULT_METHOD
    assert app.number_input(key="t").value is None
    assert re.search(LIKELY, _words(_settled(app)))


def test_where_nothing_helps_alone_it_says_so() -> None:
    app = _settled(_open(source="Sample", sample="Old faithful", method="Tight"))
    assert "No single change helps" in _words(app)


@pytest.mark.parametrize(
    "scene",
    [
        {"kind": "Overlapping"},
        {"kind": "Choose the separation…", "separation": "3", "true_k": "3", "k": "3"},
        {"d": "5", "true_k": "3", "k": "3"},
    ],
)
def test_no_green_light_comes_before_a_sure_refusal(scene: dict[str, str]) -> None:
    """The chance is that of these very groups: enough rows for others are not enough here."""
    app = _settled(_open(method="Lifted", n="100,000", **scene))
    words = _words(app)
    assert "check_circle" not in words
    assert re.search(r"Chance of a release: (under 1|\d)%", words)
    assert "overlap too much for this method" in app.warning[0].value


def test_a_plan_that_cannot_be_made_disables_the_button() -> None:
    app = _settled(_open(n="10,000", method="Lifted", t="5"))
    assert "too few" in app.warning[0].value
    assert app.button(key="release").disabled


def test_more_blocks_than_rows_are_refused_in_words_and_nothing_is_drawn() -> None:
    app = _open(n="10,000", t="50000")
    assert r"at most the 10,000 rows, got 50,000" in app.error[0].value
    assert "release" not in [button.key for button in app.button]
    app.number_input(key="t").set_value(None).run()
    assert not app.error
    assert app.button(key="release")


def _feasibility(request: PlanRequest) -> Feasibility:
    """Of rows whose truth is not known."""
    return feasibility_of(Settings("", "", request, None), load_sample("old_faithful"))


ASKED = PlanRequest(n_components=2, n_features=2, n_rows=30_000, epsilon=8.0, method="lifted")


@pytest.mark.parametrize(
    ("changes", "enough"),
    [
        ({}, True),
        ({"n_rows": 2_000}, False),
        ({"method": "tight"}, False),
        ({"method": "paper"}, False),
        ({"mask_accuracy": 0.5, "n_blocks": 200}, True),
        ({"mask_accuracy": 0.5, "n_blocks": 200, "n_rows": 1_500}, False),
        ({"mask_accuracy": 0.5, "n_blocks": 200, "n_rows": 1_000}, False),
    ],
)
def test_rows_are_said_to_do_where_their_number_is_enough(
    changes: dict[str, object], enough: bool
) -> None:
    request = ASKED.but(**changes)
    assert _feasibility(request).enough in (enough, None)
    PLAN_POOL.settle()
    known = _feasibility(request)
    assert known.enough == enough
    assert known.needed is not None
    if request.by_hand or not enough:
        assert (known.needed <= request.rows) == enough


def test_rows_of_methods_are_compared_for_any_answer() -> None:
    """Mask and blocks are left to each method."""
    request = ASKED.but(mask_accuracy=0.75, n_blocks=50)
    assert fewest_rows(request, "tight").result(60) == rows_for(ASKED.but(method="tight"))
    assert fewest_rows(request, "lifted").result(60) == rows_for(ASKED)


# Data


def test_more_columns_let_one_choose_two() -> None:
    app = _open(n="10,000", d="4")
    app.selectbox(key="across").set_value("x3").run()
    assert app.selectbox(key="up").options == ["x1", "x2", "x4"]
    assert not app.exception


def test_one_column_is_a_histogram() -> None:
    app = _open(n="10,000", d="1")
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


@pytest.fixture
def uploading() -> AppTest:
    app = _open(source="Upload")
    assert "Choose data to begin" in _words(app)
    return app


def _columns(app: AppTest) -> Any:
    return next(box for box in app.multiselect if str(box.key).startswith("columns_"))


def _bomb() -> bytes:
    schema = pa.schema([("a", pa.int8())])
    chunk = pa.table({"a": pa.array(np.zeros(4_000_000, np.int8))}, schema)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for _ in range(70):
            writer.write_table(chunk)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("names.csv", b"a,b\n", "no rows of data"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "data row 2 (line 3) has 1 cells"),
        ("words.csv", b"a,b\nx,y\nu,v\n", "no column holds numbers"),
        ("person.csv", b"1.5,2\n3,4\n", "may be the first row of data"),
        ("packed.csv", b"\x1f\x8b\x08\x00", "compressed file is damaged"),
        ("binary.csv", b"\x00\x01\x02\x03" * 9, "binary data"),
        ("damaged.parquet", b"PAR1 nothing more", "damaged"),
        ("bomb.parquet", None, "would unpack to"),
    ],
)
def test_bad_files_are_refused_with_the_reason(
    uploading: AppTest, name: str, content: bytes | None, said: str
) -> None:
    data = _bomb() if content is None else content
    uploading.file_uploader(key="file").set_value((name, data, "text/csv")).run()
    assert not uploading.exception
    assert any(said in error.value.lower() for error in uploading.error)
    assert "Choose data to begin" in _words(uploading)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("größe;gewicht\n1,5;2\n3,5;4\n".encode("latin-1"), ["größe", "gewicht"]),
        (b'"a, b";"c"\n"1";2\n3;4\n', ["a, b", "c"]),
        (b"a\tb\n1\t2\n3\t4\n", ["a", "b"]),
    ],
)
def test_awkward_files_are_read(uploading: AppTest, content: bytes, names: list[str]) -> None:
    uploading.file_uploader(key="file").set_value(("odd.csv", content, "text/csv")).run()
    assert not uploading.exception
    assert not uploading.error
    assert _columns(uploading).options == names


def _rows_of_people(n: int = 50) -> bytes:
    lines = (
        f"{i},{i * i % 7 + 0.5},{'oops' if i == 30 else i},*some*one,3,{i % 11},"
        f"{'' if i in (4, 9) else i / 3}"
        for i in range(n)
    )
    return ("nr,b,c,name,same,age,weight\n" + "\n".join(lines)).encode()


def test_columns_that_can_be_taken_as_they_are_come_first(uploading: AppTest) -> None:
    """The others are named with what is wrong, and the person decides."""
    file = ("people.csv", _rows_of_people(), "text/csv")
    uploading.file_uploader(key="file").set_value(file).run()
    assert not uploading.error
    assert _columns(uploading).options == ["nr", "b", "c", "name", "same", "age"]
    assert _columns(uploading).value == ["b", "age"]
    words = _words(uploading)
    for said in (
        "'nr' numbers rows or people",
        "'same' is always the same",
        "'c' mixes numbers and words",
        "'name' holds no numbers",
        "Only whole numbers in 'age'",
        "Read 50 rows: CSV with commas between cells",
    ):
        assert said in words
    _columns(uploading).set_value(["b", "c"]).run()
    assert "data row 31 (line 32) holds 'oops'" in uploading.error[0].value
    _columns(uploading).set_value(["nr", "b"]).run()
    assert not uploading.error
    assert "Column 'nr' counts rows or persons" in uploading.warning[0].value
    _columns(uploading).set_value([]).run()
    assert "at least one column" in _words(uploading)


def test_rows_with_gaps_are_dropped_only_on_request(uploading: AppTest) -> None:
    uploading.file_uploader(key="file").set_value(("p.csv", _rows_of_people(), "text/csv")).run()
    gaps = next(box for box in uploading.radio if box.label.endswith("gaps"))
    assert gaps.label == "'weight' has gaps"
    assert gaps.options == ["Leave out", "Drop 2 rows"]
    assert gaps.value == "Leave out"
    gaps.set_value("Drop 2 rows").run()
    assert not uploading.error
    assert _columns(uploading).value == ["b", "age", "weight"]
    assert "Read 48 rows, 2 with gaps dropped" in _words(uploading)
    # columns that have none keep every row
    _columns(uploading).set_value(["b", "age"]).run()
    assert "Read 50 rows: " in _words(uploading)


def test_a_file_without_names_is_read_on_request(uploading: AppTest) -> None:
    content = b"1;2\n3;4\n"
    uploading.file_uploader(key="file").set_value(("rows.csv", content, "text/csv")).run()
    assert "may be the first row of data" in uploading.error[0].value
    first, separator = (
        box for box in uploading.selectbox if box.label in ("First line", "Between cells")
    )
    first.set_value("A row of data").run()
    assert "No column holds numbers" in uploading.error[0].value
    separator.set_value("Semicolon").run()
    assert not uploading.error
    assert _columns(uploading).options == ["column 1", "column 2"]
    assert "Read 2 rows" in _words(uploading)


def test_one_changed_row_in_a_million_is_other_data() -> None:
    """No cache key is made from a sample of the content: what the page shows follows one row.

    With one component the fit without privacy is the mean of all rows, so one of a million rows
    moved by 1 must move the mean that the page's table shows by a millionth.
    """
    rows = np.random.default_rng(1).standard_normal((1_000_000, 2))
    app = _open(source="Upload", method="Paper", k="1")
    seen = []
    for change in (0.0, 1.0):
        rows[777_777, 1] += change
        buffer = io.BytesIO()
        pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), buffer)
        file = ("million.parquet", buffer.getvalue(), "application/octet-stream")
        app.file_uploader(key="file").set_value(file).run()
        assert not app.exception
        last = _shown(_press(app))
        table = app.dataframe[-1].value
        assert table["mixture"].tolist() == ["Non-private"]
        seen.append((last.settings.data, last.outcome, table.iloc[0]))
    (data, outcome, line), (other_data, other_outcome, other_line) = seen
    assert data != other_data
    assert other_line["mean a"] == pytest.approx(line["mean a"], abs=1e-12)
    assert other_line["mean b"] - line["mean b"] == pytest.approx(1e-6, rel=1e-6)
    # the curator's view: the block with the row has another fit, and no result is shared
    assert outcome is not other_outcome
    assert not np.array_equal(outcome.curator.fits.means, other_outcome.curator.fits.means)
    assert _spends(app) == 2


# Learners


@pytest.fixture
def shy(monkeypatch: pytest.MonkeyPatch) -> LearnerKind:
    """One more learner to choose: EM with a single start, said to take one component at most."""
    kind = LearnerKind("shy", "Shy", "Good at little.", 1, lambda k: EM(k, n_restarts=1))
    choices = {**LEARNERS, "shy": kind}
    for module in (learners, controls, explore, state):
        monkeypatch.setattr(module, "LEARNERS", choices)
        monkeypatch.setattr(module, "OFFERED", choices, raising=False)
    return kind


def test_every_learner_is_offered_with_what_it_is_good_at() -> None:
    app = _open(n="10,000")
    control = app.selectbox(key="learner")
    assert control.options == [kind.title for kind in OFFERED.values()]
    assert all(kind.good_at in control.help for kind in OFFERED.values())


def test_a_learner_with_too_many_components_is_fixed_by_a_click(shy: LearnerKind) -> None:
    for fix in ("fix_k", "fix_learner"):
        app = _open(n="10,000", method="Paper", learner=shy.title)
        assert "takes at most 1 component; you ask for 2" in _words(app)
        assert app.button(key="release").disabled
        app.button(key=fix).click().run()
        assert "takes at most" not in _words(app)
        assert not app.button(key="release").disabled
    assert app.selectbox(key="learner").value == "em"


def test_the_chosen_learner_fits_and_is_written_down(shy: LearnerKind) -> None:
    app = _press(_open(n="10,000", method="Paper", k="1", seeded="true", learner=shy.title))
    last = _shown(app)
    assert last.settings.learner == "shy"
    assert "make_learner('shy', plan.n_components)" in script(last.run)
    fitter = last.outcome.curator.view(AgreementView).learner
    assert isinstance(fitter, EM)
    assert fitter.n_restarts == 1
    (account,) = app.session_state["explore_ledgers"].values()
    ((receipt, _columns),) = account.receipts.values()
    assert receipt["learner"] == "shy"
    app.selectbox(key="learner").set_value("em").run()
    assert "belongs to earlier settings: learner was shy" in _words(app)
    assert _spends(app) == 1


def test_a_refusal_comes_with_a_hint_for_the_curator_alone(refused: AppTest) -> None:
    """The paper's constants refuse rows whose blocks agree: more rows would help, no other k."""
    hint = refused.session_state["explore_hint"]
    assert hint.job.problem(timeout=120) is None
    refused.run()
    words = _words(refused)
    assert "For the curator only" in words
    assert "confidential, not to be shared" in words
    assert escaped(str(hint.job.result())) in words
    assert hint.job.result() == _shown(refused).outcome.curator.hint()
    assert "hint" not in json.dumps(record(_shown(refused).outcome))


# Clouds, links, lessons, code


def test_cloud_comes_from_twins_and_costs_nothing(released: AppTest) -> None:
    before = _spends(released)
    released.segmented_control(key="twins").set_value(10).run()
    released.button(key="ghosts_start").click().run()
    cloud = released.session_state["explore_cloud"]
    assert isinstance(cloud, Cloud)
    assert cloud.job is not None
    assert cloud.job.problem(timeout=120) is None
    released.run()
    assert cloud.tried == 10
    assert f"Of 10 twins **{len(cloud.released)}** released" in _words(released)
    figure = json.loads(released.get("plotly_chart")[0].proto.spec)
    assert f"{len(cloud.released)} possible releases" in [line["name"] for line in figure["data"]]
    assert _spends(released) == before


def test_after_a_refusal_of_real_rows_there_is_nothing_to_draw_twins_from() -> None:
    app = _open(source="Upload")
    rows = np.random.default_rng(2).standard_normal((12_000, 2))
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), buffer)
    app.file_uploader(key="file").set_value(("r.parquet", buffer.getvalue(), "")).run()
    app.selectbox(key="method").set_value("paper").run()
    assert isinstance(_shown(_press(app)).outcome.result, Refusal)
    assert "no public mixture to draw twins from" in _words(app)
    assert "load_table" in script(_shown(app).run)
    assert "a" in _shown(app).run.rows.columns  # type: ignore[union-attr]  # a file's rows


def _address(app: AppTest) -> dict[str, str]:
    query = parse_qs(urlparse(app.code[0].value).query)
    return {name: values[0] for name, values in query.items()}


def test_the_link_restores_the_whole_state() -> None:
    given = {
        "source": "Generate",
        "kind": "Choose the separation…",
        "true_k": "3",
        "d": "4",
        "separation": "6.5",
        "n": "7,000",
        "data_seed": "11",
        "method": "Tight",
        "learner": "Maximum likelihood (EM)",
        "k": "3",
        "epsilon": "0.35",
        "delta": "10⁻⁸",
        "alpha": "0.3",
        "t": "123",
        "seeded": "true",
        "noise_seed": "99",
        "layers": "Block fits",
        "across": "x3",
        "up": "x1",
    }
    first = _open(**given)
    assert _address(first) == given
    again = _open(**_address(first))
    assert _address(again) == given
    assert again.number_input(key="noise_seed").value == 99
    assert again.slider(key="separation").value == 6.5


def test_nonsense_in_the_address_is_ignored() -> None:
    app = _open(epsilon="nine", n="12", method="Magic", k="999", source="Moon")
    assert app.select_slider(key="epsilon").value == controls.FIRST_EPSILON
    assert app.selectbox(key="method").value == DEFAULT_METHOD


def test_a_lesson_pins_its_question_and_takes_its_words_literally() -> None:
    app = _open(lesson="First", question="<script>x</script> Why?", epsilon="2", n="10,000")
    pinned = " ".join(part.proto.body for part in app.get("html"))
    assert "&lt;script&gt;x&lt;/script&gt; Why?" in pinned
    assert "<script>" not in pinned
    assert app.select_slider(key="epsilon").value == 2.0
    assert "10,000 rows (generated)" in _words(app)
    app.button(key="leave_lesson").click().run()
    assert "Why?" not in " ".join(part.proto.body for part in app.get("html"))
    assert app.select_slider(key="epsilon").value == 2.0


def test_lesson_links_are_made_on_the_page() -> None:
    app = _open(n="10,000")
    app.text_input(key="lesson_question").set_value("What & why?").run()
    query = parse_qs(urlparse(app.code[1].value).query)
    assert query["question"] == ["What & why?"]
    assert query["n"] == ["10,000"]
    assert query["data_seed"] == ["1"]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_ready_made_lessons_set_what_they_say(lesson: Any) -> None:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in lesson.values.items():
        app.query_params[name] = value
    if lesson.page:
        app.switch_page(f"pages/{lesson.page}.py")
    app.run()
    if lesson.page:
        # what is worked out beside the page may bring more controls
        PAGE_POOL.settle()
        app.run()
    here = _address(app)
    assert {name: here[name] for name in lesson.values} == dict(lesson.values)


def test_link_keeps_the_page() -> None:
    assert link_to("http://a:1/", {"e": "1"}) == "http://a:1/?e=1"
    assert link_to("http://a:1/Audit", {"e": "1"}) == "http://a:1/Audit?e=1"


def test_code_is_that_of_the_run(released: AppTest) -> None:
    """`test_notebook` executes it; here, that the page writes down what it did."""
    last = _shown(released)
    run = last.run
    assert run.rows == GeneratedRows("well_separated", 2, 2, 30_000, 1)
    assert run.request == last.settings.request
    assert run.plan() == last.outcome.result.plan
    assert (run.seed, run.rows.load()) == (0, last.chosen.dataset)
    labels = [button.proto.label for button in released.get("download_button")]
    assert labels == ["Record (JSON)", "Picture (HTML)", "Notebook", "Script"]


# Tables and words


def test_record_holds_nothing_but_what_may_be_shared(released: AppTest) -> None:
    shared = json.loads(json.dumps(record(_shown(released).outcome)))
    result = {"released", "seeded", "unit", "budget", "mixture", "plan"}
    free = {"misfit", "floored", "standard_errors", "expected_error", "resolution"}
    assert result <= shared.keys() <= result | free


def test_comparison_reads_back_and_matches() -> None:
    truth = random_mixture(3, 2, separation=6.0, condition=4.0, rng=1)
    other = Mixture(truth.weights, truth.means + 0.1, truth.covariances).permuted([2, 0, 1])
    table = comparison_table({"True": truth, "Private": other}, truth, ("a", "b"))
    mine = table[table["mixture"] == "Private"]
    assert mine["component"].tolist() == [1, 2, 3]
    assert mine["mean b"].tolist() == pytest.approx((truth.means[:, 1] + 0.1).tolist())
    assert mine["error"].max() == pytest.approx(dist_gmm(other, truth))
    assert table[table["mixture"] == "True"]["error"].isna().all()
    rebuilt = table["sd a"] * table["sd b"] * table["correlation"]
    covariance = np.repeat(truth.covariances[:, 0, 1], 2)
    assert rebuilt.to_numpy() == pytest.approx(covariance)
    lone = comparison_table({"x": random_mixture(1, 3, rng=1)}, truth, ("a", "b", "c"))
    assert "correlation" not in lone
    assert lone["error"].isna().all()


def test_matching_undoes_a_shuffle() -> None:
    truth = random_mixture(4, 3, rng=2)
    partner, errors = matched(truth.permuted([3, 1, 0, 2]), truth)
    assert partner.tolist() == [3, 1, 0, 2]
    assert errors == pytest.approx(np.zeros(4), abs=1e-12)


def test_error_needs_equal_numbers_of_components() -> None:
    two, three = random_mixture(2, 2, rng=1), random_mixture(3, 2, rng=1)
    assert error_of(two, two) == pytest.approx(0.0, abs=1e-12)
    assert error_of(two, three) is None


def test_settings_name_what_changed() -> None:
    data = load_sample("old_faithful")
    request = PlanRequest(
        n_components=2, n_features=2, n_rows=data.n_rows, method="paper", mask_accuracy=0.5
    )
    first = Settings(data.fingerprint, data.name, request, None)
    second = Settings("other", "other", request.but(epsilon=2.0, n_blocks=50), None)
    assert first.changes_since(first) == []
    assert second.changes_since(first) == ["data was old_faithful", "ε was 1.0", "blocks was auto"]
    assert second.run(SampleRows("old_faithful")).request == second.request
    third = Settings(
        data.fingerprint,
        data.name,
        request.but(method="lifted", delta=1e-7, mask_accuracy=None, n_components=3, n_rows=99),
        7,
        "moments",
    )
    assert third.changes_since(first) == [
        "method was paper",
        "learner was em",
        "δ was 1e-06",
        "mask accuracy was 0.5",
        "components was 2",
        "noise seed was auto",
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (12.2, "13"),
        (31_234, "31,200"),
        (999_999, "1,000,000"),
        (2.49e6, "2.49 million"),
        (996e6, "996 million"),
        (3e8, "300 million"),
        (4.06e18, "4.06 × 10¹⁸"),
        (9.99e20, "9.99 × 10²⁰"),
        (float("inf"), "no finite number of"),
    ],
)
def test_counts_in_words(number: float, words: str) -> None:
    assert count_in_words(number) == words


def test_comparison_in_words() -> None:
    assert times_short(100, 200).startswith("fewer than there are")
    assert times_short(500, 200) == "2.5 times the rows at hand"
    assert times_short(4e18, 100_000) == "40 trillion times the rows at hand"


def test_markdown_from_outside_is_disarmed() -> None:
    assert escaped("![x](http://y) :red[z]") == r"!\[x\](http\://y) \:red\[z\]"


@pytest.mark.parametrize("spreads", [0.5, 4.0, 9.0])
def test_spreads_apart_inverts_the_lifted_distance(spreads: float) -> None:
    """Against the lifted matrices themselves: w [[S + m m^T, m], [m^T, 1]], d = 2."""
    mean = np.array([spreads, 0.0])
    column = np.append(mean, 1.0)
    second = np.outer(column, column) + np.diag([1.0, 1.0, 0.0])
    distance = np.linalg.norm(np.log(np.linalg.eigvalsh(second)))
    assert spreads_apart(float(distance)) == pytest.approx(spreads)


# A method whose plans may have no blocks


@pytest.fixture
def sketched(seeded_once: None) -> AppTest:
    """A sketch of few rows."""
    return _press(_open(method="Sketch", n="2,000", seeded="true"))


def _without_lessons(words: str) -> str:
    """What is said of the release on display."""
    rehearsal_of = {lesson.question for lesson in LESSONS}
    # the knob t says that this frame takes none
    return "\n".join(
        line
        for line in words.splitlines()
        if line not in rehearsal_of and "&lesson=" not in line and "no blocks" not in line
    )


def test_a_sketch_of_few_rows_is_released_without_a_word_on_blocks(sketched: AppTest) -> None:
    result = _shown(sketched).outcome.result
    assert isinstance(result, Release)
    assert blocks_of(result.plan) is None
    words = _words(sketched)
    assert "Released." in words
    assert "A mixture of 2 Gaussians explains the rows" in words
    assert "whether such a mixture explains the rows" in words
    assert "counts and sums before their noise" in words
    # the knob t says that there are none, and nothing else speaks of them
    of_knob = "no blocks in this frame|This frame takes no blocks: it counts rows in bins"
    assert "blocks" not in re.sub(of_knob, "", _without_lessons(words))
    assert "spreads apart" not in words


def _table(app: AppTest, column: str) -> pd.DataFrame:
    """The table that has a column of that name."""
    (found,) = (table.value for table in app.dataframe if column in table.value)
    return found


def _layers(app: AppTest) -> Any:
    return next(group for group in app.get("button_group") if group.key == "layers")


def test_standard_errors_are_shown_and_can_be_hidden(sketched: AppTest) -> None:
    """Beside the numbers of the release, and as a band in the picture; one switch for both."""
    result = _shown(sketched).outcome.result
    assert isinstance(result, Release)
    errors = result.standard_errors
    assert errors is not None
    table = _table(sketched, "mixture")
    mine = table[table["mixture"] == "Private release"]
    np.testing.assert_allclose(np.sort(mine["± weight"]), np.sort(errors.weights))
    np.testing.assert_allclose(np.sort(mine["± mean x1"]), np.sort(errors.means[:, 0]))
    assert table[table["mixture"] == "True"]["± weight"].isna().all()
    assert "± are standard errors" in _words(sketched)
    _layers(sketched).set_value([]).run()
    assert not any("±" in str(name) for name in _table(sketched, "mixture"))
    assert _shown(sketched).outcome.result is result
    _layers(sketched).set_value([BANDS]).run()
    assert not sketched.exception


def test_the_number_of_components_may_be_left_open() -> None:
    """What was tried is shown, the release has what was chosen, and nothing is drawn again."""
    app = _open(
        method="Sketch", n="3,000", d="1", auto_k="true", most_k="3", seeded="true", noise_seed="1"
    )
    assert not [widget for widget in app.number_input if widget.key == "k"]
    _press(app)
    result = _shown(app).outcome.result
    assert isinstance(result, Release)
    assert result.choice is not None
    assert result.choice.max_components == 3
    assert result.mixture.n_components == result.choice.n_components == 2
    table = _table(app, "chosen")
    assert table["components"].tolist() == [one.n_components for one in result.choice.tried]
    assert table["chosen"].tolist().index("✓") == 1
    assert table["criterion"].min() == 0
    words = _words(app)
    assert "2 components chosen" in words
    assert "how the number of components was chosen" in words
    assert 'n_components="auto"' in script(_shown(app).run)
    app.run()
    assert _shown(app).outcome.result is result
    # with another method the choice is gone, and the result is said to be of earlier settings
    app.selectbox(key="method").set_value("lifted").run()
    assert not [widget for widget in app.toggle if widget.key == "auto_k"]
    assert "components was up to 3" in _words(app)


def test_a_sketch_of_many_rows_that_overlap_is_released() -> None:
    app = _press(_open(method="Sketch", kind="Overlapping", n="30,000", seeded="true"))
    shown = _shown(app)
    assert isinstance(shown.outcome.result, Release)
    assert blocks_of(shown.outcome.result.plan) is None
    words = _words(app)
    assert "expect a refusal" not in words
    assert "blocks" not in _without_lessons(words)
    assert shown.run.plan() == shown.outcome.result.plan


def test_a_sketch_of_rows_that_are_no_mixture_says_so() -> None:
    """Rows of two rings, as an upload would bring them."""
    rng = np.random.default_rng(1)
    angle, ring = rng.uniform(0, 2 * np.pi, 20_000), rng.choice([1.0, 3.0], 20_000)
    table = pa.table({"x": ring * np.cos(angle), "y": ring * np.sin(angle)})
    file = io.BytesIO()
    pq.write_table(table, file)
    app = _open(source="Upload", method="Sketch", seeded="true")
    app.file_uploader(key="file").set_value(("rings.parquet", file.getvalue(), "")).run()
    _press(app)
    result = _shown(app).outcome.result
    assert isinstance(result, Release)
    assert result.misfit is not None
    assert result.misfit > MISFIT
    assert "A mixture of 2 Gaussians does not explain these rows." in _words(app)


def test_a_sketch_is_written_down_and_makes_twins(sketched: AppTest) -> None:
    shown = _shown(sketched)
    names: dict[str, Any] = {}
    exec(compile(script(shown.run), "run.py", "exec"), names)
    (again,) = (value.result for value in names.values() if isinstance(value, Outcome))
    assert isinstance(shown.outcome.result, Release)
    assert isinstance(again, Release)
    assert again.mixture == shown.outcome.result.mixture
    sketched.segmented_control(key="twins").set_value(10)
    sketched.button(key="ghosts_start").click().run()
    cloud = sketched.session_state["explore_cloud"]
    assert isinstance(cloud, Cloud)
    assert cloud.job is not None
    assert cloud.job.problem(timeout=120) is None
    sketched.run()
    assert not sketched.exception
    assert cloud.tried == 10
    assert "Of 10 twins" in _words(sketched)


def test_a_refused_sketch_says_why_and_gives_the_curator_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # rehearsals that other tests asked for are not to be refused
    rehearsal.ON_SCREEN.settle()
    nothing = Bottom("Column {column} shows no width.", 0)
    monkeypatch.setattr(PreparedHistogramFrame, "_scales", lambda *_: nothing)
    app = _settled(_press(_open(method="Sketch", n="2,000", seeded="true", noise_seed="31")))
    result = _shown(app).outcome.result
    assert isinstance(result, Refusal)
    assert "Refused: that is the guarantee at work.** Column 'x1' shows no width." in _words(app)
    hint = app.session_state["explore_hint"].job.result(120)
    assert hint == _shown(app).outcome.curator.hint()
    words = _words(app.run())
    assert "For the curator only" in words
    assert escaped(hint) in words
    assert "blocks" not in _without_lessons(words)


def test_progress_of_a_sketch_does_not_speak_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in ("2,000", "30,000"):
        told: list[str] = []
        monkeypatch.setattr(JobControl, "report", lambda _, *said, told=told: told.append(said[2]))
        _press(_open(method="Sketch", n=n))
        told = [text for text in told if text not in ("", "Planning…")]
        assert told[0] == "Counting rows…"
        assert told[-2:] == [
            "Drawing the noise and finding the mixture…",
            "Fitting all rows without privacy, to compare…",
        ]


def test_few_rows_are_pointed_to_the_method_that_passes() -> None:
    app = _settled(_open(n="5,000", method="Lifted"))
    assert app.button(key="fix_method").label == "Use Sketch"
    app.button(key="fix_method").click().run()
    assert app.selectbox(key="method").value == "sketch"
    assert re.search(LIKELY, _words(_settled(app)))


def test_a_sketch_with_blocks_of_ones_own() -> None:
    """Few rows: the method would take a frame without blocks. Many: blocks as asked."""
    few = _settled(_open(method="Sketch", n="2,000", t="900"))
    assert few.button(key="fix_method").label == "Let the method choose"
    request = PlanRequest(
        n_components=2,
        n_features=2,
        n_rows=30_000,
        method="sketch",
        mask_accuracy=1.0,
        n_blocks=300,
    )
    _feasibility(request)
    PLAN_POOL.settle()
    known = _feasibility(request)
    assert known.plan is not None
    assert known.plan.stage(Agreement).n_blocks == 300
    assert known.enough is (known.needed is not None and known.needed <= request.rows)


def test_a_small_sample_can_be_sketched_with_a_large_budget() -> None:
    app = _press(
        _open(source="Sample", sample="Old faithful", method="Sketch", epsilon="8", seeded="true")
    )
    assert blocks_of(_shown(app).outcome.result.plan) is None
