"""What a sketch publishes: a value that adds up, and free looks that say what the rows are."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.data.people import ArrayPeople
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.sketch.private_sketch import PrivateSketch, Suggestion
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Work

FRAME = Frame([1.0, -2.0], [[2.0, 0.3], [0.1, 0.5]])
SHAPE = SketchShape(5, 4, 0.6)

TRUTH = Mixture(
    [0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]]
)
LEFT = 0.045
"""About what epsilon 1, delta 1e-6 leave."""


def sketch(seed: int, multiplier: float = 2.0, n: int = 1_000) -> PrivateSketch:
    """Make a sketch of constant values, for what does not depend on rows."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(SHAPE.size) + 1j * rng.standard_normal(SHAPE.size)
    stage = Sketch(SHAPE, multiplier, n, 2)
    values = np.asarray(0.3 + stage.deviations * noise, dtype=np.complex128)
    return PrivateSketch(FRAME, SHAPE.directions(FRAME), SHAPE.step, values, stage.noise, n)


def sketch_of(rows: Array, seed: int, *, frame: Frame | None = None) -> PrivateSketch:
    """Take a sketch of rows, with the noise of a release at epsilon 1."""
    source = noise_source(seed)
    n, d = rows.shape
    if frame is None:
        factor = np.linalg.cholesky(np.atleast_2d(np.cov(rows.T)) * 1.2)
        turn = random_rotation(d, rng=source)
        frame = Frame.published(rows.mean(axis=0), factor, rotation=turn)
    stage = Sketch(SketchShape.default(d), LEFT**-0.5, n, d)
    work = Work(ArrayPeople.of(rows), source)
    made: PrivateSketch = stage.prepare(work, frame).draw(source).value
    return made


@pytest.fixture(scope="module")
def seen() -> PrivateSketch:
    return sketch_of(TRUTH.sample(30_000, rng=1), 2)


# ------------------------------------------------------------------------------------ a value


def test_it_is_a_value() -> None:
    one = sketch(1)
    again = PrivateSketch.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one
    assert hash(again) == hash(one)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.size == SHAPE.size
    assert one.n_frequencies == SHAPE.n_frequencies
    assert one.n_units == one.n_rows == 1_000
    assert one.n_features == 2
    assert one != sketch(2)
    assert one != "sketch"
    assert np.array_equal(one.frequencies, SHAPE.frequencies(FRAME))
    assert np.array_equal(one.deviations, Sketch(SHAPE, 2.0, 1_000, 2).deviations)
    for name in ("values", "frequencies", "deviations", "noise", "directions"):
        assert not getattr(one, name).flags.writeable


def test_columns_have_names() -> None:
    one = sketch(1)
    assert one.columns == ("x1", "x2")
    named = one.with_columns(["height", "weight"])
    assert named.columns == ("height", "weight")
    assert named != one
    assert named.column("weight") == named.column(1) == 1
    assert PrivateSketch.from_dict(named.to_dict()) == named
    for wrong in ("age", 2, -1, True):
        with pytest.raises(InvalidInput, match="column"):
            named.column(wrong)
    for names in (["a"], ["a", "a"], ["a", 3]):
        with pytest.raises(InvalidInput, match="columns"):
            one.with_columns(names)  # type: ignore[arg-type]


def test_a_rich_mixture_goes_along_to_the_last_bit() -> None:
    inside = Mixture.from_roots(
        [0.3, 0.7], [[0.1, 0.2], [-0.3, 0.4]], [[[1 / 3, 0], [0.1, 0.7]], [[0.2, 0.1], [0, 0.3]]]
    )
    one = sketch(1)
    assert one.rich is None
    both = one.with_rich(inside)
    assert both.rich is not None
    assert dist_gmm(both.rich, FRAME.mixture_from_frame(inside)) < 1e-9
    again = PrivateSketch.from_dict(json.loads(json.dumps(both.to_dict())))
    assert again == both
    assert again.rich_in_frame is not None
    assert np.array_equal(again.rich_in_frame.cholesky, both.rich_in_frame.cholesky)  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="rich"):
        one.with_rich(Mixture([1.0], [[0.0]], [[[1.0]]]))


