"""Non-private learners: each turns t blocks of rows into t mixtures, block by block."""
