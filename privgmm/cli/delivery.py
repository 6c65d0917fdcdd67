"""Deliver a receipt where it was asked for, or somewhere else: what was paid for is not lost.

Once the noise is drawn the budget is spent. A full disk, or a reader that has closed the pipe, must
not take the result away.
"""

from __future__ import annotations

import dataclasses
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from privgmm.cli.files import NewFile
from privgmm.cli.terminal import silence
from privgmm.errors import InvalidInput
from privgmm.ledger.sqlite import default_path

__all__ = ["Delivery", "deliver"]


@dataclasses.dataclass(frozen=True)
class Delivery:
    """Where a text was written.

    Parameters
    ----------
    place : str
        In words.
    problem : str or None
        Why it is not where it was asked to be; None if it is.
    """

    place: str
    problem: str | None = None


def deliver(text: str, file: NewFile | None) -> Delivery:
    """Write a text into the file, or to standard output if there is none.

    If that fails it goes to the first of these that works: standard output; a file in the ledger's
    folder, the present one, or that for temporary files; standard error.
    """
    content = text.encode()
    if file is None:
        problem = _print(text)
        if problem is None:
            return Delivery("standard output")
    else:
        problem = _fill(file, content)
        if problem is None:
            return Delivery(repr(str(file.path)))
        if _print(text) is None:
            return Delivery("standard output", problem)
    for folder in _shelters():
        path = folder / f"privgmm-receipt-{secrets.token_hex(8)}.json"
        try:
            with NewFile(path, "the file") as shelter:
                if _fill(shelter, content) is None:
                    return Delivery(repr(str(path)), problem)
        except InvalidInput:
            # the next folder may do
            continue
    sys.stderr.write(text)
    return Delivery("standard error", problem)


def _shelters() -> Iterator[Path]:
    for folder in (default_path().parent, Path.cwd(), Path(tempfile.gettempdir())):
        if folder.is_dir():
            yield folder


def _fill(file: NewFile, content: bytes) -> str | None:
    try:
        file.stream.write(content)
        file.keep()
    except OSError as problem:
        return str(problem)
    return None


def _print(text: str) -> str | None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        silence()
        return str(problem)
    return None
