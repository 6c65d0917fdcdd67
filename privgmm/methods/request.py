"""Ask for a plan: what is to be learned, from how many rows, under which promise.

The library, the estimator, the command line, the planner, the dashboard and the notebook writer
all build a `PlanRequest`; a method answers it. Everything in it is public.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from privgmm.arrays import positive, whole_number
from privgmm.budget import Budget, Unit, check_unit
from privgmm.covariance_structures import DEFAULT as FULL
from privgmm.covariance_structures import covariance_structure
from privgmm.data.generators import separation_of
from privgmm.errors import InvalidInput
from privgmm.methods.usefulness import USUAL_ALPHA, USUAL_BETA, checked_alpha
from privgmm.mixture import Mixture
from privgmm.stages.form import Form
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = [
    "DEFAULT_MASK_ACCURACY",
    "DEFAULT_METHOD",
    "FEWEST_BLOCKS",
    "MOST_BLOCKS",
    "WITHIN",
    "PlanRequest",
    "budget_facts",
    "components_asked",
]

DEFAULT_METHOD = "sketch"
"""Method that answers a request without a method's name."""
DEFAULT_MASK_ACCURACY = 0.5
"""Accuracy of a mask where blocks alone are set by hand; by convention half the largest in the
paper."""
FEWEST_BLOCKS = 5
"""Theorem 2.3 needs at least this many blocks."""
MOST_BLOCKS = 100_000
"""Every block is compared with every other one: more blocks would take hours and gigabytes."""

WITHIN = "({epsilon} = {epsilon_is}, {delta} = {delta_is})"
"""A budget in the rule of a problem; `budget_facts` gives its facts."""

_STATED_BY_PLAN = ("method", "epsilon", "delta", "n_components", "n_features")
"""Fields that a plan's dictionary states itself, so that nothing is written twice."""


def budget_facts(budget: Budget) -> dict[str, float]:
    """Return the facts that `WITHIN` names."""
    return {"epsilon_is": float(budget.epsilon), "delta_is": float(budget.delta)}


