"""The page Audit: the visitor plays the attacker on generated rows and sees the promise hold.

`game` lets them guess from which of two neighbouring data sets a release was made. `curve` shows
the trade-off of every test, `flip` replaces one row, `losses` measures privacy losses against the
promised curve, and `adversaries` runs the attacks of `privgmm.audit`. The rows and the releases
come from `neighbours`. The next page is `explore`.
"""
