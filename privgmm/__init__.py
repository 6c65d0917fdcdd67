"""Learn Gaussian mixtures under differential privacy, with no bounds on the data.

Start with `best_plan` and `release`; `calibrate` keeps every knob in your hands. The names of the
root are listed in ``__init__.pyi`` and loaded when first asked for (SPEC 1); everything else is
imported from its room, such as ``privgmm.distances`` or ``privgmm.learners``.

>>> import privgmm
>>> plan = privgmm.best_plan(100_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
>>> plan.budget.covers(plan.spent())
True
"""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
# `from privgmm import *` must not ask for the extra that widgets need
__all__.remove("widgets")


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as missing:
        # as read by someone who has installed the package without what it depends on
        raise ModuleNotFoundError(
            f"privgmm.{name} needs {missing.name}: pip install privgmm brings it. NumPy alone is "
            "enough for privgmm.read_mixture, which reads the mixture in a receipt",
            name=missing.name,
        ) from missing
