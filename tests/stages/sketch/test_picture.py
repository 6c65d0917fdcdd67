"""Pictures from a sketch: the density where the fit is right, what is missing where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.fitting import refit
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.picture import (
    Base,
    DensityCurve,
    DensityImage,
    Waves,
    curve_of,
    image_of,
    span_of,
)
from privgmm.stages.sketch.private_sketch import PrivateSketch
from tests.stages.sketch.test_private_sketch import TRUTH, sketch_of

N = 100_000
THREE = Mixture(
    [0.4, 0.6],
    [[-2.0, 0.0, 1.0], [2.0, 0.5, 0.0]],
    [[[1.0, 0.3, 0.0], [0.3, 0.6, 0.1], [0.0, 0.1, 1.0]], np.diag([0.5, 1.0, 0.7]).tolist()],
)


def moments(mixture: Mixture) -> tuple[Array, Array]:
    mean = mixture.weights @ mixture.means
    gaps = mixture.means - mean
    spread = mixture.covariances + gaps[:, :, None] * gaps[:, None, :]
    return mean, np.einsum("k,kij->ij", mixture.weights, spread)


def waves_of(truth: Mixture, noise: float, *, seed: int = 0) -> Waves:
    """Make the exact waves of a mixture with white noise: no rows, no sampling."""
    mean, spread = moments(truth)
    frame = Frame(mean, np.linalg.cholesky(spread))
    shape = SketchShape.default(truth.n_features)
    frequencies = shape.frequencies(frame)
    inside = frame.mixture_to_frame(truth)
    square = np.einsum("mi,kij,mj->mk", frequencies, inside.covariances, frequencies)
    values = np.exp(1j * frequencies @ inside.means.T - square / 2) @ inside.weights
    rng = np.random.default_rng(seed)
    values = values + noise * (
        rng.standard_normal(values.size) + 1j * rng.standard_normal(values.size)
    )
    return Waves(
        frame,
        shape.directions(frame),
        shape.step,
        values.reshape(shape.n_directions, shape.n_frequencies),
        np.full(shape.n_frequencies, noise),
        10**9,
    )


def base_of(waves: Waves, mixture: Mixture, *, explains: bool = True) -> Base:
    """Make a base of a mixture in data units that is known exactly."""
    inside = waves.frame.mixture_to_frame(mixture)
    d = inside.n_features
    size = inside.n_components * (1 + d + d * (d + 1) // 2)
    return Base(inside, np.zeros((size, size)), explains)


def one_gaussian(truth: Mixture) -> Mixture:
    mean, spread = moments(truth)
    return Mixture([1.0], mean[None], spread[None])


def image(waves: Waves, base: Base, columns: tuple[int, int] = (0, 1)) -> DensityImage:
    x, y = (np.linspace(*span_of(waves, base, column), 60) for column in columns)
    return image_of(waves, base, columns, ("a", "b"), x, y)


def curve(waves: Waves, base: Base, column: int = 0) -> DensityCurve:
    return curve_of(waves, base, column, "a", np.linspace(*span_of(waves, base, column), 300))


def variation(found: DensityImage | DensityCurve, truth: Mixture) -> float:
    """Compute the total variation distance to a mixture of the picture's columns."""
    if isinstance(found, DensityCurve):
        exact = truth.density(found.grid[:, None])
        return float(0.5 * np.trapezoid(np.abs(found.densities - exact), found.grid))
    places = np.stack(np.meshgrid(found.x, found.y), axis=2).reshape(-1, 2)
    exact = truth.density(places).reshape(found.densities.shape)
    gaps = np.abs(found.densities - exact)
    return float(0.5 * np.trapezoid(np.trapezoid(gaps, found.x, axis=1), found.y))


@pytest.mark.parametrize("truth", [TRUTH, THREE], ids=["two columns", "three"])
def test_a_right_mixture_is_shown_as_it_is(truth: Mixture) -> None:
    """Noise that fits the noise level leaves no trace in the picture: no ringing."""
    waves = waves_of(truth, 0.02)
    base = base_of(waves, truth)
    pictured = image(waves, base, (0, 1))
    assert pictured.plane_seen == (truth.n_features == 2)
    assert variation(pictured, truth.marginal([0, 1])) < 0.02
    for column in range(truth.n_features):
        assert variation(curve(waves, base, column), truth.marginal([column])) < 0.01


def test_what_a_wrong_mixture_misses_is_shown() -> None:
    """Starting from one Gaussian: two clusters appear, though the mixture knows of none."""
    waves = waves_of(TRUTH, 0.001)
    one = one_gaussian(TRUTH)
    base = base_of(waves, one, explains=False)
    pictured = image(waves, base)
    assert variation(pictured, one) > 0.3
    assert variation(pictured, TRUTH) < 0.05
    assert variation(curve(waves, base), TRUTH.marginal([0])) < 0.03
    assert (pictured.densities >= 0).all()


def test_loud_noise_leaves_the_mixture() -> None:
    waves = waves_of(TRUTH, 5.0)
    base = base_of(waves, TRUTH)
    assert variation(image(waves, base), TRUTH) < 1e-3


