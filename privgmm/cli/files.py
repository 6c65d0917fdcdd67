"""What the command line reads and writes: mixtures as JSON, rows as CSV, new files, a progress bar.

A front door's own plumbing; the commands alone use it.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from privgmm.arrays import Array
from privgmm.data.content import check_there
from privgmm.data.engines import Step, Watch
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.records.files import new_private_file, part_of

__all__ = [
    "STANDARD",
    "NewFile",
    "as_csv",
    "as_json",
    "file_content",
    "output",
    "progress_bar",
    "progress_lines",
    "read_mixture",
    "read_named_mixture",
    "say",
    "silence",
]

STANDARD = "-"
"""Stands for standard input, or for standard output."""

_BAR = 30
_LARGEST = 1e60


def say(text: str) -> None:
    """One answer on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value


def as_json(value: Any) -> str:
    """Indented JSON that every parser reads: null stands for infinities."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


class NewFile:
    """A file to be: its place is taken before anything is computed, and it appears whole.

    A folder that cannot be written to, or a full disk, must not cost a release its budget, so
    both are found out when this is made. Until `keep` the content lies beside the target under
    another name; as a context it is taken away again unless it was kept. Only its owner can read
    it.

    Parameters
    ----------
    path : Path
        Must not exist.
    option : str
        What errors call it.
    room : int
        Bytes to claim on the disk at once.
    """

    def __init__(self, path: Path, option: str, *, room: int = 0) -> None:
        self.path = path
        self._part = part_of(path)
        try:
            if str(path) == STANDARD:
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
        """Let the file appear with what was written; `OSError` if that cannot be done."""
        self.stream.truncate()
        self._settle()
        self.stream.close()
        try:
            # unlike a renaming this never replaces what has come there meanwhile
            os.link(self._part, self.path)
        except FileExistsError:
            raise
        except OSError:
            if os.path.lexists(self.path):
                raise
            # a file system without links
            self._part.replace(self.path)

    def drop(self) -> None:
        """Take away what is not kept; harmless after `keep`."""
        # closing flushes, which fails on a full disk; what was to be written is not wanted any more
        with suppress(OSError):
            self.stream.close()
        with suppress(OSError):
            self._part.unlink(missing_ok=True)


@contextmanager
def output(path: Path | None, option: str = "--out") -> Iterator[TextIO]:
    """Standard output, or a new file that appears whole or not at all."""
    if path is None or str(path) == STANDARD:
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


def silence() -> None:
    """Send what is left for standard output nowhere, so that nothing fails at the exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except io.UnsupportedOperation:
        # standard output that is not a file is not flushed at the exit
        return


def progress_bar(what: str) -> Callable[[int, int], None] | None:
    """A progress bar if somebody watches, else nothing."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        full = _BAR * done // total
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r[{'█' * full}{'·' * (_BAR - full)}] {done} of {total} {what}{end}")
        sys.stderr.flush()

    return show


def progress_lines() -> Watch | None:
    """A bar for each step of a release, with its rate and the time left, if somebody watches."""
    if not sys.stderr.isatty():
        return None

    def show(step: Step) -> None:
        full = _BAR * step.done // max(step.total, 1)
        over = step.done >= step.total
        pace = "" if step.rate is None else f", {step.rate:,.0f} per second"
        if over:
            pace += f", {step.seconds:.1f} s"
        elif step.left is not None:
            pace += f", {_clock(step.left)} left"
        sys.stderr.write(
            f"\r[{'█' * full}{'·' * (_BAR - full)}] {step.what}: {step.done:,} of {step.total:,} "
            f"{step.unit}{pace}\x1b[K{chr(10) if over else ''}"
        )
        sys.stderr.flush()

    return show


def _clock(seconds: float) -> str:
    """Time in a few letters.

    >>> _clock(4.2), _clock(75), _clock(7_300)
    ('5 s', '1 min 15 s', '2 h 1 min')
    """
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def file_content(path: Path) -> bytes:
    """The bytes of a file, or of standard input, or a clear error."""
    try:
        if str(path) == STANDARD:
            return sys.stdin.buffer.read()
        check_there(path)
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise InvalidInput(f"cannot read {str(path)!r}: {problem}") from problem


def read_mixture(path: Path) -> Mixture:
    """A mixture from a JSON file: a mixture, one Gaussian (mean, covariance), or a receipt."""
    return read_named_mixture(path)[0]


def read_named_mixture(path: Path) -> tuple[Mixture, list[str] | None]:
    """The same, and the names of its columns where a receipt gives them."""
    content = file_content(path)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"{str(path)!r} is not JSON: {problem}") from problem
    if not isinstance(data, dict):
        raise InvalidInput(f"{str(path)!r} must hold a JSON object, got {type(data).__name__}")
    if data.get("released") is False:
        raise InvalidInput(f"{str(path)!r} is a refusal: it holds no mixture")
    names = data.get("columns")
    data = data.get("mixture", data)
    if isinstance(data, dict) and {"mean", "covariance"} <= data.keys():
        data = {
            "weights": [1.0],
            "means": [data["mean"]],
            "covariances": [data["covariance"]],
        }
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            mixture = Mixture.from_dict(data)
    except InvalidInput as problem:
        raise InvalidInput(f"{str(path)!r}: {problem}") from problem
    except OverflowError as problem:
        raise InvalidInput(f"{str(path)!r} holds numbers beyond 1e308: {problem}") from problem
    deviations = np.diagonal(mixture.cholesky, axis1=1, axis2=2)
    sizes = np.concatenate([np.abs(mixture.means).ravel(), deviations.ravel()])
    if not (sizes.max() <= _LARGEST and deviations.min() >= 1 / _LARGEST):
        raise InvalidInput(
            f"{str(path)!r}: means and deviations must lie within 1e±60, or their squares and "
            "ratios leave the range of floats: change the units"
        )
    return mixture, names if _are_names(names, mixture.n_features) else None


def _are_names(value: object, n_features: int) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) and name for name in value)
        and len(value) == len(set(value)) == n_features
    )


def as_csv(rows: Array, names: list[str], *, header: bool) -> str:
    """Rows (n, d) as CSV, each number in the shortest form that reads back exactly."""
    table = pa.table(list(rows.T), names=names)
    sink = io.BytesIO()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=header))
    return sink.getvalue().decode()
