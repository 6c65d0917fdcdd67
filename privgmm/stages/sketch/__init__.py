"""Sketch: one noisy pass of bounded waves over all rows, in coordinates that are public already.

`frame` holds the public coordinates, `features` the waves, what a row can change in their sums and
the exact sums themselves, `stage` the price and the noise, and `finish` what is done with the rest
of the account. What comes out is a `private_sketch`: a noisy characteristic function, from which
everything else is computed at no cost. `fitting` finds mixtures with any number of components, of
the covariance types in `structures`; `nearest` takes few components from many; `error_covariances`
says how far they may be off, and `picture` shows the density.
"""
