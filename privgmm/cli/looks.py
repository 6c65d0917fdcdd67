"""`privgmm fit` and `privgmm picture`: more from a receipt that holds a sketch, at no cost."""

from __future__ import annotations

import argparse
import html
from pathlib import Path
from typing import Any

from privgmm.cli.arguments import (
    a_count_or_auto,
    add_covariance_type,
    add_max_components,
    split_columns,
)
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.files import NewFile, output
from privgmm.cli.parser import CommandParser
from privgmm.cli.receipts import intact_receipt
from privgmm.cli.terminal import as_json, say
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.records.bundle import check_figures
from privgmm.records.receipt import sketch_of
from privgmm.stages.sketch.choice import Choice
from privgmm.stages.sketch.private_sketch import PrivateSketch, SketchFit
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["add_fit", "add_picture"]

_PAGE_ROOM = 8 * 2**20
"""Bytes to reserve for a page: Plotly's script takes 4 to 5 million of them."""


def add_fit(part: CommandParser) -> None:
    """Declare the arguments of `privgmm fit`."""
    part.runs(_fit)
    part.add_argument("file", type=Path, help="a receipt of method sketch; - reads one")
    part.add_argument(
        "--k", type=a_count_or_auto, default="auto", help="components, or auto (default) to choose"
    )
    add_covariance_type(part)
    add_max_components(part)
    part.add_argument("--out", type=Path, help="write the mixture here as JSON; must not exist")


def add_picture(part: CommandParser) -> None:
    """Declare the arguments of `privgmm picture`."""
    part.runs(_picture)
    part.add_argument("file", type=Path, help="a receipt of method sketch; - reads one")
    part.add_argument(
        "--columns",
        nargs="+",
        metavar="NAME",
        help="one column for its density, or two for their picture (default: the first two)",
    )
    part.add_argument(
        "--out", type=Path, required=True, metavar="HTML", help="a new file; opens in a browser"
    )


def _fit(chosen: argparse.Namespace) -> int:
    """Fit another number of components, or other covariances, to a receipt; costs no privacy.

    The data is not needed: the noisy sketch in the receipt is public, and everything computed from
    it is free. Says how well the mixture explains the rows, with standard errors of its numbers.
    What --out writes can be given to `sample` and `tv`. The receipt is verified first (exit code 1
    if it was changed).
    """
    receipt = intact_receipt(chosen.file)
    if receipt is None:
        return ExitCode.FAILED
    sketch, k, choice = _sketch(receipt, chosen.file), chosen.k, None
    if k == "auto":
        choice = sketch.choice(chosen.max_components, chosen.covariance_type)
        k = choice.n_components
    fit = sketch.fit(k, chosen.covariance_type)
    answer: dict[str, Any] = {
        "columns": list(sketch.columns),
        **fit.to_dict(),
        "seeded": receipt["seeded"],
        "guarantee": receipt["guarantee"],
    }
    if choice is not None:
        answer["path"] = choice.to_dict()["tried"]
    if chosen.out is not None:
        with output(chosen.out) as stream:
            stream.write(as_json(answer) + "\n")
    say(as_json(answer) if chosen.json else "\n".join(_lines(fit, choice)))
    return ExitCode.DONE


def _lines(fit: SketchFit, choice: Choice | None) -> list[str]:
    return [*([] if choice is None else [str(choice)]), str(fit)]


def _picture(chosen: argparse.Namespace) -> int:
    """Draw the density of one or two columns from a receipt; costs no privacy.

    Writes a page that needs no network and may be published. The data is not needed: what is drawn
    is the noisy sketch in the receipt. The receipt is verified first (exit code 1 if it was
    changed).
    """
    check_figures()
    receipt = intact_receipt(chosen.file)
    if receipt is None:
        return ExitCode.FAILED
    sketch = _sketch(receipt, chosen.file)
    names = split_columns(chosen.columns) or list(sketch.columns[:2])
    if not 1 <= len(names) <= 2:
        raise InvalidInput(f"--columns must be one column or two, got {', '.join(names)}")
    with NewFile(chosen.out, "--out", room=_PAGE_ROOM) as file:
        page, words = _page(receipt, sketch, names)
        file.stream.write(page.encode())
        file.keep()
    if chosen.json:
        say(as_json({"out": str(chosen.out), "columns": names, "words": words}))
    else:
        say(f"wrote {str(chosen.out)!r}. {words}")
    return ExitCode.DONE


def _page(receipt: dict[str, Any], sketch: PrivateSketch, names: list[str]) -> tuple[str, str]:
    """Write a page with its script inside, and say in words what the picture shows."""
    from privgmm.figures.picture import curve_figure, image_figure, image_words

    mixture = Mixture.from_dict(receipt["mixture"])
    if len(names) == 1:
        curve = sketch.curve(names[0])
        figure = curve_figure(curve, mixture=mixture, axis=sketch.column(names[0]))
        words = (
            f"Density of {names[0]}, with a band of two standard errors. Noise and sampling move "
            f"it by about {curve.expected_variation:.2g} in total variation; details narrower than "
            f"{curve.resolution:.2g} were not measured."
        )
    else:
        image = sketch.image(names)
        written = receipt["standard_errors"]
        figure = image_figure(
            image,
            mixture=mixture,
            errors=None if written is None else StandardErrors.from_dict(written),
            axes=[sketch.column(name) for name in names],
        )
        words = image_words(image)
    drawing = figure.to_html(full_html=False, include_plotlyjs=True, div_id="picture")
    page = (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{html.escape(' and '.join(names))}</title></head>\n<body>\n"
        f'<div role="img" aria-label="{html.escape(words)}">\n{drawing}\n</div>\n'
        f"<p>{html.escape(words)}</p>\n<p>{html.escape(receipt['guarantee']['words'])}</p>\n"
        "</body>\n</html>\n"
    )
    return page, words


def _sketch(receipt: dict[str, Any], path: Path) -> PrivateSketch:
    """Return the sketch in a receipt; raise `InvalidInput` if it holds none."""
    sketch = sketch_of(receipt)
    if sketch is None:
        what = (
            "is one of a refusal"
            if not receipt["released"]
            else f"holds no sketch (it was made by method {receipt['plan']['method']})"
        )
        raise InvalidInput(
            f"the receipt {str(path)!r} {what}: only what method sketch released can be looked at "
            "again for free"
        )
    return sketch
