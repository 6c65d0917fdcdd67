"""Ledger: what has been spent."""

from privgmm.dashboard.spending import page

page()
