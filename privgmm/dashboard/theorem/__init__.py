"""The page Theorem 1.8: total variation against the distance of parameters."""
