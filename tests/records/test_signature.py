"""Signatures of receipts: who signed what, and every way to pretend it."""

from __future__ import annotations

import importlib
import json
import pickle
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privgmm.errors import InvalidInput
from privgmm.records.receipt import make_receipt, receipt_schema, receipt_text, verify_receipt
from privgmm.records.signature import Signer, key_name, read_public_key, read_signer
from tests.records.test_receipt import MIXTURE, RESULTS

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2)]
SIGNED = make_receipt(RESULTS[1], signer=Signer(KEYS[0]))


def private_bytes(key: Any, kind: str, password: bytes | None = None) -> bytes:
    as_what = form.PrivateFormat.OpenSSH if kind == "ssh" else form.PrivateFormat.PKCS8
    lock = form.BestAvailableEncryption(password) if password else form.NoEncryption()
    written: bytes = key.private_bytes(form.Encoding.PEM, as_what, lock)
    return written


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Private and public keys of two people, as openssl and ssh-keygen write them."""
    for name, key in zip(("ann", "bob"), KEYS, strict=True):
        public = key.public_key()
        (tmp_path / f"{name}.pem").write_bytes(private_bytes(key, "pem"))
        (tmp_path / f"{name}_ssh").write_bytes(private_bytes(key, "ssh"))
        (tmp_path / f"{name}_public.pem").write_bytes(
            public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        )
        (tmp_path / f"{name}_ssh.pub").write_bytes(
            public.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH) + b" ann@home\n"
        )
    return tmp_path


@pytest.mark.parametrize("private", ["ann.pem", "ann_ssh"])
@pytest.mark.parametrize("public", ["ann_public.pem", "ann_ssh.pub"])
def test_the_one_who_signed_is_found_out(keys: Path, private: str, public: str) -> None:
    signer = read_signer(keys / private)
    text = receipt_text(make_receipt(RESULTS[1], signer=signer))
    found = verify_receipt(text, key=keys / public)
    assert found.ok, found.problems
    assert found.checked
    assert found.signer == key_name(read_public_key(keys / public))
    assert "signed with the key given" in " ".join(found.words)
    unchecked = verify_receipt(text)
    assert unchecked.ok
    assert not unchecked.checked
    assert unchecked.signer == found.signer
    assert "that was not checked" in " ".join(unchecked.words)


def test_another_key_and_no_signature_are_found_out(keys: Path) -> None:
    by_bob = verify_receipt(SIGNED, key=keys / "bob_public.pem")
    assert (by_bob.ok, by_bob.checked, by_bob.intact) == (False, False, True)
    assert "another key" in by_bob.problems[0]
    bare = verify_receipt(make_receipt(RESULTS[1]), key=keys / "ann_public.pem")
    assert not bare.ok
    assert "not signed" in bare.problems[0]
    for found in (by_bob, bare):
        # a key was given and used: nobody is asked for it again
        assert "give the public key" not in " ".join(found.words)


def test_a_seed_stays_a_seed_under_a_signature(keys: Path) -> None:
    seeded = make_receipt(RESULTS[5], signer=Signer(KEYS[0]))
    found = verify_receipt(seeded, key=keys / "ann_public.pem")
    assert (found.ok, found.checked) == (False, True)
    assert "NOT differentially private" in found.problems[0]


def rehashed(receipt: dict[str, Any]) -> dict[str, Any]:
    digest = importlib.import_module("privgmm.records.document").digest
    content = {name: value for name, value in receipt.items() if name != "sha256"}
    return {**content, "sha256": digest(content)}


def test_forgers_cannot_sign(keys: Path) -> None:
    """With the hash made to fit: other content, another's signature, none at all."""
    by_bob = make_receipt(RESULTS[1], signer=Signer(KEYS[1]))["signature"]
    forged = {
        "other mixture": {**SIGNED, "mixture": MIXTURE.permuted([1, 0]).to_dict()},
        "from another receipt": {
            **make_receipt(RESULTS[1], learner="em"),
            "signature": SIGNED["signature"],
        },
        "bob's under ann's name": {
            **SIGNED,
            "signature": {**by_bob, "public_key": SIGNED["signature"]["public_key"]},
        },
        "none": {**SIGNED, "signature": None},
    }
    for name, receipt in forged.items():
        found = verify_receipt(rehashed(receipt), key=keys / "ann_public.pem")
        assert found.intact, (name, found.problems)
        assert not found.ok, name
        assert not found.checked, name


