"""The page Planner: what a release would take and give, before there is any data.

`asking` shows the question, `solve` computes the answers in the background, `page` shows them.
"""