# ---------------------------------------------------------------------------------- averaging


def test_an_average_weighs_by_inverse_variance() -> None:
    one, two = sketch(1, 2.0), sketch(2, 5.0)
    both = one.averaged_with(two)
    share = one.deviations**-2 / (one.deviations**-2 + two.deviations**-2)
    assert np.allclose(share, 25 / 29, rtol=1e-12)
    assert np.allclose(both.values, share * one.values + (1 - share) * two.values, rtol=1e-12)
    # the variance of that very average, by the rule for sums of independent numbers
    variance = (share * one.deviations) ** 2 + ((1 - share) * two.deviations) ** 2
    assert np.allclose(both.deviations, np.sqrt(variance), rtol=1e-12)
    assert (both.deviations < np.minimum(one.deviations, two.deviations)).all()
    assert both.n_rows == 1_000
    # no other share gives less
    for other in (share - 0.01, share + 0.01):
        worse = (other * one.deviations) ** 2 + ((1 - other) * two.deviations) ** 2
        assert (worse > variance).all()


def test_two_sketches_are_one_at_both_prices() -> None:
    """Curves of Gaussian mechanisms add in 1/multiplier^2; so do the averaged variances."""
    both = sketch(1, 3.0).averaged_with(sketch(2, 4.0))
    whole = Sketch(SHAPE, (1 / 9 + 1 / 16) ** -0.5, 1_000, 2)
    assert np.allclose(both.deviations, whole.deviations, rtol=1e-9)


def test_the_order_of_averaging_does_not_matter() -> None:
    one, two, three = sketch(1), sketch(2, 5.0), sketch(3, 0.7)
    left = one.averaged_with(two).averaged_with(three)
    right = three.averaged_with(two.averaged_with(one))
    assert np.allclose(left.values, right.values, rtol=1e-12)
    assert np.allclose(left.deviations, right.deviations, rtol=1e-12)


def test_averages_have_the_stated_noise() -> None:
    residuals = np.concatenate(
        [
            (both.values - 0.3) / both.deviations
            for both in (
                sketch(2 * i, 2.0).averaged_with(sketch(2 * i + 1, 3.0)) for i in range(400)
            )
        ]
    )
    squares = np.concatenate([residuals.real, residuals.imag]) ** 2
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / squares.size)


# ------------------------------------------------------------------------------------ pooling


def test_pooled_sketches_are_that_of_all_rows() -> None:
    """Without noise the sum would be the sketch of all rows; with it, noise is what is stated."""
    rows = TRUTH.sample(3_000, rng=3)
    frame = Frame([0.8, 0.0], np.diag([4.0, 1.2]))
    parts = [rows[:1_000], rows[1_000:]]
    pooled = sketch_of(parts[0], 1, frame=frame) + sketch_of(parts[1], 2, frame=frame)
    exact = np.exp(1j * pooled.frequencies @ frame.to_frame(rows).T).mean(axis=1)
    residuals = (pooled.values - exact) / pooled.deviations
    squares = np.concatenate([residuals.real, residuals.imag]) ** 2
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / squares.size)
    assert pooled.n_rows == 3_000


def test_noise_of_pooled_sketches_adds_in_squares_of_sums() -> None:
    one, two = sketch(1, 2.0, 1_000), sketch(2, 3.0, 4_000)
    both = one + two
    assert both.n_rows == 5_000
    assert np.allclose(
        (5_000 * both.noise) ** 2, (1_000 * one.noise) ** 2 + (4_000 * two.noise) ** 2
    )
    assert np.allclose(both.values, (one.values + 4 * two.values) / 5)


