"""What commands write and read: new files that appear whole, and the bytes of a file."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from privgmm.data.content import check_there
from privgmm.errors import InvalidInput
from privgmm.records.files import new_private_file, part_of, put_in_place

__all__ = ["STANDARD_STREAM", "NewFile", "file_content", "output"]

STANDARD_STREAM = "-"
"""Stands for standard input, or for standard output."""


class NewFile:
    """Write a file that appears whole or not at all, at a place claimed beforehand.

    A folder that cannot be written to, or a full disk, must not cost a release its budget, so
    both are found when this is made. Until `keep` the content lies next to the target under
    another name; as a context manager this removes it unless it was kept. Only the owner can read
    the file.

    Parameters
    ----------
    path : Path
        Must not exist.
    option : str
        What errors call it.
    room : int
        Bytes to reserve on the disk at once.
    """

    def __init__(self, path: Path, option: str, *, room: int = 0) -> None:
        self.path = path
        self._part = part_of(path)
        try:
            if str(path) == STANDARD_STREAM:
                raise InvalidInput(f"{option} must be a file, standard output will not do")
            if os.path.lexists(path):
                raise InvalidInput(f"{option} {str(path)!r} exists already: choose another name")
            if not path.parent.is_dir():
                raise InvalidInput(
                    f"cannot write {option} {str(path)!r}: there is no folder "
                    f"{str(path.parent)!r}; make it first, or choose another place"
                )
            self.stream: BinaryIO = new_private_file(self._part)
        except (OSError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise InvalidInput(f"cannot write {option} {str(path)!r}: {problem}") from problem
        try:
            self.stream.write(bytes(room))
            self._settle()
            self.stream.seek(0)
        except OSError as problem:
            self.drop()
            raise InvalidInput(f"cannot write {option} {str(path)!r}: {problem}") from problem

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def _settle(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def keep(self) -> None:
        """Let the file appear with what was written. Raises `OSError` if that cannot be done."""
        self.stream.truncate()
        self._settle()
        self.stream.close()
        put_in_place(self._part, self.path)

    def drop(self) -> None:
        """Remove what is not kept; harmless after `keep`."""
        # closing flushes, which fails on a full disk; the content is not wanted any more
        with suppress(OSError):
            self.stream.close()
        with suppress(OSError):
            self._part.unlink(missing_ok=True)


@contextmanager
def output(path: Path | None, option: str = "--out") -> Iterator[TextIO]:
    """Open standard output, or a new file that appears whole or not at all."""
    if path is None or str(path) == STANDARD_STREAM:
        yield sys.stdout
        sys.stdout.flush()
        return
    with NewFile(path, option) as file:
        text = io.TextIOWrapper(file.stream, encoding="utf-8", newline="", write_through=True)
        try:
            yield text
            text.flush()
        finally:
            text.detach()
        file.keep()


def file_content(path: Path) -> bytes:
    """Read the bytes of a file, or of standard input; raise a clear error if that fails."""
    try:
        if str(path) == STANDARD_STREAM:
            return sys.stdin.buffer.read()
        check_there(path)
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise InvalidInput(f"cannot read {str(path)!r}: {problem}") from problem
