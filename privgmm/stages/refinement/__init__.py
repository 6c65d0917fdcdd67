"""Refinement: noisy moments of all rows, seen through a mixture that is public already.

`noisy_moments` takes the sums and solves for the mixture that explains them; `expected_error` says
beforehand how exact that will be.
"""
