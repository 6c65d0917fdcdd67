"""The page Ledger: what was spent is there, once, and a cap holds."""

from __future__ import annotations

import gc
import io
import json
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.budget import Budget, percent_at_most
from privgmm.dashboard.explore.release_job import Running
from privgmm.dashboard.ledger import page as spending
from privgmm.dashboard.shared.accounts import DataAccount
from privgmm.data.fingerprint import file_fingerprint
from privgmm.ledger.memory import MemoryBook
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.privacy.composition import added, told_apart
from privgmm.records.receipt import verify_receipt
from privgmm.teaching.format import number_in_words

ROOT = Path(__file__).resolve().parents[2]
APP = str(ROOT / "app.py")
LEDGER = "pages/Ledger.py"


def _box(app: AppTest, starts: str) -> Any:
    return next(box for box in app.multiselect if str(box.key).startswith(starts))


def open_app(**parameters: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def press(app: AppTest) -> AppTest:
    app.button(key="release").click().run()
    if "explore_running" in app.session_state:
        running = app.session_state["explore_running"]
        assert isinstance(running, Running)
        running.job.problem(timeout=120)
        app.run()
    assert not app.exception
    return app


def turn_to(app: AppTest, page: str) -> AppTest:
    app.switch_page(page).run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    parts = [*app.info, *app.success, *app.warning, *app.error, *app.markdown, *app.caption]
    return "\n".join(str(part.value) for part in parts)


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def the_account(app: AppTest) -> DataAccount:
    (found,) = app.session_state["explore_ledgers"].values()
    assert isinstance(found, DataAccount)
    return found


def downloads(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str | bytes]:
    """Everything the page offers, as its buttons would give it."""
    given: dict[str, str | bytes] = {}

    def take(place: Any, label: str, name: str, write: Any) -> None:
        given[label] = write()

    monkeypatch.setattr(spending, "_download", take)
    app.run()
    assert not app.exception
    return given


@pytest.fixture
def spent(seeded_once: None) -> AppTest:
    """A refusal and a release from the same generated rows, then the page."""
    app = press(
        open_app(method="Paper", kind="Well separated", n="30,000", epsilon="8", seeded="true")
    )
    app.selectbox(key="method").set_value("lifted").run()
    return turn_to(press(app), LEDGER)


def test_cold_there_is_an_explanation_and_a_way_to_begin() -> None:
    app = turn_to(AppTest.from_file(APP, default_timeout=120), LEDGER)
    assert "no account to show" in words(app)
    assert "Why a refusal costs too" in words(app)
    assert "Why the total is less than the sum" in words(app)
    assert not app.metric
    assert not app.dataframe


def test_chosen_data_without_spends_has_an_empty_account() -> None:
    app = turn_to(open_app(n="10,000"), LEDGER)
    assert "Nothing has been spent on these rows" in words(app)
    assert "10,000 generated rows" in words(app)
    assert not app.dataframe


def test_every_spend_is_there_with_both_totals(spent: AppTest) -> None:
    (table,) = (frame.value for frame in spent.dataframe)
    assert table["Answer"].tolist() == ["Refused", "Released"]
    assert table["Method"].tolist() == ["Paper", "Lifted"]
    first, second = the_account(spent).entries
    assert table["ε"].tolist() == pytest.approx(
        [first.budget.epsilon, second.budget.epsilon], rel=1e-3
    )
    assert table["Noise"].tolist() == ["from a seed: no protection"] * 2
    assert table["When"].is_monotonic_increasing
    ledger = the_account(spent).ledger()
    both = ledger.standing().total
    assert both is not None
    assert metrics(spent) == {
        "Together": f"ε = {number_in_words(both.epsilon)}",
        "Sum of the parts": f"ε = {number_in_words(added(ledger.spends()).epsilon)}",
        "Guessed right": f"≤ {percent_at_most(told_apart(ledger.spends()).ceiling)}",
        "Answers": "2",
    }
    assert len(spent.get("plotly_chart")) == 1
    # compared at one delta, which is said
    assert len({metric.delta for metric in spent.metric[:2]}) == 1
    assert str(spent.metric[0].delta) == f"at δ = {number_in_words(both.delta, 3)}"
    # why the first was charged less than the 8 it was given
    assert "never uses more than ε = 0.4621" in words(spent)


def test_a_rerun_adds_nothing(spent: AppTest) -> None:
    before = the_account(spent).entries
    spent.run()
    turn_to(spent, APP)
    turn_to(spent, LEDGER)
    assert the_account(spent).entries == before
    assert len(before) == 2


def test_what_is_taken_home_proves_itself_and_names_no_data(
    spent: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = downloads(spent, monkeypatch)
    account = the_account(spent)
    assert verify_receipt(given["Receipt (JSON)"]).intact
    assert json.loads(given["Receipt (JSON)"])["released"] is True
    archive = zipfile.ZipFile(io.BytesIO(bytes(given["All receipts (ZIP)"])))  # type: ignore[arg-type]
    checked = [verify_receipt(archive.read(name)) for name in archive.namelist()]
    assert [(found.intact, found.seeded) for found in checked] == [(True, True)] * 2
    bundle = zipfile.ZipFile(io.BytesIO(bytes(given["Bundle (ZIP)"])))  # type: ignore[arg-type]
    assert bundle.read("receipt.json").decode() == given["Receipt (JSON)"]
    told = json.loads(given["Ledger (JSON)"])
    assert [row["number"] for row in told["spends"]] == [1, 2]
    assert told["standing"]["spends"] == 2
    assert len(str(given["Ledger (CSV)"]).splitlines()) == 3
    for content in (given["Ledger (JSON)"], given["Ledger (CSV)"], given["Receipt (JSON)"]):
        assert account.fingerprint not in str(content)
        assert account.ledger().standing().account not in str(content)


def test_a_refusal_has_a_receipt_but_no_bundle(
    spent: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent.selectbox(key="receipt_of").set_value(1).run()
    given = downloads(spent, monkeypatch)
    assert json.loads(given["Receipt (JSON)"])["refusal"]["reason"]
    assert verify_receipt(given["Receipt (JSON)"]).intact
    assert "Bundle (ZIP)" not in given


def ask_for_cap(app: AppTest) -> None:
    """As the form's button does, or Enter in one of its fields."""
    (button,) = (one for one in app.button if one.label == "Set this cap…")
    button.click().run()
    assert not app.exception


def test_a_cap_below_what_is_spent_is_warned_of() -> None:
    app = turn_to(press(open_app(n="10,000", epsilon="4", method="Paper")), LEDGER)
    app.number_input(key="cap_epsilon").set_value(0.1)
    ask_for_cap(app)
    assert "no further release will be possible" in words(app)


def test_a_cap_is_kept_and_forbids_what_would_pass_it() -> None:
    app = turn_to(press(open_app(n="10,000", epsilon="4", method="Paper")), LEDGER)
    before = the_account(app).entries
    cap = round(1.5 * before[0].budget.epsilon, 2)
    app.number_input(key="cap_epsilon").set_value(cap)
    ask_for_cap(app)
    # not without asking: Enter in a field is pressed easily
    assert the_account(app).ledger().cap is None
    assert f"Set the cap ε = {cap:g}, δ = 10⁻⁵ for good?" in words(app)
    app.button(key="cap_not").click().run()
    assert the_account(app).ledger().cap is None
    app.number_input(key="cap_epsilon").set_value(cap)
    ask_for_cap(app)
    app.button(key="cap_set").click().run()
    assert not app.exception
    left = the_account(app).ledger().standing().remaining
    assert left is not None
    assert left.epsilon < before[0].budget.epsilon
    assert metrics(app)["Left under the cap"] == f"ε = {number_in_words(left.epsilon)}"
    # the total at the delta of the cap, and the sum held against the same
    at = the_account(app).ledger().total(1e-5)
    assert at is not None
    assert metrics(app)["Together"] == f"ε = {number_in_words(at.epsilon)}"
    assert {str(metric.delta) for metric in app.metric[:2]} == {"at δ = 10⁻⁵"}
    assert metrics(app)["More like the last"] == "0"
    assert f"Cap: ε = {cap:g}" in words(app)
    shown = app.session_state["explore_shown"]
    press(turn_to(app, APP))
    assert "Nothing was drawn and nothing spent" in words(app)
    assert "beyond what its cap" in words(app)
    assert "The cap leaves" in words(app)
    assert app.session_state["explore_shown"] is shown
    assert the_account(app).entries == before
    assert the_account(app).ledger().cap == Budget(cap, 1e-5)


def table_of(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(8_000, 2)) + 30 * rng.integers(0, 2, 8_000)[:, None]
    return ("a,b\n" + "\n".join(f"{x:.3f},{y:.3f}" for x, y in rows)).encode()


def upload(content: bytes, name: str = "people.csv") -> AppTest:
    app = open_app(source="Upload", method="Paper", epsilon="4")
    app.file_uploader(key="file").set_value((name, content, "text/csv")).run()
    assert not app.exception
    return app


def test_an_upload_meets_its_account_in_another_session_whatever_its_name_and_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(path))
    content, other = table_of(1), table_of(2)
    press(upload(content))
    (row,) = SQLiteBook(path).export()
    assert row["label"] == "people.csv"
    assert file_fingerprint(content).encode() not in path.read_bytes()
    again = upload(content, "renamed.csv")
    _box(again, "columns_").set_value(["b"]).run()
    assert "1 release so far; ε used: " in words(again)
    turn_to(again, LEDGER)
    assert len(again.dataframe[0].value) == 1
    assert "kept on this machine" in words(again)
    # its receipt is with the session that made it
    assert "Receipts of this session" not in words(again)
    stranger = turn_to(upload(other), LEDGER)
    assert "Nothing has been spent on these rows" in words(stranger)
    assert "people" not in "".join(str(box.options) for box in stranger.selectbox)
    # a cap set by another process holds here
    SQLiteBook(path).open(file_fingerprint(content), cap=Budget(0.25, 1e-5))
    assert "Cap: ε = 0.25" in words(again.run())
    # the upload and the columns chosen of it outlive a look at another page
    turn_to(again, APP)
    assert "In use: renamed.csv" in words(again)
    assert _box(again, "columns_").value == ["b"]
    press(again)
    assert "beyond what its cap" in words(again)
    assert len(SQLiteBook(path).export()) == 1
    again.button(key="forget").click().run()
    assert "In use" not in words(again)
    assert any("Choose data to begin" in part.proto.body for part in again.main.get("html"))


def test_columns_of_whole_numbers_get_public_noise_and_the_receipt_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    app = upload(table_of(4))
    _box(app, "whole_").set_value(["b"]).run()
    assert not app.exception
    account = the_account(press(app))
    ((receipt, columns),) = account.receipts.values()
    assert columns == ("a", "b")
    assert receipt["jitter"] == [0.0, 1.0]
    assert verify_receipt(receipt)
    shown = app.session_state["explore_shown"]
    assert shown.chosen.rows.jitter == (("b", 1.0),)
    # a column that is not used needs none
    _box(app, "columns_").set_value(["a"]).run()
    assert not app.exception
    ((receipt, _),) = list(the_account(press(app)).receipts.values())[1:]
    assert receipt["jitter"] is None


def test_without_a_ledger_nothing_can_be_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "ledger.sqlite"
    broken.write_text("this is no database, whatever its name may say" * 30)
    monkeypatch.setenv("PRIVGMM_LEDGER", str(broken))
    app = upload(table_of(3))
    assert "is not a ledger" in words(app)
    assert "release" not in [button.key for button in app.button]


def test_the_accounts_of_a_session_are_told_apart_and_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    app = press(open_app(n="10,000", method="Paper"))
    app.select_slider(key="n").set_value(30_000).run()
    turn_to(app, LEDGER)
    box = app.selectbox(key="ledger_account")
    assert box.options == ["1 · 30,000 generated rows", "2 · 10,000 generated rows"]
    assert "Nothing has been spent" in words(app)
    box.set_value(1).run()
    assert len(app.dataframe[0].value) == 1
    # in memory alone: nothing of it is left when the session is
    books = {account.book for account in app.session_state["explore_ledgers"].values()}
    assert [type(book) for book in books] == [MemoryBook]
    assert list(tmp_path.iterdir()) == []
    book = weakref.ref(books.pop())
    del app, box
    gc.collect()
    assert book() is None
