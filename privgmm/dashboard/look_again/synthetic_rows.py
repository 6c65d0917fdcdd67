"""Synthetic rows, drawn from the fit: they belong to no one, and any number may be drawn."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from privgmm.dashboard.look_again.scene import LookScene, draw, offer, relabelled
from privgmm.dashboard.shared.lessons import LINKED, Writer, controls_panel, scene_line
from privgmm.data.spreadsheets import frame_csv
from privgmm.figures.mixtures import PRIVATE, mixtures_figure

__all__ = ["SYNTHETIC_WRITERS", "show_synthetic_rows", "synthetic_rows"]

SYNTHETIC_COUNTS = (100, 1_000, 10_000, 100_000)
"""Numbers of rows that are offered."""
SYNTHETIC_WRITERS: dict[str, Writer] = {"synthetic": lambda n: f"{n:,}", "synthetic_seed": str}
_DRAWN = 4_000
"""Rows in the picture: more only cover each other."""
_PREVIEW = 5
"""Rows in the table, by convention as `head` shows."""


def synthetic_rows(scene: LookScene, count: int, seed: int) -> pd.DataFrame:
    """Draw rows from the fit; the same seed gives the same rows."""
    return pd.DataFrame(scene.mixture.sample(count, rng=seed), columns=list(scene.columns))


def show_synthetic_rows(scene: LookScene) -> None:
    """Show how many, their picture, a few of them, and a download."""
    with (
        controls_panel("synthetic", border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        count = st.segmented_control(
            "Rows",
            SYNTHETIC_COUNTS,
            default=1_000,
            required=True,
            format_func=lambda n: f"{n:,}",
            key="synthetic",
            **LINKED,
        )
        seed = st.number_input(
            "Seed",
            0,
            10**9,
            1,
            key="synthetic_seed",
            **LINKED,
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
        ":material/public: These rows are drawn from the fit, belong to no one and may be "
        "published. They contain what the fit contains and no more."
    )
    offer(
        st.container(horizontal=True),
        f"{count:,} rows (CSV)",
        "privgmm-synthetic.csv",
        lambda: frame_csv(rows, float_format="%.6g"),
    )
    st.dataframe(
        rows.head(_PREVIEW),
        hide_index=True,
        key="look_preview",
        column_config={name: st.column_config.NumberColumn(format="%.4g") for name in rows.columns},
    )