def test_every_changed_byte_of_a_signed_receipt_is_noticed(keys: Path) -> None:
    text = receipt_text(SIGNED).encode()
    chooser = random.Random(4)
    for place in chooser.sample(range(len(text)), 300):
        other = bytes([chooser.choice([b for b in range(256) if b != text[place]])])
        changed = text[:place] + other + text[place + 1 :]
        assert not verify_receipt(changed, key=keys / "ann_public.pem").ok, place


def test_a_signed_receipt_follows_the_schema() -> None:
    jsonschema: Any = importlib.import_module("jsonschema")
    jsonschema.Draft202012Validator(receipt_schema()).validate(SIGNED)


def test_a_key_does_not_leave_the_process() -> None:
    signer = Signer(KEYS[0])
    assert "0101" not in repr(signer)
    assert key_name(signer.public_key) in repr(signer)
    with pytest.raises(TypeError, match="private key"):
        pickle.dumps(signer)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_the_name_of_a_key_is_that_of_ssh_keygen(keys: Path) -> None:
    told = subprocess.run(
        ["ssh-keygen", "-l", "-f", keys / "ann_ssh.pub"], capture_output=True, text=True, check=True
    ).stdout
    assert key_name(KEYS[0].public_key().public_bytes_raw()) in told.split()


def test_what_is_no_key_is_refused(keys: Path) -> None:
    (keys / "text").write_text("no key")
    (keys / "empty").write_bytes(b"")
    large = rsa.generate_private_key(65537, 2048)
    (keys / "rsa").write_bytes(private_bytes(large, "pem"))
    (keys / "rsa.pub").write_bytes(
        large.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    (keys / "locked").write_bytes(private_bytes(KEYS[0], "pem", b"secret"))
    for name, words in {
        "text": "holds no private key",
        "empty": "holds no private key",
        "ann_public.pem": "holds no private key",
        "rsa": "another kind",
        "locked": "protected by a password",
        "missing": "cannot read",
    }.items():
        with pytest.raises(InvalidInput, match=words):
            read_signer(keys / name)
    for name, words in {
        "text": "holds no public key",
        "ann.pem": "is a private key",
        "ann_ssh": "is a private key",
        "rsa.pub": "another kind",
        "missing": "cannot read",
    }.items():
        with pytest.raises(InvalidInput, match=words):
            verify_receipt(SIGNED, key=keys / name)


def test_without_the_package_it_is_named(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InvalidInput, match=r"privgmm\[sign\]"):
        read_signer(keys / "ann.pem")
    with pytest.raises(InvalidInput, match=r"privgmm\[sign\]"):
        verify_receipt(SIGNED, key=keys / "ann_public.pem")
    # without a signature to check it is not needed
    assert verify_receipt(SIGNED).ok


def test_verify_on_the_command_line(run: Any, keys: Path) -> None:
    path = keys / "receipt.json"
    path.write_text(receipt_text(SIGNED))
    good = run("verify", path, "--key", keys / "ann_public.pem", "--json")
    assert good.code == 0
    assert good.json()["signature_checked"] is True
    bad = run("verify", path, "--key", keys / "bob_public.pem")
    assert bad.code == 1
    assert "another key" in bad.out
    plain = run("verify", path)
    assert plain.code == 0
    assert "not checked" in plain.out
    assert run("verify", path, "--key", keys / "nothing").code == 2


def test_a_seeded_receipt_fails_on_the_command_line(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    path.write_text(receipt_text(make_receipt(RESULTS[5])))
    told = run("verify", path)
    assert told.code == 1
    assert "NOT differentially private" in told.out
    assert "in order" not in told.out
    answer = run("verify", path, "--json").json()
    assert (answer["ok"], answer["intact"], answer["seeded"]) == (False, True, True)
    assert json.dumps(answer["words"])
