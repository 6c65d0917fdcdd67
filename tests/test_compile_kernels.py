"""Every kernel is compiled ahead, so that none is left for the first real call."""

from __future__ import annotations

import importlib

import pytest
from numba.core.dispatcher import Dispatcher

from privgmm.compile_kernels import compile_all

MODULES = (
    "privgmm.distances.contour",
    "privgmm.learners.moments.polish",
    "privgmm.distances.line_integrals",
    "privgmm.distances.matching",
    "privgmm.distances.all_pairs",
    "privgmm.stages.refinement.noisy_moments",
    "privgmm.stages.agreement.lifted_pairs",
    "privgmm.stages.sketch.features",
    "privgmm.stages.sketch.kernels",
    "privgmm.stages.sketch.nearest",
    "privgmm.learners.student",
)


@pytest.mark.parametrize("module", MODULES)
def test_no_kernel_is_left_cold(module: str) -> None:
    compile_all()
    kernels = {
        name: value
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, Dispatcher)
    }
    assert kernels
    cold = [name for name, kernel in kernels.items() if not kernel.signatures]
    # kernels called by other kernels are compiled into them and may have no entry of their own
    assert len(cold) < len(kernels), cold
