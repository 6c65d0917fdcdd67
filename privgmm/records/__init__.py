"""What is written down: receipts that prove themselves, bundles, notebooks.

The next room is the front doors: `estimator` and `cli`.
"""
