"""A running app and a real browser, or a clear word on why there is none."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
_READY = (
    "[data-testid='stApp'][data-test-connection-state='CONNECTED']"
    "[data-test-script-state='notRunning']"
)
_PATIENCE = 300_000
"""Milliseconds: on a machine with other things to do an answer may take its time. With ten programs
for each processor the first rehearsals took more than two minutes."""


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium from the PATH."""
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        launched.on("context", lambda context: context.set_default_timeout(_PATIENCE))
        yield launched
        launched.close()


_LOCAL = {"data", "blob", "about"}
"""Schemes of what is in the page already."""


def is_elsewhere(url: str, address: str) -> bool:
    """Whether a request for this leaves the server."""
    there, here = urlsplit(url), urlsplit(address)
    return there.scheme not in _LOCAL and there.netloc != here.netloc


class Requests:
    """Everything that a page asks for from now on, its sockets and the tab's icon included."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._asked: list[str] = []
        page.context.on("request", lambda request: self._asked.append(request.url))
        page.on("websocket", lambda socket: self._asked.append(socket.url))

    def elsewhere(self, address: str) -> list[str]:
        """What was asked of anybody but the server; there must have been requests at all."""
        # what Chromium itself fetches for the tab is no request of the page's
        icon = self._page.evaluate("document.querySelector('link[rel~=icon]').href")
        assert any(url.startswith("ws") for url in self._asked)
        assert any(url.startswith("http") for url in self._asked)
        return [url for url in [*self._asked, icon] if is_elsewhere(url, address)]


@pytest.fixture(scope="session")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on a free local port; every test is a new visitor."""
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
    page.wait_for_selector(_READY, timeout=_PATIENCE)
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')", timeout=_PATIENCE)
    if picture:
        page.wait_for_selector(".main-svg", timeout=_PATIENCE)
    assert page.locator("[data-testid='stException']").count() == 0
