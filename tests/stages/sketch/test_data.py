"""What a sketch publishes: a value, and how two of them are averaged."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from privgmm.errors import InvalidInput
from privgmm.stages.sketch.data import SketchData
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.stage import Sketch

FRAME = Frame([1.0, -2.0], [[2.0, 0.3], [0.1, 0.5]])
SHAPE = SketchShape(5, 4, 0.6)


def sketch(seed: int, multiplier: float = 2.0) -> SketchData:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(SHAPE.size) + 1j * rng.standard_normal(SHAPE.size)
    deviations = Sketch(SHAPE, multiplier, 1_000, 2).deviations
    values = np.asarray(0.3 + deviations * noise, dtype=np.complex128)
    return SketchData(FRAME, SHAPE.frequencies(FRAME), values, deviations, 1_000)


def test_it_is_a_value() -> None:
    one = sketch(1)
    again = SketchData.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one
    assert hash(again) == hash(one)
    assert one.size == SHAPE.size
    assert one != sketch(2)
    assert one != "sketch"
    for name in ("values", "frequencies", "deviations"):
        assert not getattr(one, name).flags.writeable


def test_an_average_weighs_by_inverse_variance() -> None:
    one, two = sketch(1, 2.0), sketch(2, 5.0)
    both = one + two
    share = one.deviations**-2 / (one.deviations**-2 + two.deviations**-2)
    assert np.allclose(share, 25 / 29, rtol=1e-12)
    assert np.allclose(both.values, share * one.values + (1 - share) * two.values, rtol=1e-12)
    # the variance of that very average, by the rule for sums of independent numbers
    variance = (share * one.deviations) ** 2 + ((1 - share) * two.deviations) ** 2
    assert np.allclose(both.deviations, np.sqrt(variance), rtol=1e-12)
    assert (both.deviations < np.minimum(one.deviations, two.deviations)).all()
    # no other share gives less
    for other in (share - 0.01, share + 0.01):
        worse = (other * one.deviations) ** 2 + ((1 - other) * two.deviations) ** 2
        assert (worse > variance).all()


def test_two_sketches_are_one_at_both_prices() -> None:
    """Curves of Gaussian mechanisms add in 1/multiplier^2; so do the averaged variances."""
    both = sketch(1, 3.0) + sketch(2, 4.0)
    whole = Sketch(SHAPE, (1 / 9 + 1 / 16) ** -0.5, 1_000, 2)
    assert np.allclose(both.deviations, whole.deviations, rtol=1e-9)


def test_the_order_of_averaging_does_not_matter() -> None:
    one, two, three = sketch(1), sketch(2, 5.0), sketch(3, 0.7)
    left, right = (one + two) + three, three + (two + one)
    assert np.allclose(left.values, right.values, rtol=1e-12)
    assert np.allclose(left.deviations, right.deviations, rtol=1e-12)


def test_averages_have_the_stated_noise() -> None:
    size = 400
    residuals = np.concatenate(
        [
            (both.values - 0.3) / both.deviations
            for both in (sketch(2 * i, 2.0) + sketch(2 * i + 1, 3.0) for i in range(size))
        ]
    )
    squares = np.concatenate([residuals.real, residuals.imag]) ** 2
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / squares.size)


def test_what_does_not_belong_together_is_not_averaged() -> None:
    one = sketch(1)
    moved = dataclasses.replace(one, frame=Frame([1.0, -2.5], FRAME.root))
    with pytest.raises(InvalidInput, match="frame"):
        one + moved
    with pytest.raises(InvalidInput, match="frequencies"):
        one + dataclasses.replace(one, frequencies=2 * one.frequencies)
    with pytest.raises(InvalidInput, match="same rows"):
        one + dataclasses.replace(one, n_units=999)
    with pytest.raises(TypeError):
        one + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": np.full(SHAPE.size, np.nan + 0j)}, "values"),
        ({"values": np.empty(0, dtype=complex)}, "values"),
        ({"frequencies": np.zeros((SHAPE.size, 3))}, "frequencies"),
        ({"deviations": np.zeros(SHAPE.size)}, "deviations"),
        ({"deviations": np.ones(3)}, "deviations"),
        ({"n_units": 0}, "n_units"),
    ],
)
def test_what_is_no_sketch_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        dataclasses.replace(sketch(1), **change)


def test_a_form_must_be_complete() -> None:
    form = sketch(1).to_dict()
    for name in form:
        with pytest.raises(InvalidInput, match=name):
            SketchData.from_dict({key: value for key, value in form.items() if key != name})
    with pytest.raises(InvalidInput, match="imaginary"):
        SketchData.from_dict({**form, "imaginary": form["imaginary"][1:]})
