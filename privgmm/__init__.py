"""Learn Gaussian mixtures under differential privacy, with no bounds on the data."""
