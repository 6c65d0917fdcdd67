"""`privgmm sample` and `privgmm tv`: use mixtures that were released, at no cost."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from privgmm.arrays import Array
from privgmm.cli.arguments import a_row_count, a_seed, add_columns, split_columns
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.files import file_content, output
from privgmm.cli.parser import CommandParser
from privgmm.cli.terminal import as_json, say
from privgmm.data.spreadsheets import inert_names
from privgmm.distances.mixture_variation import mixture_tv
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = ["add_sample", "add_tv"]

_CHUNK = 100_000
"""Rows drawn and written at a time, so that any number fits into memory."""
_LARGEST_SIZE = 1e60
"""Means and deviations up to this, and deviations down to its inverse, are taken: the square of any
ratio of two, at most 1e240, is still a finite float."""


def add_sample(part: CommandParser) -> None:
    """Declare the arguments of `privgmm sample`."""
    part.runs(_sample)
    part.add_argument("file", type=Path, help="a receipt, or a mixture as JSON; - reads one")
    add_columns(part, "names for the columns, comma separated (default: those in the receipt)")
    part.add_argument(
        "-n", "--rows", dest="n", type=a_row_count, required=True, help="rows to draw"
    )
    part.add_argument("--out", type=Path, help="write CSV here; must not exist")
    part.add_argument("--seed", type=a_seed, help="repeats the draw")


def add_tv(part: CommandParser) -> None:
    """Declare the arguments of `privgmm tv`."""
    part.runs(_tv)
    part.add_argument("first", type=Path, help="a receipt, a mixture or a Gaussian as JSON")
    part.add_argument("second", type=Path, help="another one")


def _sample(chosen: argparse.Namespace) -> int:
    """Draw rows from a release as CSV; costs no privacy."""
    mixture, known = _read_named_mixture(chosen.file)
    usual = known or [f"x{j + 1}" for j in range(mixture.n_features)]
    names = usual if chosen.columns is None else split_columns(chosen.columns) or []
    if len(names) != mixture.n_features or len(set(names)) != len(names):
        raise InvalidInput(f"--columns must be {mixture.n_features} distinct names, got {names}")
    rng = np.random.default_rng(chosen.seed)
    with output(chosen.out) as stream:
        if chosen.json:
            stream.write(f'{{"columns": {json.dumps(names)}, "rows": [')
        for start in range(0, chosen.n, _CHUNK):
            rows = mixture.sample(min(_CHUNK, chosen.n - start), rng=rng)
            if chosen.json:
                comma = ", " if start else ""
                stream.write(comma + json.dumps(rows.tolist(), allow_nan=False)[1:-1])
            else:
                stream.write(_as_csv(rows, names, header=start == 0))
        if chosen.json:
            stream.write("]}\n")
    return ExitCode.DONE


def _tv(chosen: argparse.Namespace) -> int:
    """Compute the total variation distance of two Gaussians or mixtures, and its error bound."""
    pair = _read_mixture(chosen.first), _read_mixture(chosen.second)
    found = mixture_tv(*pair)
    if chosen.json:
        say(as_json({"tv": found.value, "half_width": found.half_width, "method": found.method}))
    else:
        say(f"{found.value!r} ± {found.half_width:.2g} ({found.method})")
    return ExitCode.DONE


def _read_mixture(path: Path) -> Mixture:
    """Read a mixture from JSON: a mixture, one Gaussian (mean, covariance), or a receipt."""
    return _read_named_mixture(path)[0]


def _read_named_mixture(path: Path) -> tuple[Mixture, list[str] | None]:
    """Read a mixture from JSON, and the names of its columns where a receipt gives them."""
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
    if not (sizes.max() <= _LARGEST_SIZE and deviations.min() >= 1 / _LARGEST_SIZE):
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


def _as_csv(rows: Array, names: list[str], *, header: bool) -> str:
    """Write rows (n, d) as CSV, each number in the shortest form that reads back exactly."""
    table = pa.table(list(rows.T), names=inert_names(names))
    sink = io.BytesIO()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=header))
    return sink.getvalue().decode()
