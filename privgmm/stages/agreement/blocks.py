"""Deal rows into blocks, by position alone.

Which block a row goes to must not depend on any value in the data. Rows are dealt like cards:
each stripe of t consecutive rows goes to the t blocks in a fresh random order. That breaks up
sorted files as well as a full shuffle does, at a fraction of the cost.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import IntArray
from privgmm.errors import InvalidInput

__all__ = ["deal"]


def deal(n_rows: int, n_blocks: int, *, seed: int, rows_per_block: int | None = None) -> IntArray:
    """Deal row positions (t, s) into blocks, ``s = floor(n / t)`` (Algorithm 1, line 1).

    The last ``n - s t`` rows go to no block. Depends on n, t, s and the seed only.

    Parameters
    ----------
    rows_per_block : int, optional
        s, where fewer rows than that are wanted. The file is then cut into s t spans of nearly
        equal length, of which a random row each is dealt: rows from everywhere, however the file
        is sorted, and no row twice.
    """
    s = n_rows // n_blocks
    if s < 1:
        raise InvalidInput(
            f"{n_rows} rows cannot fill {n_blocks} blocks: use fewer blocks or more rows"
        )
    if rows_per_block is not None and rows_per_block < s:
        generator = np.random.default_rng(seed)
        dealt = n_blocks * rows_per_block
        starts = np.arange(dealt + 1, dtype=np.int64) * n_rows // dealt
        drawn = generator.integers(starts[:-1], starts[1:]).reshape(rows_per_block, n_blocks)
        return np.ascontiguousarray(generator.permuted(drawn, axis=1, out=drawn).T)
    order = np.tile(np.arange(n_blocks, dtype=np.int64), (s, 1))
    np.random.default_rng(seed).permuted(order, axis=1, out=order)
    order += np.arange(s, dtype=np.int64)[:, None] * n_blocks
    return np.ascontiguousarray(order.T)
