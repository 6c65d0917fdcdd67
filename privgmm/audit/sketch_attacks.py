"""Attacks on the stages of a sketch: neighbours that cost most, and what each stage must hold.

Rows are tiny data sets made for the purpose. In one column and the standard frame a row that moves
by one turn moves the waves as far as any row can; where no Gaussian explains the rows, the finish
goes its long way.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.counts import exact_sums
from privgmm.audit.findings import Finding
from privgmm.audit.histograms import counts_move, lone_bins
from privgmm.audit.sketch_releases import one_turn
from privgmm.audit.wiretap import Side, account
from privgmm.data.people import ArrayPeople
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.refinement.noisy_moments import cut_sums
from privgmm.stages.refinement.projection import vote_sums
from privgmm.stages.refinement.winsorised import Moments, winsorised_sums
from privgmm.stages.sketch.features import SketchShape, feature_sums, fixed_point_scale
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch

__all__ = [
    "QUIET",
    "STANDARD",
    "account_findings",
    "bimodal",
    "exactness_findings",
    "first_sketch",
    "gaussian_rows",
    "histogram_findings",
    "persons_apart",
    "turned",
]

STANDARD = Frame([0.0], [[1.0]])
_FARTHEST = 1e308
QUIET = 0.3
"""A multiplier so small that 200 rows leave room for a rich mixture."""


def gaussian_rows(n: int, d: int, *, seed: int = 0) -> Array:
    """Standard normal rows (n, d)."""
    return np.random.default_rng(seed).standard_normal((n, d))


def _replaced(rows: Array, row: Array | float) -> Side:
    other = rows.copy()
    other[0] = row
    return Side(other)


def turned(n: int) -> tuple[Side, Side]:
    """Gaussian rows in one column; one of them moves by the turn that costs most."""
    rows = gaussian_rows(n, 1)
    rows[0] = 0.0
    return Side(rows), _replaced(rows, one_turn(SketchShape.default(1)))


def persons_apart(n: int) -> tuple[Side, Side]:
    """So many persons of two rows; one of them, with three rows, becomes one with seven."""
    rows, member = gaussian_rows(2 * n - 2, 1), np.repeat(np.arange(1, n), 2)
    sides = []
    for size, place in ((3, 0.0), (7, one_turn(SketchShape.default(1)))):
        whole = np.concatenate([np.full((size, 1), place), rows])
        sides.append(Side(whole, np.concatenate([np.zeros(size, dtype=np.int64), member])))
    return sides[0], sides[1]


def bimodal(n: int) -> tuple[Side, Side]:
    """Two narrow heaps, which no Gaussian explains; a row moves from one towards the other."""
    heaps = np.where(np.arange(n) % 2 == 0, -1.5, 1.5)[:, None]
    rows = heaps + 0.05 * gaussian_rows(n, 1)
    return Side(rows), _replaced(rows, rows[0] + one_turn(SketchShape.default(1)))


def first_sketch(side: Side, *, seed: int = 0) -> PrivateSketch:
    """A sketch of the rows with little noise: what the finish goes on from."""
    d = side.rows.shape[1]
    n = len(side.rows) if side.member is None else int(side.member.max()) + 1
    source = SeededNoise(np.random.default_rng(seed))
    stage = Sketch(SketchShape.default(d), 0.3, n, d)
    frame = Frame(np.zeros(d), np.eye(d))
    drawn: PrivateSketch = stage.prepare(side.work(source), frame).draw(source).value
    return drawn


def account_findings(*, n: int = 200) -> list[Finding]:
    """Every way that a sketch and its finish may go, on neighbours, draw by draw."""
    shape = SketchShape.default(1)
    sketch, finish = Sketch(shape, 1.5, n, 1), Finish(1, 1, n, shape, 1.5)
    quiet = Finish(1, 1, n, shape, QUIET)
    plain, moved = turned(n)
    one, other = persons_apart(n)
    heaps, parted = bimodal(n)
    away = Side(np.concatenate([[[_FARTHEST]], 1e-3 * heaps.rows[1:]]))
    near = Side(1e-3 * heaps.rows)
    narrow = Frame([0.0], [[1e-3]])
    source = SeededNoise(np.random.default_rng(0))
    seen = Sketch(shape, 0.3, n, 1).prepare(near.work(source), narrow).draw(source).value
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
    return [
        account(sketch, plain, moved, STANDARD, label="one turn"),
        account(sketch, one, other, STANDARD, label="persons"),
        account(sketch, moved, _replaced(plain.rows, _FARTHEST), STANDARD, label="far away"),
        account(finish, plain, moved, first_sketch(plain), label="second sketch"),
        account(finish, one, other, first_sketch(one), label="second sketch, persons"),
        account(quiet, heaps, parted, first_sketch(heaps), label="rich mixture"),
        account(quiet, near, away, seen, label="rich mixture, far away"),
        account(finish, heaps, parted, first_sketch(heaps), label="noisy EM"),
        account(finish, near, away, seen, label="noisy EM, far away"),
        account(
            refined,
            Side(four),
            _replaced(four, np.array([0.0, 0.0, 9.0, 0.0])),
            first_sketch(Side(four)),
            label="refinement",
        ),
        account(pairs, plain, moved, None, label="one turn"),
        account(pairs, one, other, None, label="persons"),
    ]


def histogram_findings(stage: HistogramFrame, *, rng: np.random.Generator) -> list[Finding]:
    """The counts of a frame, and what their bins show."""
    return [*lone_bins(stage), counts_move(stage, rng=rng)]


def exactness_findings(*, n: int = 300, rng: np.random.Generator) -> list[Finding]:
    """Waves, moments and votes are the sums of what each row or person gives by itself."""
    found = []
    for d in (1, 3):
        rows = 2 * gaussian_rows(n, d, seed=d)
        shape = SketchShape.default(d)
        frame = Frame(np.full(d, 0.1), np.eye(d) + 0.1)
        public = Mixture([0.3, 0.7], [[-1.0] * d, [1.0] * d], np.stack([np.eye(d), 2 * np.eye(d)]))
        others = [Mixture([1.0], [[place] * d], np.eye(d)[None]) for place in (-1.0, 0.0, 2.0)]
        scale = fixed_point_scale(n)

        def waves(
            part: Array,
            member: IntArray | None,
            frame: Frame = frame,
            shape: SketchShape = shape,
            scale: int = scale,
        ) -> IntArray:
            return feature_sums(ArrayPeople.of(part, member, chunk=64), frame, shape, scale=scale)

        def moments(part: Array, member: IntArray | None, public: Mixture = public) -> IntArray:
            return winsorised_sums(ArrayPeople.of(part, member), public, Moments(2.0))[0]

        def cut(part: Array, member: IntArray | None, public: Mixture = public) -> IntArray:
            people = ArrayPeople.of(part, member)
            return cut_sums(people, public, 2.0, (0.4, 0.6, 1.0), 2.0**30)

        def votes(part: Array, member: IntArray | None, others: list[Mixture] = others) -> IntArray:
            return vote_sums(ArrayPeople.of(part, member), others, 2.0)[0]

        for name, sums in (
            ("waves", waves),
            ("moments", moments),
            ("cut moments", cut),
            ("votes", votes),
        ):
            found.append(exact_sums(f"{name}, d={d}", sums, rows, rng=rng))
    return found
