"""Ledger: what has been spent."""

from privgmm.dashboard.ledger.page import page

page()
