"""Distances between mixtures: total variation, parameter distance, matchings.

Pure mathematics on values, no rows and no noise. `total_variation` and `mixture_variation` compute
total variation exactly, `bounds` states Theorem 1.8 and its relatives, `parameters` the paper's
distances (Eq. 4, Section 5), `matching` pairs components (Lemma 3.2), `all_pairs` compares many
fits at once, `learnable` checks Definition 6.4. The next room is `privacy`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
