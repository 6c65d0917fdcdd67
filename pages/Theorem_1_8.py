"""The dashboard's page on total variation and parameter distance."""

from privgmm.dashboard.theorem.page import page

page()
