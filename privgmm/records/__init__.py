"""What is written down: receipts that can be checked and signed, bundles, notebooks.

`document` reads the text of receipts, and the mixture in one with NumPy alone; `receipt` makes and
checks receipts, `signature` signs them, `bundle` puts a release into one file, `notebook` writes a
run as code, and `files` says how such files are written. The next room is the front doors:
`estimator` and `cli`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
