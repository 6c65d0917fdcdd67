"""Questions about a sketch, answered in the background: fits, the path of fits, densities.

What two sessions ask about the same sketch is computed once. Answers are plain values: the page
never computes a fit itself. All of it is post-processing of what is public.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future

from privgmm.dashboard.look_again.paid import Paid
from privgmm.dashboard.shared.refresh import PAGE_POOL
from privgmm.mixture import Mixture
from privgmm.stages.sketch.choice import MOST_OFFERED, Choice, Tried
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.picture import DensityCurve, DensityImage
from privgmm.stages.sketch.private_sketch import EXPLAINED, PrivateSketch, Suggestion
from privgmm.stages.standard_errors import StandardErrors
from privgmm.teaching.background import is_known, still_open

__all__ = [
    "FreeLook",
    "as_released",
    "choice_from",
    "density_curve_of",
    "density_image_of",
    "look_at",
    "path_of",
]

_FEW_COLUMNS = 3
"""Up to here every number of components is tried: a fit takes well below a second."""
_PATIENCE = 2
"""Numbers of components without improvement after which no more are tried, as in `choice`."""


@dataclasses.dataclass(frozen=True, eq=False)
class FreeLook:
    """A fit to a sketch, with everything that the page says about it. Public.

    Parameters
    ----------
    covariance_type : str
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

    covariance_type: str
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
        """Whether such a mixture explains the rows, as far as is known."""
        return self.misfit is None or self.misfit <= MISFIT


def as_released(paid: Paid) -> FreeLook:
    """Return the released mixture itself, if there is no sketch to fit another to."""
    return FreeLook(
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
    paid: Paid, sketch: PrivateSketch, n_components: int, covariance_type: str
) -> Future[FreeLook]:
    """Ask for the fit of a number of components and a covariance type.

    The released mixture is shown as it was: the rest of its budget made it better than a fit to the
    sketch alone, if it has more than three columns or does not explain the rows.
    """
    asked = (n_components, covariance_type)
    released = asked == (paid.mixture.n_components, paid.covariance_type)
    return PAGE_POOL.ask(
        ("look", sketch, paid.mixture if released else None, *asked),
        lambda: (_released if released else _fitted)(paid, sketch, *asked),
    )


def _released(paid: Paid, sketch: PrivateSketch, k: int, covariance_type: str) -> FreeLook:
    plain = as_released(paid)
    if plain.explains:
        return dataclasses.replace(plain, verdict=EXPLAINED)
    fit = sketch.fit(k, covariance_type)
    return dataclasses.replace(plain, verdict=fit.verdict, suggestion=fit.suggestion)


def _fitted(_paid: Paid, sketch: PrivateSketch, k: int, covariance_type: str) -> FreeLook:
    fit = sketch.fit(k, covariance_type)
    return FreeLook(
        covariance_type,
        fit.mixture,
        fit.standard_errors,
        fit.misfit,
        fit.verdict,
        fit.suggestion,
        bool(fit.floored.any()),
        released=False,
    )


def path_of(sketch: PrivateSketch, covariance_type: str, n_components: int) -> list[Future[Tried]]:
    """Ask how well 1, 2, 3, … components do.

    It goes up to `n_components`, and on until the choice is settled: the best explains the rows and
    two more components did not help. With few columns all numbers are tried, which is quick.
    """

    def ask(k: int) -> Future[Tried]:
        def work() -> Tried:
            fit = sketch.fit(k, covariance_type)
            return Tried(k, float(fit.misfit), float(fit.criterion))

        return PAGE_POOL.ask(("tried", sketch, covariance_type, k), work)

    most = MOST_OFFERED if sketch.n_features <= _FEW_COLUMNS else n_components
    # the newest question is answered first, so the path is asked backwards
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
    """Choose the number of components by the criterion; None before the first is known."""
    tried = []
    for answer in path:
        if not is_known(answer) or answer.exception() is not None:
            break
        tried.append(answer.result())
    return Choice(max(MOST_OFFERED, len(tried)), tuple(tried)) if tried else None


def density_image_of(sketch: PrivateSketch, axes: tuple[int, int]) -> Future[DensityImage]:
    """Ask for the joint density of two columns."""
    return PAGE_POOL.ask(("image", sketch, axes), lambda: sketch.image(axes))


def density_curve_of(sketch: PrivateSketch, column: int) -> Future[DensityCurve]:
    """Ask for the density of one column."""
    return PAGE_POOL.ask(("curve", sketch, column), lambda: sketch.curve(column))
