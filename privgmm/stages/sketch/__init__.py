"""Sketch: one noisy pass of bounded waves over all rows, in coordinates that are public already.

`frame` holds the public coordinates, `features` the waves, what a row can change in their sums and
the exact sums themselves, `stage` the price and the noise, and `data` what comes out: a noisy
characteristic function, from which mixtures with any number of components are fitted at no cost.
"""
