"""A shell completes commands, options and choices from the script that is printed for it."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest

import privgmm
from privgmm.cli.main import main
from privgmm.methods import registry

BASH = shutil.which("bash")


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(shlex.quote(word) for word in ("privgmm", *words))
    order = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _privgmm; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert BASH is not None
    done = subprocess.run([BASH, "-c", order], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_completes(run: Any) -> None:
    script = run("completion", "bash").out
    assert "complete -o default -F _privgmm privgmm" in script
    assert completed(script, "rel") == ["release"]
    assert {"plan", "release", "sample", "completion", "--version"} <= set(completed(script, ""))
    assert {"--columns", "--no-header", "--separator"} <= set(completed(script, "release", "-"))
    assert completed(script, "release", "x.csv", "--ep") == ["--epsilon"]
    assert completed(script, "release", "x.csv", "--method", "") == list(registry.choices())
    assert completed(script, "release", "x.csv", "--decimal", "") == [".", ","]
    assert completed(script, "completion", "z") == ["zsh"]
    # where nothing is known the shell offers files
    assert completed(script, "release", "") == []
    assert completed(script, "verify", "--key", "") == []


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_every_command_is_in_it(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script = run("completion", "bash").out
    with pytest.raises(SystemExit):
        main(["--help"])
    told = [line.split() for line in capsys.readouterr().out.splitlines() if line[:4] == "    "]
    commands = {words[0] for words in told if words and words[0].isalpha() and words[0].islower()}
    assert {"release", "ledger", "audit"} <= commands
    assert set(completed(script, "")) - {"--help", "--version"} <= commands


def test_zsh_takes_the_same_script(run: Any) -> None:
    bash, zsh = (run("completion", shell).out.splitlines() for shell in ("bash", "zsh"))
    assert any("bashcompinit" in line for line in zsh)
    assert [line for line in zsh[1:] if "bashcompinit" not in line and line] == bash[1:]
    assert run("completion", "bash", "--json").json()["script"].splitlines() == bash
    assert run("completion", "fish").code == 2


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])
    assert ending.value.code == 0
    assert capsys.readouterr().out == f"privgmm {privgmm.__version__}\n"


def test_ctrl_c_while_loading_is_no_traceback() -> None:
    order = [sys.executable, "-X", "importtime", "-m", "privgmm", "audit"]
    with subprocess.Popen(order, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"numpy" in line:
                break
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    rest = [line for line in said.splitlines() if not line.startswith(b"import time:")]
    assert rest == [b"privgmm: stopped"]


def test_programs_that_import_the_package_keep_their_handler() -> None:
    order = "import signal, privgmm; print(signal.getsignal(2) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", order], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"
