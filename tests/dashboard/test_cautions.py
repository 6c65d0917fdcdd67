"""What Explore warns of before anything is spent: weak promises, and accounts that look alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.data.fingerprint import file_fingerprint
from privgmm.ledger.sqlite import SQLiteBook
from tests.dashboard.test_ledger import open_app, press, table_of, upload


def warned(app: AppTest) -> str:
    return "\n".join(str(part.value).replace("\\", "") for part in app.warning)


def test_a_weak_promise_is_called_one() -> None:
    app = open_app(n="10,000", epsilon="1", delta="1e-06")
    assert "promises little" not in warned(app)
    assert "1/10,000" not in warned(app)
    app.select_slider(key="delta").set_value(1e-4).run()
    assert "is no less than 1/10,000" in warned(app)
    # an epsilon beyond 10 is not offered at all
    assert max(map(float, app.select_slider(key="epsilon").options)) <= 10


def test_a_changed_file_is_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed byte opens an account of its own, with nothing in it."""
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    content = table_of(1)
    first = upload(content)
    assert "the same people" not in warned(first)
    press(first)
    changed = content[:-1] + (b"1" if content[-1:] != b"1" else b"2")
    again = upload(changed)
    assert "as many rows and columns" in warned(again)
    assert "1 spend" in warned(again)
    assert "adds up" in warned(again)
    press(again)
    assert "the same people" not in warned(again), "once is enough"
    for name in (content, changed):
        ledger = SQLiteBook().find(file_fingerprint(name))
        assert ledger is not None
        assert (ledger.history().n_rows, ledger.history().columns) == (8_000, ("a", "b"))
