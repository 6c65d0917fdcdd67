"""Find all columns' means and covariances: a tied look, and a few looks component by component.

A sketch of a few directions says which components there are. One look finds where they lie in all
columns, and one covariance for all of them: its noise is relative to all rows, not to those of a
component. Further looks then find each covariance, each through what the one before saw: two, or
more where the first ones were through components that lie far off. What all looks saw that were
through components near by is published.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privgmm.arrays import Array, one_blas_thread, positive, whole_number
from privgmm.covariance_structures import DEFAULT as FULL
from privgmm.covariance_structures import covariance_structure
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve, gaussian_losses
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.form import Form
from privgmm.stages.refinement.look_solution import (
    LookResult,
    Seen,
    expected_spread,
    shaped,
    solve_looks,
    solve_tied_look,
)
from privgmm.stages.refinement.soft_looks import SoftLook, look_row_sums, noisy_look
from privgmm.stages.sketch.finish import FinishView, frame_holds
from privgmm.stages.sketch.fitting import FrameFit
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.structures import pack, structure_of, unpack, widened_roots
from privgmm.stages.stage import Bottom, Drawn, Published, RowSums, Stage, Work
from privgmm.stages.wide.errors import ComponentErrors
from privgmm.stages.wide.pooled import check_planned
from privgmm.stages.wide.subspace import SketchedSubspace

__all__ = ["PreparedWideFinish", "WideFinish"]

_LEAST_WEIGHT = 0.02
"""Choice: least weight of a component that is looked through, so that a look can find its rows."""
_WIDE_NOISE = 1.5
"""Measured on the flights' ten columns, three components: noise on a covariance, in Frobenius norm,
up to which a look gets wider where the sketch shows that rows are no Gaussian mixture."""
_BLEND = 2.0
"""Choice: squared noise on a covariance, in Frobenius norm, at which the second look goes through
the mean of what the first one saw and the common shape. Without it, weights drift."""
_NEAR = 0.5
"""Measured: the farthest that means may lie from those looked through, in their units and noise
apart, for a look to see them well. Beyond that looks contract too slowly."""
_NOISE_APART = 2.0
"""Choice: standard errors of means that are noise."""
_LAST = 0.4
"""Choice: share of the account, the tied look apart, that is kept for the last look."""
_NOTHING = 1e-9
"""Shares below this are nothing left, but for rounding."""
_QUARREL = 4.0
"""Choice: deviations by which looks may differ."""
_OUTSIDE = "Too many rows lie far from all others, so that nothing can be fitted to them."


@dataclasses.dataclass(frozen=True)
class WideFinish(Stage):
    """Fit the sketch of a subspace, and spend the rest of the account on looks at all columns.

    Parameters
    ----------
    n_components, n_features, n_units : int
        k, d, and the number of rows or persons.
    multiplier : float
        Noise of all looks together, as of one Gaussian mechanism.
    shares : tuple of two floats
        Shares of the account for the tied look, and for every look at each component but the last,
        which takes the rest. One component is looked at once, with the whole account.
    choose : bool
        Whether k is the most that is offered, and the number of components is chosen.
    covariance_type : str
        Name of the covariance structure that is published: the nearest to what the looks saw.

    Notes
    -----
    Looks of the multipliers m_i have together the Rényi curve of one Gaussian mechanism of the
    multiplier ``(sum of 1/m_i^2)^(-1/2)``, and m_i^2 is the stage's own divided by a share; shares
    add up to one at most. Through which mixture a look goes, how many components it has, how soft
    the look is and whether another one follows is computed from published numbers: adaptive
    composition under one price, which no way exceeds.
    """

    n_components: int
    n_features: int
    n_units: int
    multiplier: float
    shares: tuple[float, ...]
    choose: bool = False
    covariance_type: str = FULL

    kind: ClassVar[str] = "wide finish"

    def __post_init__(self) -> None:
        for name in ("n_components", "n_features", "n_units"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))
        object.__setattr__(self, "shares", tuple(self.shares))
        positive(self.multiplier, "multiplier", below=1e6)
        covariance_structure(self.covariance_type)
        if len(self.shares) != 2 or min(self.shares) <= 0 or sum(self.shares) >= 1:
            raise InvalidInput(
                f"shares must be two positive numbers that add up to less than 1, got {self.shares}"
            )

    @property
    def chooses_components(self) -> bool:
        """`choose`: the mixture may have fewer components than planned for."""
        return self.choose

    def part(self, share: float) -> float:
        """Compute the multiplier of a Gaussian mechanism that takes this share of the account."""
        return self.multiplier / math.sqrt(share)

    @property
    def parts(self) -> tuple[float, float, float]:
        """Multipliers of the tied look, and of both looks at each component."""
        tied, first = self.shares
        return self.part(tied), self.part(first), self.part(1 - tied - first)

    def expected_errors(self, mixture: Mixture) -> ComponentErrors:
        """Forecast the errors that the looks leave where components of a mixture are found."""
        d, n, tied = self.n_features, self.n_units, self.shares[0]
        count = n * float(mixture.weights.min())
        multiplier = self.part(1 - tied if mixture.n_components > 1 else 1.0)
        look = SoftLook.wide(d, n, count, multiplier, 0.0)
        return ComponentErrors(mixture, *expected_spread(mixture, look, n))

    def price(self) -> Price:
        """Price one Gaussian mechanism in all; the stage never refuses by a test."""
        return Price((gaussian_curve(self.multiplier),), exact=True)

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves all sums by their sensitivity."""
        return gaussian_losses(self.multiplier, n, rng=rng)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List the sums of every look: tied, hard and soft."""
        d = n_features
        tied, first, second = self.parts
        looks = (
            SoftLook(0.0, tied, tied=True),
            SoftLook(float(d), tied, tied=True),
            SoftLook(0.0, first),
            SoftLook(float(d), second),
            SoftLook(float(d), self.multiplier),
        )
        return tuple(look_row_sums(look, d) for look in looks)

    def check(self, work: Work) -> None:
        """Raise `InvalidInput` if there are other numbers of rows or columns than planned."""
        check_planned(work, self.n_units, self.n_features)

    def prepare(self, work: Work, public: SketchedSubspace) -> PreparedWideFinish:
        """Fit the sketch, with as many components as it asks for; no row is looked at yet."""
        self.check(work)
        sketch, k = public.sketch, self.n_components
        fit = (sketch.choose(k) if self.choose else sketch.fit(k)).in_frame
        return PreparedWideFinish(self, work, public, fit)

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        found = f"The mixture of {self.n_components} that explains the noisy sums best is found."
        if self.choose:
            found = (
                f"Mixtures of up to {self.n_components} components are fitted to the noisy sums, "
                "and the number that explains them best for its size is taken: that costs nothing."
            )
        return [
            f"{found} Noisy looks at all rows through it then find the components' means and "
            "covariances in all columns: first one shape for all, then each its own."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        chosen: dict[str, Any] = {"choose": True} if self.choose else {}
        return {"finish": {"multiplier": self.multiplier, "shares": list(self.shares), **chosen}}

    @classmethod
    def from_form(
        cls, form: Form, *, n_components: int, n_features: int, n_units: int, covariance_type: str
    ) -> WideFinish:
        """Read the stage back from a plan."""
        return cls(
            n_components,
            n_features,
            n_units,
            form.number("multiplier"),
            form.numbers("shares"),
            form.flag("choose"),
            covariance_type,
        )


class _Tied(NamedTuple):
    """A mixture to look through, and the shape that is common to its components."""

    mixture: Mixture
    common: Array


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedWideFinish:
    """The fit to the sketch, and the rows. CONFIDENTIAL."""

    stage: WideFinish
    work: Work
    public: SketchedSubspace
    fit: FrameFit

    def draw(self, source: NoiseSource) -> Drawn:
        """Take the looks; ⊥ if most rows lie outside what the sketch sees."""
        if not frame_holds(self.public.sketch):
            return Drawn(Bottom(_OUTSIDE), FinishView(self.fit))
        with one_blas_thread():
            return Drawn(self._published(source), FinishView(self.fit))

    def _published(self, source: NoiseSource) -> Published:
        stage, pooled = self.stage, self.public.pooled
        if self.fit.n_components == 1:
            seen = self._look(pooled.mixture, stage.multiplier, source)
            last = solve_looks([seen], stage.n_units, shrink=False)
            mixture, near = last.mixture, True
        else:
            mixture, last, near = self._looked_through(source)
        roots, narrow = widened_roots(mixture.cholesky)
        units = pooled.units
        frame = Frame(units.centre, np.diag(units.scale))
        structure = structure_of(stage.covariance_type, frame)
        theta = structure.nearest(pack(mixture.weights, mixture.means, roots), stage.n_features)
        inside = Mixture.from_roots(*unpack(theta, stage.n_features))
        sketch, explains = self.public.sketch, self.fit.explains
        suspect = (last.quarrel > _QUARREL) | (not (near and last.settled))
        errors = ComponentErrors(inside, *last.spread, suspect=suspect)
        return Published(
            mixture=structure.made_exact(units.mixture_from_units(inside)),
            misfit=self.fit.misfit,
            floored=bool(narrow.any()),
            standard_errors=errors.standard_errors(units.scale, well_specified=explains),
            expected_error=errors.law() if explains and not narrow.any() else None,
            resolution=errors.resolution(well_specified=explains),
            choice=sketch.choice(stage.n_components) if stage.choose else None,
        )

    def _look(self, public: Mixture, multiplier: float, source: NoiseSource) -> Seen:
        stage, n = self.stage, self.stage.n_units
        most = _WIDE_NOISE if not self.fit.explains else 0.0
        count = n * float(public.weights.min())
        look = SoftLook.wide(stage.n_features, n, count, multiplier, most)
        moments = noisy_look(self.work.people, self.public.pooled.units, public, look, source)
        return Seen(moments, public, look)

    def _looked_through(self, source: NoiseSource) -> tuple[Mixture, LookResult, bool]:
        """Return what all looks saw, and whether the last one was through a mixture near by.

        A look through components that are far off sees them badly, so some of the account goes to
        looks that only bring the last one near.
        """
        stage, d, n = self.stage, self.stage.n_features, self.stage.n_units
        through, common = self._tied(source)
        shape = common @ common.T
        tied, share = stage.shares
        left = 1 - tied
        kept: list[Seen] = []
        while True:
            seen = self._look(through, stage.part(share), source)
            left -= share
            now = solve_looks([seen], n, imitate=False)
            far = np.maximum(_NEAR, _NOISE_APART * math.sqrt(d) * now.spread.means)
            near = now.settled and bool((now.moved <= far).all())
            if left < _NOTHING:
                last = solve_looks([*kept, seen], n)
                return shaped(last, common), last, near
            if near:
                kept.append(seen)
            # the noisier the look, the more its components look like the common shape
            noise = now.noise**2 * d * (d + 1) / 2
            part = (noise / (noise + _BLEND))[:, None, None]
            found = now.mixture
            through = Mixture(
                found.weights, found.means, (1 - part) * found.covariances + part * shape
            )
            share = left if near or left - share < _LAST * (1 - tied) else share

    def _tied(self, source: NoiseSource) -> _Tied:
        """Look at all components with one shape; their own shapes are those of the sketch.

        In white coordinates the sketch knows each covariance A_a of the first q, and the tied look
        one covariance of all. The other coordinates are taken to depend on the first ones in the
        same way in every component: a regression.
        """
        stage, d, n = self.stage, self.stage.n_features, self.stage.n_units
        pooled, low = self.public.pooled, self.fit.mixture
        q, k = low.n_features, low.n_components
        weights = np.maximum(low.weights, _LEAST_WEIGHT)
        means = pooled.mixture.means + low.means @ pooled.root[:, :q].T
        own = np.tile(np.eye(d), (k, 1, 1))
        own[:, :q, :q] = low.covariances
        whole = np.eye(d)
        whole[:q, :q] = np.einsum("a,aij->ij", low.weights, low.covariances)
        white = pooled.root
        public = Mixture(weights / weights.sum(), means, white @ own @ white.T)
        shape = np.asarray(np.linalg.cholesky(white @ whole @ white.T), dtype=np.float64)
        multiplier = stage.parts[0]
        softness = SoftLook.wide(
            d, n, n, multiplier, 0.0 if self.fit.explains else _WIDE_NOISE
        ).softness
        look = SoftLook(softness, multiplier, tied=True)
        seen = noisy_look(self.work.people, pooled.units, public, look, source, shape)
        weights, means, covariance = solve_tied_look(seen, public, shape, look, n)
        tied = pooled.inverse @ covariance @ pooled.inverse.T
        slope = np.linalg.solve(tied[:q, :q], tied[:q, q:]).T
        rest = tied[q:, q:] - slope @ tied[:q, q:]
        for a in range(k):
            inner = low.covariances[a]
            across = slope @ inner
            own[a] = np.block([[inner, across.T], [across, rest + across @ slope.T]])
        return _Tied(
            Mixture(weights, means, white @ own @ white.T),
            np.asarray(np.linalg.cholesky(covariance), dtype=np.float64),
        )
