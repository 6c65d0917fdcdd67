"""Agreement: rows are dealt into blocks, blocks are fitted, fits vote, one object is masked.

In the order in which a row meets them: `blocks` deals rows, a learner fits each block, `space`
says how fits are compared (`paper_space`, `lifted_space`), `votes` counts and tests,
`algorithm_1` puts them together. `lemmas` and `noise_levels` say how much noise is needed, and
`scatter` how block fits scatter, without data.
"""
