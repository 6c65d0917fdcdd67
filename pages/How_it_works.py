"""How it works: Algorithm 1 as a film."""

from privgmm.dashboard.film.page import page

page()
