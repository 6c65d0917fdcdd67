"""Noise, and what it costs: draw, price, compose.

`noise` draws (cryptographic unless seeded), `curves` prices a mechanism as a Rényi curve, and
`composition` adds prices up, within one release and across all releases from one data set.
`gaussian_pairs` says exactly how well noise hides which of two data sets it was drawn for, and
`guessing` bounds how well an attacker distinguishes two data sets by a whole release. Nothing here
knows what the noise is added to. The next room is `data`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
