"""What will it take? Plans, rows and remedies for the settings on screen, before any spending.

Pure questions about public numbers, put to one `Board` that all sessions share: the planner
takes seconds where a rerun may not. No data and no Streamlit in here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from concurrent.futures import Future

from privgmm.budget import Budget
from privgmm.dashboard.shared.jobs import Board
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Method, Plan
from privgmm.methods.planner import lifted_feasible, plan_as_asked
from privgmm.methods.searching import first_step
from privgmm.methods.what_if import Question, rows_for

__all__ = [
    "BOARD",
    "DEFAULT_ALPHA",
    "EPSILONS",
    "SIZES",
    "Ask",
    "Remedies",
    "fewest_rows",
    "plan_for",
    "remedies_for",
    "rows_needed",
]

EPSILONS = (
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8),
    *(1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0),
)
"""The budgets offered, about evenly spaced on a log scale."""

SIZES = (*(lead * 10**power for power in range(3, 7) for lead in (1, 2, 3, 5, 7)), 10**7)
"""The numbers of rows offered for generated data."""

DEFAULT_ALPHA = 0.5

BOARD = Board(workers=1, waiting=16)
"""One worker: a second would share the interpreter with the pages, and slow them for nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Everything that decides a plan; all of it public.

    Parameters
    ----------
    method : str
    epsilon, delta : float
    alpha : float or None
        None lets the planner choose accuracy, blocks and refinement.
    n_components : int
    n_blocks : int or None
        None leaves it to the method.
    n_rows, n_features : int
    forgiving : bool
        Whether the planner, where it chooses, allows for real data.
    """

    method: Method
    epsilon: float
    delta: float
    alpha: float | None
    n_components: int
    n_blocks: int | None
    n_rows: int
    n_features: int
    forgiving: bool = False

    @property
    def question(self) -> Question:
        """What stays fixed while rows and epsilon are asked for."""
        return Question(self.n_components, self.n_features, self.delta, forgiving=self.forgiving)

    @property
    def blocks(self) -> int | None:
        """The number of blocks to calibrate with, where the planner does not choose."""
        if self.n_blocks is not None or self.method == "paper":
            return self.n_blocks
        # Enough for the test to pass with room: its noise grows like 1/epsilon.
        return math.ceil(400 / min(self.epsilon, 1.0))


@dataclasses.dataclass(frozen=True, slots=True)
class Remedies:
    """Single changes of the promise that would let the rows at hand pass.

    Parameters
    ----------
    epsilon : float or None
        A larger budget; None where none offered is large enough.
    automatic : bool
        Whether method `lifted` with all choices automatic and nothing allowed for would pass as
        things stand.
    """

    epsilon: float | None
    automatic: bool


def _plan(ask: Ask) -> Plan:
    return plan_as_asked(
        ask.n_rows,
        method=ask.method,
        epsilon=ask.epsilon,
        delta=ask.delta,
        n_components=ask.n_components,
        n_features=ask.n_features,
        alpha=ask.alpha,
        n_blocks=ask.blocks,
        forgiving=ask.forgiving,
    )


def plan_for(ask: Ask) -> Future[Plan]:
    """The plan for these settings; `InvalidInput` if none is expected to release."""
    return BOARD.ask(("plan", ask), lambda: _plan(ask))


def _rows_needed(ask: Ask) -> float:
    if ask.alpha is None and ask.method == "lifted":
        return rows_for(ask.question, "lifted", epsilon=ask.epsilon)
    return float(_plan(ask).rows_needed())


def rows_needed(ask: Ask) -> Future[float]:
    """Rows that a release takes at these settings (well separated components, 95 % of runs)."""
    # Only the Auto choice of `tight` looks at n; the others' answer is the same for any n.
    follows = ask.alpha is None and ask.method == "tight"
    key = ask if follows else dataclasses.replace(ask, n_rows=0)
    return BOARD.ask(("rows", key), lambda: _rows_needed(ask))


def _passes(ask: Ask) -> bool:
    if ask.alpha is None and ask.method == "lifted":
        budget = Budget(ask.epsilon, ask.delta)
        return lifted_feasible(
            ask.n_rows, budget, ask.n_components, ask.n_features, forgiving=ask.forgiving
        )
    try:
        return _plan(ask).rows_needed() <= ask.n_rows
    except InvalidInput:
        # no plan at all within this budget
        return False


def _first(asks: Sequence[Ask]) -> Ask | None:
    """The first that passes, where all after it pass too."""
    if not asks:
        return None
    step = first_step(0, len(asks) - 1, lambda i: _passes(asks[i]))
    return None if step is None else asks[step]


def _remedies(ask: Ask) -> Remedies:
    dearer = [dataclasses.replace(ask, epsilon=e) for e in EPSILONS if e > ask.epsilon]
    found = _first(dearer)
    automatic = dataclasses.replace(
        ask, method="lifted", alpha=None, n_blocks=None, forgiving=False
    )
    return Remedies(
        epsilon=None if found is None else found.epsilon,
        automatic=automatic != ask and _passes(automatic),
    )


def remedies_for(ask: Ask) -> Future[Remedies]:
    """What would help where the rows are too few."""
    return BOARD.ask(("remedies", ask), lambda: _remedies(ask))


def fewest_rows(ask: Ask, method: Method) -> Future[float]:
    """Rows that a method takes at the same budget, by its own best plan or at the same alpha."""
    alpha = DEFAULT_ALPHA if ask.alpha is None else ask.alpha
    other = dataclasses.replace(
        ask,
        method=method,
        alpha=None if method == "lifted" else alpha,
        n_blocks=None,
    )
    return rows_needed(other)
