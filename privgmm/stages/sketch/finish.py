"""Fit a sketch for free, then spend the rest of the account where it helps most: the finish.

The misfit of the first sketch is public, and so the way to go on may depend on it. Every way costs
the same, one Gaussian mechanism of the stage's multiplier in all, fixed in the plan beforehand:

- a Gaussian mixture explains the rows: a second sketch, averaged with the first, or refinement by
  moments that are explained together with the first sketch, whichever leaves the smaller error at
  the mixture that was fitted (`second_look`);
- no such mixture explains them, as with most real tables: a rich mixture by noisy EM, its
  projections to k components, a vote among them, and some more noisy EM from the winner; where
  a rich mixture would be smaller than its noise, a vote among starts that the sketch gives, and
  noisy EM.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privgmm.arrays import Array, positive, whole_number
from privgmm.covariance_structures import DEFAULT as FULL
from privgmm.covariance_structures import covariance_structure
from privgmm.data.engines import Watched
from privgmm.data.people import People
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve, gaussian_losses
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.accuracy import OF_FIT, OF_STEPS, Bend, accuracy_of
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
    WinsorisedMoments,
    moment_row_sums,
    noisy_moments_of,
)
from privgmm.stages.sketch.error_covariances import (
    MomentNoise,
    after_noisy_em,
    after_refinement,
    computed_covariance,
    errors_in_data_units,
)
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.fitting import (
    NARROWEST,
    FrameFit,
    Viewpoint,
    refit,
)
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.second_look import (
    FEW_COLUMNS,
    UNTOLD,
    RefiningStep,
    SecondLook,
    compare_looks,
    refining_steps,
)
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.sketch.structures import numbers_per_component, widened_roots
from privgmm.stages.stage import Bottom, Drawn, Published, RowSums, Stage, StageView, Work

__all__ = [
    "FAINTEST",
    "Finish",
    "FinishView",
    "PreparedFinish",
    "frame_holds",
    "like_a_value",
    "takes_rich_route",
    "widened",
]

_SUSPECT, _SUSPECT_OF_MANY = 2.0, 3.5
"""Choice: a misfit above the first makes a sketch of more than two columns suspect, see
`takes_rich_route`; the second applies if there are rows enough for every rich mixture."""
_RICH, _VOTE, _LAST = 0.70, 0.05, 0.25
"""Choice: shares of the stage's account, where a rich mixture is made."""
_VOTE_ALONE = 0.08
"""Choice: the vote's share where none is made; the steps take the rest."""
_RICH_STEPS, _RICH_AVERAGED = 16, 6
_LAST_STEPS, _LAST_AVERAGED = 6, 3
_STEPS_ALONE, _AVERAGED_ALONE = 12, 6
"""Choice: steps of noisy EM, and how many of the last are averaged."""
_MOST_RICH = 16
"""Choice: components of a rich mixture, at most."""
_RICH_NOISE = 0.3
"""Choice: noise on a moment of a rich mixture's component, at most, as a share of its rows."""
_LAST_NOISE = 0.05
"""Choice: noise on a moment in the last steps, from which their radius follows."""
_NARROW_RADIUS, _NARROW_ALONE = 1.5, 1.3
"""Choice: least radius of the last steps, in units of sqrt(d), with and without a rich mixture."""
_BACKGROUND, _BACKGROUND_SIZE = 0.02, 4.0
"""Choice: weight, and variance in units of one Gaussian's, of the background in a vote."""
_LEAST_CLIP, _EARLY_CLIP, _MOST_CLIP = 3.0, 4.0, 50.0
"""Choice, in nats. A vote clipped later than early is one of many rows: far rows should count."""
_NORM = 1.75
"""About the sensitivity of the scaled moments, for rules of thumb on noise."""
_MORE_COMPONENTS, _MORE_OF_MANY, _SLOW_COLUMNS = 3, 1, 5
"""Choice: the rich route starts from a fit with this many components more, and with fewer more from
that number of columns on. Measured on five tables of 4 to 8 columns, k = 2 to 5: held-out gains are
the same within their noise, and a release takes half the time."""
_RESOLVED = 1 / 15
"""Share of the frame: about the least width that a sketch distinguishes from narrower ones."""
FAINTEST = 0.1
"""Choice: size of the longest wave in a direction below which rows lie far outside the frame."""


