"""Data sets by name: random mixtures, generated rows, bundled samples, files of the user.

``python -m privgmm.data.datasets`` writes the bundled synthetic samples again, bit for bit from
fixed seeds.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privgmm.arrays import Array, finite_array, frozen, whole_number
from privgmm.data.content import MAX_BYTES
from privgmm.data.generators import (
    GENERATORS,
    ill_conditioned,
    overlapping,
    random_mixture,
    same_mean,
    separation_of,
    well_separated,
)
from privgmm.data.jitter import jittered
from privgmm.data.tables import Layout, Reading, numeric_columns, read_table
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = [
    "GENERATORS",
    "Dataset",
    "generate",
    "ill_conditioned",
    "load_sample",
    "load_table",
    "numeric_columns",
    "overlapping",
    "random_mixture",
    "same_mean",
    "sample_names",
    "sample_path",
    "separation_of",
    "well_separated",
    "write_samples",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, and what is known about them.

    Parameters
    ----------
    rows : array-like (n, d)
        Finite numbers; kept read-only (copied unless it is a read-only float64 array already).
    truth : Mixture or None
        The law the rows were drawn from, where it is known.
    columns : sequence of str, optional
        The d names; ``x1 … xd`` by default.
    name : str
    description : str
        Where the rows come from, in a sentence.
    reading : Reading or None
        How the file was read, if it is one.
    """

    rows: Array
    truth: Mixture | None = None
    columns: tuple[str, ...] = ()
    name: str = "data"
    description: str = ""
    reading: Reading | None = None

    def __post_init__(self) -> None:
        rows = finite_array(self.rows, "rows", (None, None))
        if 0 in rows.shape:
            raise InvalidInput(f"rows must hold at least one number, got shape {rows.shape}")
        columns = tuple(self.columns) or tuple(f"x{j + 1}" for j in range(rows.shape[1]))
        if len(columns) != rows.shape[1]:
            raise InvalidInput(
                f"columns must name all {rows.shape[1]} columns of rows, got {len(columns)} names"
            )
        if self.truth is not None and self.truth.n_features != rows.shape[1]:
            raise InvalidInput(
                f"truth has {self.truth.n_features} dimensions and rows have {rows.shape[1]}"
            )
        object.__setattr__(self, "rows", frozen(rows) if rows.flags.writeable else rows)
        object.__setattr__(self, "columns", columns)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.rows.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """A digest of every number and every column name.

        It distinguishes data sets that differ in one row, which a digest of a sample would not. It
        identifies the data exactly, so it is CONFIDENTIAL.
        """
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps([self.rows.shape, self.columns]).encode())
        digest.update(np.ascontiguousarray(self.rows).data)
        return digest.hexdigest()

    @cached_property
    def thumbnail(self) -> Array:
        """Rows for pictures, evenly spread through the table: (m, d).

        At most 4,000, or 50,000 where one column makes a histogram. Computations take all rows.
        """
        most = 50_000 if self.n_features == 1 else 4_000
        if self.n_rows <= most:
            return self.rows
        return frozen(self.rows[np.linspace(0, self.n_rows - 1, most).astype(np.intp)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return self.fingerprint == other.fingerprint and self.truth == other.truth

    def __hash__(self) -> int:
        return hash(self.fingerprint)


# Random mixtures


def generate(mixture: Mixture, n: int, *, rng: np.random.Generator | int | None = None) -> Dataset:
    """Draw n rows from a known mixture.

    Examples
    --------
    >>> data = generate(well_separated(rng=1), 500, rng=2)
    >>> data.rows.shape, data.truth.n_components
    ((500, 2), 2)
    """
    rows = mixture.sample(whole_number(n, "n", 1), rng=rng)
    rows.setflags(write=False)
    return Dataset(rows, mixture, name="generated", description=f"{n:,} generated rows")


# Files and samples


def load_table(
    source: str | Path | bytes,
    *,
    columns: Sequence[str] | None = None,
    drop_gaps: bool = False,
    header: bool | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    name: str | None = None,
    jitter: Mapping[str, float] | None = None,
    rng: np.random.Generator | int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """Read a CSV or Parquet file, or the bytes of one.

    See `tables.read_table` for what is read and what is refused, and `tables.Layout` for `header`,
    `separator` and `decimal`. By default every column is taken, and all must hold numbers; with
    `drop_gaps` rows with missing values are dropped, which weakens the promise as described there.
    `jitter` gives the public step of columns recorded on a grid, by name (see `jittered`); its
    noise is fresh unless `rng` is a seed.
    """
    layout = Layout(header, separator, decimal)
    table = read_table(
        source, columns=columns, drop_gaps=drop_gaps, layout=layout, max_bytes=max_bytes
    )
    rows = table.rows
    if jitter:
        rows = jittered(rows, jitter, columns=table.columns, rng=rng)
    if name is None:
        name = "uploaded file" if isinstance(source, bytes) else Path(source).stem
    description = f"{len(table.rows):,} rows of {name}"
    if table.left_out:
        description += f"; columns left out: {', '.join(table.left_out)}"
    if drop_gaps:
        description += "; rows with gaps dropped"
    if jitter:
        description += f"; noise undoes rounding in {', '.join(jitter)}"
    return Dataset(rows, None, table.columns, name, description, table.reading)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sample:
    """A bundled data set: how to describe it and, if synthetic, how to draw it."""

    description: str
    mixture: Callable[[], Mixture] | None = None
    n: int = 0
    seed: int = 0


# The seeds are arbitrary; the files in sample_data/ depend on them.
_SAMPLES: dict[str, _Sample] = {
    "well_separated_2d": _Sample(
        "100,000 rows from two well separated Gaussians in the plane",
        lambda: Mixture(
            [0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]]
        ),
        100_000,
        20_230_601,
    ),
    "overlapping_2d": _Sample(
        "150,000 rows from two overlapping Gaussians in the plane",
        lambda: Mixture(
            [0.5, 0.5],
            [[-1.2, -0.3], [1.2, 0.3]],
            [[[1.0, 0.5], [0.5, 1.5]], [[1.5, -0.4], [-0.4, 1.0]]],
        ),
        150_000,
        20_230_602,
    ),
    "same_mean_2d": _Sample(
        "100,000 rows from two crossed Gaussians with the same mean",
        lambda: Mixture(
            [0.5, 0.5],
            [[1.0, 2.0], [1.0, 2.0]],
            [[[6.0, 1.0], [1.0, 0.5]], [[0.5, -1.0], [-1.0, 6.0]]],
        ),
        100_000,
        20_230_603,
    ),
    "ill_conditioned_5d": _Sample(
        "200,000 rows from three needle-like Gaussians in five dimensions (condition 1e6)",
        lambda: ill_conditioned(3, 5, rng=20_230_604),
        200_000,
        20_230_605,
    ),
    "old_faithful": _Sample(
        "272 eruptions of the Old Faithful geyser: length and waiting time, in minutes"
    ),
}


def sample_names() -> tuple[str, ...]:
    """List the names that `load_sample` knows."""
    return tuple(_SAMPLES)


def load_sample(name: str) -> Dataset:
    """Load a data set that comes with the package.

    Examples
    --------
    >>> load_sample("old_faithful").rows.shape
    (272, 2)
    """
    path = sample_path(name)
    table, truth, sample = read_table(path), None, _SAMPLES[name]
    if sample.mixture is not None:
        truth = Mixture.from_dict(json.loads(path.with_suffix(".truth.json").read_text()))
    return Dataset(table.rows, truth, table.columns, name, sample.description)


def sample_path(name: str) -> Path:
    """Return the path of a data set that comes with the package."""
    if name not in _SAMPLES:
        raise InvalidInput(f"there is no sample {name!r}; choose from {', '.join(_SAMPLES)}")
    ending = "csv" if _SAMPLES[name].mixture is None else "parquet"
    return _sample_folder() / f"{name}.{ending}"


def write_samples(folder: str | Path) -> tuple[Path, ...]:
    """Draw the synthetic samples again and write them, with their true mixtures.

    Rows are stored in single precision: a rounding of 6e-8 of each number, far below the
    statistical error of any fit, for half the size.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, sample in _SAMPLES.items():
        if sample.mixture is None:
            continue
        truth = sample.mixture()
        rows = truth.sample(sample.n, rng=sample.seed).astype(np.float32)
        names = [f"x{j + 1}" for j in range(truth.n_features)]
        path = target / f"{name}.parquet"
        pq.write_table(
            pa.table(dict(zip(names, rows.T, strict=True))),
            path,
            compression="zstd",
            compression_level=19,
            use_dictionary=False,
            use_byte_stream_split=True,
        )
        known = target / f"{name}.truth.json"
        known.write_text(json.dumps(truth.to_dict(), indent=1) + "\n")
        written += [path, known]
    return tuple(written)


def _sample_folder() -> Path:
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "_sample_data", here.parent / "sample_data"):
        if folder.is_dir():
            return folder
    raise InvalidInput(
        "the sample data were not installed: install privgmm from its wheel or from a clone"
    )


if __name__ == "__main__":
    write_samples(_sample_folder())
