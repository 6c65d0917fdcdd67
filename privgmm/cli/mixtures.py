"""`privgmm sample` and `privgmm tv`: use mixtures that were released, at no cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from privgmm.cli.arguments import DONE, Add, a_seed, add_columns, column_names, some_rows
from privgmm.cli.files import as_csv, as_json, output, read_mixture, read_named_mixture, say
from privgmm.distances.mixture_variation import mixture_tv
from privgmm.errors import InvalidInput

__all__ = ["add_mixtures"]

_CHUNK = 100_000


def add_mixtures(add: Add) -> None:
    """Add the commands."""
    part = add("sample", _sample)
    part.add_argument("file", type=Path, help="a receipt, or a mixture as JSON; - reads one")
    add_columns(part, "names for the columns, comma separated (default: those in the receipt)")
    part.add_argument("-n", type=some_rows, required=True, help="rows to draw")
    part.add_argument("--out", type=Path, help="write CSV here; must not exist")
    part.add_argument("--seed", type=a_seed)

    part = add("tv", _tv)
    part.add_argument("first", type=Path, help="a receipt, a mixture or a Gaussian as JSON")
    part.add_argument("second", type=Path)


def _sample(chosen: argparse.Namespace) -> int:
    """Draw rows from a release as CSV; costs no privacy."""
    mixture, known = read_named_mixture(chosen.file)
    usual = known or [f"x{j + 1}" for j in range(mixture.n_features)]
    names = usual if chosen.columns is None else column_names(chosen.columns) or []
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
                stream.write(as_csv(rows, names, header=start == 0))
        if chosen.json:
            stream.write("]}\n")
    return DONE


def _tv(chosen: argparse.Namespace) -> int:
    """Total variation distance of two Gaussians or mixtures, with how far it may be off."""
    pair = read_mixture(chosen.first), read_mixture(chosen.second)
    found = mixture_tv(*pair)
    if chosen.json:
        say(as_json({"tv": found.value, "half_width": found.half_width, "method": found.method}))
    else:
        say(f"{found.value!r} ± {found.half_width:.2g} ({found.method})")
    return DONE
