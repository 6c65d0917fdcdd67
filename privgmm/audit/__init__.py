"""The audit: an attack on every mechanism, which reports the worst that it finds.

`run_audit` returns a `Report`. It tries worst pairs for each mask, searches neighbouring sets of
block fits, and runs whole releases on neighbouring data. Some deliberately broken variants
(`broken`) show that the checks can fail. The registered methods and the stages of their plans say
what is attacked. ``python -m privgmm.audit`` prints the report. The next room is `figures`.
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
