"""The bytes of a file: read once, never more than allowed, unpacked where they are packed.

`tables` makes numbers of them, and `fingerprint` their digest for a ledger. A file and its gzip
have equal content, so they are one data set.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from privgmm.errors import InvalidInput

__all__ = ["MAX_BYTES", "check_there", "file_bytes", "stream_bytes", "unpacked"]

MAX_BYTES = 512 * 2**20
"""Largest file read by default, in bytes, packed and unpacked; a convention."""

_GZIP = b"\x1f\x8b"


def file_bytes(source: str | os.PathLike[str] | bytes, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a file once and return its content, unpacked if it is packed by gzip.

    Raises
    ------
    InvalidInput
        If the file is missing, empty, or larger than allowed.
    """
    if isinstance(source, bytes):
        _check_size(len(source), max_bytes)
        data = source
    else:
        try:
            data = _read(Path(source), max_bytes)
        except (OSError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise InvalidInput(f"cannot read {str(source)!r}: {problem}") from problem
    return _some(unpacked(data, max_bytes=max_bytes))


def stream_bytes(stream: BinaryIO, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a stream, such as standard input, to its end and return its unpacked content."""
    data = _read_up_to(stream, max_bytes)
    return _some(unpacked(data, max_bytes=max_bytes))


def unpacked(data: bytes, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Unpack the content of a file packed by gzip; return any other content as it is.

    At most one byte more than allowed is unpacked: a small file may claim to hold terabytes.
    """
    if data[:2] != _GZIP:
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            content = packed.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise InvalidInput(f"the compressed file is damaged: {problem}") from problem
    if len(content) > max_bytes:
        raise InvalidInput(
            f"the file unpacks to more than the limit of {max_bytes:,} bytes: take a sample of its "
            "rows, or raise max_bytes"
        )
    if content[:2] == _GZIP:
        raise InvalidInput("the file is compressed twice: unpack it once")
    return content


def check_there(path: Path) -> None:
    """Refuse a path without a file, and say whether the file or its folder is missing."""
    if path.exists():
        return
    if not path.parent.is_dir():
        raise InvalidInput(
            f"there is no folder {str(path.parent)!r}, hence no file {str(path)!r}: check the path"
        )
    raise InvalidInput(f"there is no file {str(path)!r}: check the path")


def _read(path: Path, max_bytes: int) -> bytes:
    check_there(path)
    if not (path.is_file() or path.is_fifo()):
        raise InvalidInput(f"{str(path)!r} is not a file: name one file")
    with path.open("rb") as file:
        _check_size(os.fstat(file.fileno()).st_size, max_bytes)
        return _read_up_to(file, max_bytes)


def _read_up_to(stream: BinaryIO, max_bytes: int) -> bytes:
    data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InvalidInput(_too_large(f"more than {max_bytes:,}", max_bytes))
    return data


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidInput(_too_large(f"{size:,}", max_bytes))


def _too_large(size: str, max_bytes: int) -> str:
    return (
        f"the file has {size} bytes and the limit is {max_bytes:,}: take a sample of its rows, or "
        "raise max_bytes"
    )


def _some(data: bytes) -> bytes:
    if not data or data.isspace():
        raise InvalidInput("the file is empty")
    return data
