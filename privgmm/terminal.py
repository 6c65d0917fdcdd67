"""What the command line reads and writes: mixtures as JSON, rows as CSV, new files, a progress bar.

A front door's own plumbing; `cli` alone uses it.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = ["as_csv", "as_json", "file_content", "output", "progress_bar", "read_mixture", "say"]

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


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a new file.

    The file is created before anything is computed, and removed again if that fails: a folder
    that cannot be written to must not cost a release its budget.
    """
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        stream = path.open("x", encoding="utf-8", newline="")
    except FileExistsError as problem:
        raise InvalidInput(f"--out {str(path)!r} exists already: choose another name") from problem
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot write --out {str(path)!r}: {problem}") from problem
    try:
        with stream:
            yield stream
    except BaseException:
        path.unlink(missing_ok=True)
        raise


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


def file_content(path: Path) -> bytes:
    """The bytes of a file, or a clear error."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"cannot read {str(path)!r}: {problem}") from problem


def read_mixture(path: Path) -> Mixture:
    """A mixture from a JSON file: a mixture, one Gaussian (mean, covariance), or a receipt."""
    content = file_content(path)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"{str(path)!r} is not JSON: {problem}") from problem
    if not isinstance(data, dict):
        raise InvalidInput(f"{str(path)!r} must hold a JSON object, got {type(data).__name__}")
    if data.get("released") is False:
        raise InvalidInput(f"{str(path)!r} is a refusal: it holds no mixture")
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
    return mixture


def as_csv(rows: Array, names: list[str], *, header: bool) -> str:
    """Rows (n, d) as CSV, each number in the shortest form that reads back exactly."""
    table = pa.table(list(rows.T), names=names)
    sink = io.BytesIO()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=header))
    return sink.getvalue().decode()
