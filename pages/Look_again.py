"""Look again: everything that is free after one release."""

from privgmm.dashboard.look_again.page import page

page()
