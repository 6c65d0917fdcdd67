"""Private learners to compare with: what one would use instead, and what each has to be told.

Every one of them is told a box that holds the rows (`bounds`), one is told the labels as well; what
is outside the box is pulled into it, so the promise of privacy holds whatever the box is, and only
the result suffers. `baseline` says what a baseline is, `moment_sums` and `account` what its noise
covers and costs, and `registry` lists them all. `comparison` runs them beside the package's own
methods on generated rows.

They are here to be compared with, not to be released from: no ledger knows of them. Whoever does
release with one has to add `BaselineRelease.spent` to the account of the data.
"""

from privgmm.baselines.baseline import Baseline, BaselineRelease, Needs
from privgmm.baselines.bounds import Box
from privgmm.baselines.registry import all_baselines, get, names, register, unregister

__all__ = [
    "Baseline",
    "BaselineRelease",
    "Box",
    "Needs",
    "all_baselines",
    "get",
    "names",
    "register",
    "unregister",
]
