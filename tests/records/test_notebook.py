"""Scripts and notebooks that make a run again: executed, and compared with the run."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from privgmm.data.tables import Layout
from privgmm.errors import InvalidInput
from privgmm.learners import registry as choice
from privgmm.learners.em import EM
from privgmm.learners.registry import LearnerKind
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.notebook import FileRows, GeneratedRows, Run, SampleRows, notebook, script
from privgmm.releases import Outcome, Release, release
from privgmm.stages.agreement.stage import AgreementView

ASKED = PlanRequest(n_components=2, n_features=2, n_rows=30_000, epsilon=6.0, delta=1e-6)
SEEDED = Run(GeneratedRows("well_separated", 2, 2, 30_000, 1), ASKED, seed=3)
FAITHFUL = PlanRequest(n_components=2, n_features=2, n_rows=272)


def made(run: Run) -> Outcome:
    data = run.rows.load()
    return release(data.rows, run.plan(), rng=run.seed)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    outcome = made(SEEDED)
    assert isinstance(outcome.result, Release)
    return outcome


def cells(text: str) -> list[dict[str, Any]]:
    document = json.loads(text)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = document["cells"]
    return found


def executed(text: str) -> dict[str, Any]:
    """The names left behind after running all code cells in one namespace."""
    names: dict[str, Any] = {}
    for cell in cells(text):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    return names


def test_script_makes_the_same_mixture(outcome: Outcome, tmp_path: Path) -> None:
    """In a process of its own, by the public API alone."""
    path = tmp_path / "run.py"
    ending = "import json\nprint(json.dumps(outcome.result.to_dict()))\n"
    path.write_text(script(SEEDED) + ending, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shared = json.loads(done.stdout.splitlines()[-1])
    assert shared == json.loads(json.dumps(outcome.result.to_dict()))


def test_notebook_makes_the_same_mixture(outcome: Outcome, tmp_path: Path) -> None:
    """In a kernel of its own, as Jupyter runs it: every cell, and the same to the last bit."""
    document = nbformat.reads(notebook(SEEDED), as_version=4)
    nbformat.validate(document)
    ending = "import json\nprint(json.dumps([private.to_dict(), nonprivate.to_dict()]), end='')"
    document.cells.append(nbformat.v4.new_code_cell(ending))
    client = NotebookClient(document, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute()
    done = [cell for cell in document.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in done] == list(range(1, len(done) + 1))
    *steps, last = done
    assert isinstance(outcome.result, Release)
    private, nonprivate = (Mixture.from_dict(shown) for shown in json.loads(last.outputs[0].text))
    assert private == outcome.result.mixture
    assert nonprivate == outcome.curator.nonprivate()
    printed = "".join(output.get("text", "") for cell in steps for output in cell.outputs)
    assert "error with privacy: 0.0" in printed
    # plan and release are shown as pages, the picture by plotly
    pages = [output.data for cell in steps for output in cell.outputs if "data" in output]
    assert sum("text/html" in page for page in pages) >= 2
    assert any("application/vnd.plotly.v1+json" in page for page in pages)


def test_free_looks_are_in_the_notebook_where_a_sketch_may_be_published(tmp_path: Path) -> None:
    """Executed cell by cell: what is chosen, misfit, standard errors, another fit, a picture."""
    asked = PlanRequest(
        n_components=3, choose_components=True, n_features=2, n_rows=6_000, epsilon=2.0
    )
    run = Run(GeneratedRows("well_separated", 2, 2, 6_000, 1), asked, seed=3)
    assert 'n_components="auto"' in run.plan_code()
    names = executed(notebook(run))
    result = names["outcome"].result
    assert result.choice.n_components == 2
    assert result == made(run).result
    assert names["errors"] == result.standard_errors
    assert names["tied"].covariance_type == "tied"
    assert names["tied"].n_components == 2
    assert names["given"].n_features == 1
    assert names["figure"].data
    # where an older method answers there may be nothing to look at, and the cells say so
    other = dataclasses.replace(SEEDED, request=dataclasses.replace(ASKED, method="lifted"))
    assert "sketch" not in notebook(other)
    by_hand = dataclasses.replace(asked, method="sketch", mask_accuracy=2.0)
    assert "choose_components=True" in dataclasses.replace(run, request=by_hand).plan_code()


def test_notebook_names_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not the default is made by name; the default goes unsaid."""
    gentle = LearnerKind("gentle", "Gentle", "Tests.", None, lambda k: EM(k, n_restarts=1))
    monkeypatch.setattr(choice, "LEARNERS", {**choice.LEARNERS, "gentle": gentle})
    run = dataclasses.replace(SEEDED, learner="gentle")
    names = executed(notebook(run))
    data = run.rows.load()
    expected = release(data.rows, run.plan(), learner=EM(2, n_restarts=1), rng=run.seed).result
    assert isinstance(expected, Release)
    assert names["private"] == expected.mixture
    assert "learner" not in script(SEEDED)


