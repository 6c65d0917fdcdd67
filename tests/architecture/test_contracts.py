"""The import contracts in ``pyproject.toml`` catch what they are there for.

``make lint`` checks the package itself; here the project's own configuration is run on copies of
the package with one mistake in each.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, ROOT

LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the package's modules and the project's configuration to one folder."""
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    for path in PACKAGE.rglob("*.py"):
        copied = tmp_path / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copied)
    return tmp_path


def lint(folder: Path, *contracts: str) -> tuple[bool, str]:
    """Whether these contracts, by default all, are kept there, and what is said, in one line."""
    chosen = [part for contract in contracts for part in ("--contract", contract)]
    done = subprocess.run(
        [str(LINT_IMPORTS), "--no-cache", "--no-logo", *chosen],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={"COLUMNS": "200"},
    )
    assert done.stderr == ""
    return done.returncode == 0, " ".join(done.stdout.split())


def test_the_package_keeps_its_contracts(checkout: Path) -> None:
    kept, said = lint(checkout)
    assert kept, said


NO_ALLOWANCE = "is not allowed to import"
MISTAKES = {
    "a module in no room": (
        "rooms",
        "stray.py",
        '"""In no room."""',
        "not listed as layers: - privgmm.stray",
    ),
    "upwards": (
        "rooms",
        "distances/matching.py",
        "from privgmm.releases import release",
        f"privgmm.distances {NO_ALLOWANCE} privgmm.releases",
    ),
    "upwards within a function": (
        "rooms",
        "ledger/memory.py",
        "def later() -> None:\n    import privgmm.records.receipt",
        f"privgmm.ledger {NO_ALLOWANCE} privgmm.records",
    ),
    "a stage that knows another": (
        "stages",
        "stages/refinement/noisy_moments.py",
        "import privgmm.stages.agreement.votes",
        "privgmm.stages.refinement.noisy_moments -> privgmm.stages.agreement.votes",
    ),
    "a module next to the stages": (
        "stages",
        "stages/stray.py",
        '"""Not a stage."""',
        "not listed as layers: - privgmm.stages.stray",
    ),
    "a circle": (
        "circles",
        "privacy/curves.py",
        "import privgmm.privacy.composition",
        "No cycles are allowed in privgmm.privacy.",
    ),
    "Streamlit in a figure": (
        "streamlit",
        "figures/film.py",
        "import streamlit as st",
        "privgmm.figures.film -> streamlit",
    ),
    "Plotly in a method": (
        "plotly",
        "methods/plan.py",
        "import plotly.graph_objects as go",
        "privgmm.methods.plan -> plotly",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named(checkout: Path, mistake: tuple[str, str, str, str]) -> None:
    contract, module, line, complaint = mistake
    _, before = lint(checkout, contract)
    assert complaint not in before
    with (checkout / "privgmm" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    kept, said = lint(checkout, contract)
    assert not kept
    assert complaint in said