def components_asked(
    n_components: int | str, max_components: int = MOST_OFFERED
) -> tuple[int, bool]:
    """Read a number of components, or "auto": return k, and whether k is only the most.

    >>> components_asked(3), components_asked("auto")
    ((3, False), (8, True))
    """
    most = whole_number(max_components, "max_components", 1)
    if isinstance(n_components, str):
        if n_components != "auto":
            raise InvalidInput(
                "must be a whole number or 'auto'", argument="n_components", value=n_components
            )
        return most, True
    return whole_number(n_components, "n_components", 1), False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """State what a plan is asked for.

    Parameters
    ----------
    n_components, n_features : int
        k and d.
    n_rows : int or None
        How many rows there are, or persons where `unit` says so; public. None where the question
        is how many it takes.
    epsilon, delta : float
        The TOTAL budget.
    method : str
        A name in the methods' registry; by default `sketch`.
    unit : {"row", "person"}
        What the promise protects, and what `n_rows` counts.
    alpha : float or None
        Accuracy that is asked for: what is released is to be within alpha of the truth in dist_GMM
        (Definition 1.4), which is 0 for a perfect release and 1 for a wrong one. Answers are
        measured by it; None asks for none. The plan is the one of least expected error anyway.
    mask_accuracy : float or None
        How far a mask may move what blocks agreed on; None lets the method choose. Methods that
        publish the masked mixture itself take up to one; `sketch` masks a frame only.
    n_blocks : int or None
        Blocks that rows are dealt into; None lets the method choose.
    beta : float
        Chance with which the release may miss alpha, and a mask its own accuracy.
    smallest_weight : float or None
        The smallest component weight to plan for; None for 0.7 / k or so.
    separation : float or None
        How many standard deviations apart the nearest two means are expected to be; None for the
        method's own expectations.
    expected : Mixture or None
        What the rows are expected to come from, where that is known without looking at them, as
        for generated data: instead of a separation, and a forecast can be that much sharper.
    choose_components : bool
        Leave the number of components open: k is the most that is offered. The number is chosen
        from the noisy sketch, at no further cost.
    covariance_type : str
        What components may differ in, as scikit-learn names it: "full", "tied", "diag" or
        "spherical". All but "full" are fitted to a noisy sketch.

    Notes
    -----
    What a request leaves open the method chooses for the number of rows. With both
    `mask_accuracy` and `n_blocks` set nothing is left to choose, and the plan is made whether it is
    expected to release or not.
    """

    n_components: int
    n_features: int
    n_rows: int | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    method: str = DEFAULT_METHOD
    unit: Unit = "row"
    alpha: float | None = None
    mask_accuracy: float | None = None
    n_blocks: int | None = None
    beta: float = USUAL_BETA
    smallest_weight: float | None = None
    separation: float | None = None
    expected: Mixture | None = None
    choose_components: bool = False
    covariance_type: str = FULL

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("n_components", whole_number(self.n_components, "n_components", 1))
        keep("n_features", whole_number(self.n_features, "n_features", 1))
        budget = Budget(self.epsilon, self.delta)
        keep("epsilon", budget.epsilon)
        keep("delta", budget.delta)
        keep("beta", positive(self.beta, "beta", below=1.0))
        check_unit(self.unit, "unit")
        if self.n_rows is not None:
            keep("n_rows", whole_number(self.n_rows, "n_rows", 1))
        if self.alpha is not None:
            keep("alpha", checked_alpha(self.alpha))
        if self.mask_accuracy is not None:
            keep("mask_accuracy", positive(self.mask_accuracy, "mask_accuracy"))
        if self.separation is not None:
            keep("separation", positive(self.separation, "separation"))
        if self.n_blocks is not None:
            keep("n_blocks", whole_number(self.n_blocks, "n_blocks", FEWEST_BLOCKS))
            if self.n_blocks > MOST_BLOCKS:
                raise InvalidInput(
                    "must be at most {most}",
                    argument="n_blocks",
                    value=self.n_blocks,
                    remedy="every block is compared with every other one; some hundreds are enough",
                    facts={"most": MOST_BLOCKS},
                )
            if self.n_rows is not None and self.n_blocks > self.n_rows:
                raise InvalidInput(
                    f"must be at most the {{most}} {self.units}",
                    argument="n_blocks",
                    value=self.n_blocks,
                    remedy="use fewer blocks, or leave {n_blocks} out",
                    facts={"most": self.n_rows},
                )
        covariance_structure(self.covariance_type)
        self._check_expectations()

    def _check_expectations(self) -> None:
        if self.separation is not None and self.expected is not None:
            raise InvalidInput(
                "and {expected} exclude each other",
                argument="separation",
                remedy="give one of them",
            )
        if self.expected is None:
            return
        shape, wanted = self.expected.means.shape, (self.n_components, self.n_features)
        if shape != wanted:
            raise InvalidInput(
                f"must be a mixture of {wanted[0]} component{'s' * (wanted[0] > 1)} and "
                f"{wanted[1]} column{'s' * (wanted[1] > 1)}",
                argument="expected",
                value=shape,
            )
        if not (self.expected.weights > 0).all():
            raise InvalidInput(
                "must have no empty component",
                argument="expected",
                value=self.expected.weights.tolist(),
                remedy="leave the empty ones out",
            )

    @property
    def expected_separation(self) -> float | None:
        """Return the deviations between the nearest two means: as stated, or of `expected`."""
        return self.separation if self.expected is None else separation_of(self.expected)

    @property
    def budget(self) -> Budget:
        """Return the total budget, as one object."""
        return Budget(self.epsilon, self.delta)

    @property
    def units(self) -> str:
        """Name what is counted: "rows" or "persons"."""
        return f"{self.unit}s"

    @property
    def components_in_words(self) -> str:
        """Say how many components are asked for: "3", or "up to 8"."""
        return f"{'up to ' * self.choose_components}{self.n_components}"

    @property
    def automatic(self) -> bool:
        """Check whether mask and blocks are both left to the method."""
        return self.mask_accuracy is None and self.n_blocks is None

    @property
    def by_hand(self) -> bool:
        """Check whether mask and blocks are both set."""
        return self.mask_accuracy is not None and self.n_blocks is not None

    @property
    def alpha_or_usual(self) -> float:
        """Return the accuracy that answers are measured by: the one asked for, or 0.2."""
        return USUAL_ALPHA if self.alpha is None else self.alpha

    @property
    def rows(self) -> int:
        """Return the number of rows, or raise where none is given."""
        if self.n_rows is None:
            raise InvalidInput(
                "must be given", argument="n_rows", remedy="a plan is made for a number of rows"
            )
        return self.n_rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: all fields but those that a plan states itself."""
        left = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in _STATED_BY_PLAN:
            del left[name]
        return left | {"expected": None if self.expected is None else self.expected.to_dict()}

    @classmethod
    def from_form(cls, form: Form, **stated: Any) -> PlanRequest:
        """Read a request back, given the fields that its plan states.

        Raises `InvalidInput` if a field is missing or breaks a rule.
        """
        names = [f.name for f in dataclasses.fields(cls) if f.name not in _STATED_BY_PLAN]
        if "mask_accuracy" not in form.data:
            # receipts of older versions call the accuracy of a mask alpha, and ask for no other
            form = form.but(alpha=None, mask_accuracy=form.of("alpha"))
        left = {name: form.of(name) for name in names}
        if left["expected"] is not None:
            left["expected"] = Mixture.from_dict(dict(form.part("expected").data))
        if left["smallest_weight"] is not None:
            left["smallest_weight"] = form.number("smallest_weight")
        left["choose_components"] = form.flag("choose_components")
        return cls(**left, **stated)

    def but(self, **changes: object) -> PlanRequest:
        """Return this request with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
