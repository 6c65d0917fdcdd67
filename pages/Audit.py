"""Audit: is the promise kept."""

from privgmm.dashboard.audit.page import page

page()
