"""The dashboard's page of what-if questions, without data."""

from privgmm.dashboard.planning import page

page()
