"""The page Explore: what privacy costs, seen on one data set.

`data_panel` and `controls` are what one chooses; `feasibility` says before any spending whether
the rows will do; `release_job` is the release under way; `result`, `hinting` and
`possible_releases` show what came of it. `page` puts them together.
"""
