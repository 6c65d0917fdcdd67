"""The page Explore: what privacy costs, seen on one data set.

`data_panel`, `upload` and `controls` are the choices of a visitor; `feasibility` says before any
spending whether the rows are enough; `rehearsal` tries a release on demonstration data, and
`other_promises` shows it for other epsilons; `verdict` is the band above the `picture`;
`release_job` is a release that runs; `result`, `hinting` and `possible_releases` show its result.
`page` puts them together.
"""
