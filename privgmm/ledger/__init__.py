"""Accounts of what was spent: an entry before noise is drawn, its verdict afterwards.

`protocol` says what a `Ledger` is (the account of one data set), what an `Intent` is (one spend, to
be concluded) and what a `Book` is (the ledgers of many data sets). Front doors work with these
three, wherever they are kept: `memory` lasts as long as the process, `sqlite` is a file that many
processes share. `process` counts what is in no ledger, and `cautions` warns the curator before
noise is drawn. `history` is what a ledger knows at one moment, and what follows from it. The next
room is the package's root: `releases` goes through one release.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
