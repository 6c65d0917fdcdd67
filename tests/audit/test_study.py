"""The thorough audit, and whole releases one by one; `make audit` runs these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privgmm.audit import run_audit
from privgmm.audit.endtoend import TINY, opposite, proved_epsilon, tiny_stage
from privgmm.mixture import Mixture
from privgmm.stages.agreement.algorithm_1 import private_populous_estimator
from privgmm.stages.stage import Bottom

pytestmark = pytest.mark.study


@pytest.mark.parametrize("seed", [0, 1])
def test_the_thorough_audit_passes(seed: int, artifacts: Path) -> None:
    report = run_audit(thorough=True, rng=seed)
    (artifacts / f"audit-{seed}.txt").write_text(f"{report}\n", encoding="utf-8")
    assert report.passed, f"\n{report}"


@pytest.mark.parametrize("seed", range(2, 10))
def test_quick_audits_pass_with_other_attacks(seed: int) -> None:
    report = run_audit(rng=seed)
    assert report.passed, f"\n{report}"


def test_single_releases_prove_no_more_than_promised() -> None:
    """Algorithm 1 itself, run after run, not many copies at once."""
    stage = tiny_stage(n_blocks=60, sigma=2.0, mask_accuracy=0.05)
    rng = np.random.default_rng(0)
    outputs = []
    for fits in opposite(stage).fits():
        rows = np.full((20_000, 2), np.nan)
        for i in range(len(rows)):
            value = private_populous_estimator(fits, stage.space, stage.test, rng).value
            if not isinstance(value, Bottom):
                assert isinstance(value, Mixture)
                rows[i] = value.means[0, 0], np.log(value.covariances[0, 0, 0])
        outputs.append(rows)
    proved, event = proved_epsilon(outputs[0], outputs[1], TINY.delta)
    assert 0.3 < proved <= TINY.epsilon, event
