"""Scripts that run in the environment of another tool; they import numpy, that tool and `job`."""