def test_notebook_follows_the_format() -> None:
    found = cells(notebook(SEEDED))
    assert len({cell["id"] for cell in found}) == len(found)
    for cell in found:
        assert cell["cell_type"] in {"markdown", "code"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
        else:
            assert cell.keys() == {"cell_type", "id", "metadata", "source"}


def test_a_refusal_is_reproduced_too(capsys: pytest.CaptureFixture[str]) -> None:
    rows = GeneratedRows(None, 2, 1, 10_000, 5, separation=2.5)
    asked = PlanRequest(
        n_components=2, n_features=1, n_rows=10_000, method="paper", mask_accuracy=0.5
    )
    run = Run(rows, asked, seed=1)
    names = executed(notebook(run))
    assert not names["outcome"].released
    assert np.array_equal(names["data"].rows, rows.load().rows)
    assert (
        names["outcome"].curator.view(AgreementView).verdict.noisy_statistic
        == made(run).curator.view(AgreementView).verdict.noisy_statistic
    )
    assert "error without privacy" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["old_faithful", "well_separated_2d"])
def test_samples_are_loaded_by_name(name: str) -> None:
    names: dict[str, Any] = {}
    exec(SampleRows(name).code(), names)
    assert names["data"] == SampleRows(name).load()


def test_files_are_read_by_the_name_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by an awkward one: it stays a string and never becomes code."""
    monkeypatch.chdir(tmp_path)
    name = 'it\'s "mine"\n).csv'
    Path(name).write_text("a,b b,who\n1,2,x\n3,4,y\n", encoding="utf-8")
    rows = FileRows(name, ("b b", "a"))
    names: dict[str, Any] = {}
    exec(rows.code(), names)
    assert names["data"].rows.tolist() == [[2, 1], [4, 3]]
    assert names["data"] == rows.load()
    ast.parse(script(Run(rows, FAITHFUL)))
    noisy = FileRows(name, ("b b", "a"), (("b b", 1.0),), seed=5)
    exec(noisy.code(), names)
    assert names["data"] == noisy.load()
    # fresh noise stays fresh when it is written down
    fresh = Run(noisy, FAITHFUL).rows_code()
    assert "rng" not in fresh
    assert "rng=5" in Run(noisy, FAITHFUL, seed=1).rows_code()
    exec(fresh, names)
    assert names["data"] != noisy.load()
    moved = names["data"].rows - rows.load().rows
    assert (moved[:, 0] != 0).all()
    assert (abs(moved[:, 0]) <= 0.5).all()
    assert (moved[:, 1] == 0).all()
    Path("plain.csv").write_text("1,5;2\n3,5;4\n", encoding="utf-8")
    columns = ("column 2", "column 1")
    plain = FileRows("plain.csv", columns, layout=Layout(header=False, separator=";"))
    exec(plain.code(), names)
    assert names["data"].rows.tolist() == [[2, 1.5], [4, 3.5]]
    assert names["data"] == plain.load()


def test_fresh_noise_is_said_to_be_fresh() -> None:
    run = Run(SampleRows("old_faithful"), FAITHFUL)
    for text in (script(run), notebook(run)):
        assert "fresh" in text
        assert "rng" not in text
    for text in (script(SEEDED), notebook(SEEDED)):
        assert "repeats exactly" in text
        assert "not for real people" in text


def test_script_reads_well() -> None:
    """It parses, no line is longer than a screen, and its imports are public names."""
    by_hand = dataclasses.replace(SEEDED, request=ASKED.but(mask_accuracy=0.5, n_blocks=400))
    for run in (SEEDED, by_hand):
        text = script(run)
        assert max(len(line) for line in text.splitlines()) <= 100
        imports = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)]
        for node in imports:
            module: Any = importlib.import_module(str(node.module))
            assert {alias.name for alias in node.names} <= set(dir(module)), node.module
    assert "n_blocks=400" in text
    assert "beta" not in text


WAYS_TO_ASK: tuple[dict[str, object], ...] = (
    {},
    {"method": "tight", "mask_accuracy": 0.75, "n_blocks": 400, "epsilon": 1.0},
    {"method": "paper", "mask_accuracy": 0.3, "epsilon": 0.5, "delta": 1e-7, "n_components": 3},
    {"alpha": 0.5},
    {"method": "lifted", "n_components": 1, "epsilon": 10.0},
    {"beta": 0.05, "smallest_weight": 0.4, "separation": 6.0},
    {"unit": "person"},
    {"method": "lifted", "mask_accuracy": 0.5, "n_blocks": 300},
    {"covariance_type": "tied"},
    {"choose_components": True, "n_components": 4, "unit": "person"},
)


def test_what_is_written_is_what_runs() -> None:
    """The plan in the code equals the plan of the run, for every way to ask for one."""
    data = SEEDED.rows.load()
    for changes in WAYS_TO_ASK:
        run = dataclasses.replace(SEEDED, request=ASKED.but(**changes))
        names: dict[str, Any] = {"data": data}
        exec(run.plan_code(), names)
        assert names["plan"] == run.plan()
        if "request" in names:
            assert names["request"] == run.request


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="kind must be one of"):
        GeneratedRows("swirl", 2, 2, 100, 1)


def test_every_kind_draws_what_its_code_draws() -> None:
    for kind in (None, "overlapping", "same_mean", "ill_conditioned"):
        rows = GeneratedRows(kind, 2, 3, 50, 7)
        names: dict[str, Any] = {}
        exec(rows.code(), names)
        assert isinstance(names["truth"], Mixture)
        assert names["data"] == rows.load()
