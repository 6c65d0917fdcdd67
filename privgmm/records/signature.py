"""Sign receipts, and check who signed them. Ed25519, by the package `cryptography`.

A hash shows that a receipt is as its author wrote it; a signature shows who that was. Neither shows
that the mixture in it was made as its plan says: for that, readers have to trust the signer.

Keys are files that other tools make and keep::

    openssl genpkey -algorithm ed25519 -out key.pem       # or: ssh-keygen -t ed25519 -f key
    openssl pkey -in key.pem -pubout -out public.pem      # for everyone; ssh-keygen writes key.pub

The first is confidential, for the curator alone. `receipt` says what is signed.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgmm.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["Signer", "key_name", "read_public_key", "read_signer", "signature_holds"]


class Signer:
    """A private key, ready to sign. It is neither shown nor pickled.

    Parameters
    ----------
    key : Ed25519PrivateKey
        Of the package `cryptography`; `read_signer` reads one from a file.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key: bytes = key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"Signer({key_name(self.public_key)})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a Signer cannot be pickled: it holds a private key")

    def sign(self, message: bytes) -> bytes:
        """Compute the signature (64 bytes) of a message."""
        return self._key.sign(message)


def read_signer(path: str | os.PathLike[str]) -> Signer:
    """Read a private key from a file: PEM or OpenSSH; Ed25519, without a password."""
    _require()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_ssh_private_key,
    )

    content = _content(path)
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, None)
    except TypeError as problem:
        raise InvalidInput(
            f"the key {str(path)!r} is protected by a password, which this package does not ask "
            "for: take the password off a copy (openssl pkey -in KEY -out COPY), and remove it "
            "after use"
        ) from problem
    except (ValueError, UnsupportedAlgorithm) as problem:
        raise InvalidInput(
            f"{str(path)!r} holds no private key ({problem}): make one with openssl genpkey "
            "-algorithm ed25519 -out key.pem"
        ) from problem
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"the key {str(path)!r} is of another kind than Ed25519: make one with openssl genpkey "
            "-algorithm ed25519 -out key.pem"
        )
    return Signer(key)


def read_public_key(path: str | os.PathLike[str]) -> bytes:
    """Read a public key (32 bytes) from a file: PEM, or a line of OpenSSH; Ed25519."""
    _require()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        load_pem_public_key,
        load_ssh_public_key,
    )

    content = _content(path)
    if b"PRIVATE KEY" in content:
        raise InvalidInput(
            f"{str(path)!r} is a private key, which belongs to the signer alone: give the public "
            "one (openssl pkey -in KEY -pubout -out PUBLIC)"
        )
    load = load_ssh_public_key if content.startswith(b"ssh-") else load_pem_public_key
    try:
        key = load(content)
    except (ValueError, UnsupportedAlgorithm) as problem:
        raise InvalidInput(
            f"{str(path)!r} holds no public key ({problem}): ask the signer for it"
        ) from problem
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"the key {str(path)!r} is of another kind than Ed25519")
    return key.public_bytes_raw()


def signature_holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Check whether the holder of the matching private key signed this message."""
    _require()
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_name(public_key: bytes) -> str:
    """Return the fingerprint of a public key as ``ssh-keygen -l`` shows it, to compare by eye."""
    from base64 import b64encode

    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + len(public_key).to_bytes(4, "big") + public_key
    return "SHA256:" + b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _public(public_key: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public_key)


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot read the key {str(path)!r}: {problem}") from problem


def _require() -> None:
    try:
        import cryptography  # noqa: F401 - whether it is there
    except ModuleNotFoundError as problem:
        raise InvalidInput(
            "signatures need the package cryptography: pip install 'privgmm[sign]'"
        ) from problem