def test_rich_mixtures_are_pooled_side_by_side() -> None:
    one = Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    two = Mixture([0.5, 0.5], [[1.0, 0.0], [2.0, 0.0]], [np.eye(2)] * 2)
    first, second = sketch(1, n=1_000), sketch(2, n=3_000)
    pooled = first.with_rich(one) + second.with_rich(two)
    assert pooled.rich_in_frame is not None
    assert np.allclose(pooled.rich_in_frame.weights, [0.25, 0.375, 0.375])
    assert (first.with_rich(one) + second).rich is None


def test_what_does_not_belong_together_is_kept_apart() -> None:
    one = sketch(1)
    moved = dataclasses.replace(one, frame=Frame([1.0, -2.5], FRAME.root))
    for other in (moved, dataclasses.replace(one, step=0.7)):
        with pytest.raises(InvalidInput, match="frame"):
            one + other
        with pytest.raises(InvalidInput, match="frame"):
            one.averaged_with(other)
    with pytest.raises(InvalidInput, match="same rows"):
        one.averaged_with(sketch(1, n=999))
    with pytest.raises(InvalidInput, match="columns"):
        one + one.with_columns(["a", "b"])
    with pytest.raises(TypeError):
        one + 1  # type: ignore[operator]


# --------------------------------------------------------------------------------------- fits


def test_fits_are_in_the_units_of_the_data(seen: PrivateSketch) -> None:
    found = seen.fit(2)
    assert dist_gmm(found.mixture, TRUTH) < 0.03
    assert found.explains
    assert not found.projected
    assert found.suggestion is None
    assert "explains the rows to within the noise" in found.verdict


def test_the_path_holds_the_fits_and_the_choice_is_its_best(seen: PrivateSketch) -> None:
    path = seen.path(3)
    assert [one.n_components for one in path] == [1, 2, 3]
    for one in path:
        assert np.array_equal(
            one.in_frame.parameters, seen.fit(one.n_components).in_frame.parameters
        )
    chosen = seen.choose(3)
    assert chosen.n_components == 2
    assert chosen.criterion == min(one.criterion for one in path)
    assert seen.choose(3, "tied").criterion > chosen.criterion


def test_two_people_with_one_text_get_the_same_fits(seen: PrivateSketch) -> None:
    """From the bits alone: what is kept from other questions does not matter."""
    text = json.dumps(seen.to_dict())
    reference = seen.fit(2)
    fitting_again = PrivateSketch.from_dict(json.loads(text))
    from privgmm.stages.sketch import private_sketch

    private_sketch._search_of.cache_clear()
    again = fitting_again.fit(2)
    assert again.in_frame is not reference.in_frame
    for name in ("weights", "means", "covariances"):
        assert np.array_equal(getattr(again.mixture, name), getattr(reference.mixture, name))
    assert again.misfit == reference.misfit
    assert again.standard_errors == reference.standard_errors


def test_names_and_a_rich_mixture_start_no_search_anew(seen: PrivateSketch) -> None:
    found = seen.fit(2).in_frame
    assert seen.with_columns(["height", "weight"]).fit(2).in_frame is found
    assert seen.with_rich(found.mixture).fit(2).in_frame is found


def test_too_few_components_are_said_to_be_and_are_those_of_maximum_likelihood(
    seen: PrivateSketch,
) -> None:
    """One component: the mean and the covariance of all rows, as EM would have it."""
    found = seen.fit(1)
    assert not found.explains
    assert found.suggestion == Suggestion(2, "full")
    assert found.verdict == "One component is not enough: try 2, it costs nothing."
    assert found.projected
    mean = TRUTH.weights @ TRUTH.means
    gaps = TRUTH.means - mean
    spread = TRUTH.covariances + gaps[:, :, None] * gaps[:, None, :]
    whole = Mixture([1.0], mean[None], np.einsum("k,kij->ij", TRUTH.weights, spread)[None])
    assert dist_gmm(found.mixture, whole) < 0.03


