"""Bundles: what is in them, that they repeat byte by byte, and hold nothing confidential."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from nbclient import NotebookClient

from privgmm.errors import InvalidInput
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture
from privgmm.records.bundle import BUNDLE_ROOM, bundle_bytes, check_figures, make_bundle
from privgmm.records.receipt import make_receipt, receipt_text, verify_receipt
from privgmm.releases import Outcome, release
from privgmm.results import Refusal
from privgmm.stages.agreement.stage import AgreementView

PLAN = calibrate(
    "lifted", epsilon=8.0, delta=1e-4, alpha=1.0, n_components=2, n_features=2, n_blocks=60
)
TRUTH = Mixture([0.4, 0.6], [[-5.0, 0.0], [5.0, 1.0]], [np.eye(2), 2 * np.eye(2)])
ROWS = TRUTH.sample(12_000, rng=1)
NAMES = ["height", "weight in kg"]
PARTS = [
    "README.txt",
    "receipt.json",
    "figure.html",
    "notebook.ipynb",
    "synthetic.csv",
    "synthetic.parquet",
]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    found = release(ROWS, PLAN, rng=0)
    assert found.released
    return found


@pytest.fixture(scope="module")
def receipt(outcome: Outcome) -> dict[str, Any]:
    return make_receipt(outcome.result)


@pytest.fixture(scope="module")
def parts(receipt: dict[str, Any]) -> dict[str, bytes]:
    return opened(bundle_bytes(receipt, columns=NAMES, n_rows=2_000, seed=5))


def opened(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


def test_what_is_inside(parts: dict[str, bytes], receipt: dict[str, Any]) -> None:
    assert list(parts) == PARTS
    assert parts["receipt.json"].decode() == receipt_text(receipt)
    assert verify_receipt(parts["receipt.json"]).intact
    drawn = Mixture.from_dict(receipt["mixture"]).sample(2_000, rng=np.random.default_rng(5))
    for table in (
        pacsv.read_csv(io.BytesIO(parts["synthetic.csv"])),
        pq.read_table(io.BytesIO(parts["synthetic.parquet"])),
    ):
        assert table.column_names == NAMES
        np.testing.assert_array_equal(np.column_stack([c.to_numpy() for c in table.columns]), drawn)
    words = " ".join(parts["README.txt"].decode().split())
    assert receipt["guarantee"]["words"] in words
    assert all(name in words for name in PARTS[1:])


def test_the_figure_needs_no_network(parts: dict[str, bytes]) -> None:
    page = parts["figure.html"].decode()
    assert 'lang="en"' in page
    assert "weight in kg" in page
    assert not re.search(r"<(script|link|img)[^>]+(src|href)\s*=", page)
    assert "aria-label" in page


def test_the_same_receipt_gives_the_same_bytes(receipt: dict[str, Any], tmp_path: Path) -> None:
    first = make_bundle(receipt, tmp_path / "first.zip", columns=NAMES)
    again = bundle_bytes(json.loads(json.dumps(receipt)), columns=NAMES)
    assert first.read_bytes() == again
    assert len(again) < BUNDLE_ROOM
    assert bundle_bytes(receipt, columns=NAMES, seed=1) != again
    assert [path.name for path in tmp_path.iterdir()] == ["first.zip"]


def test_an_outcome_gives_its_public_part(outcome: Outcome, tmp_path: Path) -> None:
    path = make_bundle(outcome, tmp_path / "b.zip", n_rows=10)
    inside = json.loads(opened(path.read_bytes())["receipt.json"])
    assert Mixture.from_dict(inside["mixture"]) == outcome.result.mixture  # type: ignore[union-attr]


def numbers(text: str) -> set[float]:
    return {float(found) for found in re.findall(r"-?\d+\.\d{4,}(?:e[+-]?\d+)?", text)}


def test_nothing_that_is_not_private_is_inside(outcome: Outcome, tmp_path: Path) -> None:
    """Every number of the curator's view is looked for: as text, and as bytes of a float."""
    parts = opened(make_bundle(outcome, tmp_path / "b.zip", columns=NAMES).read_bytes())
    view = outcome.curator
    hidden = [
        *(a.ravel() for a in (view.fits.weights, view.fits.means, view.fits.covariances)),
        np.asarray(view.distances).ravel(),
        np.array(
            [
                view.view(AgreementView).verdict.statistic,
                view.view(AgreementView).verdict.noisy_statistic,
            ]
        ),
        *(a.ravel() for a in (view.nonprivate().means, view.nonprivate().covariances)),
        ROWS[:3_000].ravel(),
    ]
    secret = np.unique(np.concatenate([np.asarray(part, dtype=float) for part in hidden]))
    # round numbers are anybody's; any other number is recognised by its digits
    secret = secret[np.isfinite(secret) & (secret * 1024 != np.round(secret * 1024))]
    assert len(secret) > 5_000
    shown: set[float] = set()
    for name in ("README.txt", "receipt.json", "notebook.ipynb", "synthetic.csv"):
        shown |= numbers(parts[name].decode())
    drawing = parts["figure.html"].decode()
    drawing = drawing[drawing.rindex("Plotly.newPlot") :]
    shown |= numbers(drawing)
    packed = re.findall(r'"dtype":"f8","bdata":"([^"]+)"', drawing)
    assert packed, "plotly packs arrays in base 64"
    for text in packed:
        plain = base64.b64decode(json.loads(f'"{text}"'))
        shown |= set(np.frombuffer(plain, "<f8").tolist())
    released = Mixture.from_dict(json.loads(parts["receipt.json"])["mixture"])
    assert set(released.means.ravel().tolist()) <= shown, "the search works"
    assert shown.isdisjoint(secret.tolist())
    # a fixed-width stretch of eight bytes, at any place of an uncompressed part
    raw = b"".join(parts.values())
    assert not any(struct.pack("<d", value) in raw for value in secret[:: len(secret) // 200])


def test_the_notebook_runs_beside_the_receipt(parts: dict[str, bytes], tmp_path: Path) -> None:
    for name in ("receipt.json", "notebook.ipynb"):
        (tmp_path / name).write_bytes(parts[name])
    notebook = nbformat.reads(parts["notebook.ipynb"].decode(), as_version=4)
    nbformat.validate(notebook)
    done = NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [out for cell in done.cells if cell.cell_type == "code" for out in cell.outputs]
    assert "changes the probability" in outputs[0]["text"]
    assert any("application/vnd.plotly.v1+json" in out.get("data", {}) for out in outputs)
    assert not any(out["output_type"] == "error" for out in outputs)


def test_what_cannot_be_bundled(
    receipt: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.zip"
    refusal = Refusal(budget=PLAN.spent(), plan=PLAN, seeded=False, why="No.")
    for source in (refusal, make_receipt(refusal)):
        with pytest.raises(InvalidInput, match="refusal"):
            make_bundle(source, path)  # type: ignore[arg-type]  # a likely mistake
    with pytest.raises(InvalidInput, match="does not verify"):
        make_bundle({**receipt, "seeded": False}, path)
    with pytest.raises(InvalidInput, match="source"):
        make_bundle(ROWS, path)  # type: ignore[arg-type]  # a likely mistake
    for columns in (["a"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(InvalidInput, match="columns"):
            make_bundle(receipt, path, columns=columns)
    with pytest.raises(InvalidInput, match="n_rows"):
        make_bundle(receipt, path, n_rows=0)
    with pytest.raises(InvalidInput, match="exists already"):
        make_bundle(receipt, Path(__file__), n_rows=10)
    with pytest.raises(InvalidInput, match="there is no folder"):
        make_bundle(receipt, tmp_path / "nowhere" / "b.zip")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r"privgmm\[app\]"):
        check_figures()
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------- at the command line


@pytest.fixture
def saved(receipt: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "receipt.json"
    path.write_text(receipt_text(receipt))
    return path


def test_bundle_of_a_receipt(run: Any, saved: Path, receipt: dict[str, Any]) -> None:
    zipped = saved.with_name("b.zip")
    order = ("bundle", saved, "-o", zipped, "--columns", "height,weight in kg", "--json")
    done = run(*order)
    assert done.code == 0, done.err
    assert zipped.read_bytes() == bundle_bytes(receipt, columns=NAMES)
    assert done.json()["bytes"] == zipped.stat().st_size
    assert "exists" in run(*order).err
    assert run("bundle", saved, "-o", saved.with_name("c.zip"), "--columns", "a").code == 2
    saved.write_text(saved.read_text().replace('"seeded": true', '"seeded": false'))
    changed = run("bundle", saved, "-o", saved.with_name("d.zip"))
    assert changed.code == 1
    assert "does not verify" in changed.err
    assert sorted(path.name for path in saved.parent.iterdir()) == ["b.zip", "receipt.json"]


def test_release_and_bundle_at_once(run: Any, tmp_path: Path) -> None:
    data, zipped = tmp_path / "data.csv", tmp_path / "b.zip"
    np.savetxt(data, ROWS, delimiter=",", header="u,v", comments="")
    knobs = ["--k", 2, "--epsilon", 8, "--delta", 1e-4, "--mask-accuracy", 1, "--blocks", 60]
    done = run("release", data, *knobs, "--seed", 0, "--bundle", zipped)
    assert done.code == 0, done.err
    inside = opened(zipped.read_bytes())
    assert inside["receipt.json"].decode() == done.out
    assert inside["synthetic.csv"].startswith(b'"u","v"\n')
    hump = np.random.default_rng(0).standard_cauchy(size=(9_000, 2)) ** 3
    np.savetxt(data, hump, delimiter=",", header="u,v", comments="")
    refused = run("release", data, *knobs, "--seed", 0, "--bundle", tmp_path / "c.zip")
    assert refused.code == 3
    assert "no bundle" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip", "data.csv"]
