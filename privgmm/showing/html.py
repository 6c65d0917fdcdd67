"""Show mixtures, plans and outcomes in a notebook: small tables and drawings in plain HTML.

The values import this module, and it imports only `arrays` and `text`. Protocols say what it
needs, so anything with these attributes can be shown. Text has the page's own colour, so light and
dark notebooks both work. Every word that comes from outside is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from privgmm.arrays import Array
from privgmm.showing.text import ErrorsLike, NamedMixture, error_in_words, mixture_title

__all__ = [
    "BudgetLike",
    "FitLike",
    "PlanLike",
    "RefusalLike",
    "ReleaseLike",
    "fit_html",
    "mixture_html",
    "plan_html",
    "refusal_html",
    "release_html",
    "sketch_html",
]

_MOST_COMPONENTS, _MOST_NUMBERS = 12, 6
"""Components, and numbers of a vector, that a table shows; by convention, to fit a screen."""
_SIDE, _MARGIN, _STEPS = 150.0, 8.0, 48
"""Pixels of a side and of the margin of a drawing, and points of an ellipse; by convention."""
_EQUAL_UP_TO = 6.0
"""Axes share a scale while one is at most this many times as long as the other; by convention."""
_COLOUR = "#D55E00"
"""Hue of a release in every figure; a mixture on its own is drawn in it too."""

_TABLE = "border-collapse:collapse;margin:0.3em 0"
_CELL = "padding:0.15em 0.7em;text-align:left;border-bottom:1px solid rgba(128,128,136,0.35)"


class BudgetLike(Protocol):
    """List the attributes of a budget that the words about a promise need."""

    @property
    def epsilon(self) -> float:
        """Bound on the privacy loss."""
        ...

    @property
    def delta(self) -> float:
        """Additional probability, see `privgmm.budget`."""
        ...


class PlanLike(Protocol):
    """List the attributes of a plan that a page about it needs."""

    def explain(self) -> str:
        """Say in plain words what will happen."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return its numbers."""
        ...


class ReleaseLike(Protocol):
    """List the attributes of a release that a page about it needs."""

    @property
    def misfit_in_words(self) -> str | None:
        """Say whether the mixture explains the rows, where that is known."""
        ...

    @property
    def standard_errors(self) -> ErrorsLike | None:
        """Standard errors of its numbers, where they are known."""
        ...

    @property
    def mixture(self) -> NamedMixture:
        """Released mixture."""
        ...

    @property
    def budget(self) -> BudgetLike:
        """Budget that was spent."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated."""
        ...

    @property
    def attacker(self) -> str:
        """Say in a clause how often an attacker who knows every other row guesses right."""
        ...


class FitLike(Protocol):
    """List the attributes of a fit to a sketch that a page about it needs."""

    @property
    def mixture(self) -> NamedMixture:
        """Fitted mixture."""
        ...

    @property
    def standard_errors(self) -> ErrorsLike | None:
        """Standard errors of its numbers."""
        ...

    @property
    def verdict(self) -> str:
        """Say what the misfit means."""
        ...

    @property
    def misfit(self) -> float:
        """How badly it explains the sketch."""
        ...


class RefusalLike(Protocol):
    """List the attributes of a refusal that a page about it needs."""

    @property
    def reason(self) -> str:
        """Say why there is no mixture, and what would help."""
        ...

    @property
    def budget(self) -> BudgetLike:
        """Budget that was spent."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated."""
        ...

    @property
    def attacker(self) -> str:
        """Say in a clause how often an attacker who knows every other row guesses right."""
        ...


def mixture_html(mixture: NamedMixture, errors: ErrorsLike | None = None) -> str:
    """Write a table of the components, and draw their ellipses in the first two coordinates.

    Long mixtures and long vectors are cut short, and say so. Standard errors follow the numbers
    where they are known.
    """
    k, d = mixture.means.shape
    names = ", ".join(mixture.columns[:_MOST_NUMBERS]) + (", …" if d > _MOST_NUMBERS else "")
    spread = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    heavy = None if errors is None else errors.known_weights(mixture.weights)
    far = None if errors is None else errors.known_means(mixture.covariances)
    wide = None if errors is None else errors.known_deviations(mixture.covariances)
    rows = [
        (
            str(j + 1),
            f"{mixture.weights[j]:.4g}" + ("" if heavy is None else error_in_words(heavy[j])),
            _vector(mixture.means[j], None if far is None else far[j]),
            _vector(spread[j], None if wide is None else wide[j]),
        )
        for j in range(min(k, _MOST_COMPONENTS))
    ]
    title = html.escape(mixture_title(mixture))
    body = _table(("", "weight", f"mean ({names})", "standard deviations"), rows)
    if k > _MOST_COMPONENTS:
        body += f"<div>and {k - _MOST_COMPONENTS} more components</div>"
    if errors is not None:
        body += f"<div>± are standard errors. {html.escape(errors.meaning)}</div>"
    drawing = _ellipses(mixture) if d >= 2 else ""
    return _beside(f"<div><b>{title}</b>{body}</div>", drawing)


def fit_html(fit: FitLike) -> str:
    """Show a fit to a sketch, and what its misfit says."""
    words = f"{html.escape(fit.verdict)} Misfit: {fit.misfit:.3g}."
    return f"<div>{words}</div>{mixture_html(fit.mixture, fit.standard_errors)}"


def sketch_html(words: str) -> str:
    """Show what a sketch is and what may be asked of it, line by line."""
    first, *rest = map(html.escape, words.splitlines())
    return f"<div><b>{first}</b>{''.join(f'<div>{line}</div>' for line in rest)}</div>"


def release_html(release: ReleaseLike) -> str:
    """Show a released mixture with its promise, and what its misfit says."""
    head = _promise("Released", "may be shared", release)
    words = release.misfit_in_words
    said = "" if words is None else f"<div>{html.escape(words)}</div>"
    return head + said + mixture_html(release.mixture, release.standard_errors)


def refusal_html(refusal: RefusalLike) -> str:
    """Show a refusal with its promise and its reason."""
    head = _promise("Refused", "the answer may be shared", refusal)
    return f"{head}<div>{html.escape(refusal.reason)}</div>"


def plan_html(plan: PlanLike) -> str:
    """Show a plan in words, its numbers below."""
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
            f"<div><b>{verdict}, seeded: NOT differentially private.</b> The seed is enough to "
            "remove the noise: a demonstration, not to be shared where privacy matters. With fresh "
            f"noise it would cost ε = {budget.epsilon:.4g}, δ = {budget.delta:.3g}.</div>"
        )
    return (
        f"<div><b>{verdict}</b> ({rights}): ε = {budget.epsilon:.4g}, δ = {budget.delta:.3g}; "
        f"{html.escape(result.attacker)}.</div>"
    )


def _vector(values: Array, errors: Array | None = None) -> str:
    offs = [""] * len(values) if errors is None else [error_in_words(off) for off in errors]
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


def _ellipses(mixture: NamedMixture) -> str:
    """Draw one and two standard deviations of each component in coordinates 1 and 2."""
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
