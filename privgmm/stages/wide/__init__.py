"""Learn mixtures of many columns: pooled looks, a sketch of few directions, looks at all columns.

With many columns a sketch of all of them drowns in noise. Here histograms give each column's place
and width; noisy looks give the mean and covariance of all rows together (`pooled`); a sketch in the
few directions in which the rows vary most finds the components (`subspace`); and noisy looks
through them find all of their means and covariances (`finish`).
"""
