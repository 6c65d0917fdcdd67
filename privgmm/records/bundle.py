"""Put a release into one file: receipt, synthetic rows, a figure, a notebook and a read-me.

Everything in it is made from the receipt alone, so it may be shared like the receipt.
"""

from __future__ import annotations

import html
import importlib.util
import io
import os
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from privgmm.arrays import whole_number
from privgmm.data.spreadsheets import inert_names
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.records.files import write_whole
from privgmm.records.notebook import as_notebook
from privgmm.records.receipt import make_receipt, receipt_text, verify_receipt
from privgmm.releases import Outcome
from privgmm.results import Refusal, Release
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["BUNDLE_ROOM", "bundle_bytes", "check_figures", "make_bundle"]

BUNDLE_ROOM = 4 * 2**20
"""Bytes that a bundle of the usual number of rows stays below; most are the figure's script."""

_ROWS = 10_000
"""Synthetic rows where no number is given; a convention."""
# the oldest date a ZIP can hold: the same receipt gives the same bytes on any day
_DATE = (1980, 1, 1, 0, 0, 0)


def check_figures() -> None:
    """Raise `InvalidInput` where plotly is missing, which the figure of a bundle needs."""
    if importlib.util.find_spec("plotly") is None:
        raise InvalidInput("a bundle needs plotly for its figure: pip install 'privgmm[app]'")


