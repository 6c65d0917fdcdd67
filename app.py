"""The dashboard's first page. Start it with ``make app``."""

from privgmm.dashboard.explore.page import page

page()