@pytest.mark.parametrize("covariance_type", ["tied", "diag", "spherical"])
def test_covariance_types_that_are_right_explain_the_rows(covariance_type: Any) -> None:
    shapes: dict[str, Any] = {
        "tied": [[[2.0, 0.9], [0.9, 1.0]]] * 2,
        "diag": [np.diag([2.0, 0.5]), np.diag([0.7, 1.5])],
        "spherical": [1.5 * np.eye(2), 0.6 * np.eye(2)],
    }
    truth = Mixture([0.35, 0.65], [[-2.5, 0.5], [2.0, 0.0]], shapes[covariance_type])
    found = sketch_of(truth.sample(20_000, rng=4), 5).fit(2, covariance_type)
    assert found.explains
    assert dist_gmm(found.mixture, truth) < 0.05
    covariances = found.mixture.covariances
    if covariance_type == "tied":
        assert np.array_equal(covariances[0], covariances[1])
    else:
        assert not covariances[:, 0, 1].any()
        assert not found.standard_errors.covariances[:, 0, 1].any()
    if covariance_type == "spherical":
        assert np.array_equal(covariances[:, 0, 0], covariances[:, 1, 1])
    free = {"tied": 2 - 1 + 4 + 3, "diag": 2 - 1 + 4 + 4, "spherical": 2 - 1 + 4 + 2}
    assert found.n_parameters == free[covariance_type]


def test_a_wrong_covariance_type_is_named(seen: PrivateSketch) -> None:
    found = seen.fit(2, "diag")
    assert not found.explains
    assert found.suggestion == Suggestion(2, "full")
    assert "diagonal covariances" in found.verdict
    assert "full covariances" in found.verdict
    # as maximum likelihood would have it: the same means and variances, without correlation
    assert (
        dist_gmm(found.mixture, Mixture(TRUTH.weights, TRUTH.means, TRUTH.covariances * np.eye(2)))
        < 0.1
    )
    with pytest.raises(InvalidInput, match="full, tied, diag, spherical"):
        seen.fit(2, "round")


def test_what_cannot_be_fitted_is_refused(seen: PrivateSketch) -> None:
    for call in (seen.fit, seen.path, seen.choose):
        with pytest.raises(InvalidInput, match="components"):
            call(0)
    with pytest.raises(InvalidInput, match="fewer components"):
        sketch(1).fit(20)
    # a choice looks only as far as the sketch can distinguish components
    assert sketch(1, 1e-3, 10**6).choose(20).n_components >= 1


# --------------------------------------------------------------------------------- as a form


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": np.full(SHAPE.size, np.nan + 0j)}, "values"),
        ({"values": np.empty(0, dtype=complex)}, "values"),
        ({"directions": np.zeros((5, 3))}, "directions"),
        ({"directions": np.zeros((4, 2))}, "values"),
        ({"noise": np.zeros(4)}, "noise"),
        ({"noise": np.ones(3)}, "values"),
        ({"step": 0.0}, "step"),
        ({"n_rows": 0}, "n_rows"),
    ],
)
def test_what_is_no_sketch_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        dataclasses.replace(sketch(1), **change)


def test_a_form_must_be_complete() -> None:
    form = sketch(1).to_dict()
    for name in form:
        with pytest.raises(InvalidInput, match=name):
            PrivateSketch.from_dict({key: value for key, value in form.items() if key != name})
    for name, wrong in [
        ("values", form["values"][:-8]),
        ("values", "not base 64!"),
        ("values", None),
        ("directions", form["directions"] + "AAAA"),
        ("noise", form["noise"][1:]),
        ("columns", "x1"),
        ("rich", 3),
    ]:
        with pytest.raises(InvalidInput):
            PrivateSketch.from_dict({**form, name: wrong})


def test_a_sketch_of_twenty_columns_is_short() -> None:
    d = 20
    frame = Frame(np.zeros(d), np.eye(d))
    rows = np.random.default_rng(0).standard_normal((100, d))
    assert len(json.dumps(sketch_of(rows, 1, frame=frame).to_dict())) < 140_000
