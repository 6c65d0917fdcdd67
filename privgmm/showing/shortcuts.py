"""Let values offer what is built on them: their picture, and their receipt.

A mixture is a value and figures are made of mixtures, so the values cannot import the figures. The
room above is imported here, by name, when someone asks for it; so this is the one place where an
import goes upwards, and `import privgmm` loads neither Plotly nor the records.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

from privgmm.errors import InvalidInput

__all__ = ["check_plotly", "plotted", "saved"]


def check_plotly(what: str) -> None:
    """Raise `InvalidInput` where Plotly is missing, which a thing needs."""
    if importlib.util.find_spec("plotly") is None:
        raise InvalidInput(f"{what} needs Plotly: pip install plotly")


def plotted(shown: object, **options: Any) -> Any:
    """Draw a mixture, release, fit or sketch: see `privgmm.figures.objects.plot`."""
    check_plotly("plot")
    return importlib.import_module("privgmm.figures.objects").plot(shown, **options)


def saved(result: object, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the receipt of a result to a file: see `privgmm.records.receipt`."""
    receipts = importlib.import_module("privgmm.records.receipt")
    overwrite = options.pop("overwrite", False)
    receipt = receipts.make_receipt(result, **options)
    written: Path = receipts.write_receipt(receipt, path, overwrite=overwrite)
    return written
