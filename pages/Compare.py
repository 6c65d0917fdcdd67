"""The dashboard's page of comparisons."""

from privgmm.dashboard.compare.page import page

page()
