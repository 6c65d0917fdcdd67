"""Synthetic rows: drawn from the fit, nobody's, as many as one likes."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from privgmm.dashboard.look_again.scene import Scene, draw, offer, relabelled
from privgmm.dashboard.shared.lessons import Writer, controls_panel, scene_line
from privgmm.figures.mixtures import PRIVATE, mixtures_figure

__all__ = ["WRITERS", "show_synthetic_rows", "synthetic_rows"]

SIZES = (100, 1_000, 10_000, 100_000)
WRITERS: dict[str, Writer] = {"synthetic": lambda n: f"{n:,}", "synthetic_seed": str}
_DRAWN = 4_000
_PREVIEW = 5


def synthetic_rows(scene: Scene, count: int, seed: int) -> pd.DataFrame:
    """So many rows drawn from the fit; the same seed gives the same rows."""
    return pd.DataFrame(scene.mixture.sample(count, rng=seed), columns=list(scene.columns))


def show_synthetic_rows(scene: Scene) -> None:
    """How many, their picture, a few of them, and all of them to take home."""
    with (
        controls_panel("synthetic", border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        count = st.segmented_control(
            "Rows",
            SIZES,
            default=1_000,
            required=True,
            format_func=lambda n: f"{n:,}",
            key="synthetic",
            bind="query-params",
            persist_state="session",
        )
        seed = st.number_input(
            "Seed",
            0,
            10**9,
            1,
            key="synthetic_seed",
            bind="query-params",
            persist_state="session",
            width=140,
            help="Another seed, other rows. It has nothing to do with the privacy noise.",
        )
    scene_line(f"{count:,} synthetic rows, seed {seed}.")
    rows = synthetic_rows(scene, int(count), int(seed))
    figure = mixtures_figure(
        rows.to_numpy(),
        private=scene.mixture,
        axes=scene.axes if scene.paid.n_features > 1 else (0, 1),
        columns=scene.columns,
        max_points=_DRAWN,
        height=420,
    )
    names = {PRIVATE.label: scene.label, figure.data[0].name: f"{figure.data[0].name}, synthetic"}
    draw(
        relabelled(figure, names),
        key="look_synthetic",
        alt=f"{count:,} synthetic rows, drawn from a fit of {scene.label.removeprefix('Fit: ')}.",
    )
    st.caption(
        ":material/public: Nobody's rows: they are drawn from the fit, and may be published. They "
        "know what the fit knows and no more."
    )
    offer(
        st.container(horizontal=True),
        f"{count:,} rows (CSV)",
        "privgmm-synthetic.csv",
        lambda: rows.to_csv(index=False, float_format="%.6g"),
    )
    st.dataframe(
        rows.head(_PREVIEW),
        hide_index=True,
        key="look_preview",
        column_config={name: st.column_config.NumberColumn(format="%.4g") for name in rows.columns},
    )
