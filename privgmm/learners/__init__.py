"""Learners without privacy: each turns t blocks of rows into t mixtures, block by block.

`learner` says what a learner is and the one rule it keeps: the fit of a block depends on that
block alone. `em` is the default, `moments` the method of moments, `from_estimator` takes any
scikit-learn mixture, and `registry` lists them by name. The next room is `stages`.
"""
