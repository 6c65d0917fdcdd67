"""The page Explore: what privacy costs, seen on one data set.

`data_panel`, `upload` and `controls` are what one chooses; `feasibility` says before any spending
whether the rows will do; `rehearsal` tries it on rows that are nobody's, and `other_promises` shows
it for other epsilons; `verdict` is the band above the `picture`; `release_job` is the release under
way; `result`, `hinting` and `possible_releases` show what came of it. `page` puts them together.
"""
