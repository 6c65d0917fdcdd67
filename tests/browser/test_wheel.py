"""The installed command serves every page, by its address, with the dashboard's own look."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from privgmm.dashboard.shared.layout import PAGES
from tests.browser.conftest import settle, wait_for
from tests.installation import build_wheel, install

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``privgmm app`` of an installed wheel, on a free port."""
    folder = tmp_path_factory.mktemp("served")
    installed = install(build_wheel(folder), folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "log.txt"
    with log.open("w") as out:
        server = subprocess.Popen(
            **installed.process("privgmm", "app", "--port", port, app=True),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(f"http://localhost:{port}/_stcore/health", server, log)
        yield f"http://localhost:{port}"
    finally:
        if server.poll() is None:
            # the command and the server it started
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)


def test_every_address_serves(browser: Browser, served: str) -> None:
    page = browser.new_page()
    for place in PAGES:
        name = Path(place.path).stem
        page.goto(f"{served}/{'' if name == 'app' else name}")
        settle(page, picture=False)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert page.get_by_text("Page not found").count() == 0
    page.goto(served)
    settle(page)
    button = page.get_by_role("button", name="Release", exact=True)
    colour = button.evaluate("node => getComputedStyle(node).backgroundColor")
    assert colour == "rgb(179, 79, 0)", "the look comes from the configuration in the wheel"
    page.close()
