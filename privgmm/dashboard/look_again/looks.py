"""Questions about a sketch, answered beside the page: fits, the path of fits, densities.

Whatever two sessions ask about the same sketch is worked out once. Answers are plain values: the
page never computes a fit itself. All of it is post-processing of what is public.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future

from privgmm.dashboard.look_again.paid import Paid
from privgmm.dashboard.shared.jobs import BOARD, is_known, still_open
from privgmm.mixture import Mixture
from privgmm.stages.sketch.choice import MOST_OFFERED, Choice, Tried
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.picture import DensityCurve, DensityImage
from privgmm.stages.sketch.private_sketch import EXPLAINED, PrivateSketch, Suggestion
from privgmm.stages.sketch.structures import CovarianceType
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["Look", "as_released", "choice_from", "curve_of", "image_of", "look_at", "path_of"]

_FEW_COLUMNS = 3
_PATIENCE = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Look:
    """One fit to a sketch, with everything that the page says about it. Public.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
    mixture : Mixture
    errors : StandardErrors or None
        Of the mixture.
    misfit : float or None
        None where the method cannot tell.
    verdict : str
        What the misfit says, in a sentence.
    suggestion : Suggestion or None
        What would explain the rows, if this does not.
    floored : bool
        Whether a component was widened.
    released : bool
        Whether it is the mixture that was released, rather than another fit.
    """

    covariance_type: CovarianceType
    mixture: Mixture
    errors: StandardErrors | None
    misfit: float | None
    verdict: str
    suggestion: Suggestion | None
    floored: bool
    released: bool

    @property
    def n_components(self) -> int:
        """Number of components k."""
        return self.mixture.n_components

    @property
    def explains(self) -> bool:
        """Whether the rows are such a mixture, as far as is known."""
        return self.misfit is None or self.misfit <= MISFIT


def as_released(paid: Paid) -> Look:
    """The released mixture itself, where there is no sketch to fit another to."""
    return Look(
        paid.covariance_type,
        paid.mixture,
        paid.errors,
        paid.misfit,
        "",
        None,
        paid.floored,
        released=True,
    )


def look_at(
    paid: Paid, sketch: PrivateSketch, n_components: int, covariance_type: CovarianceType
) -> Future[Look]:
    """The fit of so many components of this type.

    What was released is shown as it was: the rest of its budget made it better than a fit to the
    sketch alone, if it has more than three columns or does not explain the rows.
    """
    asked = (n_components, covariance_type)
    released = asked == (paid.mixture.n_components, paid.covariance_type)
    return BOARD.ask(
        ("look", sketch, paid.mixture if released else None, *asked),
        lambda: (_released if released else _fitted)(paid, sketch, *asked),
    )


def _released(paid: Paid, sketch: PrivateSketch, k: int, covariance_type: CovarianceType) -> Look:
    plain = as_released(paid)
    if plain.explains:
        return dataclasses.replace(plain, verdict=EXPLAINED)
    fit = sketch.fit(k, covariance_type)
    return dataclasses.replace(plain, verdict=fit.verdict, suggestion=fit.suggestion)


def _fitted(_paid: Paid, sketch: PrivateSketch, k: int, covariance_type: CovarianceType) -> Look:
    fit = sketch.fit(k, covariance_type)
    return Look(
        covariance_type,
        fit.mixture,
        fit.standard_errors,
        fit.misfit,
        fit.verdict,
        fit.suggestion,
        bool(fit.floored.any()),
        released=False,
    )


def path_of(
    sketch: PrivateSketch, covariance_type: CovarianceType, n_components: int
) -> list[Future[Tried]]:
    """How well 1, 2, 3, .. components do, each as soon as it is known.

    As far as is asked, and on until the choice between them is settled: the best explains the rows
    and two more components did not help. With few columns all the way, which is quick.
    """

    def ask(k: int) -> Future[Tried]:
        def work() -> Tried:
            fit = sketch.fit(k, covariance_type)
            return Tried(k, float(fit.misfit), float(fit.criterion))

        return BOARD.ask(("tried", sketch, covariance_type, k), work)

    most = MOST_OFFERED if sketch.n_features <= _FEW_COLUMNS else n_components
    # the newest question is answered first: asked from the far end, 1 comes before 2
    path = [ask(k) for k in range(most, 0, -1)][::-1]
    while len(path) < MOST_OFFERED and not still_open(path) and not _is_settled(path):
        path.append(ask(len(path) + 1))
    return path


def _is_settled(path: list[Future[Tried]]) -> bool:
    choice = choice_from(path)
    if choice is None or len(choice.tried) < len(path):
        # more components than the sketch can tell apart
        return True
    best = choice.tried[choice.n_components - 1]
    return best.misfit <= MISFIT and len(path) >= best.n_components + _PATIENCE


def choice_from(path: list[Future[Tried]]) -> Choice | None:
    """How many components the criterion takes, of those tried so far; None before the first."""
    tried = []
    for answer in path:
        if not is_known(answer) or answer.exception() is not None:
            break
        tried.append(answer.result())
    return Choice(max(MOST_OFFERED, len(tried)), tuple(tried)) if tried else None


def image_of(sketch: PrivateSketch, axes: tuple[int, int]) -> Future[DensityImage]:
    """The joint density of two columns."""
    return BOARD.ask(("image", sketch, axes), lambda: sketch.image(axes))


def curve_of(sketch: PrivateSketch, column: int) -> Future[DensityCurve]:
    """The density of one column."""
    return BOARD.ask(("curve", sketch, column), lambda: sketch.curve(column))
