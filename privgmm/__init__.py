"""Learn Gaussian mixtures under differential privacy, with no bounds on the data.

Start with `best_plan` and `release`; `calibrate` keeps every knob in your hands.

>>> from privgmm import best_plan
>>> plan = best_plan(100_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
>>> plan.budget.covers(plan.spent())
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from privgmm.agreement import AgreementTest, Verdict
from privgmm.bounds import (
    TVBounds,
    best_constants,
    kl_divergence,
    lemma_6_3,
    pinsker,
    theorem_1_8,
    theorem_b_1,
    theorem_b_2,
)
from privgmm.budget import Budget
from privgmm.bundle import make_bundle
from privgmm.calibration import calibrate
from privgmm.datasets import (
    Dataset,
    generate,
    load_sample,
    load_table,
    random_mixture,
    sample_names,
)
from privgmm.distances import dist_comp, dist_gmm, dist_param
from privgmm.errors import BudgetExceeded, InvalidInput, PrivGMMError, ReleaseRefused
from privgmm.forecast import Forecast, forecast_error
from privgmm.jitter import jittered
from privgmm.learnable import Learnability, learnable
from privgmm.learners import Learner
from privgmm.learners.em import EM
from privgmm.learners.goodness import goodness_of_fit
from privgmm.learners.moments import Moments
from privgmm.ledger import Ledger, MemoryLedger
from privgmm.ledger_store import SQLiteLedger
from privgmm.matching import bottleneck_matching
from privgmm.mixture import Component, Mixture, MixtureBatch
from privgmm.mixture_variation import mixture_tv
from privgmm.noise import DiscreteGaussian, TruncatedLaplace
from privgmm.plan import METHODS, Plan
from privgmm.planner import best_plan
from privgmm.populous import Bottom, PopulousTest, private_populous_estimator
from privgmm.receipt import make_receipt, verify_receipt, write_receipt
from privgmm.refinement import Refinement
from privgmm.release import CuratorView, Outcome, Refusal, Release, release
from privgmm.renyi import RenyiCurve
from privgmm.spaces.lifted import LiftedSpace
from privgmm.spaces.paper import PaperSpace
from privgmm.total_variation import gaussian_hockey_stick, gaussian_tv

if TYPE_CHECKING:
    from privgmm.estimator import PrivateGaussianMixture as PrivateGaussianMixture
    from privgmm.learners.adapter import FromEstimator as FromEstimator

__version__ = "0.1.0"

__all__ = [
    "EM",
    "METHODS",
    "AgreementTest",
    "Bottom",
    "Budget",
    "BudgetExceeded",
    "Component",
    "CuratorView",
    "Dataset",
    "DiscreteGaussian",
    "Forecast",
    "InvalidInput",
    "Learnability",
    "Learner",
    "Ledger",
    "LiftedSpace",
    "MemoryLedger",
    "Mixture",
    "MixtureBatch",
    "Moments",
    "Outcome",
    "PaperSpace",
    "Plan",
    "PopulousTest",
    "PrivGMMError",
    "Refinement",
    "Refusal",
    "Release",
    "ReleaseRefused",
    "RenyiCurve",
    "SQLiteLedger",
    "TVBounds",
    "TruncatedLaplace",
    "Verdict",
    "best_constants",
    "best_plan",
    "bottleneck_matching",
    "calibrate",
    "dist_comp",
    "dist_gmm",
    "dist_param",
    "forecast_error",
    "gaussian_hockey_stick",
    "gaussian_tv",
    "generate",
    "goodness_of_fit",
    "jittered",
    "kl_divergence",
    "learnable",
    "lemma_6_3",
    "load_sample",
    "load_table",
    "make_bundle",
    "make_receipt",
    "mixture_tv",
    "pinsker",
    "private_populous_estimator",
    "random_mixture",
    "release",
    "sample_names",
    "theorem_1_8",
    "theorem_b_1",
    "theorem_b_2",
    "verify_receipt",
    "write_receipt",
]


_ON_DEMAND = {
    "FromEstimator": "privgmm.learners.adapter",
    "PrivateGaussianMixture": "privgmm.estimator",
}


def __getattr__(name: str) -> Any:
    """What builds on scikit-learn, on demand: that takes a second to import."""
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
