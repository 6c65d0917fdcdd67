"""The dashboard's page of what-if questions, without data."""

from privgmm.dashboard.planner.page import page

page()
