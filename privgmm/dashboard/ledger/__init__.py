"""The page Ledger: what has been spent on the data of this session, what is left, receipts."""
