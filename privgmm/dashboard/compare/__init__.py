"""The page Compare: the package's methods beside baselines and no privacy, on generated rows.

`asking` draws the question, `runs` works it out beside the page, `page` shows it. Everything is
seeded: a rehearsal that spends nothing.
"""
