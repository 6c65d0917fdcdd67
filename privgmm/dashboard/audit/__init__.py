"""The page Audit: guess, flip a row, measure, attack."""
