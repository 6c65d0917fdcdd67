"""What is written down: receipts that can be checked and signed, bundles, notebooks.

`files` says how such files are written. The next room is the front doors: `estimator` and `cli`.
"""
