"""Other tools on the same rows: ``make peers``, or ``python -m benchmarks.peers``.

Every tool lives in a virtual environment of its own (`environments`), with the versions pinned in
``requirements/``. It is asked by a script of its own in `workers`, which reads a file of rows and
writes a file of synthetic rows. Two things are compared:

- Mixtures. `cases` says which rows, which bounds and how a mixture is judged, `tools` who takes
  part and how synthetic rows become a mixture.
- Synthetic rows of real tables. `synthetic_cases` says which tables and bounds, `yardsticks` how
  rows are judged, `makers` who takes part.

`campaign` goes through all of it and keeps ``results.json``; `page`, `rows_page` and `chart` write
that file down as ``docs/comparison.md``.
"""