def make_bundle(
    source: Outcome | Release | Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    n_rows: int = _ROWS,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a ZIP file with the receipt of a release and what can be drawn from it.

    Parameters
    ----------
    source : Outcome, Release or receipt
        Of an outcome only the public result is used. A seeded one makes a bundle too, which says
        that it is a demonstration.
    path : path
        The file; it is there whole or not at all, and its owner alone can read it.
    n_rows : int
        Synthetic rows, drawn from the released mixture.
    seed : int
        Draws them. The same receipt and seed give the same bytes.
    columns : sequence of str, optional
        The d names; by default those in the receipt, else ``x1 … xd``.
    overwrite : bool
        Whether to replace a file that exists; otherwise that is an error.

    Returns
    -------
    Path

    Notes
    -----
    It holds ``receipt.json``, ``synthetic.csv``, ``synthetic.parquet``, ``figure.html`` (which
    needs no network), ``notebook.ipynb`` and ``README.txt``.
    """
    content = bundle_bytes(source, n_rows=n_rows, seed=seed, columns=columns)
    return write_whole(path, content, overwrite=overwrite)


def bundle_bytes(
    source: Outcome | Release | Mapping[str, Any],
    *,
    n_rows: int = _ROWS,
    seed: int = 0,
    columns: Sequence[str] | None = None,
) -> bytes:
    """Make the content of the file that `make_bundle` writes."""
    check_figures()
    receipt = _receipt(source)
    mixture = Mixture.from_dict(receipt["mixture"])
    if columns is None:
        columns = receipt.get("columns")
    names = _names(columns, mixture.n_features)
    n = whole_number(n_rows, "n_rows", 1)
    rows = mixture.sample(n, rng=np.random.default_rng(whole_number(seed, "seed", 0)))
    table = pa.table(list(rows.T), names=names)
    csv_file, parquet_file = io.BytesIO(), io.BytesIO()
    pacsv.write_csv(table.rename_columns(inert_names(names)), csv_file)
    pq.write_table(table, parquet_file)
    parts: dict[str, str | bytes] = {
        "README.txt": _readme(receipt, n),
        "receipt.json": receipt_text(receipt),
        "figure.html": _figure(receipt, mixture, names),
        "notebook.ipynb": _notebook(names, looks=receipt.get("sketch") is not None),
        "synthetic.csv": csv_file.getvalue(),
        "synthetic.parquet": parquet_file.getvalue(),
    }
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for name, content in parts.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            file.writestr(entry, content)
    return whole.getvalue()


def _receipt(source: object) -> dict[str, Any]:
    """Make or check a receipt that holds a mixture."""
    if isinstance(source, Outcome):
        source = source.result
    if isinstance(source, Release | Refusal):
        source = make_receipt(source)
    if not isinstance(source, Mapping):
        raise InvalidInput(
            f"source must be an Outcome, a Release or a receipt, got {type(source).__name__}"
        )
    found = verify_receipt(source)
    if not found.intact:
        raise InvalidInput(f"the receipt does not verify: {'; '.join(found.problems)}")
    if source["mixture"] is None:
        raise InvalidInput("the receipt is one of a refusal: there is no mixture to draw from")
    return dict(source)


def _names(columns: Sequence[str] | None, d: int) -> list[str]:
    names = [f"x{j + 1}" for j in range(d)] if columns is None else list(columns)
    if len(names) != d or len(set(names)) != d or not all(isinstance(n, str) for n in names):
        raise InvalidInput(f"columns must be {d} distinct names, got {names}")
    return names


def _figure(receipt: Mapping[str, Any], mixture: Mixture, names: Sequence[str]) -> str:
    """Write a page with the figure, its script included."""
    from privgmm.figures.mixtures import figure_alt_text, mixtures_figure

    written = receipt.get("standard_errors")
    errors = None if written is None else StandardErrors.from_dict(written)
    figure = mixtures_figure(private=mixture, errors=errors, columns=names)
    words = figure_alt_text(private=mixture, columns=names)
    drawing = figure.to_html(full_html=False, include_plotlyjs=True, div_id="mixture")
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        "<title>A Gaussian mixture with differential privacy</title></head>\n<body>\n"
        f'<div role="img" aria-label="{html.escape(words)}">\n{drawing}\n</div>\n'
        f"<p>{html.escape(receipt['guarantee']['words'])}</p>\n</body>\n</html>\n"
    )


def _notebook(names: Sequence[str], *, looks: bool) -> str:
    """Write cells that check the receipt and use it, and read the sketch if there is one."""
    return as_notebook(
        [
            (
                "markdown",
                "# A Gaussian mixture with differential privacy\n\nKeep this notebook next to "
                "`receipt.json`. It needs `pip install 'privgmm[app]'` and no data.",
            ),
            (
                "markdown",
                "The receipt, checked: its hash, and what its plan costs, priced again; and what "
                "no such check can show.",
            ),
            (
                "code",
                "import json\nfrom pathlib import Path\n\nfrom privgmm import verify_receipt\n\n"
                'content = Path("receipt.json").read_bytes()\n'
                "found = verify_receipt(content)\n"
                "if not found.intact:\n    raise ValueError(found.problems)\n"
                "receipt = json.loads(content)\n"
                'print(receipt["guarantee"]["words"])\n'
                'print(*found.words, sep="\\n")',
            ),
            ("markdown", "What was released."),
            (
                "code",
                "from privgmm import Mixture\n\n"
                'mixture = Mixture.from_dict(receipt["mixture"])\nmixture',
            ),
            ("markdown", "Rows like those of the data, as many as you like; they cost no privacy."),
            (
                "code",
                f"import pandas as pd\n\ncolumns = {list(names)!r}\n"
                "rows = pd.DataFrame(mixture.sample(1_000, rng=0), columns=columns)\n"
                "rows.describe()",
            ),
            (
                "code",
                "from privgmm.figures.mixtures import mixtures_figure\n\n"
                "mixtures_figure(private=mixture, columns=columns)",
            ),
            *(_looks(len(names)) if looks else []),
        ]
    )


def _looks(d: int) -> list[tuple[str, str]]:
    """Write cells that use the sketch: other numbers of components, and the density itself."""
    picture = (
        "curve_figure(sketch.curve(columns[0]), mixture=mixture)"
        if d == 1
        else "image_figure(sketch.image(columns[:2]), mixture=mixture)"
    )
    return [
        (
            "markdown",
            "The receipt also holds the noisy sketch that the mixture was found in. It was paid "
            "for once: other fits cost nothing, and everyone gets the same ones.",
        ),
        (
            "code",
            "from privgmm.records import sketch_of\n\n"
            "sketch = sketch_of(receipt).with_columns(columns)\n"
            "print(sketch.choice(4))\n"
            "fit = sketch.fit(mixture.n_components)\n"
            "print(fit.verdict)\n"
            "for weight, off in zip(\n"
            "    fit.mixture.weights, fit.standard_errors.weights, strict=True\n"
            "):\n"
            '    print(f"weight {weight:.4f} ± {off:.2g}")',
        ),
        ("markdown", "The density as the sketch shows it, to be published like the rest."),
        (
            "code",
            f"from privgmm.figures.picture import {picture.split('(')[0]}\n\n{picture}",
        ),
    ]


def _readme(receipt: Mapping[str, Any], n_rows: int) -> str:
    k, d = len(receipt["mixture"]["weights"]), receipt["plan"]["n_features"]
    paragraphs = [
        "A Gaussian mixture learned with differential privacy",
        f"What is here was made from a release of {k} component{'s' if k > 1 else ''} in {d} "
        f"dimension{'s' if d > 1 else ''}, and from nothing else: no row of the data and no "
        "number computed from the data in any other way is in this file.",
        f"The promise. {receipt['guarantee']['words']} Here the probability is over the noise of "
        "the release. The smaller the factor, the less anyone can learn about "
        + ("one row." if receipt["neighbours"]["unit"] == "row" else "one person."),
        "receipt.json - what was released, how, and what it promises. Check it with: "
        "privgmm verify receipt.json (which also says what a receipt cannot show)",
        f"synthetic.csv, synthetic.parquet - {n_rows:,} rows drawn from the released mixture. No "
        "person's data are in them. They are as good as the mixture and no better.",
        "figure.html - the mixture as a picture; open it in a browser, no network is needed.",
        "notebook.ipynb - checks the receipt, draws rows and the picture again. It needs Python "
        "and: pip install 'privgmm[app]'",
    ]
    return "\n\n".join(textwrap.fill(paragraph, 80) for paragraph in paragraphs) + "\n"
