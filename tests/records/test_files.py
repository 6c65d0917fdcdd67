"""Files of one's own: nobody else reads them, and no planted link leads a writer astray."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from privgmm.errors import InvalidInput
from privgmm.records import files
from privgmm.records.bundle import make_bundle
from privgmm.records.files import new_private_file, write_whole
from privgmm.records.receipt import write_receipt
from tests.records.test_receipt import RECEIPT


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A user whose files are readable by everyone."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_receipts_and_bundles_are_for_their_owner(tmp_path: Path) -> None:
    assert mode(write_receipt(RECEIPT, tmp_path / "receipt.json")) == 0o600
    assert mode(make_bundle(RECEIPT, tmp_path / "bundle.zip", n_rows=10)) == 0o600


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Neither at the target nor at any name that can be foreseen."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    target = tmp_path / "receipt.json"
    target.symlink_to(victim)
    foreseen = tmp_path / f"receipt.json.{os.getpid()}.part"
    foreseen.symlink_to(victim)
    with pytest.raises(InvalidInput, match="exists already"):
        write_receipt(RECEIPT, target)
    write_receipt(RECEIPT, target, overwrite=True)
    assert victim.read_text() == "precious"
    assert not target.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["victim", "receipt.json", foreseen.name]
    )


def test_names_on_the_way_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def remember(part: Path) -> BinaryIO:
        seen.append(part.name)
        return new_private_file(part)

    monkeypatch.setattr(files, "new_private_file", remember)
    for _ in range(3):
        write_whole(tmp_path / "file", b"content", overwrite=True)
    assert len(set(seen)) == 3
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_new_file_is_new(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            new_private_file(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()
    with new_private_file(tmp_path / "new") as stream:
        stream.write(b"x")
    assert mode(tmp_path / "new") == 0o600
