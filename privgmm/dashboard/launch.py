"""Start the dashboard's server, and load what its first page needs.

Streamlit imports an app when the first browser connects, which then waits seconds for numerical
libraries. Here a thread loads them while the server starts.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from privgmm.arrays import one_blas_thread
from privgmm.errors import InvalidInput

__all__ = ["app_file", "launch"]

# All heavy libraries that the pages use; the pages themselves need a running server.
_HEAVY = (
    "pandas",
    "privgmm",
    "privgmm.figures.mixtures",
    "privgmm.records.notebook",
    "privgmm.methods.what_if",
)


def app_file() -> Path:
    """Find the first page: inside the package in an installation, next to it in a clone."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_app", package.parent):
        if (folder / "app.py").is_file() and (folder / "pages").is_dir():
            return folder / "app.py"
    raise InvalidInput("the dashboard was not installed: get privgmm from a clone or its wheel")


def _load() -> None:
    for name in _HEAVY:
        importlib.import_module(name)
    importlib.import_module("privgmm.compile_kernels").compile_all()
    # what is loaded stays: without it a full collection takes milliseconds, not a tenth of a second
    gc.collect()
    gc.freeze()


def launch(arguments: Sequence[str] = ()) -> None:
    """Serve until stopped.

    Parameters
    ----------
    arguments : sequence of str
        Options for ``streamlit run``, such as ``--server.port 8600``.

    Raises
    ------
    InvalidInput
        If libraries of the dashboard are not installed.
    """
    path = app_file()
    missing = [name for name in ("streamlit", "plotly") if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidInput(
            f"the dashboard needs {' and '.join(missing)}: pip install 'privgmm[app]'"
        )
    # Permanently: every visitor's work has a thread of its own, and BLAS threads that wait for each
    # other on busy processors have been measured to take seven times as long as the work itself.
    one_blas_thread().__enter__()
    # Imported only once it is known to be installed: the error above says what to install.
    from streamlit.web import cli

    threading.Thread(target=_load, name="privgmm-load", daemon=True).start()
    sys.argv = ["streamlit", "run", str(path), *arguments]
    cli.main()


if __name__ == "__main__":
    try:
        launch(sys.argv[1:])
    except InvalidInput as problem:
        sys.stderr.write(f"privgmm: {problem}\n")
        sys.exit(2)
