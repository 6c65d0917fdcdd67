"""The page Audit: the visitor plays the attacker on made-up rows and sees the promise hold.

`game` lets them guess which of two neighbouring data sets made a release, `curve` shows what every
test trades off, `flip` replaces one row, `losses` measures privacy losses against the promised
curve, and `adversaries` runs the attacks of `privgmm.audit`. The rows and the releases from them
come from `neighbours`. The next page is `explore`.
"""
