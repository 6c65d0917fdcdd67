"""A reader of receipts needs NumPy, and is told what else needs more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from privgmm.errors import InvalidInput, ReleaseRefused, SeededRelease
from privgmm.records.document import read_mixture
from privgmm.records.receipt import make_receipt, receipt_text, write_receipt
from privgmm.releases import release
from privgmm.results import Refusal, Release

MADE = release(
    np.random.default_rng(0).normal([5.0, 1.0], [2.0, 1.0], size=(4000, 2)),
    epsilon=2.0,
    n_components=2,
).result

SESSION = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import privgmm

mixture = privgmm.read_mixture(sys.argv[1])
print(mixture)
print(mixture.sample(5, rng=0).tolist())
print(mixture.marginal(["length"]).columns)
try:
    privgmm.verify_receipt
except ModuleNotFoundError as missing:
    print("missing:", missing)
print("own:", sorted({n.partition(".")[0] for n in sys.modules} & set(sys.argv[2].split(","))))
"""

HEAVY = "numba,llvmlite,scipy,pandas,pyarrow,opendp,sklearn,jsonschema,joblib,threadpoolctl,plotly"


def test_reading_printing_and_sampling_need_numpy_alone(tmp_path: Path) -> None:
    assert isinstance(MADE, Release)
    receipt = make_receipt(MADE, columns=["length", "width"])
    path = write_receipt(receipt, tmp_path / "receipt.json")
    ran = subprocess.run(
        [sys.executable, "-c", SESSION, str(path), HEAVY],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert ran.returncode == 0, ran.stderr
    named = MADE.mixture.with_columns(["length", "width"])
    assert str(named) in ran.stdout
    # the factors of the covariances are computed again, so the last digits may differ
    drawn = next(line for line in ran.stdout.splitlines() if line.startswith("[["))
    np.testing.assert_allclose(json.loads(drawn), named.sample(5, rng=0), rtol=1e-9)
    assert "('length',)" in ran.stdout
    assert "missing: privgmm.verify_receipt needs" in ran.stdout
    assert "pip install privgmm" in ran.stdout
    assert "own: []" in ran.stdout


def test_what_was_changed_is_not_read() -> None:
    receipt = make_receipt(MADE)
    assert isinstance(MADE, Release)
    assert read_mixture(receipt) == read_mixture(receipt_text(receipt)) == MADE.mixture
    forged = json.loads(json.dumps(receipt))
    forged["mixture"]["means"][0][0] += 1.0
    for document in (forged, receipt_text(receipt).replace('"epsilon": 2', '"epsilon":  2')):
        with pytest.raises(InvalidInput, match="was changed"):
            read_mixture(document)
    with pytest.raises(InvalidInput, match="another kind of document"):
        read_mixture({"schema": "other"})


def test_a_refusal_has_no_mixture_and_a_seed_is_told() -> None:
    refusal = Refusal(budget=MADE.budget, plan=MADE.plan, seeded=False, why="few", stated="too few")
    with pytest.raises(ReleaseRefused, match="too few"):
        read_mixture(make_receipt(refusal))
    rows = np.random.default_rng(0).normal(size=(4000, 1))
    with pytest.warns(SeededRelease):
        seeded = release(rows, epsilon=2.0, n_components=1, rng=0).result
    with pytest.warns(SeededRelease, match="NOT differentially private"):
        read_mixture(make_receipt(seeded))
