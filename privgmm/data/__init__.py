"""Where rows come from: files, frames, samples, generators.

`rows` is the one seam through which rows enter: `row_source` makes a `RowSource` of whatever holds
a table, read once, fingerprinted once. `content` is the bytes of files, `tables` makes numbers of
them, `identifiers` points at columns that are none, `survey` tells the holder what each column is
like, `datasets` names what was read or generated, `generators` draws mixtures and rows, `jitter`
undoes rounding, `fingerprint` says what stands for a data set in a ledger. The next room is
`learners`.
"""
