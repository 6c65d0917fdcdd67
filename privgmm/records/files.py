"""Write files whole or not at all, readable by their owner alone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from privgmm.errors import InvalidInput

__all__ = ["new_private_file", "part_of", "put_in_place", "write_whole"]


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


def put_in_place(part: Path, target: Path, *, overwrite: bool = False) -> None:
    """Let a complete file appear under its name; `FileExistsError` if one is there by then."""
    if overwrite:
        part.replace(target)
        return
    try:
        # unlike renaming, linking never replaces a file that was made there meanwhile
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(target):
            raise
        # a file system without links
        part.replace(target)


def write_whole(path: str | os.PathLike[str], content: bytes, *, overwrite: bool = False) -> Path:
    """Write a file, under another name first: no one can read a part of it.

    What exists is replaced only with `overwrite`, and a link there is replaced, not followed. Only
    its owner can read the file; to publish it, change its mode.
    """
    target = Path(path)
    if not overwrite and os.path.lexists(target):
        raise InvalidInput(
            f"{str(path)!r} exists already: choose another name, or pass overwrite=True"
        )
    if not target.parent.is_dir():
        raise InvalidInput(
            f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}; make it first"
        )
    part = part_of(target)
    try:
        with new_private_file(part) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        put_in_place(part, target, overwrite=overwrite)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    return target
