"""Find what the film shows of each stage that was run, by the stage's kind.

A new kind of stage gets a file of its own in the folder `stages`. Until then it is shown by the
sentences that every stage has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from privgmm.dashboard.film import stages  # noqa: F401 - its files register their scenes
from privgmm.dashboard.film.film_data import FilmData, StageRun
from privgmm.dashboard.film.scene import PUBLIC, SCENES, FilmScene

__all__ = ["FilmStep", "steps_of"]


class FilmStep(NamedTuple):
    """One step of the film: its label, and what works out its scene when it is shown."""

    label: str
    scene: Callable[[], FilmScene]


def steps_of(film: FilmData) -> tuple[FilmStep, ...]:
    """List the steps of all stages that were run, in order."""
    steps: list[FilmStep] = []
    for run in film.runs:
        listed = SCENES.get(run.stage.kind)
        scenes = (listed and listed(run)) or {run.stage.kind.capitalize(): _in_sentences}
        steps += [FilmStep(label, functools.partial(scene, run)) for label, scene in scenes.items()]
    return tuple(steps)


def _in_sentences(run: StageRun) -> FilmScene:
    """Show a stage by its sentences, and by the reason if it refused."""
    return FilmScene(
        title=run.stage.kind.capitalize(),
        words=" ".join(run.stage.sentences()) + run.ending,
        sharing=f"{PUBLIC} Nothing here shows rows: it may be shared.",
        code=(type(run.stage).prepare,),
    )
