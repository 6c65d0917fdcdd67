"""The one shape of a question: what is to be learned, from how much, under which promise.

The library, the estimator, the command line, the planner, the dashboard and the notebook writer
all build a `PlanRequest`; a method answers it. Everything in it is public.
"""

from __future__ import annotations

import dataclasses

from privgmm.arrays import positive, whole_number
from privgmm.budget import Budget, Unit, check_unit
from privgmm.data.generators import separation_of
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = [
    "DEFAULT_ALPHA",
    "DEFAULT_METHOD",
    "FEWEST_BLOCKS",
    "MOST_BLOCKS",
    "PlanRequest",
    "components_asked",
]

DEFAULT_METHOD = "auto"
DEFAULT_ALPHA = 0.5
FEWEST_BLOCKS = 5
"""Theorem 2.3 needs so many."""
MOST_BLOCKS = 100_000
"""Every block is compared with every other one."""


def components_asked(
    n_components: int | str, max_components: int = MOST_OFFERED
) -> tuple[int, bool]:
    """What a number of components, or "auto", asks for: k, and whether it is only the most.

    >>> components_asked(3), components_asked("auto")
    ((3, False), (8, True))
    """
    most = whole_number(max_components, "max_components", 1)
    if isinstance(n_components, str):
        if n_components != "auto":
            raise InvalidInput(
                f"n_components must be a whole number or 'auto', got {n_components!r}"
            )
        return most, True
    return whole_number(n_components, "n_components", 1), False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a plan is asked for.

    Parameters
    ----------
    n_components, n_features : int
        k and d.
    n_rows : int or None
        How many rows there are, or persons where `unit` says so; public. None while that is what
        is asked for.
    epsilon, delta : float
        The TOTAL budget.
    method : str
        A name in the methods' registry; `auto` takes the one of least expected error.
    unit : {"row", "person"}
        What the promise protects, and what `n_rows` counts.
    alpha : float or None
        Accuracy of the masked mixture; None lets the method choose.
    n_blocks : int or None
        Blocks that rows are dealt into; None lets the method choose.
    beta : float
        How often the mask may miss its alpha.
    smallest_weight : float or None
        The smallest component weight to plan for; None for 0.7 / k or so.
    separation : float or None
        How many standard deviations apart the nearest two means are expected to be; None for the
        method's own expectations.
    expected : Mixture or None
        What the rows are expected to come from, where that is known without looking at them, as
        for generated data: instead of a separation, and a forecast can be that much sharper.
    forgiving : bool
        Plan for real data: components near each other, fits that scatter more widely.
    refine : bool, Refinement or None
        Whether to sharpen the masked mixture by noisy passes over all rows. None does so exactly
        if alpha is left to the method: an alpha set by hand is then the accuracy that comes out.
        A `Refinement` is taken as it is.
    choose_components : bool
        Leave the number of components open: k is the most that is offered, and the number is
        chosen from a noisy sketch once that is paid for. The choice is free, and private.
    needs_sketch : bool
        Ask only methods that publish a sketch, from which other fits are free. An open number of
        components needs one in any case.

    Notes
    -----
    One policy, for everybody. What a request leaves open the method chooses for the rows at hand.
    With both `alpha` and `n_blocks` set nothing is left to choose, and the plan is made whether it
    is expected to release or not.
    """

    n_components: int
    n_features: int
    n_rows: int | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    method: str = DEFAULT_METHOD
    unit: Unit = "row"
    alpha: float | None = None
    n_blocks: int | None = None
    beta: float = 0.1
    smallest_weight: float | None = None
    separation: float | None = None
    expected: Mixture | None = None
    forgiving: bool = False
    refine: bool | Refinement | None = None
    choose_components: bool = False
    needs_sketch: bool = False

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
            keep("alpha", positive(self.alpha, "alpha"))
        if self.separation is not None:
            keep("separation", positive(self.separation, "separation"))
        if self.n_blocks is not None:
            keep("n_blocks", whole_number(self.n_blocks, "n_blocks", FEWEST_BLOCKS))
            if self.n_blocks > MOST_BLOCKS:
                raise InvalidInput(
                    f"n_blocks must be at most {MOST_BLOCKS:,}, got {self.n_blocks:,}: every block "
                    "is compared with every other one; some hundred will do"
                )
            if self.n_rows is not None and self.n_blocks > self.n_rows:
                raise InvalidInput(
                    f"n_blocks must be at most the {self.n_rows:,} {self.units}, "
                    f"got {self.n_blocks:,}: use fewer blocks, or leave n_blocks out"
                )
        keep("needs_sketch", self.needs_sketch or self.choose_components)
        self._check_expectations()
        if self.forgiving and self.by_hand:
            raise InvalidInput(
                "forgiving is for what the method chooses: leave alpha or n_blocks open, or leave "
                "forgiving out"
            )

    def _check_expectations(self) -> None:
        stated = {
            "separation": self.separation is not None,
            "expected": self.expected is not None,
            "forgiving": self.forgiving,
        }
        given = [name for name, is_given in stated.items() if is_given]
        if len(given) > 1:
            raise InvalidInput(f"{' and '.join(given)} exclude each other: give one of them")
        if self.expected is None:
            return
        shape, wanted = self.expected.means.shape, (self.n_components, self.n_features)
        if shape != wanted:
            raise InvalidInput(
                f"expected must be a mixture of {wanted[0]} components in {wanted[1]} dimensions, "
                f"got {shape[0]} in {shape[1]}"
            )
        if not (self.expected.weights > 0).all():
            raise InvalidInput(
                f"expected must have no empty component, got weights "
                f"{self.expected.weights.tolist()}: leave the empty ones out"
            )

    @property
    def expected_separation(self) -> float | None:
        """Deviations between the nearest two means, as stated or of the mixture expected."""
        return self.separation if self.expected is None else separation_of(self.expected)

    @property
    def budget(self) -> Budget:
        """The promise."""
        return Budget(self.epsilon, self.delta)

    @property
    def units(self) -> str:
        """What is counted: "rows" or "persons"."""
        return f"{self.unit}s"

    @property
    def components_in_words(self) -> str:
        """How many components are asked for: "3", or "up to 8"."""
        return f"{'up to ' * self.choose_components}{self.n_components}"

    @property
    def automatic(self) -> bool:
        """Whether alpha and blocks are both left to the method."""
        return self.alpha is None and self.n_blocks is None

    @property
    def by_hand(self) -> bool:
        """Whether alpha and blocks are both set."""
        return self.alpha is not None and self.n_blocks is not None

    @property
    def refines(self) -> bool:
        """Whether the method is to choose a refinement."""
        if self.refine is None:
            return self.alpha is None
        return self.refine is True

    @property
    def refinement(self) -> Refinement | None:
        """The refinement to be taken as it is, if one was given."""
        return self.refine if isinstance(self.refine, Refinement) else None

    @property
    def rows(self) -> int:
        """n, where it must be known."""
        if self.n_rows is None:
            raise InvalidInput("n_rows must be given: a plan is made for a number of rows")
        return self.n_rows

    def but(self, **changes: object) -> PlanRequest:
        """The same request with some answers changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
