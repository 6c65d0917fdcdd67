"""The last stage of a sketch: fit for free, then spend the rest where it helps most.

The misfit of the first sketch is public, and so the way to go on may depend on it. Every way costs
the same, one Gaussian mechanism of the stage's multiplier in all, fixed in the plan beforehand:

- a Gaussian mixture explains the rows, few columns: a second sketch, averaged with the first;
- the same, many columns: one refinement step, with the first sketch's information as its prior;
- no such mixture explains them, as with most real tables: a rich mixture by noisy EM, its
  projections to k components, a vote among them, and some more noisy EM from the winner.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from privgmm.arrays import Array, positive, whole_number
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve, gaussian_losses
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.fixed_point import Persons
from privgmm.stages.form import Form
from privgmm.stages.refinement.noisy_em import NoisyEM, averaging
from privgmm.stages.refinement.noisy_moments import solve_moments, winsorised_features
from privgmm.stages.refinement.projection import (
    preferred,
    projections,
    split_to,
    vote_row_sums,
)
from privgmm.stages.refinement.winsorised import (
    Moments,
    moment_row_sums,
    noisy_moments_of,
)
from privgmm.stages.sketch.data import SketchData
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.fitting import (
    NARROWEST,
    SketchFit,
    chi_square,
    fit_path,
    information_in_local_coordinates,
    refit,
)
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Bottom, Drawn, Published, RowSums, Scene, Stage, Work

__all__ = ["FEW_COLUMNS", "REFINED_RADIUS", "Finish", "PreparedFinish"]

FEW_COLUMNS = 3
"""Up to so many columns a second sketch is as good as anything; beyond, refinement is better."""

_RICH, _VOTE, _LAST = 0.70, 0.05, 0.25
"""Shares of the stage's account, where a rich mixture is made."""
_RICH_STEPS, _RICH_AVERAGED = 16, 6
_LAST_STEPS, _LAST_AVERAGED = 6, 3
_MOST_RICH = 16
_RICH_NOISE = 0.3
_LAST_NOISE = 0.05
_NORM = 1.75
"""About the sensitivity of the scaled moments, for rules of thumb on noise."""
_MORE_COMPONENTS = 3
REFINED_RADIUS = 1.6
_FAINTEST = 0.1
"""Of the longest wave in a direction: with less, rows lie far outside the frame."""
_FAINT = 1e-3
"""A weak pull, for directions in which the sketch says nothing."""


