"""Drive the notebook in JupyterLab and Chromium; ``python docs/notebook.py`` renews its figures.

The notebook is stored with pictures in place of its widgets, for those who read it where no kernel
runs: they are pictures of the widgets themselves.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

__all__ = ["PATH", "Lab", "main", "open_notebook"]

PATH = Path(__file__).resolve().parent.parent / "notebooks" / "private_mixtures.ipynb"
_PATIENCE = 240_000
"""Milliseconds: on a machine with other things to do an answer may take its time."""
_COLOURS = 128
"""Of a saved picture: enough for its few hues, and a third of the bytes."""


_KERNEL_IS_READY = """() => { const shown = window.jupyterapp?.shell.currentWidget;
  return shown?.sessionContext?.session?.kernel?.status === 'idle'; }"""
"""Cells that are run before would ask for a kernel instead."""


class Lab:
    """The notebook in a page of JupyterLab."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def run_all(self) -> None:
        """Run every cell, and wait until the kernel is idle."""
        self.page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(
            "() => { const cells = [...document.querySelectorAll('.jp-CodeCell')];"
            " return cells.length && cells.every(cell =>"
            " /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').textContent)); }"
        )

    def output(self, number: int) -> Locator:
        """Return what the code cell of this number, from 0, shows."""
        return self.page.locator(".jp-CodeCell").nth(number).locator(".jp-Cell-outputArea")

    def errors(self) -> list[str]:
        """List the errors that cells show."""
        found = self.page.locator("[data-mime-type='application/vnd.jupyter.stderr']")
        return [text for text in found.all_inner_texts() if "Traceback" in text]


@contextlib.contextmanager
def open_notebook(
    browser: Browser, *, theme: str = "light", width: int = 1440, height: int = 1000
) -> Iterator[Lab]:
    """Open a copy of the notebook in JupyterLab, with settings and a kernel of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copy(PATH, home / PATH.name)
        settings = home / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(
            '{"fetchNews": "false", "checkForUpdates": false}'
        )
        (settings / "themes.jupyterlab-settings").write_text(
            f'{{"theme": "JupyterLab {theme.capitalize()}"}}'
        )
        tracker = home / "settings" / "@jupyterlab" / "notebook-extension"
        tracker.mkdir(parents=True)
        # cells out of sight are part of the page too
        (tracker / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with (home / "log.txt").open("w") as log:
            server = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                    *("--ip=127.0.0.1", f"--port={port}", f"--notebook-dir={home}"),
                    *("--ServerApp.token=", "--ServerApp.password="),
                    "--LabApp.expose_app_in_browser=True",
                ],
                env=os.environ
                | {
                    "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
                    "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
                    "JUPYTER_CONFIG_DIR": str(home / "config"),
                    "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
                    "IPYTHONDIR": str(home / "ipython"),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/api", server, home / "log.txt")
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(_PATIENCE)
            page.goto(f"{address}/lab/tree/{PATH.name}")
            page.wait_for_selector(".jp-Notebook .jp-CodeCell")
            page.wait_for_function(_KERNEL_IS_READY)
            yield Lab(page)
            page.close()
        finally:
            server.terminate()
            server.wait(timeout=60)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")


def _picture(shown: Locator) -> str:
    """Take a picture of an output, in few colours, as text."""
    picture = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
    small = io.BytesIO()
    picture.quantize(_COLOURS).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def main() -> None:
    """Run the notebook, and store it with pictures of its widgets."""
    book = nbformat.read(PATH, as_version=4)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        with open_notebook(browser, width=1280, height=2200) as lab:
            lab.run_all()
            lab.page.wait_for_timeout(30_000)
            for number, cell in enumerate(c for c in book.cells if c.cell_type == "code"):
                shown = lab.output(number)
                shown.scroll_into_view_if_needed()
                lab.page.wait_for_timeout(1500)
                cell.outputs = []
                if "widgets." in cell.source:
                    picture = {
                        "image/png": _picture(shown),
                        "text/plain": "a picture of the widget",
                    }
                    cell.outputs = [nbformat.v4.new_output("display_data", picture)]
                else:
                    cell.outputs = [
                        nbformat.v4.new_output("stream", text=shown.inner_text() + "\n")
                    ]
        browser.close()
    nbformat.write(book, PATH)


if __name__ == "__main__":
    main()
