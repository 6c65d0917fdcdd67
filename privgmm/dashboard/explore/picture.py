"""The picture of Explore: rows, ellipses, and what may be laid over them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.explore.rehearsal import Rehearsal
from privgmm.dashboard.shared.made_up import loaded
from privgmm.data.datasets import Dataset
from privgmm.figures.mixtures import (
    blocks_label,
    exaggerated,
    figure_alt_text,
    ghosts_label,
    mixtures_figure,
    wider_across,
)
from privgmm.figures.promises import pairs_figure
from privgmm.mixture import Mixture
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["BANDS", "BLOCK_FITS", "CLOUD", "LAYERS", "TIMES_TEN", "Drawn", "layers", "show_picture"]

BANDS, BLOCK_FITS, CLOUD, TIMES_TEN = (
    "Error bands",
    "Block fits",
    "Noise cloud",
    "Differences ×10",
)
LAYERS = (BANDS, BLOCK_FITS, CLOUD, TIMES_TEN)
_EXAGGERATION = 10.0
_HEIGHT = 470


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What there is to draw.

    Parameters
    ----------
    dataset : Dataset
    nonprivate, private : Mixture, optional
    errors : StandardErrors, optional
        Of the private one.
    ghosts : tuple of Mixture
        Releases that might have been.
    blocks : tuple of Mixture
        Fits of single blocks.
    rehearsals : tuple of Rehearsal
        What all of it comes from, if it does: that on screen, and those that are its ghosts.
    """

    dataset: Dataset
    nonprivate: Mixture | None = None
    private: Mixture | None = None
    errors: StandardErrors | None = None
    ghosts: tuple[Mixture, ...] = ()
    blocks: tuple[Mixture, ...] = ()
    rehearsals: tuple[Rehearsal, ...] = ()

    @classmethod
    def of_rehearsals(cls, rehearsals: tuple[Rehearsal, ...]) -> Drawn:
        """The first of them, and the others as its ghosts."""
        shown, *others = rehearsals
        return cls(
            loaded(shown.scene.rows),
            shown.nonprivate,
            shown.private,
            shown.errors,
            tuple(other.private for other in others if other.private is not None),
            shown.blocks,
            rehearsals,
        )


def layers() -> tuple[str, ...]:
    """What is laid over the picture now, or will be: the address comes before the first drawing."""
    if "layers" in st.session_state:
        return tuple(st.session_state["layers"] or ())
    return tuple(st.query_params.get_all("layers")) or (BANDS,)


def show_picture(drawn: Drawn) -> None:
    """Draw it, with the choice of what is laid over it below."""
    dataset = drawn.dataset
    place = st.container()
    axes = _choose_axes(dataset)
    st.pills(
        "Show also",
        LAYERS,
        selection_mode="multi",
        default=[BANDS],
        key="layers",
        bind="query-params",
        persist_state="session",
        help=f"**{BANDS}**: two standard errors around the private mixture; they may be shared.\n\n"
        f"**{BLOCK_FITS}**: what single blocks found. More blocks t means fewer rows per block, "
        "and the fits spread more widely.\n\n"
        f"**{CLOUD}**: the same rows with other noise. A smaller ε, or a larger α, widens it.\n\n"
        f"**{TIMES_TEN}**: the difference between the private and the true (or non-private) "
        "mixture, drawn ten times too large.",
    )
    with place:
        _draw(drawn, axes)
    if dataset.n_features > 2:
        _show_pairs(drawn)


def _choose_axes(dataset: Dataset) -> tuple[int, int]:
    if dataset.n_features < 3:
        return wider_across(dataset.thumbnail) if dataset.n_features == 2 else (0, 1)
    left, right = st.columns(2)
    first = left.selectbox("Across", dataset.columns, 0, key="across", bind="query-params")
    others = [name for name in dataset.columns if name != first]
    second = right.selectbox("Up", others, 0, key="up", bind="query-params")
    return (dataset.columns.index(first), dataset.columns.index(second))


def _figure(drawn: Drawn, axes: tuple[int, int], shown: tuple[str, ...]) -> go.Figure:
    dataset, private = drawn.dataset, drawn.private
    reference = drawn.nonprivate if dataset.truth is None else dataset.truth
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
        nonprivate=drawn.nonprivate,
        private=private,
        errors=drawn.errors if BANDS in shown and not stretched else None,
        ghosts=drawn.ghosts,
        blocks=drawn.blocks if BLOCK_FITS in shown else (),
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
    """The picture of rehearsals, made once for all visitors who see the same."""
    return _figure(Drawn.of_rehearsals(rehearsals), axes, shown)


def _draw(drawn: Drawn, axes: tuple[int, int]) -> None:
    dataset, shown = drawn.dataset, layers()
    figure = (
        _shared_figure(drawn.rehearsals, axes, shown)
        if drawn.rehearsals
        else _figure(drawn, axes, shown)
    )
    words = figure_alt_text(
        dataset.n_rows,
        true=dataset.truth,
        nonprivate=drawn.nonprivate,
        private=drawn.private,
        axes=axes,
        columns=dataset.columns,
    )
    if drawn.ghosts:
        words += f" {ghosts_label(len(drawn.ghosts))}, drawn faintly."
    if BLOCK_FITS in shown and drawn.blocks:
        words += f" {blocks_label(len(drawn.blocks))}, as thin ellipses."
    st.plotly_chart(
        figure, key="picture", config={"displaylogo": False, "scrollZoom": False}, alt=words
    )
    st.caption(_below(drawn, shown))


def _below(drawn: Drawn, shown: Sequence[str]) -> str:
    """What the picture is, and why something asked for is not in it."""
    words = [":material/lock: For your eyes only: the picture shows rows."]
    if drawn.dataset.n_features > 1:
        words.append("Ellipses lie at one and two standard deviations.")
    if BLOCK_FITS in shown and not drawn.blocks:
        words.append("This plan has no blocks, or they have not been fitted yet.")
    if BLOCK_FITS in shown and drawn.blocks and drawn.private is not None:
        k = drawn.blocks[0].n_components
        if k != drawn.private.n_components:
            words.append("Here blocks look for one Gaussian only: where the rows lie.")
    return " ".join(words)


def _show_pairs(drawn: Drawn) -> None:
    dataset = drawn.dataset
    st.markdown("**All pairs of columns**")
    st.plotly_chart(
        pairs_figure(
            dataset.thumbnail,
            true=dataset.truth,
            nonprivate=drawn.nonprivate,
            private=drawn.private,
            columns=dataset.columns,
        ),
        key="pairs",
        config={"displayModeBar": False},
        alt="Rows and ellipses in every pair of columns, as small pictures.",
    )
    st.caption(
        ":material/lock: Ellipses at one standard deviation"
        + ("; the first six columns." if dataset.n_features > 6 else ".")
    )
