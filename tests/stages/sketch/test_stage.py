"""The stage of a sketch: its price, its noise, and what its values estimate."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from typing import Any

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from privgmm.stages.form import Form
from privgmm.stages.sketch.features import SketchShape, feature_sums
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.private_sketch import ComplexArray, PrivateSketch
from privgmm.stages.sketch.stage import PreparedSketch, Sketch, SketchView
from privgmm.stages.stage import Drawn, Work

FRAME = Frame([10.0, -3.0], [[2.0, 1.0], [-0.2, 0.7]])
STAGE = Sketch(SketchShape(6, 5, 0.6), 1.5, 400, 2)
TRUTH = Mixture(
    [0.4, 0.6], [[8.0, -3.5], [12.0, -2.5]], [[[2.0, 0.3], [0.3, 0.2]], [[0.5, 0.0], [0.0, 0.5]]]
)


def seeded(seed: int = 0) -> SeededNoise:
    return SeededNoise(np.random.default_rng(seed))


def work(rows: Array, member: IntArray | None = None, source: NoiseSource | None = None) -> Work:
    return Work(ArrayPeople.of(rows, member), source or seeded())


def prepared(stage: Sketch = STAGE, seed: int = 1) -> PreparedSketch:
    return stage.prepare(work(TRUTH.sample(stage.n_units, rng=seed)), FRAME)


@dataclasses.dataclass(frozen=True)
class FixedNoise(SeededNoise):
    """A source that draws a given number everywhere, and remembers the sigma requested."""

    generator: np.random.Generator = dataclasses.field(
        default_factory=lambda: np.random.default_rng(0)
    )
    number: int = 0
    asked: list[float] = dataclasses.field(default_factory=list)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        self.asked.append(sigma)
        return np.full(size, self.number, dtype=np.int64)


# -------------------------------------------------------------------------------------- price


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 17.0])
def test_it_costs_one_gaussian(multiplier: float) -> None:
    stage = dataclasses.replace(STAGE, multiplier=multiplier)
    assert stage.price() == Price((gaussian_curve(multiplier),), exact=True)
    # the noise is no less than that price asks for
    assert stage.sigma >= multiplier * stage.integer_sensitivity
    assert stage.sigma == pytest.approx(multiplier * stage.integer_sensitivity, rel=1e-15)


def exact(drawn: Drawn) -> Any:
    """Return the values without noise, which the curator may see."""
    assert isinstance(drawn.view, SketchView)
    return drawn.view.exact


def test_worst_losses_are_those_of_a_gaussian() -> None:
    losses = STAGE.worst_losses(40_000, rng=np.random.default_rng(0))
    rate = STAGE.multiplier**-2
    assert abs(losses.mean() - rate / 2) < 4 * math.sqrt(rate / losses.size)
    assert abs(losses.var() / rate - 1) < 4 * math.sqrt(2 / losses.size)


# -------------------------------------------------------------------------------------- noise


def test_noise_is_added_to_the_integers_once_with_the_stated_sigma() -> None:
    ready = prepared()
    quiet, loud = FixedNoise(number=0), FixedNoise(number=12_345)
    nothing, something = ready.draw(quiet), ready.draw(loud)
    assert quiet.asked == loud.asked == [STAGE.sigma]
    assert np.array_equal(nothing.value.values, exact(nothing))
    scale = STAGE.scale * STAGE.n_units * np.tile(STAGE.shape.amplitudes, 6)
    shift = something.value.values - nothing.value.values
    assert np.allclose(shift, (12_345 + 12_345j) / scale, rtol=1e-6)


@pytest.mark.parametrize("source", [seeded(3), SecureNoise()], ids=["seeded", "secure"])
def test_the_noise_has_the_stated_variance(source: NoiseSource) -> None:
    ready = prepared()
    draws = [ready.draw(source) for _ in range(60)]
    z = np.stack([(d.value.values - exact(d)) / d.value.deviations for d in draws])
    both = np.concatenate([z.real, z.imag], axis=1)
    size = both.size
    assert abs(both.mean()) < 4 / math.sqrt(size)
    assert abs((both**2).mean() - 1) < 4 * math.sqrt(2 / size)
    # tails that are those of a Gaussian, and real parts that know nothing of imaginary parts
    assert abs((both**4).mean() - 3) < 4 * math.sqrt(96 / size)
    assert abs((z.real * z.imag).mean()) < 4 / math.sqrt(z.size)
    assert abs((both[:, 1:] * both[:, :-1]).mean()) < 4 / math.sqrt(size)


def test_exact_noise_is_quick() -> None:
    """2,000 complex sums of twenty columns, at a sigma beyond 2^31."""
    stage = Sketch(SketchShape.default(20), 7.0, 10**5, 20)
    assert stage.sigma > 2**31
    begin = time.process_time()
    draws = SecureNoise().discrete_gaussian(stage.sigma, 2 * stage.shape.size)
    assert time.process_time() - begin < 5
    assert abs((draws / stage.sigma).var() - 1) < 4 * math.sqrt(2 / draws.size)


# ------------------------------------------------------------------------- what is estimated


def characteristic(mixture: Mixture, f: Array) -> ComplexArray:
    """Compute ``E exp(i f . z)`` at frequencies (..., d)."""
    value = np.zeros(f.shape[:-1], dtype=np.complex128)
    for w, mean, covariance in zip(
        mixture.weights, mixture.means, mixture.covariances, strict=True
    ):
        value += w * np.exp(1j * f @ mean - 0.5 * np.einsum("...i,ij,...j", f, covariance, f))
    return value


def sampling_covariance(mixture: Mixture, f: Array) -> Array:
    """Compute the covariance (2m, 2m) of cosines and sines of one row."""
    minus = characteristic(mixture, f[:, None] - f)
    plus = characteristic(mixture, f[:, None] + f)
    cc, ss = (minus + plus).real / 2, (minus - plus).real / 2
    cs = (plus - minus).imag / 2
    mean = characteristic(mixture, f)
    both = np.concatenate([mean.real, mean.imag])
    return np.asarray(np.block([[cc, cs], [cs.T, ss]]) - np.outer(both, both))


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("n", [2_000, 40_000])
def test_values_estimate_the_characteristic_function(n: int, persons: bool) -> None:
    """The chi-square of residuals, with sampling error and noise, is as large as it should be."""
    stage = Sketch(SketchShape(6, 5, 0.6), 4.0, n, 2)
    total, freedom = 0.0, 0
    for seed in range(5):
        rows, member = TRUTH.sample(n, rng=seed), None
        if persons:
            # each row of a person is the same: averages have the law of one row
            times = np.random.default_rng(seed).integers(1, 4, n)
            rows, member = np.repeat(rows, times, axis=0), np.repeat(np.arange(n), times)
        data = stage.prepare(work(rows, member), FRAME).draw(seeded(seed)).value
        inside = FRAME.mixture_to_frame(TRUTH)
        residual = data.values - characteristic(inside, data.frequencies)
        covariance = sampling_covariance(inside, data.frequencies) / n
        covariance += np.diag(np.tile(data.deviations**2, 2))
        r = np.concatenate([residual.real, residual.imag])
        total += float(r @ np.linalg.solve(covariance, r))
        freedom += r.size
    assert abs(total - freedom) < 4 * math.sqrt(2 * freedom)


def test_two_draws_average_to_less_noise() -> None:
    ready = prepared()
    one, two = (ready.draw(seeded(seed)).value for seed in (1, 2))
    both = one.averaged_with(two)
    assert np.allclose(both.deviations, one.deviations / math.sqrt(2), rtol=1e-12)
    assert isinstance(both, PrivateSketch)


# ------------------------------------------------------------------------------------ running


def test_preparing_sums_all_rows_without_noise() -> None:
    rows = TRUTH.sample(400, rng=1)
    ready = STAGE.prepare(work(rows), FRAME)
    want = feature_sums(ArrayPeople.of(rows), FRAME, STAGE.shape, scale=STAGE.scale)
    assert np.array_equal(ready.sums, want)
    drawn = ready.draw(seeded())
    assert isinstance(drawn.view, SketchView)
    assert drawn.value.frame == FRAME
    assert drawn.value.n_units == 400
    assert np.array_equal(drawn.value.frequencies, STAGE.shape.frequencies(FRAME))
    assert ready.draw(seeded()).value == drawn.value
    assert ready.draw(seeded(1)).value != drawn.value


def test_wild_rows_do_no_harm() -> None:
    rows = TRUTH.sample(400, rng=1)
    rows[:4] = [[1e300, -1e300], [1.7e308, 1.7e308], [-1.7e308, 0.0], [0.0, 1e18]]
    drawn = STAGE.prepare(work(rows), FRAME).draw(seeded())
    assert np.isfinite(drawn.value.values).all()
    clean = prepared().draw(seeded())
    moved = STAGE.integer_sensitivity / STAGE.scale / STAGE.n_units
    weighed = (exact(drawn) - exact(clean)) * np.tile(STAGE.shape.amplitudes, 6)
    assert np.linalg.norm(weighed) <= 4 * moved


def test_the_number_of_rows_and_columns_is_part_of_the_plan() -> None:
    rows = TRUTH.sample(399, rng=1)
    with pytest.raises(InvalidInput, match="400 rows or persons, got 399"):
        STAGE.prepare(work(rows), FRAME)
    member = np.repeat(np.arange(200), 2)
    with pytest.raises(InvalidInput, match="got 200"):
        STAGE.prepare(work(TRUTH.sample(400, rng=1), member), FRAME)
    with pytest.raises(InvalidInput, match="columns"):
        STAGE.prepare(work(np.zeros((400, 3))), FRAME)
    with pytest.raises(InvalidInput, match="columns"):
        STAGE.prepare(work(np.zeros((400, 2))), Frame([0.0], [[1.0]]))


# ---------------------------------------------------------------------------- words and forms


def test_it_is_read_back_from_plain_numbers() -> None:
    form = json.loads(json.dumps(STAGE.to_dict()))
    assert list(form) == ["sketch"]
    assert Sketch.from_form(Form(form["sketch"], "plan.sketch")) == STAGE
    for name in form["sketch"]:
        left = {key: value for key, value in form["sketch"].items() if key != name}
        with pytest.raises(InvalidInput, match=name):
            Sketch.from_form(Form(left, "plan.sketch"))


@pytest.mark.parametrize("name", ["scale", "sensitivity"])
def test_a_form_that_contradicts_itself_is_refused(name: str) -> None:
    form = STAGE.to_dict()["sketch"]
    with pytest.raises(InvalidInput, match=name):
        Sketch.from_form(Form({**form, name: form[name] // 2}, "plan.sketch"))


def test_words() -> None:
    assert all(sentence.endswith(".") for sentence in STAGE.sentences())
    assert "30 waves" in STAGE.sentences()[0]
    assert STAGE.n_blocks is None
    assert STAGE.least_units() == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"multiplier": 0.0}, "multiplier"),
        ({"multiplier": 1e6}, "multiplier"),
        ({"n_units": 0}, "n_units"),
        ({"n_units": 2**44}, "n_units"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 7}, "directions"),
        ({"n_features": 1}, "directions"),
    ],
)
def test_what_is_no_stage_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        dataclasses.replace(STAGE, **change)
