"""Where rows come from: files, frames, samples, generators.

All rows enter through `rows`: `row_source` makes a `RowSource` (`source`) of anything that holds a
table. `parts` are sources that are read part by part, `people` the rows by the persons they belong
to, `sorted_people` those of large tables, `engines` where work on them is done. `content` reads the
bytes of files, `tables` makes numbers of them and `labels` says who a row belongs to, `identifiers`
finds columns that number rows or persons, `survey` describes each column to the holder of the data,
`datasets` names what was read or generated, `generators` draws mixtures, `jitter` undoes rounding,
`fingerprint` says what stands for a data set in a ledger, and `spreadsheets` keeps text in CSV
files from being run as formulas. The next room is `learners`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
