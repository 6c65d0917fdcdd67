"""How files are written that are somebody's own: whole or not at all, and for the owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

__all__ = ["new_private_file", "part_of", "write_whole"]


def part_of(target: Path) -> Path:
    """A name beside the target for what is not whole yet; nobody can guess it."""
    return target.parent / f".privgmm-{secrets.token_hex(8)}.part"


def new_private_file(path: Path) -> BinaryIO:
    """Open a file that did not exist, readable by its owner alone (mode 0600).

    What lies there already, a link included, is neither opened nor followed: `FileExistsError`.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file, or replace it: under another name first, so that nobody sees a part of it.

    A link at that place is replaced, not followed. The file can be read by its owner alone: whoever
    wants to publish it gives others the right to.
    """
    target = Path(path)
    part = part_of(target)
    try:
        with new_private_file(part) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    return target
