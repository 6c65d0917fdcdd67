"""Nothing that was paid for is lost: full disks, closed pipes, folders that cannot be written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgmm.cli import release as release_command
from privgmm.cli.delivery import deliver
from privgmm.cli.files import NewFile, output
from privgmm.cli.main import main
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.ledger.sqlite import SQLiteBook, SQLiteIntent
from privgmm.records.receipt import verify_receipt
from privgmm.releases import release

ORDER = ["--k", "1", "--epsilon", "4", "--delta", "1e-5", "--mask-accuracy", "2", "--blocks", "60"]
ORDER += ["--method", "lifted"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("delivery") / "data.csv"
    rows = np.random.default_rng(0).normal(size=(9_000, 1))
    np.savetxt(path, rows, header="x", comments="")
    return path


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "account" / "ledger.sqlite"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(path))
    return path


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# ------------------------------------------------------------------------- before the spend


def test_a_disk_found_full_costs_nothing(
    run: Any, data: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full)
    done = run("release", data, *ORDER, "--out", tmp_path / "r.json")
    assert done.code == 2
    assert "No space left" in done.err
    assert done.err.count("\n") == 1
    assert SQLiteBook(ledger).export() == []
    assert [path.name for path in tmp_path.iterdir()] == ["account"]


@pytest.mark.parametrize("option", ["--out", "--bundle"])
def test_a_folder_that_cannot_be_written_costs_nothing(
    run: Any, data: Path, ledger: Path, tmp_path: Path, option: str
) -> None:
    there = tmp_path / "there"
    there.write_text("precious")
    for path in (there, there / "below a file", tmp_path / "nowhere" / "r", Path("/proc/r")):
        done = run("release", data, *ORDER, option, path)
        assert done.code == 2
        assert option in done.err
        assert done.err.count("\n") == 1
    assert SQLiteBook(ledger).export() == []
    assert there.read_text() == "precious"


def test_both_files_are_tried_before_the_spend(
    run: Any, data: Path, ledger: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r.json"
    order = ("release", data, *ORDER, "--out", out)
    assert run(*order, "--bundle", tmp_path / "nowhere" / "b.zip").code == 2
    assert not out.exists()
    assert SQLiteBook(ledger).export() == []


# ------------------------------------------------------------------------- after the spend


def test_a_disk_that_fills_up_meanwhile_leaves_the_receipt_on_standard_output(
    run: Any, data: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewFile, "keep", full)
    done = run("release", data, *ORDER, "--out", tmp_path / "r.json", "--json")
    assert done.code == 1
    assert verify_receipt(done.out)
    assert "standard output" in done.err
    assert "No space left" in done.err
    (spend,) = SQLiteBook(ledger).export()
    assert spend["released"] is True
    assert not (tmp_path / "r.json").exists()
    assert not list(tmp_path.glob(".privgmm*"))


def test_what_came_there_meanwhile_is_not_replaced(
    run: Any, data: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "r.json"

    def slow(*arguments: Any, **options: Any) -> Any:
        out.write_text("precious")
        return release(*arguments, **options)

    monkeypatch.setattr(release_command, "release", slow)
    done = run("release", data, *ORDER, "--out", out)
    assert done.code == 1
    assert out.read_text() == "precious"
    assert verify_receipt(done.out)


def test_a_bundle_that_cannot_be_written_leaves_the_receipt(
    run: Any, data: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(release_command, "bundle_bytes", broken)
    out, zipped = tmp_path / "r.json", tmp_path / "b.zip"
    done = run("release", data, *ORDER, "--out", out, "--bundle", zipped)
    assert done.code == 1
    assert verify_receipt(out.read_bytes())
    assert "privgmm bundle" in done.err
    assert not zipped.exists()
    assert not list(tmp_path.glob(".privgmm*"))


def test_a_ledger_that_fails_at_the_end_keeps_the_spend_and_the_result(
    run: Any, data: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PrivGMMError("the disk is full")

    monkeypatch.setattr(SQLiteIntent, "conclude", broken)
    done = run("release", data, *ORDER)
    assert done.code == 0
    assert verify_receipt(done.out)
    assert "unfinished: the disk is full" in done.err
    (spend,) = SQLiteBook(ledger).export()
    assert spend["released"] is None


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@needs_full
def test_real_full_and_closed_outputs(data: Path, ledger: Path) -> None:
    """From outside: standard output is a full device; then a pipe that its reader has closed."""
    order = [sys.executable, "-m", "privgmm", "release", str(data), *ORDER, "--out", "-"]
    with Path("/dev/full").open("w") as device:
        done = subprocess.run(order, stdout=device, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr
    (kept,) = ledger.parent.glob("privgmm-receipt-*.json")
    assert verify_receipt(kept.read_bytes())
    assert str(kept) in done.stderr
    (spend,) = SQLiteBook(ledger).export()
    assert json.loads(kept.read_bytes())["ledger"]["mark"] == spend["mark"]

    read, write = os.pipe()
    os.close(read)
    left = subprocess.run(order, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert left.returncode == 1
    assert "Traceback" not in left.stderr
    assert len(list(ledger.parent.glob("privgmm-receipt-*.json"))) == 2


@needs_full
def test_other_commands_on_a_full_device(tmp_path: Path) -> None:
    gaussian = tmp_path / "a.json"
    gaussian.write_text('{"mean": [0], "covariance": [[1]]}')
    order = [sys.executable, "-m", "privgmm", "sample", str(gaussian), "-n", "100000"]
    with Path("/dev/full").open("w") as device:
        done = subprocess.run(order, stdout=device, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("privgmm: cannot write: ")
    assert done.stderr.count("\n") == 1


# ------------------------------------------------------------------------- the parts


def test_when_nothing_else_works_it_goes_to_standard_error(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "write", full)
    monkeypatch.setattr(NewFile, "keep", full)
    sent = deliver("the receipt\n", None)
    monkeypatch.undo()
    assert sent.place == "standard error"
    assert sent.problem is not None
    assert capsys.readouterr().err == "the receipt\n"


def test_a_new_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"

    def write_half() -> None:
        with output(path) as stream:
            stream.write("half")
            stream.flush()
            assert not path.exists()
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert list(tmp_path.iterdir()) == []
    with output(path) as stream:
        stream.write("ä\r\n")
    assert path.read_bytes() == "ä\r\n".encode()
    with pytest.raises(InvalidInput, match="exists"), output(path):
        raise AssertionError("not reached")
    assert list(tmp_path.iterdir()) == [path]


def test_room_is_given_back(tmp_path: Path) -> None:
    with NewFile(tmp_path / "new", "--out", room=10_000) as file:
        file.stream.write(b"short")
        file.keep()
    assert (tmp_path / "new").read_bytes() == b"short"


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with NewFile(tmp_path / "new", "--out") as file:
        file.stream.write(b"there")
        file.keep()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    with NewFile(tmp_path / "other", "--out") as file:
        (tmp_path / "other").write_text("precious")
        with pytest.raises(OSError, match="not permitted"):
            file.keep()
    assert (tmp_path / "other").read_text() == "precious"


def test_a_summary_is_printed_and_the_receipt_is_kept(
    data: Path, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --out the receipt is in a new file here, which is never one that exists."""
    for name in ("data-receipt.json", "data-receipt-2.json"):
        assert main(["release", str(data), *map(str, ORDER)]) == 0
        said = capsys.readouterr().out
        assert f"'{name}'" in said
        assert "weight" in said
        assert verify_receipt(Path(name)).intact
    assert sorted(path.name for path in Path.cwd().iterdir()) == [
        "data-receipt-2.json",
        "data-receipt.json",
    ]
