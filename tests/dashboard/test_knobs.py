"""The four knobs in sight, each with what it means here, and the header with what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.budget import Budget
from privgmm.dashboard.explore.picture import BLOCK_FITS, FIRST_LAYERS
from privgmm.dashboard.shared.accounts import DataAccount
from privgmm.dashboard.shared.answers import PLAN_POOL
from privgmm.dashboard.shared.layout import PAGES
from privgmm.dashboard.shared.spent import spent_on
from privgmm.data.datasets import load_sample
from privgmm.ledger.memory import MemoryBook
from privgmm.methods import registry
from privgmm.methods.planner import best_plan
from privgmm.releases import release
from privgmm.teaching.rehearsal import DELTA_STOPS

APP = str(Path(__file__).resolve().parents[2] / "app.py")


def _open(**parameters: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in parameters.items():
        app.query_params[name] = value
    return _settled(app)


def _settled(app: AppTest) -> AppTest:
    for _ in range(2):
        app.run()
        PLAN_POOL.settle()
    app.run()
    assert not app.exception
    return app


def _captions(app: AppTest) -> str:
    return "\n".join(str(part.value) for part in app.main.caption)


def test_every_knob_is_a_line_that_says_what_it_means() -> None:
    app = _open()
    labels = {key: app.button(key=f"knob_{key}").label for key in ("delta", "alpha", "t")}
    assert labels == {"delta": "δ = 10⁻⁶", "alpha": "α = 0.2", "t": "t"}
    words = _captions(app)
    assert "far below 1 in 3,000 rows" in words
    assert "no blocks in this frame" in words


def test_a_knob_that_is_opened_turns_its_layer_on() -> None:
    app = _open()
    assert list(app.session_state["layers"]) == list(FIRST_LAYERS)
    app.button(key="knob_t").click().run()
    assert BLOCK_FITS in app.session_state["layers"]
    assert app.session_state["knob"] == "t"
    app.button(key="knob_t").click().run()
    assert app.session_state["knob"] is None


def test_methods_with_blocks_are_one_click_away() -> None:
    app = _open(n="100,000", epsilon="8")
    offered = [method for method in registry.all_methods() if not method.publishes_sketch]
    if "no blocks in this frame" in _captions(app):
        app.button(key=f"fix_t_{offered[0].name}").click()
    else:
        app.selectbox(key="method").set_value(offered[0].name)
    words = _captions(_settled(app.run()))
    assert "rows per block" in words
    assert "takes no blocks" not in words


def test_a_delta_that_is_too_large_is_mended_in_a_click() -> None:
    app = _open(source="Sample", sample="Old faithful", delta="10⁻⁴", epsilon="8")
    assert "too large" not in _captions(app)
    app = _open(n="20,000", delta="10⁻⁴", epsilon="8")
    assert "too large for 20,000 rows" in _captions(app)
    assert any("δ = 10⁻⁴ is no less than one over the 20,000 rows" in w.value for w in app.warning)
    app.button(key="fix_delta").click().run()
    assert app.select_slider(key="delta").value in DELTA_STOPS[: DELTA_STOPS.index(1e-4)]
    assert "too large" not in _captions(app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.label)
def test_the_header_of_every_page_says_what_was_spent(page: Any) -> None:
    app = AppTest.from_file(APP, default_timeout=120).run()
    if page.path != "app.py":
        app.switch_page(page.path).run()
    assert not app.exception
    (bar,) = [part for part in app.main.get("html") if "privgmm-budget" in part.proto.body]
    assert "ε used: 0" in bar.proto.body
    assert "width: 0%" in bar.proto.body


def test_the_header_moves_with_every_answer() -> None:
    data, book = load_sample("old_faithful"), MemoryBook()
    account = DataAccount("geyser", data.fingerprint, book, lasting=False)
    plan = best_plan(data.n_rows, epsilon=8.0, delta=1e-6, n_components=2, n_features=2)
    shares, words = [spent_on(account).share], []
    for _ in range(2):
        release(data.rows, plan, ledger=account.ledger())
        spent = spent_on(account)
        shares.append(spent.share)
        words.append(spent.words)
    assert shares[0] == 0.0 < shares[1] < shares[2] <= 1.0
    standing = account.ledger().standing()
    assert standing.total is not None
    assert standing.ceiling is not None
    assert f"attacker right: {standing.ceiling:.0%}" in words[-1]
    capped = DataAccount("capped", "a" * 32, book, lasting=False)
    capped.ledger(cap=Budget(16.0, 1e-3))
    release(data.rows, plan, ledger=capped.ledger())
    first = capped.ledger().standing().total
    assert first is not None
    assert spent_on(capped).share == pytest.approx(first.epsilon / 16.0)


def test_nothing_was_spent_where_no_table_is_in_use() -> None:
    assert spent_on(None).share == 0.0
