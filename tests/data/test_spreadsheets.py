"""No CSV that the package writes holds a cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privgmm
from privgmm.budget import Budget
from privgmm.cli.main import main
from privgmm.dashboard.look_again.fit import component_table
from privgmm.dashboard.look_again.synthetic_rows import synthetic_rows
from privgmm.data.spreadsheets import frame_csv, inert, inert_names
from privgmm.ledger.history import exported, write_csv
from privgmm.ledger.memory import MemoryBook
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.records.bundle import bundle_bytes
from privgmm.records.receipt import make_receipt, receipt_text
from privgmm.releases import release
from privgmm.results import Release

NAMES = ('=HYPERLINK("http://example.org","click")', "@SUM(A1:A9)")
HOSTILE = [
    *NAMES,
    "+1+1",
    "-2+3",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1",
    "\uff1d1+1",
    "\xa0=1",
]
PACKAGE = Path(privgmm.__file__).parent


def runs(cell: str) -> bool:
    """Whether a spreadsheet might run a cell; numbers may begin with a sign."""
    try:
        float(cell)
    except ValueError:
        return cell.lstrip()[:1] in set("=+-@\uff1d\uff0b\uff0d\uff20") - {""}
    return False


def cells(content: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(content, newline="")) for cell in row]


def released(columns: tuple[str, ...] = NAMES) -> dict[str, Any]:
    rows = np.random.default_rng(0).normal(size=(20_000, len(columns)))
    plan = best_plan(len(rows), epsilon=1.0, delta=1e-6, n_components=1, n_features=len(columns))
    result = release(rows, plan, rng=0).result
    assert isinstance(result, Release)
    return make_receipt(result, columns=columns)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_would_be_run_gets_an_apostrophe(text: str) -> None:
    assert runs(text)
    assert inert(text) == f"'{text}"
    assert not runs(inert(text))


@pytest.mark.parametrize("value", ["", "a", "a=b", "1e-3 m", "'=1", -1.5, 3, True, None])
def test_other_values_stay(value: object) -> None:
    assert inert(value) is value


def test_names_stay_different() -> None:
    names = ["'=a", "=a", "''=a", "'''=a"]
    assert len(set(inert_names(names))) == len(names)
    assert not any(map(runs, inert_names(names)))


def test_a_bundle_holds_no_formula() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle_bytes(released(), n_rows=50))) as bundle:
        found = cells(bundle.read("synthetic.csv").decode())
    assert found[:2] == [f"'{name}" for name in NAMES]
    assert not any(map(runs, found))


@pytest.mark.parametrize("named", [False, True], ids=["receipt", "--columns"])
def test_the_command_line_samples_no_formula(named: bool, tmp_path: Path) -> None:
    receipt, out = tmp_path / "receipt.json", tmp_path / "rows.csv"
    receipt.write_text(receipt_text(released()))
    options = ["--columns", "=1+1,+x"] if named else []
    assert main(["sample", str(receipt), "-n", "20", "--out", str(out), *options]) == 0
    found = cells(out.read_text())
    assert found[:2] == (["'=1+1", "'+x"] if named else [f"'{name}" for name in NAMES])
    assert not any(map(runs, found))


def test_the_ledger_is_written_without_formulas() -> None:
    book = MemoryBook()
    plan = best_plan(2_000, epsilon=1.0, delta=1e-6, n_components=1, n_features=1)
    ledger = book.open("=data", cap=Budget(4.0, 1e-5), label=NAMES[0])
    release(np.random.default_rng(0).normal(size=(2_000, 1)), plan, rng=0, ledger=ledger)
    stream = io.StringIO(newline="")
    write_csv(exported(book.histories()), stream)
    found = cells(stream.getvalue())
    assert f"'{NAMES[0]}" in found
    assert not any(map(runs, found))
    # the page of the dashboard writes the same lines from a frame
    assert not any(map(runs, cells(frame_csv(pd.DataFrame(exported(book.histories()))))))


class Scene:
    """As much of a scene as the downloads of the dashboard read."""

    mixture = Mixture([1.0], [[-1.0, 2.0]], [np.eye(2)])
    columns = NAMES
    look = type("Look", (), {"errors": None})


def test_downloads_of_the_dashboard_hold_no_formula() -> None:
    scene: Any = Scene()
    for frame in (component_table(scene), synthetic_rows(scene, 50, 1)):
        found = cells(frame_csv(frame, float_format="%.6g"))
        assert not any(map(runs, found))
        assert len(found) == frame.size + frame.shape[1]
        # numbers stay numbers, also below zero
        assert any(cell.startswith("-") for cell in found)


def test_frames_of_any_kind_are_written() -> None:
    frame = pd.DataFrame({"=a": ["=1", None], "b": [-1.0, np.nan], "c": [True, False]})
    before = frame.copy()
    assert frame_csv(frame) == "'=a,b,c\n'=1,-1.0,True\n,,False\n"
    pd.testing.assert_frame_equal(frame, before)
    assert frame_csv(frame.iloc[:0]) == "'=a,b,c\n"
    assert frame_csv(frame.astype({"=a": "string"})) == "'=a,b,c\n'=1,-1.0,True\n,,False\n"


def test_every_module_that_writes_csv_asks_for_inert_text() -> None:
    writes = re.compile(r"\.to_csv\(|pacsv\.write_csv\(|csv\.writer\(|DictWriter\(")
    writers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if writes.search(path.read_text(encoding="utf-8"))
    }
    assert writers == {
        "data/spreadsheets.py",
        "records/bundle.py",
        "cli/mixtures.py",
        "ledger/history.py",
    }
    for name in writers - {"data/spreadsheets.py"}:
        assert "from privgmm.data.spreadsheets import inert" in (PACKAGE / name).read_text()
