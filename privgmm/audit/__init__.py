"""An adversary for every mechanism: what is promised is attacked, and the worst is reported.

`run_audit` returns a `Report`: worst pairs for each mask, a search over neighbouring sets of
block fits, whole releases on neighbouring data, and deliberately broken variants, each of which
must be caught by the check that it was made for. What is attacked is asked of the registered
methods and of the stages of their plans. ``python -m privgmm.audit`` prints the report. The next
room is `figures`.
"""

from __future__ import annotations

from privgmm.audit.cores import Mechanism, Strain, strain
from privgmm.audit.endtoend import Instance, empirical_epsilon
from privgmm.audit.findings import Finding, Report
from privgmm.audit.neighbours import Fits, Neighbours
from privgmm.audit.search import attack
from privgmm.audit.suite import run_audit

__all__ = [
    "Finding",
    "Fits",
    "Instance",
    "Mechanism",
    "Neighbours",
    "Report",
    "Strain",
    "attack",
    "empirical_epsilon",
    "run_audit",
    "strain",
]
