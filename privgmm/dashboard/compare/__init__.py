"""The page Compare: the package's methods, baselines and no privacy, on the same generated rows.

`asking` shows the question, `runs` computes the answers in the background, `page` shows them. All
noise is seeded and all rows are generated, so nothing is spent.
"""
