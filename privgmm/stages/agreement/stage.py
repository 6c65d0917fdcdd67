"""Deal rows into blocks, fit, vote, and mask what the blocks agree on: the agreement stage.

Three kinds, each with its price and the reason for it in its docstring:

- `PaperAgreement`: Algorithm 1 as printed, one block picked, priced by Theorem 2.3;
- `PickedAgreement`: one block picked, with the exact test and the exact account;
- `AveragedAgreement`: the mean of all agreeing blocks, in the lifted space.

What follows from other numbers is derived here, not stored: the number of blocks, gamma, and
how far apart components must be.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray, positive
from privgmm.budget import Budget, Unit
from privgmm.data.engines import Submitting, Watched
from privgmm.data.generators import random_mixture
from privgmm.errors import InvalidInput, PrivGMMError, Problem
from privgmm.learners.isolation import BlockFits, checked_fits, fit_apart, repeats
from privgmm.learners.learner import Learner, block_seeds
from privgmm.learners.registry import is_own, learner_for, make_learner
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.gaussian_pairs import GaussianPair, PricedPair
from privgmm.privacy.guessing import quadratic_variation
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.accuracy import accuracy_of, sampling_covariance
from privgmm.stages.agreement import lemmas
from privgmm.stages.agreement.algorithm_1 import (
    Populous,
    PopulousTest,
    private_populous_estimator,
)
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.scatter import component_weights, pass_probability, rows_to_agree
from privgmm.stages.agreement.space import MixtureSpace
from privgmm.stages.agreement.votes import (
    AgreementTest,
    PrivateTest,
    Verdict,
    core_sensitivity,
    required_separation,
)
from privgmm.stages.form import Form
from privgmm.stages.stage import Bottom, Drawn, Published, Stage, StageView, Work

__all__ = [
    "DISAGREEMENT",
    "Agreement",
    "AgreementView",
    "AveragedAgreement",
    "ExactAgreement",
    "PaperAgreement",
    "PickedAgreement",
    "PreparedAgreement",
    "friend_radius",
]

_PARTS = 20
"""Choice: parts that blocks are fitted in where progress is shown, a step every 5 %."""

_PROBE_SEPARATION, _PROBE_ROWS = 10.0, 50
"""Choice: generated rows that any learner of mixtures fits: distance, and rows per free number."""

_WIDEST_PICKED = 10.0
"""A mask that hides more, gamma = 120, has no finite price at any of `privacy.curves.ORDERS`."""

DISAGREEMENT = "The fits of the blocks did not agree closely enough."
"""Why an agreement publishes nothing."""


def friend_radius(gamma: float) -> float:
    """Compute ``sqrt(1 + gamma) - 1``: fits this near a common third are within gamma.

    ``ln(1 + dist_Param)`` satisfies the triangle inequality without restriction, so two
    distances tau give at most ``(1 + tau)^2 - 1``.
    """
    return gamma / (math.sqrt(1 + gamma) + 1)


@dataclasses.dataclass(frozen=True, eq=False)
class AgreementView(StageView):
    """What a stage of agreement saw. CONFIDENTIAL.

    Parameters
    ----------
    fits : MixtureBatch
        The block fits.
    positions : array (t, s)
        Which rows made up each block, by their positions in the table.
    found : Populous
        Votes and the verdict.
    learner : Learner
        What fitted the blocks.
    reasons : tuple of str
        For each block why it has no fit, where the learner says so; empty where it has one.
    try_others : bool
        Whether another number of components can be suggested.
    """

    fits: MixtureBatch
    positions: IntArray
    found: Populous[Mixture]
    learner: Learner
    reasons: tuple[str, ...] = ()
    try_others: bool = True

    @property
    def verdict(self) -> Verdict:
        """Friend counts, statistic, noise and threshold."""
        return self.found.verdict

    @property
    def distances(self) -> Array:
        """Distances of the fits (t, t); computed when first read."""
        return self.found.distances

    @property
    def coarse(self) -> Mixture | None:
        """What the blocks agreed on, masked; None if they did not agree."""
        return None if isinstance(self.found.value, Bottom) else self.found.value

    def hint(self, take: Callable[[IntArray], Array]) -> str | None:
        """Say why blocks disagree and which k to try; None if they agree."""
        # clustering of fits: loaded only where somebody asks for a hint
        from privgmm.stages.agreement.hint import hint

        return hint(
            self.fits,
            self.distances,
            take,
            self.positions,
            learner=self.learner,
            passed=self.verdict.passed,
            try_others=self.try_others,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement(Stage):
    """Blocks vote; what they agree on is masked. The kinds differ in test, space and price.

    Parameters
    ----------
    n_components, n_features : int
        k and d of the block fits.
    mask_accuracy, beta : float
        What comes out of the mask is within this of what went in with probability 1 - beta.
    test : PrivateTest
        Its radius is tau, its blocks are t.
    smallest_weight : float or None
        The smallest component weight planned for; None for equal weights.
    learner : str or None
        A name in the learners' registry that the stage insists on; None leaves it to the caller.
    """

    n_components: int
    n_features: int
    mask_accuracy: float
    beta: float
    test: PrivateTest
    smallest_weight: float | None = None
    learner: str | None = None

    kind: ClassVar[str] = "agreement"

    if TYPE_CHECKING:

        @property
        def space(self) -> MixtureSpace:
            """Where fits are compared, represented and masked."""
            ...

    # ------------------------------------------------------------------------ what follows

    @property
    def n_blocks(self) -> int:
        """Number t of blocks."""
        return self.test.n_blocks

    @property
    def tau(self) -> float:
        """Distance up to which two fits agree."""
        return self.test.radius

    @property
    @abc.abstractmethod
    def gamma(self) -> float:
        """Largest distance between what is masked for two neighbouring data sets."""

    @property
    def separation(self) -> float:
        """c: components that do not match must be farther apart than ``c tau``; 0 for none."""
        return 0.0

    @property
    def misrounding(self) -> float:
        """Chance that what is published is not what real numbers would give; part of the price."""
        return self.space.misrounding(self.n_components, self.n_features)

    @property
    def least_rows(self) -> int:
        """The fewest rows per block with which k components can be fitted."""
        return max(self.n_components * (self.n_features + 1), self.n_features + 2)

    def least_units(self) -> int:
        """Return the fewest rows (or persons) that fill every block."""
        return self.n_blocks * self.least_rows

    def shortage(self, n_units: int, unit: Unit) -> Problem | None:
        """Say why there are too few rows or persons for the blocks; None if there are enough."""
        t = self.n_blocks
        if n_units >= self.least_units():
            return None
        return Problem(
            f"{{given}} {unit}s in {{blocks}} blocks leave {{each}} per block, but "
            f"{self.n_components} components of {self.n_features} columns need at least {{least}}",
            remedy=f"use fewer blocks, fewer components or more {unit}s",
            facts={"given": n_units, "blocks": t, "each": n_units // t, "least": self.least_rows},
        )

    def rows_in_block(self, n_units: float) -> int:
        """Return how many of `n_units` rows (or persons) go into each block: ``floor(n / t)``."""
        return math.floor(n_units / self.n_blocks)

    # ---------------------------------------------------------------------------- running

    def fitter(self, chosen: Learner | None) -> Learner:
        """Return what fits the blocks: the stage's own learner, else the one chosen, else EM."""
        if self.learner is not None:
            return make_learner(self.learner, self.n_components)
        return learner_for(self.n_components, chosen)

    def check(self, work: Work) -> None:
        """Refuse a learner that others wrote if it cannot even fit generated rows."""
        learner = self.fitter(work.learner)
        if not is_own(learner):
            _check_on_generated_rows(learner, self.n_components, self.n_features)

    def dealt(self, n_units: int, *, seed: int) -> IntArray:
        """Deal rows (or persons) into blocks (t, s), by position and chance."""
        return deal(n_units, self.n_blocks, seed=seed)

    def prepare(self, work: Work, public: Any) -> PreparedAgreement:  # noqa: ARG002 - it needs nothing public
        """Deal the rows and fit every block on its own."""
        learner = self.fitter(work.learner)
        dealt = self.dealt(len(work.people), seed=work.source.seed())
        seeds = block_seeds(work.source.seed() >> 1, self.n_blocks)
        blocks, positions = work.people.take(dealt)
        found = _fit(learner, blocks, seeds, self.n_components, work)
        return PreparedAgreement(self, found.fits, positions, learner, tuple(found.reasons))

    # -------------------------------------------------------------------------- what to expect

    @property
    def _weights(self) -> Array:
        return component_weights(self.n_components, self.smallest_weight)

    def rows_needed(self, probability: float = 0.95) -> float:
        """Estimate the rows at which the test passes with this probability, from simulated scatter.

        An estimate without data: it assumes well separated components of the planned weights.
        """
        return rows_to_agree(
            self.test,
            self._weights,
            self.n_features,
            lifted=self.space.lifted,
            probability=probability,
        )

    def pass_probability(self, n_rows: float) -> float:
        """Estimate the chance that the test passes on `n_rows` rows, components well separated."""
        return pass_probability(
            self.test,
            self.rows_in_block(n_rows),
            self._weights,
            self.n_features,
            lifted=self.space.lifted,
        )

    def error_covariance(self, mixture: Mixture, n_rows: float) -> Array:
        """Forecast the covariance (P, P) of errors of what it masks: those of the fits, and noise.

        In local coordinates of the mixture behind the rows. A picked fit knows the rows of its
        block only; the mean of the agreeing fits knows nearly all of them.
        """
        known = n_rows if self.space.averages else self.rows_in_block(n_rows)
        fits = sampling_covariance(mixture, max(known, 1))
        return fits + np.diag(self.space.mask_variances(mixture.weights, self.n_features).ravel())

    def published(self, value: Any, n_units: int) -> Published:
        """Return the masked mixture, with the errors of fits of such rows and of the mask."""
        if isinstance(value, Published):
            return value
        covariance = None
        if (value.weights > 0).all():
            try:
                covariance = self.error_covariance(value, n_units)
            except np.linalg.LinAlgError:
                # noise made a mixture that cannot be computed with: its errors are not known
                covariance = None
        # whether such a mixture explains the rows is not known: blocks agreed on it
        error, resolution = accuracy_of(value, covariance, well_specified=True)
        return Published(mixture=value, expected_error=error, resolution=resolution)

    # -------------------------------------------------------------------------------- words

    def sentences(self) -> list[str]:
        """Say when two fits agree, what the test asks for, and how far the mask moves."""
        return [
            f"Two block fits agree if they lie within {self.tau:.3g}; a differentially private "
            "test then asks that enough blocks agree.",
            *self.test.sentences(),
            f"What comes out of the mask is then within {self.mask_accuracy:g} of what the "
            f"agreeing blocks found, with probability {1 - self.beta:g}.",
        ]

    # ----------------------------------------------------------------- what can be attacked

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees for when one block changes, by the names that `audit.cores` lists."""
        return ("statistic", "flips", "move")

    @property
    def shape(self) -> str:
        """Its sizes in short, to distinguish it from other stages in a report."""
        return f"k={self.n_components} d={self.n_features} t={self.n_blocks}"

    def mask_curve(self) -> RenyiCurve | None:
        """Compute the Rényi price of one masked component; None where lemmas price the mask."""
        return self.space.mask_curve(self.gamma, self.n_features)

    def lemma_pairs(self) -> tuple[PricedPair, ...]:
        """List the parts of the mask as lemmas price them; none where it has a Rényi price."""
        return ()

    def worst_pair(self) -> GaussianPair:
        """Describe the mask's draws for two inputs as far apart as gamma allows."""
        return self.space.worst_pair(self.gamma, self.n_components, self.n_features)

    # ----------------------------------------------------------------------- plain numbers

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "alpha": self.mask_accuracy,
            "beta": self.beta,
            "n_blocks": self.n_blocks,
            "tau": self.tau,
            "gamma": self.gamma,
            "separation": self.separation,
            "test": self.test.to_dict(),
            "noise": self.space.noise(),
            "smallest_weight": self.smallest_weight,
        }

    @classmethod
    def _read(
        cls,
        form: Form,
        n_components: int,
        n_features: int,
        test: type[AgreementTest] | type[PopulousTest],
        **parts: Any,
    ) -> Self:
        """Read a stage with a test of this kind from the fields that every kind has."""
        blocks, tau = form.whole("n_blocks", 1), form.number("tau")
        fields: dict[str, Any] = {
            "n_components": n_components,
            "n_features": n_features,
            "mask_accuracy": form.number("alpha"),
            "beta": form.number("beta"),
            "test": test.from_form(form.part("test"), blocks, tau),
            "smallest_weight": form.number_or_none("smallest_weight"),
        }
        return cls(**fields, **parts)._checked(form)

    def _checked(self, form: Form) -> Self:
        """Return the stage itself if the derived numbers in the file are right."""
        # written by older versions from other roundings of the same numbers
        form.agrees("gamma", self.gamma, within=1e-6)
        form.agrees("separation", self.separation)
        return self


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAgreement(Agreement):
    """Algorithms 1 and 2 as printed: one populous block is picked and masked.

    Notes
    -----
    Two fits within tau of a common third are within ``2 z tau <= gamma <= 1`` (Lemma 5.2, z = 3/2).
    The mask of two mixtures that near is priced by Lemmas F.1, F.2 and F.6, composed over k
    components by Lemma 3.5; the test by Theorem C.6. Theorem 2.3 adds the two: with the larger
    of both (e, dl) the whole costs ``(2 e, 4 exp(e) dl)``.
    """

    test: PopulousTest
    space: PaperSpace

    @property
    def gamma(self) -> float:
        """``2 z tau``, by Lemma 5.2: see the notes of the class."""
        return 2 * lemmas.TRIANGLE_FACTOR * self.tau

    def price(self) -> Price:
        """Price the stage by Theorem 2.3, with what test and mask cost at these noise levels."""
        if self.gamma > 1:
            raise PrivGMMError(
                "not differentially private: the triangle inequality needs gamma <= 1, and here "
                f"gamma = {self.gamma:g}"
            )
        mask = self.space.lemma_price(
            self.gamma, self.test.delta, self.n_components, self.n_features
        )
        e, dl = max(self.test.epsilon, mask.epsilon), max(self.test.delta, mask.delta)
        if e >= -math.log(4 * dl):
            raise PrivGMMError(
                "not differentially private: Theorem 2.3 needs 4 exp(epsilon) delta < 1, and here "
                f"epsilon = {e:g} and delta = {dl:g}"
            )
        return Price.of_budget(Budget(2 * e, 4 * math.exp(e) * dl + self.misrounding))

    def mask_curve(self) -> RenyiCurve | None:
        """Return None: the mask is priced by `lemma_pairs`."""
        return None

    def lemma_pairs(self) -> tuple[PricedPair, ...]:
        """List R_W, R_Mean and R_Cov at distance gamma, priced by Lemmas F.1, F.2 and F.6."""
        return self.space.lemma_pairs(
            self.gamma, self.test.delta, self.n_components, self.n_features
        )

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:  # noqa: ARG002 - refused
        """Raise `InvalidInput`: there is no Rényi account to hold losses against."""
        raise InvalidInput(
            "Algorithm 1 as printed is priced by Theorem 2.3, not by a Rényi curve, so its privacy "
            "losses cannot be held against one: choose a method with an exact account"
        )

    @classmethod
    def from_form(cls, form: Form, n_components: int, n_features: int) -> PaperAgreement:
        """Read the stage back from a plan, and check its form."""
        space = PaperSpace.from_form(form.part("noise"))
        return cls._read(form, n_components, n_features, PopulousTest, space=space)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactAgreement(Agreement):
    """Agreement with the exact test and the exact account.

    The test costs what a discrete Gaussian costs, the mask its exact Rényi curve; see
    `votes.AgreementTest` for why their sum holds at one delta.
    """

    test: AgreementTest

    def price(self) -> Price:
        """Add the test's curve and k times that of one masked component."""
        mask = self.space.mask_curve(self.gamma, self.n_features)
        return self.test.price(
            mask * self.n_components, rounding=self.misrounding, variation=self.mask_variation
        )

    @property
    @abc.abstractmethod
    def mask_variation(self) -> float:
        """Bound on the total variation between what the mask draws for two neighbours."""

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,): what is masked moves by gamma, the test's count by one."""
        mask = self.worst_pair().losses(n, rng=rng)
        return mask + self.test.worst_losses(n, rng=rng)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PickedAgreement(ExactAgreement):
    """Algorithms 1 and 2 with the exact test and the exact account: one block is picked.

    Notes
    -----
    Members of the cores of two neighbouring data sets share an unchanged friend, so they are
    within ``(1 + tau)^2 - 1`` of each other (`friend_radius`).
    """

    space: PaperSpace

    def __post_init__(self) -> None:
        positive(self.tau, "tau", below=_WIDEST_PICKED)

    @property
    def gamma(self) -> float:
        """``(1 + tau)^2 - 1``; distances themselves are computed to a relative 1e-9."""
        return math.expm1(2 * math.log1p(self.tau)) * (1 + 1e-8)

    @property
    def mask_variation(self) -> float:
        """Bound by the path of `privacy.guessing`, for each of the three that Algorithm 2 draws.

        A covariance whose ratios are lam moves along ``lam^t``, with
        ``sum of (ln lam)^2 <= sum of |lam - 1| |1/lam - 1| <= gamma^2``. In its eigenvectors a mean
        moves by D_i in all, at a speed proportional to ``lam_i^(t/2)``; in units of the spread on
        the way this is at most ``|D_i| lam_i^(-1/4)``, so ``gamma`` in all, the geometric mean of
        its lengths in either covariance. The score of a weight is normal, that of a mean has a
        quadratic part ``ln(lam_i)/2 (g_i^2 - 1)`` in addition, and that of a root is as for lifted
        components. All variances add.
        """
        space, g, d = self.space, self.gamma, self.n_features
        moves = g**2 * (space.eta_weight**-2 + space.eta_mean**-2)
        scales = (g / 2) ** 2 * (space.eta_cov**-2 + 2 * d + 2)
        return quadratic_variation(self.n_components * (moves + scales), g / 2)

    @classmethod
    def from_form(cls, form: Form, n_components: int, n_features: int) -> PickedAgreement:
        """Read the stage back from a plan, and check its form."""
        space = PaperSpace.from_form(form.part("noise"))
        return cls._read(form, n_components, n_features, AgreementTest, space=space)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragedAgreement(ExactAgreement):
    """The mean of all agreeing blocks is masked, in the lifted space.

    Parameters
    ----------
    eta : float
        Noise level of the mask.

    Notes
    -----
    Equally labelled components of all members of both cores lie within 2 tau of each other
    (`votes.required_separation`), and of the normalised weights only a part of
    `votes.core_sensitivity` can move. So the means move by at most that part of 2 tau, and by
    twice the solver's tolerance.
    """

    eta: float
    space: LiftedSpace = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        space = LiftedSpace(self.eta, clearance=self.separation * self.tau, reach=self.tau)
        object.__setattr__(self, "space", space)

    @property
    def gamma(self) -> float:
        """``2 tau (1 + (t - G)/L) / G``, and twice the solver's tolerance."""
        return averaged_move(self.tau, core_sensitivity(self.test))

    @property
    def mask_variation(self) -> float:
        """Bound by the path of `privacy.guessing`: ``sum c_i^2 <= gamma^2 / 4`` per component."""
        each = (self.gamma / 2) ** 2 * (self.eta**-2 + 2 * (self.n_features + 1))
        return quadratic_variation(self.n_components * each, self.gamma / 2)

    @property
    def separation(self) -> float:
        """Factor that unique labels need: 0 for one component, else 3 or 5."""
        return required_separation(self.test, self.n_components)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Names of the guarantees; the members of both cores are near each other as well."""
        labels = ("doubt",) if self.n_components > 1 else ()
        return ("statistic", "flips", "diameter", "move", *labels)

    @property
    def shape(self) -> str:
        """Its sizes in short, those of the core included."""
        return f"{super().shape} m={self.test.member} M={self.test.full} G={self.test.core}"

    @classmethod
    def from_form(cls, form: Form, n_components: int, n_features: int) -> AveragedAgreement:
        """Read the stage back from a plan, and check its form."""
        eta = form.part("noise").number("eta")
        return cls._read(form, n_components, n_features, AgreementTest, eta=eta)


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedAgreement:
    """All blocks fitted, with the votes not counted yet. CONFIDENTIAL."""

    stage: Agreement
    fits: MixtureBatch
    positions: IntArray
    learner: Learner
    reasons: tuple[str, ...] = ()
    try_others: bool = True

    def draw(self, source: NoiseSource) -> Drawn:
        """Run test and mask: a mixture, or ⊥."""
        stage = self.stage
        found: Populous[Mixture] = private_populous_estimator(
            self.fits, stage.space, stage.test, source
        )
        view = AgreementView(
            self.fits, self.positions, found, self.learner, self.reasons, self.try_others
        )
        value = Bottom(DISAGREEMENT) if isinstance(found.value, Bottom) else found.value
        return Drawn(value, view)


def _fit_part(
    learner: Learner, blocks: Array, seeds: npt.NDArray[np.uint64], n_components: int
) -> BlockFits:
    """Fit some blocks: our own learners at once, others apart; what comes back is checked."""
    if not is_own(learner):
        return fit_apart(learner, blocks, seeds, n_components)
    t, _, d = blocks.shape
    fits = checked_fits(learner.fit_blocks(blocks, rng=seeds), t, n_components, d)
    return BlockFits(fits, [""] * t)


def _fit(
    learner: Learner,
    blocks: Array,
    seeds: npt.NDArray[np.uint64],
    n_components: int,
    work: Work,
) -> BlockFits:
    """Fit the blocks in parts. A part sees its own blocks and seeds only.

    A learner that others wrote is asked for the first block once more, after all others: if the
    answer changed, something went from block to block.
    """
    t = len(blocks)
    elsewhere = work.engine if isinstance(work.engine, Submitting) else None
    # our own learners divide the work among threads by themselves
    shown = work.progress is not None or work.watch is not None
    watched = elsewhere is not None or shown or not is_own(learner)
    n_parts = min(t, _PARTS) if watched else 1
    parts = [part for part in np.array_split(np.arange(t), n_parts) if part.size]
    spans = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]

    def job(span: slice) -> Callable[[], BlockFits]:
        part = blocks[span].copy(), seeds[span].copy()
        if elsewhere is None:
            return functools.partial(_fit_part, learner, *part, n_components)
        started: Callable[[], BlockFits] = elsewhere.submit(
            _fit_part, learner, *part, n_components
        ).result
        return started

    jobs = [job(span) for span in spans]
    found = []
    steps = Watched(work.watch, "fitting blocks", t, "blocks")
    for span, waiting in zip(spans, jobs, strict=True):
        found.append(waiting())
        if work.progress is not None:
            work.progress(span.stop, t)
        steps.more(span.stop - span.start)
    fits = MixtureBatch.concatenate([part.fits for part in found])
    reasons = [reason for part in found for reason in part.reasons]
    if not is_own(learner):
        _check_isolation(fits, job(slice(0, 1))().fits, elsewhere=elsewhere is not None)
    return BlockFits(fits, reasons)


def _check_on_generated_rows(learner: Learner, n_components: int, n_features: int) -> None:
    """Refuse a learner that cannot fit generated rows, which are public.

    Whether blocks of confidential rows have fits is decided by these rows, and ends in a refusal if
    they have none. So a learner that never works has to be found without them.
    """
    shape = random_mixture(n_components, n_features, separation=_PROBE_SEPARATION, rng=0)
    rows = shape.sample(_PROBE_ROWS * n_components * (n_features + 1), rng=0)
    (reason,) = fit_apart(learner, rows[None], block_seeds(0, 1), n_components).reasons
    if reason:
        raise InvalidInput(
            f"learner must fit {n_components} well separated components to {len(rows):,} generated "
            f"rows of {n_features} columns, but had no fit of them: {reason}"
        )


def _check_isolation(fits: MixtureBatch, again: MixtureBatch, *, elsewhere: bool) -> None:
    first = MixtureBatch.from_cholesky(
        fits.weights[:1], fits.means[:1], fits.cholesky[:1], fits.ok[:1]
    )
    if not repeats(first, again, elsewhere=elsewhere):
        raise InvalidInput(
            "learner must fit a block from its own rows and seed alone, but fitted the first block "
            "otherwise once it had seen the others: let it draw from rng only, and keep nothing "
            "between calls"
        )
