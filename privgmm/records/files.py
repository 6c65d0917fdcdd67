"""Write files whole or not at all, readable by their owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

__all__ = ["new_private_file", "part_of", "write_whole"]


def part_of(target: Path) -> Path:
    """Choose an unguessable name in the target's folder, for a file that is not complete yet."""
    return target.parent / f".privgmm-{secrets.token_hex(8)}.part"


def new_private_file(path: Path) -> BinaryIO:
    """Open a file that did not exist, readable by its owner alone (mode 0600).

    An existing file or link is neither opened nor followed: `FileExistsError`.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write or replace a file, under another name first: no one can read a part of it.

    A link at that place is replaced, not followed. Only its owner can read the file; to publish it,
    change its mode.
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
