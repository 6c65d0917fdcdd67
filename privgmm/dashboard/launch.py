"""Start the dashboard's server, and load what its first page needs before anybody asks for it.

Streamlit imports an app when the first browser connects, which then waits seconds for numerical
libraries. Here they are loaded from the first moment, beside the server's own start.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from streamlit.web import cli

from privgmm.errors import InvalidInput

__all__ = ["app_file", "launch"]

# Everything heavy that the pages use; they themselves wait until there is a server.
_HEAVY = ("pandas", "privgmm", "privgmm.plotting", "privgmm.notebook", "privgmm.prospects")


def app_file() -> Path:
    """The first page: beside the package in a clone, inside it in an installation."""
    here = Path(__file__).resolve().parent
    for folder in (here.parent, here.parent.parent):
        if (folder / "app.py").is_file():
            return folder / "app.py"
    raise InvalidInput("the dashboard was not installed: install privgmm[app] from its wheel")


def _load() -> None:
    for name in _HEAVY:
        importlib.import_module(name)
    importlib.import_module("privgmm.warm").warm()


def launch(arguments: Sequence[str] = ()) -> None:
    """Serve until stopped.

    Parameters
    ----------
    arguments : sequence of str
        Options for ``streamlit run``, such as ``--server.port 8600``.
    """
    path = app_file()
    threading.Thread(target=_load, name="privgmm-load", daemon=True).start()
    sys.argv = ["streamlit", "run", str(path), *arguments]
    cli.main()


if __name__ == "__main__":
    launch(sys.argv[1:])
