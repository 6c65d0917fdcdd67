"""Read the results: which runs count for a place, and what their median is."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.campaign import Campaign, Run
from benchmarks.peers.cases import CASES, Case, ProblemCase, TableCase
from benchmarks.peers.tools import Entrant

__all__ = ["median_of", "name_of", "runs_of"]


def runs_of(campaign: Campaign, tool: Entrant, case: Case) -> list[Run]:
    """Select a tool's runs in a case; one that takes no bounds has the same in every situation."""
    key = case.key
    if not tool.takes_bounds and case.situation.width is not None:
        key = _without_bounds(case).key
    return [one for one in campaign.runs if one.tool == tool.key and one.case == key]


def _without_bounds(case: Case) -> Case:
    """Return the case of the same rows without bounds."""
    for other in CASES:
        if type(other) is type(case) and _rows_of(other) == _rows_of(case):
            situation = other.situation
            if situation.width is None and situation.shift == case.situation.shift:
                return other
    raise LookupError(f"no case without bounds for {case.key}")


def _rows_of(case: Case) -> object:
    if isinstance(case, ProblemCase):
        return case.n_rows
    return case.name if isinstance(case, TableCase) else case.key


def median_of(campaign: Campaign, tool: Entrant, case: Case, number: str) -> float | None:
    """Compute the median over all runs that gave something to judge; None if none did."""
    found = [one.numbers[number] for one in runs_of(campaign, tool, case) if one.numbers]
    return float(np.median(found)) if found else None


def name_of(campaign: Campaign, tool: Entrant) -> str:
    """Name a tool, with its version if it has one of its own."""
    version = campaign.versions.get(tool.key, "")
    return tool.title.format("" if "not installed" in version else version).replace(" ,", ",")
