"""Pieces of an interactive notebook: controls and figures that move together.

`explore` rehearses releases, `look_again` reads a released sketch again, `theorem` compares two
Gaussians, `guess` plays the guessing game, `own_table` releases a table of one's own, and
`account` draws a ledger as it grows. Each returns a widget to be shown by a cell:

    from privgmm import widgets

    widgets.explore()

They work in JupyterLab, VS Code and Colab, and need the extra ``privgmm[notebook]``. Rehearsals,
figures and words are those of the dashboard (`privgmm.teaching`, `privgmm.figures`). `live` keeps
a figure on screen up to date.
"""

from privgmm.widgets import needs as needs
from privgmm.widgets.explorer import explore
from privgmm.widgets.guesser import guess
from privgmm.widgets.looker import look_again
from privgmm.widgets.pair_mover import theorem
from privgmm.widgets.spending import account
from privgmm.widgets.uploader import own_table

__all__ = ["account", "explore", "guess", "look_again", "own_table", "theorem"]
