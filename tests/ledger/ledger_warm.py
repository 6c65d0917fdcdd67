"""Loaded once by the server of `ledger_children`: one release compiles everything beforehand."""

from __future__ import annotations

from privgmm.releases import release
from tests.ledger.ledger_children import PLAN, ROWS

__all__ = ["FIRST"]

FIRST = release(ROWS, PLAN, rng=0)
