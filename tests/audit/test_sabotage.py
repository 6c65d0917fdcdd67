"""The checks of the audit notice every deliberately broken variant."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.sabotage import VARIANTS


@pytest.mark.parametrize("name", VARIANTS)
def test_the_check_notices(name: str) -> None:
    found = VARIANTS[name](np.random.default_rng(0))
    assert not found.passed
    assert found.measured > found.limit
