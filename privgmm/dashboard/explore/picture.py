"""The picture of Explore: rows, ellipses, and layers over them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.shared.answers import blocks_of
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.data.datasets import Dataset
from privgmm.figures.mixtures import (
    blocks_label,
    exaggerated,
    figure_alt_text,
    ghosts_label,
    mixtures_figure,
)
from privgmm.figures.promises import pairs_figure
from privgmm.mixture import Mixture
from privgmm.stages.standard_errors import StandardErrors
from privgmm.teaching.rehearsal import Rehearsal, load_demo

__all__ = [
    "BANDS",
    "BLOCK_FITS",
    "CLOUD",
    "LAYERS",
    "TIMES_TEN",
    "PictureContent",
    "chosen_axes",
    "layers",
    "show_picture",
]

BANDS, BLOCK_FITS, CLOUD, TIMES_TEN = (
    "Error bands",
    "Block fits",
    "Possible releases",
    "Differences ×10",
)
LAYERS = (BANDS, BLOCK_FITS, CLOUD, TIMES_TEN)
FIRST_LAYERS = (BANDS, CLOUD)
"""Layers that are shown before any is chosen."""
_EXAGGERATION = 10.0
"""How much differences are stretched, as the name of the layer says."""
_HEIGHT = 370
"""Pixels: verdict, picture and curve fit a laptop's screen, picture and curve a phone's."""


@dataclasses.dataclass(frozen=True)
class PictureContent:
    """What the picture shows.

    Parameters
    ----------
    dataset : Dataset
    nonprivate, private : Mixture, optional
    errors : StandardErrors, optional
        Of the private one.
    ghosts : tuple of Mixture
        Possible releases: the same with other noise.
    blocks : tuple of Mixture
        Fits of single blocks.
    rehearsals : tuple of Rehearsal
        Where all of it comes from, if so: the one on screen, then its ghosts.
    without_blocks : bool
        Whether the plan deals rows into no blocks.
    stands_in : bool
        Whether the rows stand in for the visitor's own.
    """

    dataset: Dataset
    nonprivate: Mixture | None = None
    private: Mixture | None = None
    errors: StandardErrors | None = None
    ghosts: tuple[Mixture, ...] = ()
    blocks: tuple[Mixture, ...] = ()
    rehearsals: tuple[Rehearsal, ...] = ()
    without_blocks: bool = False
    stands_in: bool = False

    @classmethod
    def of_rehearsals(
        cls, rehearsals: tuple[Rehearsal, ...], *, stands_in: bool = False
    ) -> PictureContent:
        """Show the first rehearsal, and the others as its ghosts."""
        shown, *others = rehearsals
        return cls(
            load_demo(shown.setup.rows),
            shown.nonprivate,
            shown.private,
            shown.errors,
            tuple(other.private for other in others if other.private is not None),
            shown.blocks,
            rehearsals,
            shown.plan is not None and blocks_of(shown.plan) is None,
            stands_in,
        )


def layers() -> tuple[str, ...]:
    """Return the layers over the picture: the address comes before the first render."""
    if "layers" in st.session_state:
        return tuple(st.session_state["layers"] or ())
    return tuple(st.query_params.get_all("layers")) or FIRST_LAYERS


def chosen_axes(dataset: Dataset) -> tuple[int, int]:
    """Return the two columns of the picture, which `show_picture` lets the visitor choose."""
    names = dataset.columns
    across = _column("across", names)
    first = 0 if across is None else across
    up = _column("up", names)
    return first, up if up not in (None, first) else (1 if first == 0 else 0)


def _column(key: str, names: Sequence[str]) -> int | None:
    said = st.session_state.get(key, st.query_params.get(key))
    return names.index(said) if said in names else None


def show_picture(content: PictureContent, beneath: Callable[[], None] | None = None) -> None:
    """Show the picture, with the choice of its layers below.

    `beneath` shows what comes between the two: on a phone it shares the screen with the picture.
    """
    dataset = content.dataset
    place = st.container()
    if beneath is not None:
        beneath()
    below = st.container()
    axes = _choose_axes(dataset)
    st.pills(
        "Show also",
        LAYERS,
        selection_mode="multi",
        default=list(FIRST_LAYERS),
        key="layers",
        **LINKED,
        help=f"**{BANDS}**: two standard errors around the release; they may be shared.\n\n"
        f"**{BLOCK_FITS}**: what single blocks found. More blocks t means fewer rows per block, "
        "and the fits spread more widely.\n\n"
        f"**{CLOUD}**: the same rows with other noise. A smaller ε scatters them.\n\n"
        f"**{TIMES_TEN}**: the difference between the private and the true (or non-private) "
        "mixture, drawn ten times too large.",
    )
    with place:
        words = _draw(content, axes)
    below.caption(words)
    if dataset.n_features > 2:
        _show_pairs(content)


def _choose_axes(dataset: Dataset) -> tuple[int, int]:
    if dataset.n_features < 3:
        return (0, 1)
    left, right = st.columns(2)
    first = left.selectbox("Across", dataset.columns, 0, key="across", bind="query-params")
    others = [name for name in dataset.columns if name != first]
    second = right.selectbox("Up", others, 0, key="up", bind="query-params")
    return (dataset.columns.index(first), dataset.columns.index(second))


def _figure(content: PictureContent, axes: tuple[int, int], shown: tuple[str, ...]) -> go.Figure:
    dataset, private = content.dataset, content.private
    reference = content.nonprivate if dataset.truth is None else dataset.truth
    stretched = (
        TIMES_TEN in shown
        and private is not None
        and reference is not None
        and private.n_components == reference.n_components
    )
    if stretched and private is not None and reference is not None:
        private = exaggerated(private, reference, _EXAGGERATION)
    figure = mixtures_figure(
        dataset.thumbnail,
        true=dataset.truth,
        nonprivate=content.nonprivate,
        private=private,
        errors=content.errors if BANDS in shown and not stretched else None,
        ghosts=content.ghosts,
        blocks=content.blocks if BLOCK_FITS in shown else (),
        axes=axes,
        columns=dataset.columns,
        n_rows=dataset.n_rows,
        height=_HEIGHT,
    )
    if stretched:
        figure.add_annotation(
            text=f"<b>private: differences drawn {_EXAGGERATION:g} times too large</b>",
            xref="paper",
            yref="paper",
            x=0.01,
            y=0.99,
            showarrow=False,
            xanchor="left",
        )
    # upright at the side, where it does not cover the legend
    figure.update_layout(modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)"})
    return figure


@functools.lru_cache(maxsize=32)
def _shared_figure(
    rehearsals: tuple[Rehearsal, ...], axes: tuple[int, int], shown: tuple[str, ...]
) -> go.Figure:
    """Draw the picture of rehearsals, once for all visitors."""
    return _figure(PictureContent.of_rehearsals(rehearsals), axes, shown)


def _draw(content: PictureContent, axes: tuple[int, int]) -> str:
    """Draw the picture; return what to say below it."""
    dataset, shown = content.dataset, layers()
    figure = (
        _shared_figure(content.rehearsals, axes, shown)
        if content.rehearsals
        else _figure(content, axes, shown)
    )
    words = figure_alt_text(
        dataset.n_rows,
        true=dataset.truth,
        nonprivate=content.nonprivate,
        private=content.private,
        axes=axes,
        columns=dataset.columns,
    )
    if content.ghosts:
        words += f" {ghosts_label(len(content.ghosts))}, drawn faintly."
    if BLOCK_FITS in shown and content.blocks:
        words += f" {blocks_label(len(content.blocks))}, as thin ellipses."
    st.plotly_chart(
        figure, key="picture", config={"displaylogo": False, "scrollZoom": False}, alt=words
    )
    return _below(content, shown)


def _below(content: PictureContent, shown: Sequence[str]) -> str:
    """Say what the picture shows, and why a chosen layer is missing."""
    words = [
        ":material/groups: The picture shows stand-ins, not your rows."
        if content.stands_in
        else ":material/lock: Confidential: the picture shows rows."
    ]
    if content.dataset.n_features > 1:
        words.append("Ellipses lie at one and two standard deviations.")
    if BLOCK_FITS in shown and not content.blocks:
        words.append(
            "This plan deals rows into no blocks."
            if content.without_blocks
            else "Fits of blocks appear after a release or a rehearsal."
        )
    if BLOCK_FITS in shown and content.blocks and content.private is not None:
        k = content.blocks[0].n_components
        if k != content.private.n_components:
            words.append("Here blocks look for one Gaussian only: where the rows lie.")
    return " ".join(words)


def _show_pairs(content: PictureContent) -> None:
    dataset = content.dataset
    st.markdown("**All pairs of columns**")
    st.plotly_chart(
        pairs_figure(
            dataset.thumbnail,
            true=dataset.truth,
            nonprivate=content.nonprivate,
            private=content.private,
            columns=dataset.columns,
        ),
        key="pairs",
        config={"displayModeBar": False},
        alt="Rows and ellipses in every pair of columns, as small pictures.",
    )
    st.caption(
        (":material/groups: Stand-ins. " if content.stands_in else ":material/lock: ")
        + "Ellipses at one standard deviation"
        + ("; the first six columns." if dataset.n_features > 6 else ".")
    )
