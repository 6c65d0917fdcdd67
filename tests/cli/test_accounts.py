"""Accounts on the command line: changed files, honest totals, and files for their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privgmm.ledger.sqlite import SQLiteBook

ORDER = [
    *("--k", "1", "--epsilon", "4", "--delta", "1e-5", "--mask-accuracy", "2", "--blocks", "60"),
    *("--method", "lifted"),
]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    path = tmp_path / "people.csv"
    rows = np.random.default_rng(0).normal(size=(9_000, 1))
    np.savetxt(path, rows, header="height", comments="")
    return path


def test_one_changed_byte_is_pointed_out(run: Any, people: Path) -> None:
    first = run("release", people, *ORDER)
    assert first.code == 0, first.err
    assert "new account" not in first.err
    people.write_bytes(people.read_bytes().replace(b"e-01", b"e-02", 1))
    again = run("release", people, *ORDER)
    assert again.code == 0, again.err
    likeness = "the same name and the same columns and as many rows and columns"
    assert f"a new account in the ledger, but it has {likeness} as account" in again.err
    assert "--dataset" in again.err
    assert "new account" not in run("release", people, *ORDER).err, "once is enough"
    listed = run("ledger")
    assert f"the same people? it has {likeness}" in listed.out
    old, new = run("ledger", "--json").json()["data_sets"]
    assert old["look_alikes"] == []
    (found,) = new["look_alikes"]
    assert found == {"account": old["account"], "likeness": likeness}
    assert (new["n_rows"], new["columns"]) == (9_000, ["height"])


def test_totals_are_labelled_as_what_they_are(run: Any, people: Path) -> None:
    for _ in range(3):
        assert run("release", people, *ORDER).code == 0
    listed = run("ledger", people)
    assert "if all were planned before the first result" in listed.out
    assert "if some were planned in view of others" in listed.out
    (data,) = run("ledger", people, "--json").json()["data_sets"]
    assert data["total"]["epsilon"] < data["added"]["epsilon"]


def test_what_is_written_is_for_its_owner(run: Any, people: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        out = tmp_path / "receipt.json"
        assert run("release", people, *ORDER, "--out", out).code == 0
        spends = tmp_path / "spends.csv"
        assert run("ledger", "--export", spends).code == 0
        for path in (out, spends, SQLiteBook().path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    finally:
        os.umask(before)


def test_a_ledger_behind_a_link_is_not_used(run: Any, people: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "elsewhere.sqlite")
    done = run("release", people, *ORDER, "--ledger", link)
    assert done.code == 2
    assert "is a link" in done.err
    assert not (tmp_path / "elsewhere.sqlite").exists()


def test_a_release_can_be_signed(run: Any, people: Path, tmp_path: Path) -> None:
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    secret = Ed25519PrivateKey.generate()
    key.write_bytes(
        secret.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    )
    public.write_bytes(
        secret.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    out = tmp_path / "receipt.json"
    bad = run("release", people, *ORDER, "--sign", public, "--out", out)
    assert bad.code == 2
    assert "holds no private key" in bad.err
    assert SQLiteBook().export() == [], "nothing is spent before the key is known to be good"
    assert run("release", people, *ORDER, "--sign", key, "--out", out).code == 0
    checked = run("verify", out, "--key", public)
    assert checked.code == 0, checked.out
    assert "Checked: it was signed with the key given" in checked.out


def test_a_weak_budget_is_called_one(run: Any, people: Path) -> None:
    done = run("release", people, *ORDER, "--delta", "2e-4")
    assert done.code == 2
    assert "given twice" in done.err
    weak = [*ORDER[:4], "--delta", "2e-4", *ORDER[6:]]
    done = run("release", people, *weak)
    assert done.code == 0, done.err
    assert "is no less than 1/9,000" in done.err


def test_a_seeded_receipt_does_not_verify(run: Any, people: Path, tmp_path: Path) -> None:
    out = tmp_path / "receipt.json"
    assert run("release", people, *ORDER, "--seed", 1, "--out", out).code == 0
    told = run("verify", out)
    assert told.code == 1
    assert "NOT differentially private" in told.out
