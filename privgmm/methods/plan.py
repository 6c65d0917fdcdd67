"""A plan: every number a release will use, fixed before any data is looked at.

A plan knows its own price. `Plan.spent` computes it afresh from the numbers the plan holds, by
the same account that calibration had to satisfy, so a plan read back from a file can be checked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.html import plan_html
from privgmm.privacy.curves import RenyiCurve, gaussian_curve, lifted_mask_curve, paper_mask_curve
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_space import MEAN_TOLERANCE, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.scatter import component_weights, pass_probability, rows_needed
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = [
    "METHODS",
    "Method",
    "Plan",
    "core_sensitivity",
    "friend_radius",
    "required_separation",
]

Method: TypeAlias = Literal["paper", "tight", "lifted"]
METHODS: tuple[Method, ...] = ("paper", "tight", "lifted")

_WIDEST_NOISE = 1e5
"""Of a test read from a file: wider noise than any number of blocks that fits in memory needs."""


def friend_radius(gamma: float) -> float:
    """``sqrt(1 + gamma) - 1``: fits this near a common third lie within gamma of each other.

    ``ln(1 + dist_Param)`` satisfies the triangle inequality without restriction, so two
    distances tau give at most ``(1 + tau)^2 - 1``.
    """
    return gamma / (math.sqrt(1 + gamma) + 1)


def core_sensitivity(test: AgreementTest) -> float:
    """How far the weighted mean of the core can move, in units of 2 tau.

    ``(1 + (t - G)/L) / G``: of the normalised weights one block may change wholly, and each of
    at most t - G others by 1/L, out of a total of at least G.
    """
    return (1 + (test.n_blocks - test.core) / test.ramp) / test.core


def required_separation(test: AgreementTest, n_components: int) -> float:
    """The factor c: two fits are friends only if components that do not match are c tau apart.

    Notes
    -----
    Let i and j be members of the cores of D or D', f an unchanged friend of both. Component a
    of i matches a of f within tau, and that matches a of j within tau, so i and j match within
    2 tau. For b other than a, ``d(i_a, j_b) >= d(i_a, f_b) - d(f_b, j_b) > (c - 1) tau``.

    - If ``2 m + M >= 2 t + 2``, then i, j and a reference share one unchanged friend f, and so
      do i and the references of D and D'. With c = 3 the matching within 2 tau is unique and
      runs through f: aligning to the reference labels all members of both cores alike.
    - Otherwise i and j may be linked to the reference by different friends, which bounds
      equally labelled components by 4 tau only; with c = 5 every other pair is farther, so the
      label agrees with the matching within 2 tau all the same.

    Either way the labels in D and D' agree up to one common order, which the shuffle hides, and
    equally labelled components of all members of both cores are within 2 tau.
    """
    if n_components == 1:
        return 0.0
    shared = 2 * test.member + test.full >= 2 * test.n_blocks + 2
    return 3.0 if shared else 5.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything a release needs to know, none of it from the data.

    Parameters
    ----------
    method : {"paper", "tight", "lifted"}
    budget : Budget
        The TOTAL promise the user asked for.
    alpha, beta : float
        The coarse release is within alpha of what it masks with probability 1 - beta.
    n_components, n_features, n_blocks : int
        k, d, t.
    gamma : float
        How far apart the masked objects of two neighbouring data sets can be.
    separation : float
        c: components that do not match must be farther apart than ``c tau``; 0 for none.
    test : PopulousTest or AgreementTest
        Its radius is tau.
    space : PaperSpace or LiftedSpace
        Holds the noise levels of the mask.
    refine : Refinement or None
        Noisy steps on all rows after the coarse release.
    smallest_weight : float or None
        The smallest component weight planned for; None for equal weights.
    """

    method: Method
    budget: Budget
    alpha: float
    beta: float
    n_components: int
    n_features: int
    n_blocks: int
    gamma: float
    separation: float
    test: PopulousTest | AgreementTest
    space: PaperSpace | LiftedSpace
    refine: Refinement | None = None
    smallest_weight: float | None = None

    @property
    def tau(self) -> float:
        """How near two fits must be to count as agreeing."""
        return self.test.radius

    def curve(self) -> RenyiCurve:
        """The Rényi account of test, mask and refinement (methods `tight` and `lifted`)."""
        if not isinstance(self.test, AgreementTest):
            raise InvalidInput("method 'paper' is priced by Theorem 2.3, not by a Rényi curve")
        k, d = self.n_components, self.n_features
        if isinstance(self.space, LiftedSpace):
            gamma = 2 * self.tau * core_sensitivity(self.test) + 2 * MEAN_TOLERANCE
            mask = lifted_mask_curve(gamma, self.space.eta, d + 1)
        else:
            # distances themselves are computed to a relative 1e-9
            gamma = math.expm1(2 * math.log1p(self.tau)) * (1 + 1e-8)
            s = self.space
            mask = paper_mask_curve(gamma, s.eta_weight, s.eta_mean, s.eta_cov, d)
        total = gaussian_curve(self.test.sigma) + k * mask
        if self.refine is not None:
            for multiplier in self.refine.multipliers:
                total = total + gaussian_curve(multiplier)
        return total

    def spent(self) -> Budget:
        """The total guarantee, priced afresh from the plan's own numbers.

        Raises `PrivGMMError` if the numbers do not belong to a private mechanism at all.
        """
        if self.test.n_blocks != self.n_blocks:
            raise PrivGMMError(
                f"not private: the test is for {self.test.n_blocks} blocks, not {self.n_blocks}"
            )
        if isinstance(self.test, PopulousTest):
            return self._spent_paper(self.test)
        if isinstance(self.space, LiftedSpace):
            needed = required_separation(self.test, self.n_components)
            if self.separation < needed or self.space.clearance < self.separation * self.tau:
                raise PrivGMMError(
                    f"not private: unmatched components must be {needed:g} tau apart for labels "
                    f"to be unique, the plan asks for {self.separation:g}"
                )
        elif self.test.core < 1:
            raise PrivGMMError("not private: the test needs a core of at least one block")
        chance = DiscreteGaussian(self.test.sigma).survival(self.test.threshold)
        delta = max(self.budget.delta, chance)
        return Budget(max(self.curve().epsilon(delta), 1e-12), delta)

    def _spent_paper(self, test: PopulousTest) -> Budget:
        """Theorem 2.3 with whatever the test and the mask cost at these noise levels."""
        if not isinstance(self.space, PaperSpace) or self.refine is not None:
            raise PrivGMMError("not private: space or refinement do not belong to method 'paper'")
        k, d, s = self.n_components, self.n_features, self.space
        # two fits within tau of a common third are within 2 z tau <= gamma <= 1 (Lemma 5.2)
        gamma = 2 * constants.TRIANGLE_FACTOR * self.tau
        if gamma > 1:
            raise PrivGMMError(f"not private: the triangle inequality needs gamma <= 1: {gamma:g}")
        part = constants.MaskPrice(
            max(
                constants.epsilon_weight(gamma, s.eta_weight, test.delta / (6 * k)),
                constants.epsilon_mean(gamma, s.eta_mean, test.delta / (6 * k)),
                constants.epsilon_covariance(gamma, s.eta_cov, test.delta / (6 * k), d),
            ),
            test.delta / (6 * k),
        )
        mask = constants.mixture_price(part, k)
        e, dl = max(test.epsilon, mask.epsilon), max(test.delta, mask.delta)
        return Budget(2 * e, 4 * math.exp(e) * dl)

    def rows_needed(self, pass_probability: float = 0.95) -> float:
        """Rows at which the test passes with this probability, by the blocks' natural scatter.

        An estimate without data: it assumes well separated components of the planned weights.
        """
        return rows_needed(
            self.test,
            component_weights(self.n_components, self.smallest_weight),
            self.n_features,
            lifted=isinstance(self.space, LiftedSpace),
            probability=pass_probability,
        )

    def pass_probability(self, n_rows: int | float) -> float:
        """The chance of a release from so many rows of well separated components."""
        return pass_probability(
            self.test,
            math.floor(n_rows / self.n_blocks),
            component_weights(self.n_components, self.smallest_weight),
            self.n_features,
            lifted=isinstance(self.space, LiftedSpace),
        )

    def explain(self) -> str:
        """What will happen and what it promises, in plain words."""
        spent = self.spent()
        lines = [
            f"Method {self.method}: {self.n_blocks} blocks, {self.n_components} components in "
            f"{self.n_features} dimensions.",
            f"Replacing any one row changes the odds of any outcome by at most a factor "
            f"exp({spent.epsilon:.4g}) = {math.exp(spent.epsilon):.3g}, except with probability "
            f"{spent.delta:.3g}.",
        ]
        if spent.epsilon < 0.999 * self.budget.epsilon:
            lines.append(
                f"Of the epsilon {self.budget.epsilon:g} asked for, this method can only use "
                f"{spent.epsilon:.4g}; a larger epsilon does not help it."
            )
        lines.append(
            f"Two block fits agree if they lie within {self.tau:.3g}; the private test then asks "
            "that enough blocks agree."
        )
        if isinstance(self.test, PopulousTest):
            lines.append(
                f"The mean share of agreeing blocks, plus noise of at most "
                f"{self.test.noise.bound:.3g}, must reach {self.test.threshold:.3g}."
            )
            least = constants.block_minimum(self.test.epsilon, self.test.delta)
            if self.n_blocks < least:
                lines.append(
                    f"With fewer than {least} blocks the noise can outweigh even full agreement: "
                    "the test cannot be sure to pass."
                )
        else:
            lines.append(
                f"At least {self.test.core} blocks must have {self.test.full} friends each, with "
                f"a margin that, plus noise of scale {self.test.sigma:.3g}, reaches "
                f"{self.test.threshold}."
            )
        lines.append(
            f"What is released is then within {self.alpha:g} of what the agreeing blocks found, "
            f"with probability {1 - self.beta:g}"
            + (
                "."
                if self.refine is None
                else f", and is sharpened by {self.refine.steps} noisy passes over all rows."
            )
        )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        if isinstance(self.space, LiftedSpace):
            noise = {"eta": self.space.eta}
        else:
            noise = dataclasses.asdict(self.space)
        return {
            "method": self.method,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "alpha": self.alpha,
            "beta": self.beta,
            "n_components": self.n_components,
            "n_features": self.n_features,
            "n_blocks": self.n_blocks,
            "tau": self.tau,
            "gamma": self.gamma,
            "separation": self.separation,
            "test": self.test.to_dict(),
            "noise": noise,
            "refine": None if self.refine is None else self.refine.to_dict(),
            "smallest_weight": self.smallest_weight,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Inverse of `to_dict`: checked as to form, not priced (that is `spent`).

        Clearance is not written down: it is ``separation tau``, what the account asks for.

        Raises `InvalidInput` if a field is missing, of the wrong kind or contradicts another.
        """
        form = _Form(data, "plan")
        method = form.of("method")
        if method not in METHODS:
            raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        tau, separation = form.number("tau"), form.number("separation", zero=True)
        blocks = form.whole("n_blocks", 1)
        test, noise = form.part("test"), form.part("noise")
        space: PaperSpace | LiftedSpace
        if method == "lifted":
            space = LiftedSpace(noise.number("eta"), clearance=separation * tau)
        else:
            space = PaperSpace(*map(noise.number, ("eta_weight", "eta_mean", "eta_cov")))
        kind = "populous" if method == "paper" else "agreement"
        if test.of("kind") != kind:
            raise InvalidInput(f"the test of method {method!r} is of kind {kind!r}")
        weight = None if form.of("smallest_weight") is None else form.number("smallest_weight")
        return cls(
            method=method,
            budget=Budget(form.number("epsilon"), form.number("delta")),
            alpha=form.number("alpha"),
            beta=form.number("beta"),
            n_components=form.whole("n_components", 1),
            n_features=form.whole("n_features", 1),
            n_blocks=blocks,
            gamma=form.number("gamma"),
            separation=separation,
            test=(_populous if kind == "populous" else _agreement)(test, blocks, tau),
            space=space,
            refine=None if form.of("refine") is None else _refinement(form.part("refine")),
            smallest_weight=weight,
        )

    def _repr_html_(self) -> str:
        return plan_html(self)


@dataclasses.dataclass(frozen=True)
class _Form:
    """A JSON object being read, field by field."""

    data: Mapping[str, Any]
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.data, Mapping):
            raise InvalidInput(f"{self.name} must be a JSON object, got {type(self.data).__name__}")

    def of(self, key: str) -> Any:
        if key not in self.data:
            raise InvalidInput(f"{self.name} must have a field {key!r}")
        return self.data[key]

    def part(self, key: str) -> _Form:
        return _Form(self.of(key), f"{self.name}.{key}")

    def number(self, key: str, *, zero: bool = False) -> float:
        return self._checked(self.of(key), key, zero=zero)

    def numbers(self, key: str) -> tuple[float, ...]:
        values = self.of(key)
        if not isinstance(values, list | tuple):
            raise InvalidInput(f"{self.name}.{key} must be a list of numbers")
        return tuple(self._checked(value, key) for value in values)

    def _checked(self, value: Any, key: str, *, zero: bool = False) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{self.name}.{key} must be a number, got a {type(value).__name__}")
        # squares and their inverses must stay within what floating point holds
        if not (1e-150 <= value <= 1e150 or (zero and value == 0)):
            raise InvalidInput(f"{self.name}.{key} must be positive and neither huge nor tiny")
        return float(value)

    def whole(self, key: str, least: int) -> int:
        value = self.of(key)
        if type(value) is not int or not least <= value < 2**53:
            raise InvalidInput(f"{self.name}.{key} must be a whole number, {least} or more")
        return value


def _agreement(form: _Form, blocks: int, tau: float) -> AgreementTest:
    sigma = form.number("sigma")
    if sigma > _WIDEST_NOISE:
        raise InvalidInput(f"{form.name}.sigma must be at most {_WIDEST_NOISE:g}, got {sigma!r}")
    sizes = (form.whole(key, 1) for key in ("m", "M", "G"))
    return AgreementTest(blocks, tau, sigma, form.whole("threshold", -(2**53)), *sizes)


def _populous(form: _Form, blocks: int, tau: float) -> PopulousTest:
    epsilon = form.number("epsilon")
    if epsilon > 1:
        raise InvalidInput(f"{form.name}.epsilon must be at most 1 (Lemma 5.1), got {epsilon!r}")
    test = PopulousTest(blocks, tau, epsilon, form.number("delta"))
    for key, value in (("bound", test.noise.bound), ("threshold", test.threshold)):
        if not math.isclose(form.number(key), value, rel_tol=1e-9):
            raise InvalidInput(f"{form.name}.{key} must be {value!r} for these numbers")
    return test


def _refinement(form: _Form) -> Refinement:
    scales, multipliers = form.numbers("scales"), form.numbers("multiplier")
    if len(scales) != 3 or form.of("steps") != len(multipliers):
        raise InvalidInput(f"{form.name} must have three scales and as many multipliers as steps")
    return Refinement(multipliers, form.numbers("radius"), scales)