@dataclasses.dataclass(frozen=True)
class Finish(Stage):
    """Fit the sketch, and spend the rest of the account by what the fit says.

    Parameters
    ----------
    n_components, n_features, n_units : int
        k, d, and the number of rows or persons.
    shape : SketchShape
        Of a second sketch, as of the first.
    multiplier : float
        Noise of all that it draws together, as of one Gaussian mechanism.

    Notes
    -----
    Gaussian mechanisms of the multipliers m_i, one after another, have the Rényi curve
    ``a (sum of 1/m_i^2) / 2``, that of one of the multiplier ``(sum of 1/m_i^2)^(-1/2)``. Each way
    divides ``1/multiplier^2`` among its parts, and which way is taken depends on the published
    sketch alone: adaptive composition under one price.
    """

    n_components: int
    n_features: int
    n_units: int
    shape: SketchShape
    multiplier: float

    kind: ClassVar[str] = "finish"

    def __post_init__(self) -> None:
        for name in ("n_components", "n_features", "n_units"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))
        positive(self.multiplier, "multiplier", below=1e6)

    def part(self, share: float) -> float:
        """The multiplier of a Gaussian mechanism that takes this share of the account."""
        return self.multiplier / math.sqrt(share)

    def price(self) -> Price:
        """One Gaussian mechanism in all; it never refuses."""
        return Price((gaussian_curve(self.multiplier),))

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Privacy losses (n,) where one row moves all sums by their sensitivity."""
        return gaussian_losses(self.multiplier, n, rng=rng)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """All that any way may sum: a second sketch, moments of every kind of step, a vote."""
        again = Sketch(self.shape, self.multiplier, self.n_units, self.n_features)
        far = np.zeros((2, n_features))
        far[1, 0] = 100.0
        public = Mixture([0.5, 0.5], far, np.stack([np.eye(n_features)] * 2))
        steps = (1.0, _RICH / _RICH_STEPS, _LAST / _LAST_STEPS)
        return (
            *again.row_sums(n_features),
            *(moment_row_sums(self.part(share), Moments(3.0), public) for share in steps),
            vote_row_sums(self.part(_VOTE), n_features),
        )

    def prepare(self, work: Work, public: SketchData) -> PreparedFinish:
        """Fit the sketch; no row is looked at yet."""
        return PreparedFinish(self, work, public, fit_path(public, self.n_components)[-1])

    def sentences(self) -> list[str]:
        """What it does, in plain words."""
        return [
            f"The mixture of {self.n_components} that explains the noisy sums best is found. If it "
            "explains them to within the noise, a second look at all rows sharpens it; if not, "
            "noisy steps on all rows find a mixture near them. Either way costs the same."
        ]

    def scenes(self, *, passed: bool) -> tuple[Scene, ...]:
        """One step in the film."""
        return (Scene("finish", "Fit"),) if passed else ()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {"finish": {"multiplier": self.multiplier}}

    @classmethod
    def from_form(cls, form: Form, first: Sketch, n_components: int) -> Finish:
        """Read the stage back, beside the sketch that it follows."""
        return cls(
            n_components, first.n_features, first.n_units, first.shape, form.number("multiplier")
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedFinish:
    """The fit to the first sketch, and the rows. NOT private."""

    stage: Finish
    work: Work
    first: SketchData
    fit: SketchFit

    def draw(self, source: NoiseSource) -> Drawn:
        """Go the way that the misfit asks for; ⊥ if the frame cannot be right."""
        if not _frame_holds(self.first, self.stage.shape):
            return Drawn(Bottom(), self.fit)
        sketch, mixture, floored = self.first, self.fit.mixture, bool(self.fit.floored.any())
        if not self.fit.explains:
            mixture = self._by_rich_mixture(source)
            mixture, floored = _widened(mixture)
        elif self.stage.n_features <= FEW_COLUMNS:
            sketch = self.first + self._second_sketch(source)
            found = refit(sketch, self.fit)
            mixture, floored = found.mixture, bool(found.floored.any())
        else:
            mixture = self._refined(source)
        return Drawn(
            Published(
                self.first.frame.mixture_from_frame(mixture),
                sketch=sketch,
                misfit=self.fit.misfit,
                floored=floored,
            ),
            self.fit,
        )

    def _second_sketch(self, source: NoiseSource) -> SketchData:
        s = self.stage
        again = Sketch(s.shape, s.multiplier, s.n_units, s.n_features)
        second: SketchData = again.prepare(self.work, self.first.frame).draw(source).value
        return second

    @property
    def _rows(self) -> tuple[Array, Persons]:
        rows = self.first.frame.to_frame(self.work.rows)
        return rows, Persons.of(len(rows), self.work.member)

    def _refined(self, source: NoiseSource) -> Mixture:
        """One step on winsorised moments; the sketch's own fit if that made things worse.

        The guard looks at published numbers only: the step must have converged, and the mixture
        must not explain the first sketch much worse than its own fit does.
        """
        rows, persons = self._rows
        d, n = self.stage.n_features, len(persons)
        moments = Moments(REFINED_RADIUS * math.sqrt(d))
        noisy = noisy_moments_of(
            rows, self.fit.mixture, moments, persons, self.stage.multiplier, source
        )
        known = information_in_local_coordinates(self.fit)
        found = solve_moments(
            self.fit.mixture,
            noisy / n,
            moments.radius,
            moments.deviations(self.stage.multiplier, d) / n,
            n,
            prior=known + _FAINT * np.eye(len(known)),
            iterations=15,
            features=winsorised_features,
        )
        if not found.converged:
            return self.fit.mixture
        size = self.fit.parameters.size
        rise = chi_square(self.first, found.mixture) - self.fit.chi_square
        return found.mixture if rise <= size + 4 * math.sqrt(2 * size) else self.fit.mixture

    def _by_rich_mixture(self, source: NoiseSource) -> Mixture:
        """Rich mixture, projections, vote, and some more steps from the winner."""
        stage = self.stage
        rows, persons = self._rows
        k, d, n = stage.n_components, stage.n_features, len(persons)
        largest = fit_path(self.first, k + _MORE_COMPONENTS)[-1].mixture
        radius = 3.0 if d < 3 else 0.8 * math.sqrt(d) + 2.0
        noise = stage.part(_RICH / _RICH_STEPS)
        room = int(_RICH_NOISE * n / (noise * _NORM * radius**2))
        many = min(max(room, k + 1), _MOST_RICH)
        rich = NoisyEM(
            rows,
            split_to(largest, many),
            Moments(radius),
            persons,
            multiplier=noise,
            source=source,
        ).run(averaging(_RICH_STEPS, _RICH_AVERAGED))
        candidates = [
            *projections(rich, k),
            self.fit.mixture,
            *projections(largest, k, seeds=(1, 2), most=1),
        ]
        noise = stage.part(_VOTE)
        others = max(len(candidates) - 1, 1)
        clip = min(max(0.01 * n / (2 * math.sqrt(others) * noise), 2.0), 50.0)
        chosen = preferred(rows, candidates, persons, clip=clip, multiplier=noise, source=source)
        noise = stage.part(_LAST / _LAST_STEPS)
        wide = 4.5 if d < 3 else 1.2 * math.sqrt(d) + 2.4
        reach = _LAST_NOISE * (n / k) * math.sqrt(_LAST_AVERAGED + 1) / (noise * _NORM)
        radius = min(max(math.sqrt(reach), 1.5 * math.sqrt(d)), wide)
        return NoisyEM(
            rows,
            candidates[chosen],
            Moments(radius),
            persons,
            multiplier=noise,
            source=source,
        ).run(averaging(_LAST_STEPS, _LAST_AVERAGED))


def _frame_holds(data: SketchData, shape: SketchShape) -> bool:
    """Whether the longest waves say that the rows lie within the frame, about. Public.

    In a frame that is right within a factor of two the mean of the longest wave in any direction
    has a size of a half or so. Where it is near nothing, most rows lie so far out that waves wrap
    around, and a fit to them would mean nothing, however well it explains them.
    """
    sizes = np.abs(data.values[:: shape.n_frequencies])
    noise = data.deviations[:: shape.n_frequencies]
    return bool((sizes + 3 * noise > _FAINTEST).all())


def _widened(mixture: Mixture) -> tuple[Mixture, bool]:
    """The mixture with widths of at least `NARROWEST` of the frame, and whether that was needed.

    On rounded columns components shrink onto single values, which says nothing about the rows.
    """
    values, vectors = np.linalg.eigh(mixture.covariances)
    if not (values < NARROWEST**2).any():
        return mixture, False
    roots = vectors * np.sqrt(np.maximum(values, NARROWEST**2))[:, None, :]
    return Mixture.from_roots(mixture.weights, mixture.means, roots), True
