"""Where rows come from: files, frames, samples, generators.

`rows` is the one seam through which rows enter: `row_source` makes a `RowSource` (`source`) of
whatever holds a table. `parts` are sources that are read part by part, `people` the rows by the
persons they belong to, `sorted_people` those of large tables, `engines` where work on them is
done. `content` is the bytes of files, `tables` makes numbers of them, `identifiers` points at
columns that are none, `survey` tells the holder what each column is like, `datasets` names what
was read or generated, `generators` draws mixtures and rows, `jitter` undoes rounding,
`fingerprint` says what stands for a data set in a ledger. The next room is `learners`.
"""
