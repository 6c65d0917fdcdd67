"""Find a frame by agreement: blocks vote on where unbounded rows lie.

One component per block, so there are no labels and nothing needs to be separated. What comes out
of the mask lies on a public grid (`agreement.public_grid`), and is turned at random.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from typing import Any

import numpy as np

from privgmm.arrays import Array, IntArray, whole_number
from privgmm.errors import InvalidInput
from privgmm.learners.registry import LEARNERS
from privgmm.learners.student import StudentT
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.scatter import friend_counts_of_blocks
from privgmm.stages.agreement.stage import AveragedAgreement, PreparedAgreement
from privgmm.stages.form import Form
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.stage import Bottom, Drawn, Work

__all__ = ["FrameAgreement", "PreparedFrame"]

_SIMULATED = 300
"""Choice: blocks simulated; each stands for several if there are more."""
_SETTLED_ROWS, _MOST_ROWS = 1000, 10**9
"""From this many rows per block on only the scale of the scatter changes; and where to stop."""


@functools.lru_cache(maxsize=256)
def _simulated(rows_per_block: int, n_features: int) -> Array:
    """Simulate distances between the fits of Gaussian blocks, from a fixed seed."""
    rng = np.random.default_rng([rows_per_block, n_features])
    blocks = rng.standard_normal((_SIMULATED, rows_per_block, n_features))
    return LiftedSpace(1.0).distances(StudentT().fit_blocks(blocks, rng=0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrameAgreement(AveragedAgreement):
    """Agreement on one component, published as a frame; its price is that of the agreement.

    Parameters
    ----------
    rows_per_block : int or None
        Where blocks are dealt fewer rows than there are; None divides all rows among them.

    Notes
    -----
    A part of many rows is enough for coordinates that need to be right within a factor of two.
    Which rows that part holds depends on how many there are and on chance, never on a value. So
    two data sets that differ in one row, or person, are dealt alike: their blocks differ in one
    block if that row was dealt, and in none if it was not. The price, which is for one block
    replaced by any other, holds for both, with no credit taken for rows that are left out.
    """

    rows_per_block: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows_per_block is not None:
            whole_number(self.rows_per_block, "rows_per_block", self.least_rows)

    def rows_in_block(self, n_units: float) -> int:
        """Return how many of `n_units` rows (or persons) go into each block."""
        rows = super().rows_in_block(n_units)
        return rows if self.rows_per_block is None else min(rows, self.rows_per_block)

    def dealt(self, n_units: int, *, seed: int) -> IntArray:
        """Deal rows (or persons) into blocks (t, s), by position and chance."""
        return deal(n_units, self.n_blocks, seed=seed, rows_per_block=self.rows_per_block)

    def prepare(self, work: Work, public: Any) -> PreparedFrame:  # type: ignore[override]  # draws a frame
        """Deal the rows and fit every block on its own."""
        return PreparedFrame(dataclasses.replace(super().prepare(work, public), try_others=False))

    def pass_probability(self, n_rows: float) -> float:
        """Estimate the chance that the test passes on `n_rows` Gaussian rows, by simulation."""
        rows = self.rows_in_block(n_rows)
        if rows < self.least_rows:
            return 0.0
        settled = min(rows, _SETTLED_ROWS)
        shrunk = _simulated(settled, self.n_features) * math.sqrt(settled / rows)
        counts = friend_counts_of_blocks(shrunk, self.tau, self.n_blocks)
        return self.test.pass_probability(counts)

    def rows_needed(self, probability: float = 0.95) -> float:
        """Estimate the rows at which it passes with this probability; infinite if it never does."""
        steps = np.unique(np.geomspace(self.least_rows, _MOST_ROWS, 120).astype(np.int64))

        def holds(step: int) -> bool:
            return self.pass_probability(float(steps[step]) * self.n_blocks) >= probability

        if not holds(len(steps) - 1):
            return math.inf
        first = bisect.bisect_left(range(len(steps) - 1), True, key=holds)
        return float(steps[first]) * self.n_blocks

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON, and the learner that the stage insists on."""
        part = {} if self.rows_per_block is None else {"rows_per_block": self.rows_per_block}
        return {**super().to_dict(), "learner": self.learner, **part}

    @classmethod
    def from_form(cls, form: Form, n_components: int, n_features: int) -> FrameAgreement:
        """Read the stage back from a plan, and check its form."""
        plain = super().from_form(form, n_components, n_features)
        learner = form.of("learner")
        if not isinstance(learner, str) or learner not in LEARNERS:
            raise InvalidInput(
                f"{form.name}.learner must be one of {', '.join(LEARNERS)}, got {learner!r}"
            )
        kept = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain) if f.init}
        # written only where blocks are dealt a part of the rows
        rows = form.whole("rows_per_block", 1) if "rows_per_block" in form.data else None
        return cls(**{**kept, "learner": learner, "rows_per_block": rows})

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        part = (
            []
            if self.rows_per_block is None
            else [
                f"For that {self.rows_per_block} rows per block are enough, picked at random from "
                "the whole file."
            ]
        )
        return [
            f"{self.n_blocks} small blocks of rows vote on where the rows lie and how they spread; "
            "what they agree on, masked with noise, becomes public coordinates for all rows.",
            *part,
            *super().sentences(),
        ]


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedFrame:
    """All blocks fitted. CONFIDENTIAL."""

    agreement: PreparedAgreement

    def draw(self, source: NoiseSource) -> Drawn:
        """Run test and mask, and turn the result: a `Frame`, or ⊥.

        Noise may have made a shape so flat that there are no coordinates in it. That is seen from
        what is public, and refused like any frame that cannot serve.
        """
        drawn = self.agreement.draw(source)
        view = drawn.view
        if isinstance(drawn.value, Bottom):
            return Drawn(Bottom("The blocks did not agree on where the rows lie."), view)
        found = drawn.value
        turn = random_rotation(found.n_features, rng=source)
        try:
            frame = Frame(found.means[0], found.cholesky[0] @ turn)
        except InvalidInput:
            return Drawn(Bottom("The noise left a frame that is too flat to measure in."), view)
        return Drawn(frame, view)
