"""How mixtures, plans and outcomes look in a notebook: small tables and drawings in plain HTML.

Lowest of all but arrays: the values import it, it imports none of them. What it draws is told by
protocols, so anything with the same attributes can be shown. Colours follow the page's own text
colour, so light and dark notebooks both work; every word that comes from outside is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from privgmm.arrays import Array

__all__ = [
    "BudgetLike",
    "ErrorsLike",
    "MixtureLike",
    "PlanLike",
    "RefusalLike",
    "ReleaseLike",
    "mixture_html",
    "plan_html",
    "refusal_html",
    "release_html",
]

_MOST_COMPONENTS = 12
_MOST_NUMBERS = 6
_SIDE, _MARGIN, _STEPS = 150.0, 8.0, 48
_EQUAL_UP_TO = 6.0
_COLOUR = "#D55E00"
"""The private release's hue in every figure; a mixture on its own is drawn in it too."""

_TABLE = "border-collapse:collapse;margin:0.3em 0"
_CELL = "padding:0.15em 0.7em;text-align:left;border-bottom:1px solid rgba(128,128,136,0.35)"


class MixtureLike(Protocol):
    """What a drawing of a mixture needs."""

    @property
    def weights(self) -> Array:
        """Weights (k,)."""
        ...

    @property
    def means(self) -> Array:
        """Means (k, d)."""
        ...

    @property
    def covariances(self) -> Array:
        """Covariances (k, d, d)."""
        ...


class ErrorsLike(Protocol):
    """How far the numbers of a mixture may be off."""

    @property
    def weights(self) -> Array:
        """Standard errors of the weights (k,)."""
        ...

    @property
    def means(self) -> Array:
        """Of the means (k, d)."""
        ...

    @property
    def meaning(self) -> str:
        """What they stand for, in a sentence."""
        ...

    def deviations(self, covariances: Array) -> Array:
        """Of the standard deviations (k, d), for covariances (k, d, d)."""
        ...


class BudgetLike(Protocol):
    """What the words about a promise need."""

    @property
    def epsilon(self) -> float:
        """Bound on the privacy loss."""
        ...

    @property
    def delta(self) -> float:
        """Chance that it fails."""
        ...


class PlanLike(Protocol):
    """What the words about a plan need."""

    def explain(self) -> str:
        """The plan in words."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The plan in numbers."""
        ...


class ReleaseLike(Protocol):
    """A mixture with its promise."""

    @property
    def misfit_in_words(self) -> str | None:
        """Whether the mixture explains the rows, where that is known."""
        ...

    @property
    def standard_errors(self) -> ErrorsLike | None:
        """How far its numbers may be off, where that is known."""
        ...

    @property
    def mixture(self) -> MixtureLike:
        """What was released."""
        ...

    @property
    def budget(self) -> BudgetLike:
        """What it cost."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated."""
        ...

    @property
    def attacker(self) -> str:
        """What somebody who knows every other row gains by it."""
        ...


class RefusalLike(Protocol):
    """A refusal with its reason."""

    @property
    def reason(self) -> str:
        """Why, and what would help."""
        ...

    @property
    def budget(self) -> BudgetLike:
        """What it cost."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated."""
        ...

    @property
    def attacker(self) -> str:
        """What somebody who knows every other row gains by it."""
        ...


def mixture_html(mixture: MixtureLike, errors: ErrorsLike | None = None) -> str:
    """A table of the components, beside it their ellipses in the first two coordinates.

    Long mixtures and long vectors are cut short, and say so. Where standard errors are known they
    stand behind the numbers.
    """
    k, d = mixture.means.shape
    spread = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    wide = None if errors is None else errors.deviations(mixture.covariances)
    rows = [
        (
            str(j + 1),
            f"{mixture.weights[j]:.4g}" + ("" if errors is None else f" ± {errors.weights[j]:.2g}"),
            _vector(mixture.means[j], None if errors is None else errors.means[j]),
            _vector(spread[j], None if wide is None else wide[j]),
        )
        for j in range(min(k, _MOST_COMPONENTS))
    ]
    title = f"Mixture of {k} Gaussian{'s' * (k > 1)} in {d} dimension{'s' * (d > 1)}"
    body = _table(("", "weight", "mean", "standard deviations"), rows)
    if k > _MOST_COMPONENTS:
        body += f"<div>and {k - _MOST_COMPONENTS} more components</div>"
    if errors is not None:
        body += f"<div>± are standard errors. {html.escape(errors.meaning)}</div>"
    drawing = _ellipses(mixture) if d >= 2 else ""
    return _beside(f"<div><b>{title}</b>{body}</div>", drawing)


