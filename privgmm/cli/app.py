"""`privgmm app`: the dashboard in a browser."""

from __future__ import annotations

import argparse
import subprocess
import sys

from privgmm.cli.arguments import a_whole_number
from privgmm.cli.parser import CommandParser
from privgmm.cli.terminal import as_json, say
from privgmm.errors import InvalidInput

__all__ = ["add_app"]


def add_app(part: CommandParser) -> None:
    """Declare the arguments of `privgmm app`."""
    part.runs(_app)
    part.add_argument(
        "--port", type=a_whole_number, default=8501, help="where it listens (default 8501)"
    )


def _app(chosen: argparse.Namespace) -> int:
    """Start the dashboard in a browser."""
    if not 1 <= chosen.port <= 65_535:
        raise InvalidInput(f"--port must lie in 1..65535, got {chosen.port}")
    if chosen.json:
        say(as_json({"url": f"http://localhost:{chosen.port}"}))
    # a process of its own: streamlit takes over signals and arguments; it also says what is missing
    order = [sys.executable, "-m", "privgmm.dashboard.launch"]
    return subprocess.call([*order, "--server.port", str(chosen.port)])
