"""Audit: is the promise kept."""

from privgmm.dashboard.auditing import page

page()
