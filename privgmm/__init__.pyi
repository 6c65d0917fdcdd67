"""Names of the package's root, in one list: they are loaded when first asked for."""

from . import widgets as widgets
from .budget import Budget as Budget
from .data.datasets import generate as generate
from .data.datasets import load_sample as load_sample
from .data.datasets import load_table as load_table
from .data.datasets import random_mixture as random_mixture
from .data.rows import row_source as row_source
from .distances.bounds import theorem_1_8 as theorem_1_8
from .distances.mixture_variation import mixture_tv as mixture_tv
from .distances.parameters import dist_gmm as dist_gmm
from .distances.total_variation import gaussian_tv as gaussian_tv
from .errors import InvalidInput as InvalidInput
from .errors import PrivacyWarning as PrivacyWarning
from .errors import ReleaseRefused as ReleaseRefused
from .estimator import PrivateGaussianMixture as PrivateGaussianMixture
from .learners.em import EM as EM
from .ledger.memory import MemoryLedger as MemoryLedger
from .ledger.sqlite import SQLiteLedger as SQLiteLedger
from .methods.plan import Plan as Plan
from .methods.planner import best_plan as best_plan
from .methods.planner import calibrate as calibrate
from .methods.request import PlanRequest as PlanRequest
from .mixture import Mixture as Mixture
from .records.document import read_mixture as read_mixture
from .records.receipt import read_receipt as read_receipt
from .records.receipt import verify_receipt as verify_receipt
from .releases import Outcome as Outcome
from .releases import join_sketch as join_sketch
from .releases import prepare as prepare
from .releases import release as release
from .results import Refusal as Refusal
from .results import Release as Release
from .stages.sketch.private_sketch import PrivateSketch as PrivateSketch

__version__: str