class LastSteps(NamedTuple):
    """Describe the last steps of noisy EM, and the noise on the moments that are averaged.

    Parameters
    ----------
    radius : float
        At which moments are winsorised.
    multiplier : float
        Noise of one step, in sensitivities.
    noise : MomentNoise
    """

    radius: float
    multiplier: float
    noise: MomentNoise


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
    choose : bool
        Whether k is the most that is offered, and the number of components is chosen.
    covariance_type : str
        Name of the covariance structure that is published. All but "full" are fitted to the sketch,
        which therefore gets the whole account where full covariances would be refined.

    Notes
    -----
    Gaussian mechanisms of the multipliers m_i, one after another, have the Rényi curve
    ``a (sum of 1/m_i^2) / 2``, that of one of the multiplier ``(sum of 1/m_i^2)^(-1/2)``. Each way
    divides ``1/multiplier^2`` among its parts, and which way is taken depends on the published
    sketch alone: adaptive composition under one price. The same holds for the number of
    components: it is computed from the published sketches (`PrivateSketch.choice`), and for any
    number the price is the one in the plan. `gaussian_account` adds up that sum too. On integers
    noise of the multipliers m_i counts as ``1/(m_i^2 - c)`` there, for some small c that is the
    same for all; with ``m_i^2 = m^2 / s_i`` and shares s_i that add up to one, their sum is at most
    ``1/(m^2 - c)``, that of one mechanism.
    """

    n_components: int
    n_features: int
    n_units: int
    shape: SketchShape
    multiplier: float
    choose: bool = False
    covariance_type: str = FULL

    kind: ClassVar[str] = "finish"

    def __post_init__(self) -> None:
        for name in ("n_components", "n_features", "n_units"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))
        positive(self.multiplier, "multiplier", below=1e6)
        covariance_structure(self.covariance_type)
        most = self.shape.most_components(self.n_features)
        if self.n_components > most:
            raise InvalidInput(
                f"n_components must be at most {most} for a sketch of this size with "
                f"n_features = {self.n_features}, got {self.n_components}: ask for fewer"
            )

    @property
    def chooses_components(self) -> bool:
        """`choose`: the mixture may have fewer components than planned for."""
        return self.choose

    def part(self, share: float) -> float:
        """Compute the multiplier of a Gaussian mechanism that takes this share of the account."""
        return self.multiplier / math.sqrt(share)

    @property
    def most_rich(self) -> int:
        """Components of a rich mixture, at most; none is made for as many or fewer as asked for."""
        return min(_rich_room(self), _MOST_RICH)

    @property
    def rich_noise(self) -> MomentNoise:
        """The noise that goes into a rich mixture, averaged over its last steps."""
        noise = self.part(_RICH / _RICH_STEPS)
        moments = WinsorisedMoments(_rich_radius(self.n_features))
        deviations = moments.deviations(noise, self.n_features) / self.n_units
        return MomentNoise.averaged(deviations, self.n_features, _RICH_AVERAGED + 1)

    @property
    def again(self) -> Sketch:
        """The second sketch, where that is the way."""
        return Sketch(self.shape, self.multiplier, self.n_units, self.n_features)

    def price(self) -> Price:
        """Price one Gaussian mechanism in all; the stage never refuses by a test."""
        return Price((gaussian_curve(self.multiplier),), exact=True)

    def error_covariance(
        self, mixture: Mixture, frequencies: Array, first_noise: Array, second_noise: Array
    ) -> Array:
        """Forecast the covariance (P, P) of the errors if the rows come from `mixture`.

        Parameters
        ----------
        mixture : Mixture
            In frame coordinates, as all that follows; errors are in its local coordinates.
        frequencies : array (m, d)
            Of both sketches.
        first_noise, second_noise : array (m,)
            Standard deviations of the noise on either sketch.
        """
        if self.always_steps(mixture.n_components):
            alone = self.last_steps(1 - _VOTE_ALONE, _STEPS_ALONE, _AVERAGED_ALONE, _NARROW_ALONE)
            return after_noisy_em(mixture, mixture, alone.noise, self.n_units, _STEPS_ALONE)
        looks = compare_looks(
            mixture, frequencies, first_noise, second_noise, self.multiplier, self.n_units
        )
        if looks.covariance is None:
            raise InvalidInput("the error of this mixture cannot be forecast")
        return looks.covariance

    def always_steps(self, n_components: int) -> bool:
        """Whether noisy EM ends every release: see `takes_rich_route`."""
        return self.n_features > FEW_COLUMNS and 1 < n_components >= _rich_room(self)

    def bend_of(self, n_components: int) -> Bend:
        """Return by how much errors are larger than their information says."""
        return OF_STEPS if self.always_steps(n_components) else OF_FIT

    def last_steps(self, share: float, steps: int, averaged: int, narrow: float) -> LastSteps:
        """Choose radius and noise of steps of noisy EM that take this share of the account."""
        d, k, n = self.n_features, self.n_components, self.n_units
        multiplier = self.part(share / steps)
        wide = 4.5 if d < 3 else 1.2 * math.sqrt(d) + 2.4
        # the noise on second moments grows like the squared radius
        reach = _LAST_NOISE * (n / k) * math.sqrt(averaged + 1) / (multiplier * _NORM)
        radius = min(max(math.sqrt(reach), narrow * math.sqrt(d)), wide)
        deviations = WinsorisedMoments(radius).deviations(multiplier, d) / n
        return LastSteps(radius, multiplier, MomentNoise.averaged(deviations, d, averaged + 1))

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves all sums by their sensitivity."""
        return gaussian_losses(self.multiplier, n, rng=rng)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List all that any way may sum: a second sketch, moments of every step, a vote."""
        far = np.zeros((2, n_features))
        far[1, 0] = 100.0
        public = Mixture([0.5, 0.5], far, np.stack([np.eye(n_features)] * 2))
        alone = (1 - _VOTE_ALONE) / _STEPS_ALONE
        steps = (_RICH / _RICH_STEPS, _LAST / _LAST_STEPS, alone)
        refining = dict.fromkeys(
            step for error in (0.0, math.inf) for step in refining_steps(n_features, error)
        )
        return (
            *self.again.row_sums(n_features),
            *(moment_row_sums(self.part(share), moments, public) for share, moments in refining),
            *(moment_row_sums(self.part(share), WinsorisedMoments(3.0), public) for share in steps),
            *(vote_row_sums(self.part(share), n_features) for share in (_VOTE, _VOTE_ALONE)),
        )

    def prepare(self, work: Work, public: PrivateSketch) -> PreparedFinish:
        """Fit the sketch, with as many components as it asks for; no row is looked at yet."""
        if not self.choose:
            steps = Watched(work.watch, "fitting the sketch", self.n_components, "components")
            for k in range(1, self.n_components + 1):
                # each fit starts from the one before it, so the path costs nothing more
                found = public.fit(k)
                steps.more(1)
            return PreparedFinish(self, work, public, found.in_frame)
        fit = public.choose(self.n_components).in_frame
        return PreparedFinish(self.settled(fit.n_components), work, public, fit, self.n_components)

    def settled(self, n_components: int) -> Finish:
        """Return the stage with the number of components settled."""
        return dataclasses.replace(self, n_components=n_components, choose=False)

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        found = f"The mixture of {self.n_components} that explains the noisy sums best is found."
        if self.choose:
            found = (
                f"Mixtures of up to {self.n_components} components are fitted to the noisy sums, "
                "and the number that explains them best for its size is taken: that costs nothing."
            )
        return [
            f"{found} If it "
            "explains them to within the noise, a second look at all rows sharpens it; if not, "
            "noisy steps on all rows find a mixture near them. Either way costs the same."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        chosen: dict[str, Any] = {"choose": True} if self.choose else {}
        return {"finish": {"multiplier": self.multiplier, **chosen}}

    @classmethod
    def from_form(
        cls, form: Form, first: Sketch, *, n_components: int, covariance_type: str
    ) -> Finish:
        """Read the stage back from a plan, given the sketch that it follows."""
        return cls(
            n_components,
            first.n_features,
            first.n_units,
            first.shape,
            form.number("multiplier"),
            form.flag("choose"),
            covariance_type,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class FinishView(StageView):
    """The fit to the first sketch, which is public too."""

    fit: FrameFit


_OUTSIDE = "Too many rows lie far outside the frame, so that nothing can be fitted in it."
"""Why a finish publishes nothing: the longest waves are fainter than `FAINTEST`."""


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedFinish:
    """The fit to the first sketch, and the rows. CONFIDENTIAL.

    `offered` is the most components where their number was to be chosen; the stage is then the one
    for the number that the first sketch asks for.
    """

    stage: Finish
    work: Work
    first: PrivateSketch
    fit: FrameFit
    offered: int | None = None

    def draw(self, source: NoiseSource) -> Drawn:
        """Go the way that the misfit asks for; ⊥ if the frame cannot be right."""
        if not frame_holds(self.first):
            return Drawn(Bottom(_OUTSIDE), FinishView(self.fit))
        d = self.stage.n_features
        sketch, fit = self.first, self.fit
        if takes_rich_route(self.fit, self.stage):
            mixture, sketch, covariance = self._by_rich_mixture(source)
            mixture, floored = widened(mixture)
        elif self.refinable and (looks := self.looks).refines:
            mixture, covariance = self._refined(source, refining_steps(d, looks.first))
            mixture, floored = widened(mixture)
        else:
            sketch = self.first.averaged_with(self._second_sketch(source))
            if self.refinable:
                found = self._found_again(sketch)
                mixture, floored = found.mixture, bool(found.floored.any())
                covariance = found.compute_local_covariance
                fit = self.fit if self.offered is None else found
        if not self.refinable:
            # fitted to the sketch and the rich mixture: steps give full covariances
            return Drawn(self._structured(sketch), FinishView(self.fit))
        errors = computed_covariance(covariance)
        found_error, resolution = accuracy_of(
            mixture,
            errors,
            well_specified=fit.explains,
            bend=self.stage.bend_of(fit.n_components),
        )
        floored = floored or like_a_value(mixture, errors)
        return Drawn(
            Published(
                mixture=sketch.frame.mixture_from_frame(mixture),
                sketch=sketch,
                misfit=fit.misfit,
                floored=floored,
                standard_errors=errors_in_data_units(
                    sketch.frame, mixture, errors, well_specified=fit.explains
                ),
                # a single value has no density that a component could be near
                expected_error=None if floored else found_error,
                resolution=resolution,
                choice=None if self.offered is None else sketch.choice(self.offered),
            ),
            FinishView(self.fit),
        )

    @property
    def refinable(self) -> bool:
        """Whether noisy steps give covariances of the structure asked for: they are full."""
        return self.stage.covariance_type == FULL

    def _structured(self, sketch: PrivateSketch) -> Published:
        """Fit covariances of another structure to all that was published; costs nothing more."""
        kind, choice, k = self.stage.covariance_type, None, self.stage.n_components
        if self.offered is not None:
            choice = sketch.choice(self.offered, kind)
            k = choice.n_components
        found = sketch.fit(k, kind)
        return Published(
            mixture=found.mixture,
            sketch=sketch,
            misfit=found.misfit,
            floored=bool(found.floored.any()),
            standard_errors=found.standard_errors,
            expected_error=found.expected_error,
            resolution=found.resolution,
            choice=choice,
        )

    @property
    def looks(self) -> SecondLook:
        """Forecast of a second look of either kind, from public numbers alone.

        Without a forecast, as for components on top of each other, it is a second sketch: what
        was paid for is not lost.
        """
        try:
            start = self.first.fitted_from
            return compare_looks(
                self.fit.mixture,
                self.first.frequencies[start:],
                self.first.deviations[start:],
                self.stage.again.deviations[start:],
                self.stage.multiplier,
                self.stage.n_units,
            )
        except (InvalidInput, np.linalg.LinAlgError):
            return UNTOLD

    def _found_again(self, sketch: PrivateSketch) -> FrameFit:
        """Fit the sharper sketch; an open number of components is chosen once more."""
        if self.offered is None:
            return refit(sketch, self.fit)
        return sketch.choose(self.offered).in_frame

    def _second_sketch(self, source: NoiseSource) -> PrivateSketch:
        again = self.stage.again
        second: PrivateSketch = again.prepare(self.work, self.first.frame).draw(source).value
        return second

    @property
    def _people(self) -> People:
        """The persons, with rows in the coordinates of the frame."""
        return self.work.people.mapped(self.first.frame.to_frame)

    def _refined(
        self, source: NoiseSource, steps: Sequence[RefiningStep]
    ) -> tuple[Mixture, Callable[[], Array]]:
        """Take steps on winsorised moments; one that made things worse is dropped.

        Returns the mixture, and what computes the covariance of its errors.

        Each step finds the mixture that explains the first sketch and its own moments best, both
        together. The guard looks at published numbers only: the step must have converged, and its
        mixture must not explain the first sketch much worse than the sketch's own fit does.
        """
        people = self._people
        d, n = self.stage.n_features, len(people)
        size = self.fit.parameters.size
        mixture, covariance = self.fit.mixture, self.fit.compute_local_covariance
        seen: Viewpoint | None = None
        for share, moments in steps:
            multiplier = self.stage.part(share)
            noisy = noisy_moments_of(people, mixture, moments, multiplier, source)
            deviations = moments.deviations(multiplier, d) / n
            try:
                seen = seen or Viewpoint(self.first, mixture)
                found = solve_moments(
                    mixture,
                    noisy / n,
                    moments.radius,
                    deviations,
                    n,
                    prior=seen.pull,
                    features=winsorised_features,
                )
                there = Viewpoint(self.first, found.mixture)
                rise = there.chi_square - self.fit.chi_square
            except (InvalidInput, np.linalg.LinAlgError):
                # noise made numbers that cannot be computed with: what was paid for is not lost
                continue
            if found.converged and rise <= size + 4 * math.sqrt(2 * size):
                mixture, seen = found.mixture, there
                covariance = functools.partial(
                    after_refinement, seen, moments.radius, deviations, winsorised_features
                )
        return mixture, covariance

    def _by_rich_mixture(
        self, source: NoiseSource
    ) -> tuple[Mixture, PrivateSketch, Callable[[], Array]]:
        """Run the rich route: rich mixture, projections, vote, some more steps from the winner.

        With few rows for its components and columns there is no rich mixture: its noise would be
        larger than it. Then the sketch alone gives the candidates, and the steps from the winner
        take what is saved.

        Returns the mixture, the sketch with the rich mixture, and what computes the covariance of
        the errors.
        """
        stage = self.stage
        people = self._people
        k, d, n = stage.n_components, stage.n_features, len(people)
        more = _MORE_COMPONENTS if d < _SLOW_COLUMNS else _MORE_OF_MANY
        longest = min(k + more, stage.shape.most_components(d))
        path = [one.in_frame.mixture for one in self.first.path(longest)]
        largest = path[-1]
        sketch, vote, last = self.first, _VOTE_ALONE, 1 - _VOTE_ALONE
        steps, averaged, narrow = _STEPS_ALONE, _AVERAGED_ALONE, _NARROW_ALONE
        candidates = [
            self.fit.mixture,
            *projections(largest, k, seeds=(1, 2), most=1),
            # where k components are more than the sketch can distinguish, fewer are safer
            *(split_to(path[j - 1], k) for j in sorted({1, k // 2, k - 1}) if 0 < j < k),
        ]
        if _rich_room(stage) > k:
            rich = NoisyEM(
                people,
                split_to(largest, stage.most_rich),
                WinsorisedMoments(_rich_radius(d)),
                multiplier=stage.part(_RICH / _RICH_STEPS),
                source=source,
            ).run(averaging(_RICH_STEPS, _RICH_AVERAGED))
            # what shrank onto a single value can neither be projected nor published
            rich = widened(rich)[0]
            sketch = self.first.with_rich(rich, stage.rich_noise)
            candidates = projections(rich, k) + candidates
            vote, last = _VOTE, _LAST
            steps, averaged, narrow = _LAST_STEPS, _LAST_AVERAGED, _NARROW_RADIUS
        # a component that shrank onto a value could not be voted on, or be stepped from
        candidates = [widened(one)[0] for one in candidates]
        noise = stage.part(vote)
        # so that the noise on a mean log density is a hundredth of a nat
        clip = 0.01 * n / (2 * math.sqrt(max(len(candidates) - 1, 1)) * noise)
        clip = min(max(clip, _LEAST_CLIP), _MOST_CLIP)
        shown = candidates
        if clip < _EARLY_CLIP:
            shown = [_before_background(one, path[0]) for one in candidates]
        chosen = preferred(
            people,
            shown,
            clip=clip,
            multiplier=noise,
            source=source,
        )
        end = stage.last_steps(last, steps, averaged, narrow)
        mixture = NoisyEM(
            people,
            candidates[chosen],
            WinsorisedMoments(end.radius),
            multiplier=end.multiplier,
            source=source,
        ).run(averaging(steps, averaged))
        law = widened(mixture)[0] if sketch.rich_in_frame is None else sketch.rich_in_frame
        return mixture, sketch, lambda: after_noisy_em(mixture, law, end.noise, n, steps)


def takes_rich_route(fit: FrameFit, stage: Finish) -> bool:
    """Decide on noisy EM instead of trusting the sketch's own optimum. Public.

    Always if no mixture of k components explains the sketch. From three columns on a sketch of few
    rows is too noisy for that to show beyond doubt, and its optimum can be far off where rows are
    not a Gaussian mixture; so a misfit of two standard deviations is enough. Many rows show it
    clearly, and there two deviations are chance more often than not. From four columns on, where
    there are too few rows for a rich mixture, nothing would show: then it is always noisy EM,
    though on Gaussian rows refinement can be better by a third.
    """
    if stage.n_features < FEW_COLUMNS:
        return not fit.explains
    if stage.always_steps(fit.n_components):
        return True
    many = _rich_room(stage) >= _MOST_RICH
    return fit.misfit > (_SUSPECT_OF_MANY if many else _SUSPECT)


def _rich_radius(d: int) -> float:
    return 3.0 if d < 3 else 0.8 * math.sqrt(d) + 2.0


def _rich_room(stage: Finish) -> int:
    """Compute how many components of a rich mixture the noise leaves readable."""
    noise = stage.part(_RICH / _RICH_STEPS) * _NORM * _rich_radius(stage.n_features) ** 2
    return int(_RICH_NOISE * stage.n_units / noise)


def _before_background(mixture: Mixture, one: Mixture) -> Mixture:
    """Add a little of a wide Gaussian to a mixture, for a vote that is clipped early.

    A candidate that is too narrow somewhere loses some nats there, not thousands: the steps that
    follow widen it. So a few rows do not decide.
    """
    return Mixture(
        np.append((1 - _BACKGROUND) * mixture.weights, _BACKGROUND),
        np.vstack([mixture.means, one.means]),
        np.concatenate([mixture.covariances, _BACKGROUND_SIZE * one.covariances]),
    )


def frame_holds(data: PrivateSketch) -> bool:
    """Decide from the longest waves whether the rows lie about within the frame. Public.

    In a frame that is right within a factor of two the mean of the longest wave in any direction
    has a size of a half or so. Where it is near zero, most rows lie so far out that waves wrap
    around, and a fit to them would mean nothing, however well it explains them.
    """
    sizes = np.abs(data.values[:: data.n_frequencies])
    noise = data.deviations[:: data.n_frequencies]
    return bool((sizes + 3 * noise > FAINTEST).all())


def widened(mixture: Mixture) -> tuple[Mixture, bool]:
    """Widen components to `NARROWEST` of the frame; also returns whether any changed.

    On rounded columns components shrink onto single values, which says nothing about the rows.
    """
    roots, narrow = widened_roots(mixture.cholesky)
    if not narrow.any():
        return mixture, False
    return Mixture.from_roots(mixture.weights, mixture.means, roots), True


def like_a_value(mixture: Mixture, covariance: Array | None) -> bool:
    """Decide whether some component might be many rows of one value, given its errors.

    Such a component is narrower than the sketch resolves, and twice the standard error of its
    variance reaches down to the least width there is. Public.

    Parameters
    ----------
    mixture : Mixture
        In frame coordinates.
    covariance : array (P, P) or None
        Of its errors, in local coordinates; where they are not known, nothing is said.

    Notes
    -----
    Along an eigenvector v of ``L L^T`` with the variance s, ``u = L^T v / sqrt(s)`` is a unit
    vector, and where the covariance becomes ``L exp(M) L^T`` the variance is ``s (1 + u^T M u)``,
    to first order.
    """
    if covariance is None:
        return False
    d = mixture.n_features
    width = numbers_per_component(d)
    row, column = np.triu_indices(d)
    for a, factor in enumerate(mixture.cholesky):
        values, vectors = np.linalg.eigh(mixture.covariances[a])
        if values[0] > _RESOLVED**2:
            continue
        u = factor.T @ vectors[:, 0] / math.sqrt(values[0])
        slope = u[row] * u[column] * np.where(row == column, 1.0, math.sqrt(2))
        part = slice(a * width + 1 + d, (a + 1) * width)
        error = math.sqrt(max(float(slope @ covariance[part, part] @ slope), 0.0))
        if values[0] * (1 - 2 * error) <= NARROWEST**2:
            return True
    return False
