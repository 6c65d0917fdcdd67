"""Learn Gaussian mixtures under differential privacy, with no bounds on the data.

Start with `best_plan` and `release`; `calibrate` keeps every knob in your hands.

>>> from privgmm import best_plan
>>> plan = best_plan(100_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
>>> plan.budget.covers(plan.spent())
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from privgmm.cli import interruption as _interruption  # noqa: F401 - Ctrl-C from here on

# isort: split
from privgmm.budget import Budget
from privgmm.data.datasets import (
    Dataset,
    generate,
    load_sample,
    load_table,
    random_mixture,
    sample_names,
)
from privgmm.data.engines import Step
from privgmm.data.jitter import jittered
from privgmm.data.rows import row_source
from privgmm.data.source import RowSource
from privgmm.distances.bounds import (
    TVBounds,
    best_constants,
    kl_divergence,
    lemma_6_3,
    pinsker,
    theorem_1_8,
    theorem_b_1,
    theorem_b_2,
)
from privgmm.distances.learnable import Learnability, learnable
from privgmm.distances.matching import bottleneck_matching
from privgmm.distances.mixture_variation import mixture_tv
from privgmm.distances.parameters import dist_comp, dist_gmm, dist_param
from privgmm.distances.total_variation import gaussian_hockey_stick, gaussian_tv
from privgmm.errors import (
    BudgetExceeded,
    InvalidInput,
    PrivacyWarning,
    PrivGMMError,
    ReleaseRefused,
    RepeatedSpend,
    ScaledRows,
    SeededRelease,
    SuspectColumn,
    WeakBudget,
)
from privgmm.learners.em import EM
from privgmm.learners.learner import Learner
from privgmm.learners.moments import Moments
from privgmm.learners.moments.goodness import goodness_of_fit
from privgmm.ledger.memory import MemoryLedger
from privgmm.ledger.protocol import Ledger
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods import METHODS
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Component, Mixture, MixtureBatch
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.noise import DiscreteGaussian, TruncatedLaplace
from privgmm.records.bundle import make_bundle
from privgmm.records.receipt import make_receipt, sketch_of, verify_receipt, write_receipt
from privgmm.release import (
    CuratorView,
    Outcome,
    PreparedRelease,
    Refusal,
    Release,
    join_sketch,
    prepare,
    release,
)
from privgmm.stages.agreement.algorithm_1 import PopulousTest, private_populous_estimator
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import AgreementTest, Verdict
from privgmm.stages.refinement.expected_error import Forecast, forecast_error
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.choice import Choice
from privgmm.stages.sketch.picture import DensityCurve, DensityImage
from privgmm.stages.sketch.private_sketch import PrivateSketch, SketchFit
from privgmm.stages.stage import Bottom
from privgmm.stages.standard_errors import StandardErrors

if TYPE_CHECKING:
    from privgmm.estimator import PrivateGaussianMixture as PrivateGaussianMixture
    from privgmm.learners.from_estimator import FromEstimator as FromEstimator

__version__ = "0.1.0"

__all__ = [
    "EM",
    "METHODS",
    "AgreementTest",
    "Bottom",
    "Budget",
    "BudgetExceeded",
    "Choice",
    "Component",
    "CuratorView",
    "Dataset",
    "DensityCurve",
    "DensityImage",
    "DiscreteGaussian",
    "Forecast",
    "FromEstimator",
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
    "PlanRequest",
    "PopulousTest",
    "PreparedRelease",
    "PrivGMMError",
    "PrivacyWarning",
    "PrivateGaussianMixture",
    "PrivateSketch",
    "Refinement",
    "Refusal",
    "Release",
    "ReleaseRefused",
    "RenyiCurve",
    "RepeatedSpend",
    "RowSource",
    "SQLiteLedger",
    "ScaledRows",
    "SeededRelease",
    "SketchFit",
    "StandardErrors",
    "Step",
    "SuspectColumn",
    "TVBounds",
    "TruncatedLaplace",
    "Verdict",
    "WeakBudget",
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
    "join_sketch",
    "kl_divergence",
    "learnable",
    "lemma_6_3",
    "load_sample",
    "load_table",
    "make_bundle",
    "make_receipt",
    "mixture_tv",
    "pinsker",
    "plan_for",
    "prepare",
    "private_populous_estimator",
    "random_mixture",
    "release",
    "row_source",
    "sample_names",
    "sketch_of",
    "theorem_1_8",
    "theorem_b_1",
    "theorem_b_2",
    "verify_receipt",
    "write_receipt",
]


_ON_DEMAND = {
    "FromEstimator": "privgmm.learners.from_estimator",
    "PrivateGaussianMixture": "privgmm.estimator",
}


def __getattr__(name: str) -> Any:
    """What builds on scikit-learn, on demand: that takes a second to import."""
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
