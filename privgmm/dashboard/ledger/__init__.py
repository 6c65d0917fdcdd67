"""The page Ledger: what has been spent."""
