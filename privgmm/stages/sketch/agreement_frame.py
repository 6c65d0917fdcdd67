"""The frame by agreement: where unbounded rows lie, found by the blocks' votes.

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

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.learners.registry import LEARNERS
from privgmm.learners.student import StudentT
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.scatter import friend_counts_of_blocks
from privgmm.stages.agreement.stage import AveragedAgreement, PreparedAgreement
from privgmm.stages.form import Form
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.stage import Bottom, Drawn, Work

__all__ = ["FrameAgreement", "PreparedFrame"]

_SIMULATED = 300
_SETTLED_ROWS, _MOST_ROWS = 1000, 10**9
"""From so many rows per block on only the scale of the scatter changes; and where to stop."""


@functools.lru_cache(maxsize=256)
def _simulated(rows_per_block: int, n_features: int) -> Array:
    """Distances between the fits of simulated Gaussian blocks, from a fixed seed."""
    rng = np.random.default_rng([rows_per_block, n_features])
    blocks = rng.standard_normal((_SIMULATED, rows_per_block, n_features))
    return LiftedSpace(1.0).distances(StudentT().fit_blocks(blocks, rng=0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrameAgreement(AveragedAgreement):
    """Agreement on one component, published as a frame; its price is that of the agreement."""

    def prepare(self, work: Work, public: Any) -> PreparedFrame:  # type: ignore[override]  # draws a frame
        """Deal the rows and fit every block on its own."""
        return PreparedFrame(super().prepare(work, public))

    def pass_probability(self, n_rows: float) -> float:
        """The chance that the test passes on so many Gaussian rows, by simulated blocks."""
        rows = math.floor(n_rows / self.n_blocks)
        if rows < self.least_rows:
            return 0.0
        settled = min(rows, _SETTLED_ROWS)
        shrunk = _simulated(settled, self.n_features) * math.sqrt(settled / rows)
        counts = friend_counts_of_blocks(shrunk, self.tau, self.n_blocks)
        return self.test.pass_probability(counts)

    def rows_needed(self, probability: float = 0.95) -> float:
        """Rows at which it passes with this probability; infinite if it never does."""
        steps = np.unique(np.geomspace(self.least_rows, _MOST_ROWS, 120).astype(np.int64))

        def holds(step: int) -> bool:
            return self.pass_probability(float(steps[step]) * self.n_blocks) >= probability

        if not holds(len(steps) - 1):
            return math.inf
        first = bisect.bisect_left(range(len(steps) - 1), True, key=holds)
        return float(steps[first]) * self.n_blocks

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON, and the learner that the stage insists on."""
        return {**super().to_dict(), "learner": self.learner}

    @classmethod
    def from_form(cls, form: Form, n_components: int, n_features: int) -> FrameAgreement:
        """Read the stage back, checked as to form."""
        plain = super().from_form(form, n_components, n_features)
        learner = form.of("learner")
        if learner not in LEARNERS:
            raise InvalidInput(
                f"{form.name}.learner must be one of {', '.join(LEARNERS)}, got {learner!r}"
            )
        kept = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain) if f.init}
        return cls(**{**kept, "learner": learner})

    def sentences(self) -> list[str]:
        """What it does, in plain words."""
        return [
            f"{self.n_blocks} small blocks of rows vote on where the rows lie and how they spread; "
            "what they agree on, masked with noise, becomes public coordinates for all rows.",
            *super().sentences(),
        ]


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedFrame:
    """All blocks fitted. NOT private."""

    agreement: PreparedAgreement

    def draw(self, source: NoiseSource) -> Drawn:
        """Test, mask and turn: a `Frame`, or ⊥.

        Noise may have made a shape so flat that there are no coordinates in it. That is seen from
        what is public, and refused like any frame that cannot serve.
        """
        drawn = self.agreement.draw(source)
        if isinstance(drawn.value, Bottom):
            return drawn
        found = drawn.value
        turn = random_rotation(found.n_features, rng=source)
        try:
            frame = Frame(found.means[0], found.cholesky[0] @ turn)
        except InvalidInput:
            return Drawn(Bottom(), drawn.seen)
        return Drawn(frame, drawn.seen)
