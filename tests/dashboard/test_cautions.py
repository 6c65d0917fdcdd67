"""What Explore warns of before anything is spent: weak promises, and accounts that look alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.data.fingerprint import file_fingerprint
from privgmm.ledger.sqlite import SQLiteBook
from tests.dashboard.test_ledger import LEDGER, open_app, press, table_of, turn_to, upload, words


def warned(app: AppTest) -> str:
    return "\n".join(str(part.value).replace("\\", "") for part in app.warning)


def test_a_weak_promise_is_called_one() -> None:
    app = open_app(n="10,000", epsilon="1", delta="1e-06")
    assert "promises little" not in warned(app)
    assert "is no less than one over" not in warned(app)
    app.select_slider(key="delta").set_value(1e-4).run()
    assert "is no less than one over the 10,000 rows" in warned(app)
    # an epsilon beyond 10 is not offered at all
    assert max(map(float, app.select_slider(key="epsilon").options)) <= 10


def test_a_changed_file_is_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed byte opens an account of its own, with nothing in it."""
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    content = table_of(1)
    app = upload(content)
    assert "the same people" not in warned(app)
    press(app)
    changed = changed_byte(content)
    app.file_uploader(key="file").set_value(("people.csv", changed, "text/csv")).run()
    assert "the same name and the same columns and as many rows and columns" in warned(app)
    assert "1 spend" in warned(app)
    assert "adds up" in warned(app)
    press(app)
    assert "the same people" not in warned(app), "once is enough"
    for name in (content, changed):
        ledger = SQLiteBook().find(file_fingerprint(name))
        assert ledger is not None
        assert (ledger.history().n_rows, ledger.history().columns) == (8_000, ("a", "b"))


@pytest.mark.parametrize("name", ["people.csv", "other.csv"])
def test_what_another_visitor_spent_is_not_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns, sizes and names of files are easily guessed: only the same content is an account."""
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    content = table_of(1)
    press(upload(content))
    stranger = upload(changed_byte(content), name)
    for page in (None, LEDGER):
        if page is not None:
            turn_to(stranger, page)
        assert "the same people" not in warned(stranger)
        assert "1 spend" not in warned(stranger)
    owner = upload(content, name)
    assert "1 release so far" in words(owner)


def changed_byte(content: bytes) -> bytes:
    return content[:-1] + (b"1" if content[-1:] != b"1" else b"2")
