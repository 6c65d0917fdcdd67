"""Noise, and what it costs: draw, price, compose.

`noise` draws (cryptographic unless seeded), `curves` prices a mechanism as a Rényi curve, and
`composition` adds prices up, within one release and across all releases from one data set.
Nothing here knows what the noise is added to. The next room is `data`.
"""
