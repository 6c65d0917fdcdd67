"""Baselines: other differentially private learners, to compare the package's methods with.

Each must be given a box that holds the rows (`bounds`), one the labels as well. What is outside the
box is pulled into it, so the guarantee holds for any box, and only the result suffers. `baseline`
says what a baseline is, `moment_sums` and `account` what its noise covers and costs, and `registry`
lists them all. `comparison` runs them next to the package's own methods on generated rows.

They are here to be compared with, not to be released from: no ledger records them. After a release
with one, add `BaselineRelease.spent` to the account of the data.
"""

from privgmm.baselines.baseline import Baseline, BaselineRelease, Needs
from privgmm.baselines.bounds import Box
from privgmm.baselines.registry import all_baselines, get_baseline

__all__ = ["Baseline", "BaselineRelease", "Box", "Needs", "all_baselines", "get_baseline"]
