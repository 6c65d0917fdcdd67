"""Densities computed from the sketch: a picture of two columns, a curve of one, their noise."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.look_again.looks import density_curve_of, density_image_of
from privgmm.dashboard.look_again.scene import LookScene, draw, offer, relabelled
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.dashboard.shared.refresh import rerun_when_ready, wait_briefly
from privgmm.figures.picture import curve_figure, image_figure, image_words, rows_figure
from privgmm.stages.sketch.picture import DensityCurve, DensityImage
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.teaching.background import is_known
from privgmm.teaching.format import escaped, number_in_words

__all__ = ["show_one_column", "show_two_columns"]

_SECONDS = 0.6
"""How long the page waits for a density: on a quiet machine it takes less."""


def show_two_columns(scene: LookScene, sketch: PrivateSketch) -> None:
    """Show the publishable picture of two columns."""
    answer = density_image_of(sketch, scene.axes)
    wait_briefly([answer], _SECONDS)
    if not is_known(answer):
        st.info("Drawing the density…", icon=":material/hourglass_top:")
        rerun_when_ready([answer])
        return
    image = answer.result()
    overlay = st.toggle(
        "Draw the fit over it",
        key="look_overlay",
        **LINKED,
        help="Ellipses at one and two standard deviations, and where each mean lies",
    )
    dark = st.context.theme.type == "dark"
    figure = image_figure(
        image,
        mixture=scene.mixture if overlay else None,
        errors=scene.look.errors if overlay else None,
        axes=scene.axes,
        height=460,
        dark=dark,
    )
    public, curators = st.container(), None
    if scene.with_rows:
        public, curators = st.container(key="beside").columns(2)
        # the rows are shaded alike, so one scale would do, and there is no room for two
        figure.update_traces(showscale=False, selector={"type": "heatmap"})
        public.markdown(":green-background[:material/public: **May be published**]")
    with public:
        draw(relabelled(figure, {"mixture": scene.label}), key="look_image", alt=image_words(image))
    if curators is not None and scene.rows is not None:
        with curators:
            st.markdown(":red-background[:material/lock: **Confidential: the rows**]")
            draw(
                rows_figure(scene.rows, image, axes=scene.axes, height=460, dark=dark),
                key="look_rows_image",
                alt=f"Histogram of the real rows, {image.columns[0]} across and "
                f"{image.columns[1]} up. Confidential.",
            )
    _who_may_see(scene, f"{escaped(image.columns[0])} and {escaped(image.columns[1])}")
    _trust(image)
    offer(
        st.container(horizontal=True),
        "Picture (HTML)",
        "privgmm-density.html",
        lambda: str(image_figure(image).to_html()),
    )


def _trust(image: DensityImage) -> None:
    """Say how large the noise is."""
    across, up = (number_in_words(one, 2) for one in image.resolution)
    names = [escaped(name) for name in image.columns]
    st.markdown(
        f"**How far to trust it.** Noise and sampling misplace about "
        f"**{number_in_words(100 * image.expected_variation, 2)}%** of the rows. The sketch does "
        f"not see details narrower than {across} in {names[0]} or {up} in {names[1]} (the small "
        "cross): those are the fitted mixture's. "
        + (
            ""
            if image.plane_seen
            else "Each of the two columns was looked at by itself; how they go together is taken "
            "from the fitted mixture."
        )
    )


def show_one_column(scene: LookScene, sketch: PrivateSketch) -> None:
    """Show the density of any column, with its band."""
    column = 0
    if scene.paid.n_features > 1:
        name = st.selectbox("Column", scene.columns, key="look_column", **LINKED, width=260)
        column = scene.columns.index(name)
    answer = density_curve_of(sketch, column)
    wait_briefly([answer], _SECONDS)
    if not is_known(answer):
        st.info("Drawing the density…", icon=":material/hourglass_top:")
        rerun_when_ready([answer])
        return
    curve = answer.result()
    figure = curve_figure(curve, mixture=scene.mixture, axis=column, rows=scene.rows, height=420)
    names = {"density of the mixture": scene.label}
    draw(relabelled(figure, names), key="look_curve", alt=_curve_words(curve))
    _who_may_see(scene, escaped(curve.column))
    st.markdown(
        "**How far to trust it.** Noise and sampling misplace about "
        f"**{number_in_words(100 * curve.expected_variation, 2)}%** of the rows; the band is two "
        "standard errors. The sketch does not see details narrower than "
        f"{number_in_words(curve.resolution, 2)}: those are the fitted mixture's."
    )
    offer(
        st.container(horizontal=True),
        "Picture (HTML)",
        "privgmm-column.html",
        lambda: str(
            relabelled(curve_figure(curve, mixture=scene.mixture, axis=column), names).to_html()
        ),
    )


def _curve_words(curve: DensityCurve) -> str:
    peak = int(curve.densities.argmax())
    return (
        f"Density of {curve.column}, highest at {curve.grid[peak]:.3g}, with a band of two "
        "standard errors."
    )


def _who_may_see(scene: LookScene, what: str) -> None:
    if scene.with_rows:
        st.markdown(
            ":red-background[:material/lock: **Confidential**] Grey is counted from the real rows, "
            "for the curator alone. Orange may be published, and is all that the button gives."
        )
    else:
        st.caption(f":material/public: The density of {what} may be published.")