def test_in_many_columns_a_picture_has_the_densities_of_its_columns() -> None:
    waves = waves_of(THREE, 0.001)
    base = base_of(waves, one_gaussian(THREE), explains=False)
    pictured = image(waves, base, (0, 1))
    assert not pictured.plane_seen
    for axis, column, grid in ((0, 0, pictured.x), (1, 1, pictured.y)):
        other = (pictured.y, pictured.x)[axis]
        seen = np.trapezoid(pictured.densities, other, axis=axis)
        wanted = curve_of(waves, base, column, "a", grid).densities
        assert np.trapezoid(np.abs(seen - wanted), grid) < 0.02


def test_the_plane_may_be_looked_at_from_either_side() -> None:
    waves = waves_of(THREE, 0.001)
    base = base_of(waves, one_gaussian(THREE), explains=False)
    here, there = image(waves, base, (0, 2)), image(waves, base, (2, 0))
    assert here.densities == pytest.approx(there.densities.T, abs=0.02 * here.densities.max())


def test_units_go_through() -> None:
    """A column in thousandths: densities a thousandth as large, and nothing else."""
    waves = waves_of(TRUTH, 0.01)
    base = base_of(waves, one_gaussian(TRUTH), explains=False)
    scale = np.diag([1024.0, 1.0])
    frame = Frame(scale @ waves.frame.centre, scale @ waves.frame.root)
    turned = waves._replace(frame=frame)
    here, there = image(waves, base), image(turned, base)
    assert there.x == pytest.approx(1024 * here.x)
    assert 1024 * there.densities == pytest.approx(here.densities)
    assert 1024 * there.deviations == pytest.approx(here.deviations)
    assert there.resolution[0] == pytest.approx(1024 * here.resolution[0])


def test_errors_are_those_of_fits_that_scatter() -> None:
    """Fits to sketches of new rows and new noise, against the standard errors that each states."""
    scaled = []
    start = None
    grid = np.linspace(-7.0, 7.0, 15)
    exact = TRUTH.marginal([0]).density(grid[:, None])
    for seed in range(12):
        frame = Frame([0.8, 0.0], np.diag([4.2, 1.2]))
        sketch = sketch_of(TRUTH.sample(4_000, rng=seed), seed, frame=frame)
        start = sketch.fit(2).in_frame if start is None else start
        found = refit(sketch, start)
        base = Base(found.mixture, found.compute_local_covariance(), True)
        seen = curve_of(sketch._waves, base, 0, "a", grid)
        scaled.append((seen.densities - exact) / seen.deviations)
    squares = np.stack(scaled) ** 2
    # neighbours on the grid go together: some four of them are free
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / (12 * 4))


def test_pictures_by_name_and_where_rows_are() -> None:
    sketch = sketch_of(TRUTH.sample(20_000, rng=1), 2).with_columns(["left", "right"])
    pictured = sketch.image(("right", "left"), (20, 30))
    assert pictured.columns == ("right", "left")
    assert pictured.densities.shape == pictured.deviations.shape == (20, 30)
    assert pictured.x[0] < -2 < 2 < pictured.x[-1]
    assert pictured.y[0] < -7 < 6 < pictured.y[-1]
    whole = np.trapezoid(np.trapezoid(pictured.densities, pictured.x, axis=1), pictured.y)
    assert whole == pytest.approx(1.0, abs=0.02)
    near = sketch.image(window=((0.0, 1.0), (2.0, 3.0)))
    assert (near.x[0], near.x[-1], near.y[0], near.y[-1]) == (0.0, 1.0, 2.0, 3.0)
    grid = np.array([-4.0, 0.0, 4.0])
    assert np.array_equal(sketch.marginal("left", grid), sketch.curve(0, grid).densities)
    assert sketch.marginal("left", grid) == pytest.approx(
        TRUTH.marginal([0]).density(grid[:, None]), abs=0.01
    )
    assert 0 < sketch.curve("left").expected_variation < 0.02
    assert not pictured.densities.flags.writeable


def test_what_cannot_be_pictured_is_refused() -> None:
    sketch = sketch_of(TRUTH.sample(5_000, rng=1), 2)
    for columns in ((0,), (0, 0), (0, 5), ("x1", "x3"), (0, 1, 1)):
        with pytest.raises(InvalidInput, match="column"):
            sketch.image(columns)
    for shape in ((1, 5), (5, 5, 5)):
        with pytest.raises(InvalidInput, match="shape"):
            sketch.image(shape=shape)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="window"):
        sketch.image(window=((0.0, np.inf), (0.0, 1.0)))
    with pytest.raises(InvalidInput, match="grid"):
        sketch.curve(0, [[1.0]])


def test_rows_that_are_no_mixture_are_said_not_to_be_and_pictured() -> None:
    """Whole numbers: no mixture explains them, and the verdict says how far pictures go."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 6, 60_000).astype(float)[:, None]
    sketch = sketch_of(rows, 2)
    assert isinstance(sketch, PrivateSketch)
    found = sketch.fit(2)
    assert not found.explains
    if found.suggestion is None:
        assert "not a Gaussian mixture" in found.verdict
        assert "in total variation" in found.verdict
