"""A running app and a real browser, or a clear word on why there is none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
_READY = (
    "[data-testid='stApp'][data-test-connection-state='CONNECTED']"
    "[data-test-script-state='notRunning']"
)
_PATIENCE = 120_000
"""Milliseconds: on a machine with other things to do an answer may take its time."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium from the PATH."""
    path = shutil.which("chromium")
    if path is None:
        message = "no browser: install Debian's package `chromium` (apt-get install chromium)"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on a free local port, for as long as a module's tests run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("app") / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "streamlit", "run", "app.py"),
                *("--server.address", "127.0.0.1", "--server.port", str(port)),
                *("--server.headless", "true", "--server.fileWatcherType", "none"),
            ],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/_stcore/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=20)


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers; fail with its log if it never does."""
    for _ in range(900):
        if server.poll() is not None:
            pytest.fail(f"the app did not start:\n{log.read_text()}")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the app did not answer within three minutes:\n{log.read_text()}")


def settle(page: Page, *, picture: bool = True) -> None:
    """Wait until the script has run, nothing is loading and the picture is drawn."""
    page.set_default_timeout(_PATIENCE)
    page.wait_for_timeout(250)
    page.wait_for_selector(_READY, timeout=180_000)
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')", timeout=_PATIENCE)
    if picture:
        page.wait_for_selector(".main-svg", timeout=_PATIENCE)
    assert page.locator("[data-testid='stException']").count() == 0
