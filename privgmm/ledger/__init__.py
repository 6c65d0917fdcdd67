"""What was spent: told before noise is drawn, and told the verdict after.

`protocol` says what a `Ledger` is (the account of one data set), what an `Intent` is (one spend, to
be concluded) and what a `Book` is (the ledgers of many data sets). Front doors work with these
three and need not know what is behind them: `memory` lasts as long as the process, `sqlite` is a
file that many processes share. `process` counts what no ledger was told of, and `cautions` is what
the curator is warned of before noise is drawn. `history` is what a ledger knows at one moment, and
what follows from it. The next room is the package's root: `release` tells the story of one release.
"""
