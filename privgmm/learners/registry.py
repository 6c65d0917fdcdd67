"""The learners by name, as the command line and the dashboard offer them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.learners.learner import Learner
from privgmm.learners.moments.fitting import MOST_COMPONENTS, Moments
from privgmm.learners.student import StudentT

__all__ = ["LEARNERS", "OFFERED", "LearnerKind", "is_own", "learner_for", "make_learner"]


@dataclasses.dataclass(frozen=True)
class LearnerKind:
    """A learner that can be chosen by name.

    Parameters
    ----------
    name : str
        What users type.
    title : str
        What users read.
    good_at : str
        When to choose it, in a sentence or two.
    most_components : int or None
        The largest k it takes; None for any.
    make : callable
        From k to a learner.
    offered : bool
        Whether users choose it; False for one that only plans ask for.
    """

    name: str
    title: str
    good_at: str
    most_components: int | None
    make: Callable[[int], Learner]
    offered: bool = True


LEARNERS: Mapping[str, LearnerKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            LearnerKind(
                "em",
                "Maximum likelihood (EM)",
                "The default: the fastest, for any number of components.",
                None,
                EM,
            ),
            LearnerKind(
                "moments",
                "Method of moments, then EM",
                "Finds components that hide in others, such as thin sheets in a wide cloud, where "
                "EM alone may miss them. Elsewhere it ends where EM does, and is far slower.",
                MOST_COMPONENTS,
                Moments,
            ),
            LearnerKind(
                "student",
                "Multivariate t",
                "Location and scatter of a block, robust against outliers. It describes the block "
                "as a whole, for a frame of reference.",
                1,
                StudentT,
                offered=False,
            ),
        )
    }
)
"""By name, the default first."""


OFFERED: Mapping[str, LearnerKind] = MappingProxyType(
    {name: kind for name, kind in LEARNERS.items() if kind.offered}
)
"""Those that users choose from."""


def is_own(learner: Learner) -> bool:
    """Return whether it is one of this package's learners, unchanged by others."""
    return type(learner) in {kind.make for kind in LEARNERS.values()}


def learner_for(n_components: int, chosen: Learner | None) -> Learner:
    """Return the chosen learner, or EM; it must fit k components."""
    learner: Learner = EM(n_components) if chosen is None else chosen
    if not (hasattr(learner, "n_components") and callable(getattr(learner, "fit_blocks", None))):
        raise InvalidInput(
            "learner must have n_components and fit_blocks, as EM has; wrap an estimator of "
            f"scikit-learn in FromEstimator. Got {type(learner).__name__}"
        )
    if learner.n_components != n_components:
        raise InvalidInput(
            f"the learner fits {learner.n_components} components, the plan {n_components}"
        )
    return learner


def make_learner(name: str, n_components: int) -> Learner:
    """Make the learner of that name for k components.

    >>> make_learner("em", 3).n_components
    3
    """
    kind = LEARNERS.get(name)
    if kind is None:
        raise InvalidInput(f"learner must be one of {', '.join(LEARNERS)}, got {name!r}")
    if kind.most_components is not None and n_components > kind.most_components:
        raise InvalidInput(
            f"learner {name!r} takes at most {kind.most_components} components, "
            f"got {n_components}; choose another learner"
        )
    return kind.make(n_components)
