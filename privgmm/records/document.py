"""The document of a receipt: its layout, its hash, and the mixture in it.

`receipt` says what a document has to hold, and checks it. This module needs NumPy and the standard
library alone: who only reads what was released installs neither numba nor SciPy.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from privgmm.data.content import file_bytes
from privgmm.errors import InvalidInput, ReleaseRefused, SeededRelease
from privgmm.mixture import Mixture

__all__ = [
    "RECEIPT_SCHEMA",
    "Document",
    "alterations",
    "canonical",
    "content_of",
    "digest",
    "parsed",
    "read_mixture",
    "receipt_text",
]

Document: TypeAlias = str | os.PathLike[str] | bytes | Mapping[str, Any]
"""A receipt: its path, its text, its bytes, or its values."""

RECEIPT_SCHEMA = "privgmm/receipt-3"
"""The format."""


def read_mixture(document: Document) -> Mixture:
    """Read the mixture in a receipt: NumPy is enough.

    Parameters
    ----------
    document : path, text, bytes or mapping
        As for `verify_receipt`.

    Raises
    ------
    InvalidInput
        If the document is not a receipt, or not the one that its hash belongs to. The price of its
        plan is not checked: that is the work of `verify_receipt`, which takes the whole package.
    ReleaseRefused
        If the receipt is one of a refusal: it has no mixture.

    Warns
    -----
    SeededRelease
        If the noise was seeded, so that the mixture is not differentially private.

    Examples
    --------
    >>> import numpy as np
    >>> from privgmm.releases import release
    >>> from privgmm.records.receipt import make_receipt
    >>> rows = np.random.default_rng(0).normal([5.0], [2.0], size=(4000, 1))
    >>> made = release(rows, epsilon=2.0, n_components=1).result
    >>> read_mixture(make_receipt(made)) == made.mixture
    True
    """
    receipt, text = parsed(content_of(document))
    if receipt.get("schema") != RECEIPT_SCHEMA:
        raise InvalidInput(f"schema must be {RECEIPT_SCHEMA!r}: this is another kind of document")
    if any(alterations(receipt, text)):
        raise InvalidInput("the receipt was changed: the hash does not belong to the content")
    if receipt.get("mixture") is None:
        refusal = receipt.get("refusal")
        reason = refusal.get("reason") if isinstance(refusal, dict) else None
        raise ReleaseRefused(f"the receipt holds no mixture: {reason}")
    if receipt.get("seeded") is not False:
        warnings.warn(
            SeededRelease("NOT differentially private: the release in this receipt was seeded"),
            stacklevel=2,
        )
    try:
        mixture = Mixture.from_dict(receipt["mixture"])
        return mixture.with_columns(tuple(receipt.get("columns") or ()))
    except (KeyError, TypeError, ArithmeticError) as problem:
        raise InvalidInput(f"the mixture in the receipt is not valid: {problem!r}") from problem


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """Write a receipt as text: keys sorted, one space of indent, ASCII, final newline."""
    try:
        return json.dumps(dict(receipt), sort_keys=True, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"receipt must be a JSON object: {problem}") from problem


def content_of(document: Any) -> bytes | str | Mapping[str, Any]:
    """Return what is in a document: a path is read."""
    path = isinstance(document, str) and not {"{", "\n"} & set(document)
    if path or isinstance(document, os.PathLike):
        return file_bytes(Path(document))
    if isinstance(document, bytearray):
        return bytes(document)
    if not isinstance(document, bytes | str | Mapping):
        raise InvalidInput(
            f"document must be a path, bytes, text or a dict, got {type(document).__name__}"
        )
    return document


def parsed(document: bytes | str | Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the values of a document, and its text if it came as one."""
    if isinstance(document, Mapping):
        # through text and back, so that what is checked is what would be written
        return _loaded(receipt_text(document)), None
    if isinstance(document, str):
        return _loaded(document), document
    try:
        text = document.decode("ascii")
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"the document is not a receipt: {problem}") from problem
    return _loaded(text), text


def _loaded(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"the document is not JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise InvalidInput("the document is not a JSON object")
    return value


def alterations(receipt: Mapping[str, Any], text: str | None) -> Iterator[str]:
    """Find what shows that a receipt, or the text it came as, is not what was written."""
    if text is not None and text != receipt_text(receipt):
        yield "the text is not laid out as it was written: it was edited"
    content = {name: value for name, value in receipt.items() if name != "sha256"}
    # as bytes: text that is not ASCII cannot be compared
    if not hmac.compare_digest(str(receipt.get("sha256")).encode(), digest(content).encode()):
        yield "the hash does not belong to the content: something was changed"


def digest(content: Mapping[str, Any]) -> str:
    """Compute the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(content)).hexdigest()


def canonical(content: Mapping[str, Any]) -> bytes:
    """Write JSON with keys sorted, no spaces, ASCII."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")