def release_html(release: ReleaseLike) -> str:
    """A released mixture under its promise, and what its misfit says."""
    head = _promise("Released", "may be shared", release)
    words = release.misfit_in_words
    said = "" if words is None else f"<div>{html.escape(words)}</div>"
    return head + said + mixture_html(release.mixture, release.standard_errors)


def refusal_html(refusal: RefusalLike) -> str:
    """A refusal under its promise, with the reason."""
    head = _promise("Refused", "the answer may be shared", refusal)
    return f"{head}<div>{html.escape(refusal.reason)}</div>"


def plan_html(plan: PlanLike) -> str:
    """A plan in words, its numbers below."""
    words = "".join(f"<div>{html.escape(line)}</div>" for line in plan.explain().splitlines())
    rows = [(name, _plain(value)) for name, value in plan.to_dict().items()]
    return (
        f"<div><b>Plan</b>{words}<details><summary>All numbers</summary>"
        f"{_table(('', ''), rows)}</details></div>"
    )


def _promise(verdict: str, rights: str, result: ReleaseLike | RefusalLike) -> str:
    budget = result.budget
    if result.seeded:
        return (
            f"<div><b>{verdict}, seeded: NOT private.</b> Whoever knows the seed can take the "
            "noise away: a demonstration, not to be shared where privacy matters. With fresh noise "
            f"it would cost ε = {budget.epsilon:.4g}, δ = {budget.delta:.3g}.</div>"
        )
    return (
        f"<div><b>{verdict}</b> ({rights}): ε = {budget.epsilon:.4g}, δ = {budget.delta:.3g}; "
        f"{html.escape(result.attacker)}.</div>"
    )


def _vector(values: Array, errors: Array | None = None) -> str:
    offs = [""] * len(values) if errors is None else [f" ± {off:.2g}" for off in errors]
    numbers = [f"{value:.4g}{off}" for value, off in zip(values, offs, strict=True)]
    shown = ", ".join(numbers[:_MOST_NUMBERS])
    return f"({shown}, …)" if len(values) > _MOST_NUMBERS else f"({shown})"


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(part) for part in value)
    return "—" if value is None else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        inner = "".join(f'<{tag} style="{_CELL}">{html.escape(c)}</{tag}>' for c in cells)
        return f"<tr>{inner}</tr>"

    lines = [line(cells, "td") for cells in rows]
    if any(head):
        lines.insert(0, line(head, "th"))
    return f'<table style="{_TABLE}">{"".join(lines)}</table>'


def _beside(left: str, right: str) -> str:
    return (
        f'<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:center">{left}{right}</div>'
    )


def _ellipses(mixture: MixtureLike) -> str:
    """One and two standard deviations of each component in the plane of coordinates 1 and 2."""
    angle = np.linspace(0, 2 * np.pi, _STEPS, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    curves = []
    for mean, covariance in zip(mixture.means, mixture.covariances, strict=True):
        # the eigenvectors serve where rounding has left a needle without a Cholesky factor
        values, vectors = np.linalg.eigh(covariance[:2, :2])
        root = vectors * np.sqrt(np.maximum(values, 0))
        curves += [mean[:2, None] + sigma * (root @ circle) for sigma in (1.0, 2.0)]
    points = np.concatenate(curves, axis=1)
    low, span = points.min(axis=1), np.ptp(points, axis=1)
    span = np.where(span > 0, span, 1.0)
    if span.max() <= _EQUAL_UP_TO * span.min():
        low, span = low - (span.max() - span) / 2, np.full(2, span.max())
    room = _SIDE - 2 * _MARGIN
    paths = []
    for i, curve in enumerate(curves):
        x, y = _MARGIN + room * (curve - low[:, None]) / span[:, None]
        path = "M" + "L".join(f"{a:.1f} {_SIDE - b:.1f}" for a, b in zip(x, y, strict=True)) + "Z"
        opacity = 1.0 if i % 2 == 0 else 0.45
        paths.append(f'<path d="{path}" stroke-opacity="{opacity}"/>')
    return (
        f'<svg width="{_SIDE:.0f}" height="{_SIDE:.0f}" viewBox="0 0 {_SIDE:.0f} {_SIDE:.0f}" '
        f'role="img" aria-label="Ellipses of {len(mixture.weights)} components at one and two '
        f'standard deviations" fill="none" stroke="{_COLOUR}" stroke-width="2">'
        f"{''.join(paths)}</svg>"
    )
