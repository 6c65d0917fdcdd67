"""The wheel: what is in it, and that it works where there is no checkout.

That it serves every page is shown in a browser, in ``tests/browser/test_wheel.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from privgmm.dashboard.shared.layout import PAGES
from privgmm.data.datasets import sample_names
from tests.installation import ROOT, Installation, build_wheel, install

IMPORTED = """
import importlib.util, json, sys
import privgmm
from privgmm import PrivateGaussianMixture, load_sample
from privgmm.data.datasets import sample_names
print(json.dumps({
    "file": privgmm.__file__,
    "version": privgmm.__version__,
    "rows": {name: load_sample(name).n_rows for name in sample_names()},
    "app": [name for name in ("streamlit", "plotly") if importlib.util.find_spec(name)],
    "path": sys.path,
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return install(wheel, tmp_path_factory.mktemp("installed"))


def test_it_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        "privgmm/py.typed",
        *(
            f"privgmm/records/schema/{path.name}"
            for path in (ROOT / "privgmm" / "records" / "schema").iterdir()
        ),
        "privgmm/dashboard/theorem/drag.js",
        "privgmm/_app/.streamlit/config.toml",
        *(f"privgmm/_app/{page.path}" for page in PAGES),
        *(
            f"privgmm/_sample_data/{path.name}"
            for path in (ROOT / "sample_data").iterdir()
            if path.is_file()
        ),
        *(
            str(path.relative_to(ROOT))
            for ending in ("py", "pyi")
            for path in (ROOT / "privgmm").rglob(f"*.{ending}")
        ),
    }
    assert needed <= names
    foreign = {name for name in names if not name.startswith(("privgmm/", "privgmm-"))}
    assert foreign == set()
    kinds = {Path(name).suffix for name in names if name.startswith("privgmm/")}
    # stubs are read at run time: names are loaded lazily by them
    code = {".py", ".pyi", ".typed", ".js"}
    assert kinds <= {*code, ".json", ".npz", ".toml", ".csv", ".parquet", ".md"}
    assert not any("test" in Path(name).name or "/benchmarks/" in name for name in names)
    assert sum(info.file_size for info in zipfile.ZipFile(wheel).infolist()) < 10 * 2**20


def test_an_editable_install_copies_nothing(tmp_path: Path) -> None:
    """Copies of pages or samples would become outdated next to the checkout they came from."""
    code = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, timeout=120)
    (built,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(built).namelist()
    (pointer,) = [name for name in names if ".dist-info/" not in name]
    assert zipfile.ZipFile(built).read(pointer).decode().strip() == str(ROOT)


def test_it_is_imported_from_its_own_place_and_finds_its_samples(installed: Installation) -> None:
    done = installed.run("python", "-c", IMPORTED)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["file"]).parent == installed.package
    assert str(ROOT) not in found["path"]
    assert set(found["rows"]) == set(sample_names())
    assert min(found["rows"].values()) == 272
    assert found["app"] == []


def test_it_releases_and_verifies_without_the_dashboard(installed: Installation) -> None:
    receipt = installed.empty.parent / "receipt.json"
    # a plan that these rows pass by far: fresh noise must not decide a test
    plan = ("--k", 2, "--epsilon", 8, "--mask-accuracy", 1, "--blocks", 100)
    order = ("release", "well_separated_2d", *plan, "--out", receipt, "--json")
    done = installed.run("privgmm", *order)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["released"] is True
    assert json.loads(done.stdout)["seeded"] is False
    checked = installed.run("privgmm", "verify", receipt)
    assert checked.returncode == 0, checked.stdout
    receipt.write_text(receipt.read_text().replace('"seeded": false', '"seeded": true'))
    assert installed.run("privgmm", "verify", receipt).returncode == 1


def test_without_its_libraries_the_dashboard_says_what_to_install(installed: Installation) -> None:
    done = installed.run("privgmm", "app")
    assert done.returncode == 2
    assert "needs streamlit and plotly: pip install 'privgmm[app]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
