"""Learn Gaussian mixtures under differential privacy, with no bounds on the data.

Start with `best_plan` and `release`; `calibrate` keeps every knob in your hands. The names of the
root are listed in ``__init__.pyi`` and loaded when first asked for (SPEC 1); everything else is
imported from its room, such as ``privgmm.distances`` or ``privgmm.learners``.

>>> import privgmm
>>> plan = privgmm.best_plan(100_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
>>> plan.budget.covers(plan.spent())
True
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
