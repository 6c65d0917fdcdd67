"""Fingerprints, which stand for a data set in the ledger: a digest of its numbers or of its file.

Both identify the data exactly, so they are CONFIDENTIAL; the ledger keeps neither.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privgmm.arrays import finite_array
from privgmm.data.content import check_there, unpacked
from privgmm.errors import InvalidInput

__all__ = ["content_fingerprint", "file_fingerprint"]


def content_fingerprint(X: npt.ArrayLike) -> str:
    """Compute SHA-256 of a table of numbers (n, d); the order of its rows does not matter.

    A table with one more row or column is another data set. To hold a growing data set to one cap,
    give the ledger a name of your own for it instead.
    """
    rows = finite_array(X, "X", (None, None)) + 0.0  # no negative zeros
    rows = rows[np.lexsort(rows.T[::-1])] if rows.size else rows
    digest = hashlib.sha256(f"{rows.shape[0]}x{rows.shape[1]};".encode())
    digest.update(np.ascontiguousarray(rows, dtype="<f8").tobytes())
    return digest.hexdigest()


def file_fingerprint(source: str | os.PathLike[str] | bytes) -> str:
    """Compute SHA-256 of a file, or of the bytes of one, unpacked if packed by gzip.

    Front doors that read files name the data set by this. The people in the file are the same for
    every choice of columns, so releases from it add up.
    """
    try:
        if not isinstance(source, bytes):
            check_there(Path(source))
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise InvalidInput(f"cannot read {str(source)!r}: {problem}") from problem
    return hashlib.sha256(unpacked(content)).hexdigest()
