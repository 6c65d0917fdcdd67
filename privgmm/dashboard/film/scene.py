"""Describe what is shown of one step, as data; each kind of stage has a file that fills it in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import plotly.graph_objects as go

from privgmm.dashboard.film.film_data import StageRun
from privgmm.distances.parameters import dist_gmm
from privgmm.mixture import Mixture

__all__ = [
    "LOCKED",
    "PUBLIC",
    "SCENES",
    "FilmNumber",
    "FilmScene",
    "FilmScenes",
    "error_numbers",
    "shows",
]

FilmNumber: TypeAlias = tuple[str, str, str]
"""A number of a scene: its label, its value, and what it means."""

LOCKED = ":material/lock: For the curator's eyes only"
PUBLIC = ":material/public:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilmScene:
    """What the page shows of one step.

    Parameters
    ----------
    title, words : str
        What happens, in plain words.
    sharing : str
        What of it may be shared.
    code : tuple of callable
        The functions that did it, in the order in which they ran.
    paper : str
        The paper's own line or lines, in Markdown with LaTeX; empty if there is nothing to say.
    ours : str
        How the method at hand departs from it; empty if it does not.
    numbers : tuple of FilmNumber
    figure : callable or None
        Draws the picture; None if there is none.
    alt : str
        The picture in words.
    motion : str
        What the picture shows while it moves; empty if it stands still.
    """

    title: str
    words: str
    sharing: str
    code: tuple[Callable[..., Any], ...]
    paper: str = ""
    ours: str = ""
    numbers: tuple[FilmNumber, ...] = ()
    figure: Callable[[], go.Figure] | None = None
    alt: str = ""
    motion: str = ""


FilmScenes: TypeAlias = Mapping[str, Callable[[StageRun], FilmScene]]
"""The scenes of a stage, by their labels: each is worked out when it is shown."""


def error_numbers(before: Mixture, after: Mixture, truth: Mixture | None) -> tuple[FilmNumber, ...]:
    """Compare two mixtures with the true one; nothing where that is unknown or has another k."""
    if truth is None or not truth.n_components == before.n_components == after.n_components:
        return ()
    meaning = "dist_GMM to the true mixture: 0 is perfect, 1 as wrong as can be. Not public"
    return (
        ("Error before", f"{dist_gmm(before, truth):.3f}", meaning),
        ("Error after", f"{dist_gmm(after, truth):.3f}", meaning),
    )


SCENES: dict[str, Callable[[StageRun], FilmScenes]] = {}
"""For each kind of stage what lists its scenes, by their labels."""

_Lists = TypeVar("_Lists", bound=Callable[[StageRun], FilmScenes])


def shows(kind: str) -> Callable[[_Lists], _Lists]:
    """Register a function as what lists the scenes of a kind of stage."""

    def registered(listed: _Lists) -> _Lists:
        SCENES[kind] = listed
        return listed

    return registered
