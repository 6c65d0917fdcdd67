"""The page Planner: what a release would take and give, before there is any data.

`asking` draws the question, `solve` works out the answers beside the page, `page` shows them.
"""
