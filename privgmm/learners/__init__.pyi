from .em import EM as EM
from .from_estimator import FromEstimator as FromEstimator
from .learner import Learner as Learner
from .moments import Moments as Moments
from .moments.goodness import goodness_of_fit as goodness_of_fit
