"""How the command starts: it loads little, says its version, and can be stopped meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

import privgmm
from privgmm.cli.main import main
from privgmm.cli.parser import CommandParser, build_parser

HEAVY = {"numba", "scipy", "pandas", "pyarrow", "sklearn", "numpy"}


def loaded_by(*arguments: str) -> set[str]:
    """Return the heavy packages that a command has loaded when it ends."""
    order = (
        "import contextlib, io, json, sys\n"
        "from privgmm.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    main({list(arguments)!r})\n"
        f"print(json.dumps([name for name in {sorted(HEAVY)!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", order], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(option: str) -> None:
    assert loaded_by(option) == set()


def test_wrong_commands_load_nothing_heavy() -> None:
    assert loaded_by("relase") == set()


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])
    assert ending.value.code == 0
    assert capsys.readouterr().out == f"privgmm {privgmm.__version__}\n"


def test_every_command_declares_and_explains_itself() -> None:
    _, parts = build_parser()
    assert [part.description for part in parts.values()] == [None] * len(parts), "none is loaded"
    for name, part in parts.items():
        part.load()
        declared = len(part.arguments)
        part.load()
        assert len(part.arguments) == declared, "loaded once"
        assert part.description
        assert part.description.endswith(".")
        assert callable(part.get_default("command")), name


def stopped(order: list[str]) -> tuple[int, list[bytes]]:
    """Press Ctrl-C when a process begins to load NumPy; return its exit code and its output."""
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", *order], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"numpy" in line:
                break
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        code = process.wait(60)
    return code, [line for line in said.splitlines() if not line.startswith(b"import time:")]


def test_ctrl_c_while_loading_is_no_traceback() -> None:
    code, said = stopped(["-m", "privgmm", "audit"])
    assert said == [b"privgmm: stopped"]
    # where Ctrl-C falls into an `exec`, Python ends by the signal itself: 130 to a shell as well
    assert code in (130, -signal.SIGINT)


@pytest.mark.parametrize(
    ("problem", "cause"), [(KeyboardInterrupt(), None), (ImportError(), KeyboardInterrupt())]
)
def test_ctrl_c_has_an_exit_code(
    run: Any, monkeypatch: pytest.MonkeyPatch, problem: BaseException, cause: BaseException | None
) -> None:
    def load(self: CommandParser) -> None:
        raise problem from cause

    monkeypatch.setattr(CommandParser, "load", load)
    done = run("audit")
    assert (done.code, done.err) == (130, "privgmm: stopped\n")


def test_an_import_that_fails_is_not_taken_for_ctrl_c(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(self: CommandParser) -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(CommandParser, "load", load)
    with pytest.raises(ImportError, match="no such module"):
        run("audit")


def test_programs_that_import_the_package_keep_their_handler() -> None:
    order = "import signal, privgmm; print(signal.getsignal(2) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", order], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"
