"""Attacks on the stages of a sketch, with the neighbours that cost most.

The data sets are tiny and made for this purpose. In one column and the frame around the origin, a
row that moves by one turn moves the waves as far as any row can. Where no Gaussian explains the
rows, the finish takes all of its steps.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.counts import Sums, exact_sums
from privgmm.audit.findings import Finding
from privgmm.audit.sketch_releases import one_turn
from privgmm.audit.wiretap import Side, audit_run
from privgmm.data.people import ArrayPeople
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.refinement.noisy_moments import cut_sums
from privgmm.stages.refinement.projection import vote_sums
from privgmm.stages.refinement.soft_looks import SoftLook, Units, look_sums
from privgmm.stages.refinement.winsorised import WinsorisedMoments, winsorised_sums
from privgmm.stages.sketch.features import SketchShape, feature_sums, fixed_point_scale
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.wide.finish import WideFinish
from privgmm.stages.wide.pooled import Pooled, PooledLooks
from privgmm.stages.wide.subspace import SketchedSubspace, SubspaceSketch

__all__ = [
    "ORIGIN_FRAME",
    "QUIET",
    "account_findings",
    "bimodal",
    "exactness_findings",
    "first_sketch",
    "gaussian_rows",
    "persons_apart",
    "sketched_subspace",
    "turned",
    "wide_findings",
]

ORIGIN_FRAME = Frame([0.0], [[1.0]])
"""One column in its own units: coordinates are the values themselves."""
_FARTHEST = 1e308
"""Nearly the largest float: coordinates of such a row overflow in a narrow frame."""
QUIET = 0.3
"""A multiplier so small that 200 rows allow a rich mixture; larger ones stop earlier."""


def gaussian_rows(n: int, d: int, *, seed: int = 0) -> Array:
    """Draw standard normal rows (n, d)."""
    return np.random.default_rng(seed).standard_normal((n, d))


def _replaced(rows: Array, row: Array | float) -> Side:
    other = rows.copy()
    other[0] = row
    return Side(other)


def turned(n: int) -> tuple[Side, Side]:
    """Make Gaussian rows in one column, one of which moves by the turn that costs most."""
    rows = gaussian_rows(n, 1)
    rows[0] = 0.0
    return Side(rows), _replaced(rows, one_turn(SketchShape.default(1)))


def persons_apart(n: int) -> tuple[Side, Side]:
    """Make n persons with two rows each, one of whom has three rows and is replaced by seven."""
    rows, member = gaussian_rows(2 * n - 2, 1), np.repeat(np.arange(1, n), 2)
    sides = []
    for size, place in ((3, 0.0), (7, one_turn(SketchShape.default(1)))):
        whole = np.concatenate([np.full((size, 1), place), rows])
        sides.append(Side(whole, np.concatenate([np.zeros(size, dtype=np.int64), member])))
    return sides[0], sides[1]


def bimodal(n: int) -> tuple[Side, Side]:
    """Make two narrow clusters, which no Gaussian explains; a row moves from one to the other."""
    heaps = np.where(np.arange(n) % 2 == 0, -1.5, 1.5)[:, None]
    rows = heaps + 0.05 * gaussian_rows(n, 1)
    return Side(rows), _replaced(rows, rows[0] + one_turn(SketchShape.default(1)))


def first_sketch(side: Side, *, width: float = 1.0) -> PrivateSketch:
    """Draw a sketch of the rows with little noise, in a frame of this width around the origin."""
    d = side.rows.shape[1]
    n = len(side.rows) if side.member is None else int(side.member.max()) + 1
    source = SeededNoise(np.random.default_rng(0))
    stage = Sketch(SketchShape.default(d), QUIET, n, d)
    frame = Frame(np.zeros(d), width * np.eye(d))
    drawn: PrivateSketch = stage.prepare(side.work(source), frame).draw(source).value
    return drawn


def account_findings(*, n: int = 200) -> list[Finding]:
    """Add up the draws of a sketch and of every path of its finish, on neighbours."""
    shape = SketchShape.default(1)
    sketch, finish = Sketch(shape, 1.5, n, 1), Finish(1, 1, n, shape, 1.5)
    quiet = Finish(1, 1, n, shape, QUIET)
    plain, moved = turned(n)
    one, other = persons_apart(n)
    heaps, parted = bimodal(n)
    away = Side(np.concatenate([[[_FARTHEST]], 1e-3 * heaps.rows[1:]]))
    near = Side(1e-3 * heaps.rows)
    seen = first_sketch(near, width=1e-3)
    four = gaussian_rows(400, 4)
    wide = SketchShape.default(4)
    refined = Finish(1, 4, len(four), wide, 1.5)
    pairs = HistogramFrame(
        n_features=1,
        scale_sigma=2.0,
        location_sigma=3.0,
        miss=1e-3,
        multipliers=(5.0, 5.0),
        radius=2.0,
    )
    # the finish chooses its path by its multiplier and by what the first sketch shows
    return [
        audit_run(sketch, plain, moved, ORIGIN_FRAME, label="one turn"),
        audit_run(sketch, one, other, ORIGIN_FRAME, label="persons"),
        audit_run(sketch, moved, _replaced(plain.rows, _FARTHEST), ORIGIN_FRAME, label="far away"),
        audit_run(finish, plain, moved, first_sketch(plain), label="second sketch"),
        audit_run(finish, one, other, first_sketch(one), label="second sketch, persons"),
        audit_run(quiet, heaps, parted, first_sketch(heaps), label="rich mixture"),
        audit_run(quiet, near, away, seen, label="rich mixture, far away"),
        audit_run(finish, heaps, parted, first_sketch(heaps), label="noisy EM"),
        audit_run(finish, near, away, seen, label="noisy EM, far away"),
        audit_run(
            refined,
            Side(four),
            _replaced(four, np.array([0.0, 0.0, 9.0, 0.0])),
            first_sketch(Side(four)),
            label="refinement",
        ),
        audit_run(pairs, plain, moved, None, label="one turn"),
        audit_run(pairs, one, other, None, label="persons"),
    ]


def sketched_subspace(rows: Array, *, n_components: int = 2) -> SketchedSubspace:
    """Draw a sketch of the first columns of these rows, taken to be in units already."""
    n, d = rows.shape
    pooled = Pooled(
        Units(np.zeros(d), np.ones(d)),
        Mixture([1.0], rows.mean(axis=0)[None], np.cov(rows.T)[None]),
    )
    q = min(2, d)
    stage = SubspaceSketch(SketchShape.default(q, n_components), QUIET, n, d, q)
    source = SeededNoise(np.random.default_rng(0))
    drawn: SketchedSubspace = stage.prepare(Side(rows).work(source), pooled).draw(source).value
    return drawn


def wide_findings(*, n: int = 400, d: int = 3) -> list[Finding]:
    """Add up the draws of every stage for many columns, on neighbours; here columns are few."""
    rows = gaussian_rows(n, d)
    rows[: n // 2, 0] += 8.0
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    frame = Frame(mean, np.diag(spread))
    rows[0] = mean + 50 * spread
    across, away = _replaced(rows, mean - 50 * spread), _replaced(rows, _FARTHEST)
    # the farthest that looks move: between directions at a right angle, in units of the rows
    turns = np.zeros((2, d))
    turns[:, 1] = 1.0
    turns[:, 2] = 1.0, -1.0
    up, down = (_replaced(rows, mean + 1e6 * spread * turn) for turn in turns)
    persons = np.arange(n) // 2
    one = Side(rows, persons)
    other = Side(np.concatenate([np.tile(mean - 50 * spread, (5, 1)), rows[2:]]))
    other = Side(other.rows, np.concatenate([np.zeros(5, dtype=np.int64), persons[2:]]))
    seen = sketched_subspace(rows)
    looks, sketch = (
        PooledLooks((1.5, 2.0), n, d),
        SubspaceSketch(SketchShape.default(2), 1.5, n, d, 2),
    )
    finish = WideFinish(2, d, n, 1.5, (0.2, 0.3))
    half = n // 2
    return [
        audit_run(looks, Side(rows), across, frame, label="across"),
        audit_run(looks, Side(rows), away, frame, label="far away"),
        audit_run(looks, up, down, frame, label="at a right angle"),
        audit_run(PooledLooks((1.5,), half, d), one, other, frame, label="persons"),
        audit_run(sketch, Side(rows), across, seen.pooled, label="across"),
        audit_run(
            SubspaceSketch(sketch.shape, 1.5, half, d, 2), one, other, seen.pooled, label="persons"
        ),
        audit_run(finish, Side(rows), across, seen, label="across"),
        audit_run(finish, Side(rows), away, seen, label="far away"),
        audit_run(finish, up, down, seen, label="at a right angle"),
        audit_run(WideFinish(1, d, n, 1.5, (0.2, 0.3)), up, down, seen, label="one"),
        audit_run(WideFinish(2, d, half, 1.5, (0.2, 0.3)), one, other, seen, label="persons"),
    ]


def _exact_in(d: int, n: int) -> dict[str, Sums]:
    """List the sums over n rows in d columns that must be exact, by what they are sums of."""
    shape, scale = SketchShape.default(d), fixed_point_scale(n)
    frame = Frame(np.full(d, 0.1), np.eye(d) + 0.1)
    public = Mixture([0.3, 0.7], [[-1.0] * d, [1.0] * d], np.stack([np.eye(d), 2 * np.eye(d)]))
    others = [Mixture([1.0], [[place] * d], np.eye(d)[None]) for place in (-1.0, 0.0, 2.0)]
    people, moments = ArrayPeople.of, WinsorisedMoments(2.0)
    units, tied = Units(np.full(d, 0.1), np.full(d, 1.1)), SoftLook(0.5, 1.0, tied=True)
    return {
        "looks": lambda x, who: look_sums(people(x, who), units, public, SoftLook(0.0, 1.0)),
        "tied looks": lambda x, who: look_sums(
            people(x, who, chunk=64), units, public, tied, np.eye(d) + 0.1 * np.tri(d)
        ),
        # parts of 64 rows, so that there are several
        "waves": lambda x, who: feature_sums(people(x, who, chunk=64), frame, shape, scale=scale),
        "moments": lambda x, who: winsorised_sums(people(x, who), public, moments)[0],
        "cut moments": lambda x, who: cut_sums(
            people(x, who), public, 2.0, (0.4, 0.6, 1.0), 2.0**30
        ),
        "votes": lambda x, who: vote_sums(people(x, who), others, 2.0)[0],
    }


def exactness_findings(*, n: int = 300, rng: np.random.Generator) -> list[Finding]:
    """Check that waves, moments and votes are sums of what each row or person gives by itself."""
    return [
        exact_sums(f"{name}, d={d}", sums, 2 * gaussian_rows(n, d, seed=d), rng=rng)
        for d in (1, 3)
        for name, sums in _exact_in(d, n).items()
    ]
