"""Receipts with a sketch: small enough to be sent, and the same fits for everyone who has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgmm.data.generators import random_mixture
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.records.receipt import make_receipt, receipt_text, sketch_of, verify_receipt
from privgmm.results import Release
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.standard_errors import StandardErrors

TRUTH = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 1.0]], np.stack([np.eye(2), 2 * np.eye(2)]))
ROOT = Path(__file__).resolve().parents[2]

FITS = """
import json, sys
from privgmm.records.receipt import sketch_of

sketch = sketch_of(json.load(open(sys.argv[1])))
fits = [*sketch.path(3), sketch.fit(2, "tied"), sketch.choose(3)]
curve = sketch.curve(0)
print(json.dumps([[fit.to_dict() for fit in fits], curve.densities.tolist()]))
"""


def sketch_of_plan(plan: Plan, *, rich: Mixture | None = None) -> PrivateSketch:
    """Noise in place of waves, in the shape that a release by the plan has."""
    d, drawn = plan.n_features, plan.stage(Sketch)
    source = noise_source(d)
    rng = np.random.default_rng(d)
    shape = drawn.shape
    root = np.linalg.cholesky(np.eye(d) + 0.3)
    frame = Frame.published(rng.normal(size=d), root, rotation=random_rotation(d, rng=source))
    values = rng.normal(size=shape.size) + 1j * rng.normal(size=shape.size)
    return PrivateSketch(
        frame,
        shape.directions(frame),
        shape.step,
        values,
        drawn.noise,
        drawn.n_units,
        tuple(f"a rather long name of column {j}" for j in range(d)),
        rich,
        None if rich is None else plan.stage(Finish).rich_noise,
    )


@pytest.mark.parametrize("d", range(1, 9))
def test_a_receipt_stays_small(d: int) -> None:
    """The largest there is: eight components with their errors, and a rich mixture of sixteen."""
    k = 8
    plan = best_plan(10**6, method="sketch", epsilon=1.0, delta=1e-6, n_components=k, n_features=d)
    narrow = 5.0 if d > 1 else 1.0
    mixture = random_mixture(k, d, separation=4.0, condition=narrow, rng=1)
    rich = random_mixture(16, d, separation=2.0, condition=narrow, rng=2)
    spread = mixture.covariances / 7
    errors = StandardErrors(mixture.weights / 7, spread[:, 0] ** 2, spread**2, spread)
    sketch = sketch_of_plan(plan, rich=rich)
    result = Release(
        mixture=mixture,
        budget=plan.spent(),
        plan=plan,
        seeded=False,
        sketch=sketch,
        misfit=123.456789,
        standard_errors=errors,
    )
    receipt = make_receipt(result, columns=list(sketch.columns))
    text = receipt_text(receipt)
    assert verify_receipt(text).intact
    assert len(text.encode()) < 200_000
    began = time.process_time()
    verify_receipt(text)
    assert time.process_time() - began < 0.3
    assert sketch_of(json.loads(text)) == sketch


def told_by_another(path: Path, **settings: str) -> tuple[list[dict[str, Any]], list[float]]:
    """Fits and a density that another process reads off a receipt."""
    told = subprocess.run(
        [sys.executable, "-c", FITS, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    fits, densities = json.loads(told.stdout)
    return fits, densities


def numbers(values: Any) -> list[float]:
    """All numbers in a JSON value, in order."""
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list):
        return [number for value in values for number in numbers(value)]
    return [float(values)] if isinstance(values, int | float) else []


def test_two_people_with_one_receipt_get_the_same_fits_to_the_last_bit(tmp_path: Path) -> None:
    """In another process, with more threads to use: every number of every fit.

    On another kind of processor sums are added up in another order: there the same fits come out
    to nine digits.
    """
    frame = Frame([0.8, 0.4], np.diag([4.2, 1.4]))
    shape = SketchShape.default(2)
    inside, frequencies = frame.mixture_to_frame(TRUTH), shape.frequencies(frame)
    square = np.einsum("mi,kij,mj->mk", frequencies, inside.covariances, frequencies)
    values = np.exp(1j * frequencies @ inside.means.T - square / 2) @ inside.weights
    rng = np.random.default_rng(1)
    noise = 0.01 * (rng.normal(size=values.size) + 1j * rng.normal(size=values.size))
    sketch = PrivateSketch(
        frame,
        shape.directions(frame),
        shape.step,
        values + noise,
        np.full(shape.n_frequencies, 0.01),
        10_000,
    )
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps({"sketch": sketch.to_dict()}))
    fits, densities = told_by_another(path, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    here = sketch_of(json.loads(path.read_text()))
    assert here is not None
    assert here == sketch
    mine = [*here.path(3), here.fit(2, "tied"), here.choose(3)]
    assert fits == json.loads(json.dumps([fit.to_dict() for fit in mine]))
    assert densities == here.curve(0).densities.tolist()
    assert fits[-1]["n_components"] == 2
    elsewhere = told_by_another(path, OPENBLAS_CORETYPE="Sandybridge")
    assert np.allclose(numbers(list(elsewhere)), numbers([fits, densities]), rtol=1e-9, atol=1e-9)
