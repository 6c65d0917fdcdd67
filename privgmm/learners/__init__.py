"""Learners of confidential fits: each turns t blocks of rows into t mixtures, block by block.

`learner` says what a learner is and the one rule it keeps: the fit of a block depends on that
block alone. `em` is the default, `moments` the method of moments, `from_estimator` takes any
scikit-learn mixture, and `registry` lists them by name. The next room is `stages`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
