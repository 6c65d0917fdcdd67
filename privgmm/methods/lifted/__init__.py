"""Plan method `lifted`: average the blocks that agree, mask the mean, refine on all rows.

`expectations` says what block fits a plan may count on, `cores` finds the tests that such fits
pass, and `method` chooses among them.
"""
