"""A shell completes commands, options, choices and files from the script that is printed for it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from privgmm.cli.main import main
from privgmm.methods import registry

BASH, ZSH = shutil.which("bash"), shutil.which("zsh")


def completed(script: str, *words: str, folder: Path | None = None) -> list[str]:
    """Return what bash offers for the last of the words."""
    line = " ".join(shlex.quote(word) for word in ("privgmm", *words))
    order = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; "
        f'_shtab_privgmm privgmm {shlex.quote(words[-1])} ""; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    assert BASH is not None
    done = subprocess.run(
        [BASH, "-c", order], capture_output=True, text=True, timeout=20, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def script(run: Any) -> str:
    done = run("completion", "bash")
    assert done.code == 0
    assert "complete" in done.out
    return str(done.out)


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_completes(script: str) -> None:
    assert completed(script, "rel") == ["release"]
    assert {"plan", "release", "sample", "completion"} <= set(completed(script, ""))
    assert "--version" in completed(script, "--")
    assert {"--columns", "--no-header", "--separator"} <= set(completed(script, "release", "-"))
    assert completed(script, "release", "x.csv", "--ep") == ["--epsilon"]
    assert completed(script, "release", "x.csv", "--method", "") == list(registry.names())
    assert completed(script, "release", "x.csv", "--decimal", "") == [".", ","]
    assert completed(script, "completion", "z") == ["zsh"]


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize(
    "words",
    [
        ("release", "peo"),
        ("ledger", "peo"),
        ("verify", "peo"),
        ("verify", "r.json", "--key", "peo"),
        ("bundle", "r.json", "-o", "peo"),
        ("release", "x.csv", "--out", "peo"),
    ],
    ids=" ".join,
)
def test_files_are_completed(script: str, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "people.csv").touch()
    (tmp_path / "other.csv").touch()
    assert completed(script, *words, folder=tmp_path) == ["people.csv"]


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_every_command_is_in_it(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = [line.split() for line in capsys.readouterr().out.splitlines() if line[:4] == "    "]
    commands = {words[0] for words in told if words and words[0].isalpha() and words[0].islower()}
    assert {"release", "ledger", "audit"} <= commands
    assert set(completed(script, "")) == commands


def test_zsh_has_a_script_of_its_own(run: Any) -> None:
    script = run("completion", "zsh").out
    assert script.startswith("#compdef privgmm")
    assert "--epsilon" in script
    assert run("completion", "zsh", "--json").json()["script"] == script.rstrip("\n")
    assert run("completion", "fish").code == 2
    if ZSH is not None:
        done = subprocess.run([ZSH, "-n"], input=script, capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")
