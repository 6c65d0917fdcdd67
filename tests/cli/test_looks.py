"""Commands that use a receipt cost nothing and give everyone the same, from the file alone."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.records.receipt import (
    make_receipt,
    receipt_schema,
    receipt_text,
    sketch_of,
    verify_receipt,
)
from privgmm.releases import release
from privgmm.stages.standard_errors import StandardErrors
from tests.records.test_receipt import RECEIPT, RESULTS

TRUTH = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 1.0]], np.stack([np.eye(2), 2 * np.eye(2)]))
NAMES = ["height", "weight"]


@pytest.fixture(scope="module")
def receipt() -> dict[str, Any]:
    plan = best_plan(9_000, method="sketch", epsilon=2.0, delta=1e-6, n_components=2, n_features=2)
    result = release(TRUTH.sample(9_000, rng=1), plan).result
    return make_receipt(result, columns=NAMES)


@pytest.fixture
def file(receipt: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "receipt.json"
    path.write_text(receipt_text(receipt))
    return path


def test_a_receipt_holds_sketch_and_standard_errors(receipt: dict[str, Any]) -> None:
    found = verify_receipt(receipt_text(receipt))
    assert found.ok, found.problems
    assert len(receipt_text(receipt)) < 200_000
    sketch = sketch_of(json.loads(receipt_text(receipt)))
    assert sketch is not None
    assert sketch.columns == tuple(NAMES)
    assert sketch.to_dict() == receipt["sketch"]
    errors = StandardErrors.from_dict(receipt["standard_errors"])
    assert errors.means.shape == (2, 2)
    assert receipt["misfit"] < 5


def test_everyone_gets_the_same_fit(run: Any, file: Path, receipt: dict[str, Any]) -> None:
    first, again = (run("fit", file, "--k", 2, "--json").json() for _ in range(2))
    assert first == again
    sketch = sketch_of(receipt)
    assert sketch is not None
    assert Mixture.from_dict(first["mixture"]) == sketch.fit(2).mixture
    assert first["misfit"] == sketch.fit(2).misfit
    assert first["columns"] == NAMES


def test_other_components_and_covariances(run: Any, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "tied.json"
    told = run("fit", file, "--k", 2, "--covariance-type", "tied", "--out", out)
    assert told.code == 0, told.err
    assert "not enough" in told.out
    assert re.search(r"height +mean -?[0-9.]+ ± ", told.out)
    covariances = np.array(json.loads(out.read_text())["mixture"]["covariances"])
    np.testing.assert_array_equal(covariances[0], covariances[1])
    # what was written is a mixture like any other
    assert run("sample", out, "-n", 5, "--seed", 0).code == 0
    assert run("tv", out, file, "--json").json()["tv"] < 0.5


def test_the_number_of_components_can_be_chosen(run: Any, file: Path) -> None:
    told = run("fit", file, "--max-components", 3)
    assert told.code == 0, told.err
    assert "2 Gaussians in " in told.out
    assert "This mixture explains the rows" in told.out
    answer = run("fit", file, "--max-components", 3, "--json").json()
    assert answer["n_components"] == 2
    criteria = [one["criterion"] for one in answer["path"]]
    assert len(criteria) == 3
    assert int(np.argmin(criteria)) == 1


@pytest.mark.parametrize("columns", [[], ["weight"], ["weight", "height"], ["weight,height"]])
def test_pictures_of_one_column_and_of_two(
    run: Any, file: Path, receipt: dict[str, Any], tmp_path: Path, columns: list[str]
) -> None:
    out = tmp_path / "picture.html"
    chosen = ("--columns", *columns) if columns else ()
    done = run("picture", file, "--out", out, *chosen)
    assert done.code == 0, done.err
    page = out.read_text()
    assert "in total variation" in done.out
    assert "http" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<script src" not in page
    assert receipt["guarantee"]["words"] in page
    assert "were not measured" in page
    again = run("picture", file, "--out", out, *chosen)
    assert again.code == 2
    assert "exists" in again.err


def test_what_cannot_be_looked_at(run: Any, file: Path, tmp_path: Path) -> None:
    picture = ("--out", tmp_path / "p.html")
    for names in (["age"], ["height", "height"], ["height", "weight", "age"]):
        done = run("picture", file, *picture, "--columns", *names)
        assert done.code == 2
        assert "columns must be" in done.err or "column must be" in done.err
    changed = tmp_path / "changed.json"
    changed.write_text(file.read_text().replace("height", "weight", 1))
    plain, refused = tmp_path / "plain.json", tmp_path / "refused.json"
    plain.write_text(receipt_text(RECEIPT))
    refused.write_text(receipt_text(make_receipt(RESULTS[-1])))
    for path, code, words in (
        (changed, 1, "does not verify"),
        (plain, 2, "holds no sketch"),
        (refused, 2, "is one of a refusal"),
    ):
        for order in (("fit", path, "--k", 2), ("picture", path, *picture)):
            done = run(*order)
            assert done.code == code
            assert words in done.err
    assert not (tmp_path / "p.html").exists()


def test_a_seeded_sketch_is_shown_as_such(
    run: Any, receipt: dict[str, Any], tmp_path: Path
) -> None:
    plan = best_plan(9_000, method="sketch", epsilon=2.0, delta=1e-6, n_components=1, n_features=2)
    result = release(np.random.default_rng(0).normal(size=(9_000, 2)), plan, rng=0).result
    path = tmp_path / "seeded.json"
    path.write_text(receipt_text(make_receipt(result)))
    done = run("fit", path, "--k", 1)
    assert done.code == 0
    assert "a demonstration, NOT differentially private" in done.err


def test_the_notebook_of_a_bundle_goes_on_from_the_sketch(
    run: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "bundle.zip"
    assert run("bundle", file, "-o", out, "-n", 10).code == 0
    with zipfile.ZipFile(out) as bundle:
        bundle.extractall(tmp_path)
    book = json.loads((tmp_path / "notebook.ipynb").read_text())
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    words = said.getvalue()
    assert "This mixture explains the rows to within the noise." in words
    assert "misfit" in words
    assert "criterion" in words
    assert names["sketch"].columns == tuple(NAMES)


def test_a_forged_sketch_is_noticed(receipt: dict[str, Any]) -> None:
    """The hash is made to fit; sizes and numbers are wrong or missing."""
    from privgmm.records.document import digest

    def verdict(**changes: Any) -> tuple[str, ...]:
        content = {k: v for k, v in receipt.items() if k != "sha256"} | changes
        return verify_receipt({**content, "sha256": digest(content)}).problems

    sketch, errors = receipt["sketch"], receipt["standard_errors"]
    assert verdict() == ()
    assert "not valid" in verdict(sketch={**sketch, "values": "AAAA"})[0]
    assert "not valid" in verdict(sketch={**sketch, "noise": []})[0]
    assert "not valid" in verdict(sketch={**sketch, "n_rows": 0})[0]
    assert 'unknown fields: "rows"' in verdict(sketch={**sketch, "rows": [[1.0, 2.0]]})[0]
    hidden = {**sketch["frame"], "rows": [[1.0, 2.0]]}
    assert "not written as" in verdict(sketch={**sketch, "frame": hidden})[0]
    assert (
        "not of the mixture's size"
        in verdict(
            standard_errors={
                **errors,
                **{name: errors[name][:1] for name in errors if name != "well_specified"},
            }
        )[0]
    )


# ------------------------------------------------------------------- an open number of components


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    rows = TRUTH.sample(9_000, rng=1)
    np.savetxt(path, rows, delimiter=",", header=",".join(NAMES), comments="")
    return path


def test_release_chooses_the_number_of_components(run: Any, table: Path, tmp_path: Path) -> None:
    """What was tried is shown and written into the receipt; both agree."""
    out = tmp_path / "auto.json"
    common = ("--k", "auto", "--max-components", 3, "--epsilon", 2, "--no-ledger")
    done = run("release", table, *common, "--out", out)
    assert done.code == 0, done.err
    assert re.search(r"^ +2 +-?[0-9.]+ +0 +chosen$", done.out, flags=re.MULTILINE)
    assert "This mixture explains the rows to within the noise." in done.out
    assert re.search(r"height +mean -?[0-9.]+ ± [0-9.]+, standard deviation", done.out)
    receipt = json.loads(out.read_text())
    assert verify_receipt(out.read_text()).ok
    assert receipt["choice"]["n_components"] == len(receipt["mixture"]["weights"]) == 2
    sketch = sketch_of(receipt)
    assert sketch is not None
    assert sketch.choice(3).to_dict() == receipt["choice"]
    assert receipt["plan"]["n_components"] == 3
    # the receipt alone leads anyone to the same number
    assert (
        run("fit", out, "--max-components", 3, "--json").json()["path"]
        == (receipt["choice"]["tried"])
    )


def test_an_open_number_of_components_needs_a_sketch(run: Any, table: Path) -> None:
    done = run("release", table, "--k", "auto", "--method", "lifted", "--no-ledger")
    assert done.code == 2
    assert "which publishes no sketch to choose it from" in done.err
    assert "use method 'sketch'" in done.err
    assert run("release", table, "--k", "some", "--no-ledger").code == 2


def test_a_changed_choice_is_noticed(receipt: dict[str, Any]) -> None:
    """The plan of this receipt fixed the number: a choice contradicts the plan."""
    sketch = sketch_of(receipt)
    assert sketch is not None
    added = {**receipt, "choice": sketch.choice(2).to_dict()}
    assert any("exactly if the plan" in problem for problem in verify_receipt(added).problems)
    broken = {**receipt, "choice": {"n_components": 2}}
    assert any("not valid" in problem for problem in verify_receipt(broken).problems)


def test_receipts_with_a_sketch_follow_the_schema(receipt: dict[str, Any]) -> None:
    jsonschema: Any = importlib.import_module("jsonschema")
    validator = jsonschema.Draft202012Validator(receipt_schema())
    validator.validate(receipt)
    sketch = sketch_of(receipt)
    assert sketch is not None
    validator.validate({**receipt, "choice": sketch.choice(2).to_dict()})
    assert not validator.is_valid({**receipt, "choice": {"n_components": 2}})
