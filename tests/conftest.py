"""Set up what all tests share: reproducible property tests and a folder for pictures."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cli.command_result import CommandResult

settings.register_profile("privgmm", deadline=None, derandomize=True)
settings.load_profile("privgmm")


def pytest_collection_finish() -> None:
    """Leave what is imported by now out of garbage collections: a tenth of the suite's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Return the folder where tests leave pictures for people to look at."""
    folder = Path(__file__).resolve().parent.parent / "test-artifacts"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """Find the browser; without one the test is skipped, or fails where one is required."""
    path = shutil.which("chromium")
    if path is None:
        message = "no browser: install Debian's package `chromium` (apt-get install chromium)"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(autouse=True, scope="session")
def ledger_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and processes that they start, out of the ledger of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVGMM_LEDGER", str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite"))
        yield


_MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """Restore ``__main__``: a page that Streamlit runs replaces it, and new processes run it."""
    # also before the test: fixtures that live longer may have run a page already
    sys.modules["__main__"] = _MAIN
    yield
    sys.modules["__main__"] = _MAIN


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Call the command line inside the process; a receipt without a place is printed."""
    from privgmm.cli.main import main

    def call(*arguments: object) -> CommandResult:
        order = [str(a) for a in arguments]
        if order[:1] == ["release"] and not {"--out", "--json"} & set(order):
            order += ["--out", "-"]
        code = main(order)
        out, err = capsys.readouterr()
        return CommandResult(code, out, err)

    return call
