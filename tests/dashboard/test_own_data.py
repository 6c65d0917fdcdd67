"""A visitor's own table: whose rows they are, what to know before paying, how it opens."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.explore import rehearsal
from privgmm.dashboard.shared.answers import PLAN_POOL
from privgmm.dashboard.shared.state import Shown
from privgmm.records.notebook import GeneratedRows, script
from privgmm.records.receipt import verify_receipt

APP = str(Path(__file__).resolve().parents[2] / "app.py")


def _visits(n: int = 4_000, persons: int = 2_500) -> bytes:
    """Two groups, several rows a person, a column with far tails and one with a heap."""
    generator = np.random.default_rng(5)
    left = generator.random(n) < 0.5
    table = {
        "patient_id": generator.integers(0, persons, n),
        "height": np.where(left, -4.0, 4.0) + generator.standard_normal(n),
        "weight": np.where(left, 3.0, -3.0) + generator.standard_normal(n),
        "cost": np.exp(1.7 * generator.standard_normal(n)),
        "nights": np.where(generator.random(n) < 0.3, 0.0, generator.normal(5.0, 1.0, n)),
    }
    buffer = io.BytesIO()
    pd.DataFrame(table).to_csv(buffer, index=False)
    return buffer.getvalue()


def _with_file(name: str, content: bytes, **parameters: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for key, value in {"source": "Upload", **parameters}.items():
        app.query_params[key] = value
    app.run()
    app.file_uploader(key="file").set_value((name, content, "text/csv")).run()
    return _settled(app)


def _settled(app: AppTest) -> AppTest:
    for _ in range(3):
        PLAN_POOL.settle()
        rehearsal.ON_SCREEN.settle()
        app.run()
    assert not app.exception
    return app


def _words(app: AppTest) -> str:
    parts = [*app.main.warning, *app.main.error, *app.main.markdown, *app.main.caption]
    drawn = [re.sub("<[^>]*>", " ", part.proto.body) for part in app.main.get("html")]
    return "\n".join([*(str(part.value) for part in parts), *drawn])


def _choose(app: AppTest, names: list[str]) -> AppTest:
    (box,) = [one for one in app.multiselect if one.label == "Columns to use"]
    box.set_value(names).run()
    return app


def test_a_workbook_is_refused_with_what_to_do() -> None:
    app = _with_file("people.xlsx", b"PK\x03\x04 and more")
    assert "save the sheet as CSV" in app.error[0].value
    assert "people.xlsx" in app.error[0].value


def test_the_persons_are_asked_for_first_and_protected() -> None:
    app = _with_file("visits.csv", _visits(), epsilon="8")
    (unit,) = [one for one in app.radio if one.label == "What is a row?"]
    assert unit.value == "One row per person"
    repeats = re.compile(r"Values of 'patient\\?_id' repeat")
    assert repeats.search(_words(app))
    unit.set_value("A column names the person").run()
    (naming,) = [one for one in app.selectbox if one.label == "Column that names the person"]
    assert naming.value == "patient_id"
    (columns,) = [one for one in app.multiselect if one.label == "Columns to use"]
    assert "patient_id" not in columns.options
    _settled(_choose(app, ["height", "weight"]))
    words = _words(app)
    assert not repeats.search(words)
    assert re.search(r"An answer needs about [\d,.]+ persons; you have", words)
    app.button(key="release").click().run()
    app.session_state["explore_running"].job.problem(timeout=120)
    app.run()
    assert not app.exception
    last = app.session_state["explore_shown"]
    assert isinstance(last, Shown)
    assert last.outcome.result.unit == "person"
    persons = pd.read_csv(io.BytesIO(_visits()))["patient_id"].nunique()
    assert last.settings.request.n_rows == last.chosen.n_persons == persons
    (account,) = app.session_state["explore_ledgers"].values()
    assert account.entries[-1].unit == "person"
    ((receipt, _),) = account.receipts.values()
    assert verify_receipt(receipt)
    assert receipt["neighbours"]["unit"] == "person"
    # the columns were chosen by hand this time
    assert "columns_preselected" not in receipt["reading"]
    assert "groups=persons" in script(last.run)
    compile(script(last.run), "script", "exec")


def test_columns_that_the_page_proposed_are_said_to_be_so() -> None:
    rows = np.random.default_rng(1).normal(5.0, 1.0, (3_000, 2))
    content = "a,b\n" + "\n".join(f"{x:.5f},{y:.5f}" for x, y in rows)
    app = _with_file("two.csv", content.encode(), epsilon="8", k="1")
    assert "Columns without gaps or words were proposed here" in _words(app)
    app.button(key="release").click().run()
    app.session_state["explore_running"].job.problem(timeout=120)
    app.run()
    (account,) = app.session_state["explore_ledgers"].values()
    ((receipt, _),) = account.receipts.values()
    assert receipt["reading"]["columns_preselected"] is True
    assert verify_receipt(receipt)


def test_an_upload_is_rehearsed_on_stand_ins_that_are_said_to_be_such() -> None:
    # rows of its own: the machine's ledger keeps what other tests spent
    app = _with_file("visits.csv", _visits(4_001), epsilon="3")
    _settled(_choose(app, ["height", "weight"]))
    words = _words(app)
    assert "Rehearsal on stand-ins: nothing spent" in words
    assert "Stand-ins, not your rows" in words
    assert "The picture shows stand-ins, not your rows." in words
    assert "Stand-ins for your rows, four promises" in words
    assert "The same people" not in words
    kept = app.session_state["explore_rehearsed"]
    assert kept.setup.rows == GeneratedRows("well_separated", 2, 2, 4_001, 1)
    app.segmented_control(key="before_paying").set_value("Your rows").run()
    assert "Nothing has been published" in _words(app)
    assert all(not account.entries for account in app.session_state["explore_ledgers"].values())


def test_tails_and_heaps_are_shown_to_the_curator_with_what_to_do() -> None:
    words = _words(_with_file("visits.csv", _visits(), epsilon="8"))
    assert re.search(r"\*\*cost\*\*: one row in a hundred lies \d+ spreads or more", words)
    assert re.search(r"\*\*nights\*\*: one value fills \d+% of the rows", words)
    assert "**height**: one" not in words
    assert "for the curator only" in words


@pytest.mark.parametrize("linked", [False, True])
def test_a_small_table_opens_with_a_release_unless_a_link_says_otherwise(*, linked: bool) -> None:
    rows = np.random.default_rng(2).normal(9.0, 1.0, (300, 2))
    content = "a,b\n" + "\n".join(f"{x:.5f},{y:.5f}" for x, y in rows)
    app = _with_file("few.csv", content.encode(), **({"epsilon": "0.4"} if linked else {}))
    epsilon = float(app.session_state["epsilon"])
    if linked:
        assert epsilon == 0.4
        return
    assert epsilon > 0.4
    assert f"Opened at ε = {epsilon:g}" in _words(app)
    assert re.search(r"Chance of a release: (over 99|9[5-9])%", _words(app))
