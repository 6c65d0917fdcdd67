"""How columns are recorded: single values, grids, and putting both back into drawn rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.recorded import (
    STEPS,
    Atom,
    as_recorded,
    atoms_from_dicts,
    coarsest_step,
    step_found,
    value_codes,
)

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_equal_values_alone_have_one_code(one: float, two: float) -> None:
    codes = value_codes(np.array([one, two]))
    assert (codes[0] == codes[1]) == (one == two)
    assert codes.view(np.float64).tolist() == [one, two]


@given(st.integers(-(10**6), 10**6), st.sampled_from(STEPS))
def test_decimals_lie_on_their_grid_and_all_coarser_ones_are_tried_first(
    times: int, step: float
) -> None:
    # as a file would give it: read from decimal digits
    value = float(f"{times * step:.3f}")
    place = int(coarsest_step(np.array([value]))[0])
    if value == 0:
        assert place == len(STEPS) + 1
    else:
        assert place <= STEPS.index(step)
        on = round(value / STEPS[place]) * STEPS[place]
        assert math.isclose(on, value, rel_tol=1e-12)


def test_numbers_in_general_lie_on_no_grid() -> None:
    rows = np.random.default_rng(0).standard_normal(10_000)
    assert (coarsest_step(rows) == len(STEPS)).all()
    assert coarsest_step(np.array([math.pi, 0.0, -0.0])).tolist() == [
        len(STEPS),
        len(STEPS) + 1,
        len(STEPS) + 1,
    ]


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.arange(1, 5001), 1.0),
        (np.arange(1, 5001) / 10, 0.1),
        (np.arange(1, 5001) * 100, 1.0),
        (np.concatenate([np.zeros(2800), np.arange(1, 2201)]), 1.0),
        (np.concatenate([np.zeros(4600), np.arange(1, 401)]), None),
        (np.random.default_rng(0).standard_normal(5000), None),
        (np.zeros(5000), None),
    ],
)
def test_a_grid_is_read_off_noisy_counts(values: np.ndarray, step: float | None) -> None:
    counts = np.bincount(coarsest_step(values.astype(float)), minlength=len(STEPS) + 2)
    rng = np.random.default_rng(1)
    for _ in range(50):
        noisy = counts + np.rint(rng.normal(0, 100, counts.size)).astype(np.int64)
        assert step_found(noisy, 100.0) == step


def test_an_atom_speaks() -> None:
    atom = Atom(1, 0.0, 0.917)
    assert str(atom.named(["age", "gain"])) == "92 % of rows have gain = 0"
    assert atoms_from_dicts([atom.named(["age", "gain"]).to_dict()])[0].column == "gain"
    for value, share in ((math.nan, 0.5), (0.0, 0.0), (0.0, 1.5)):
        with pytest.raises(InvalidInput):
            Atom(0, value, share)


@pytest.mark.parametrize("wide", [False, True])
def test_drawn_rows_have_each_value_as_often_as_it_was_found(wide: bool) -> None:
    """Whether the mixture has a narrow component there, or one that covers several values."""
    mixture = Mixture([1.0], [[10.0]], [[[9.0]]])
    if not wide:
        mixture = Mixture([0.5, 0.5], [[9.0], [30.0]], [[[1e-4]], [[50.0]]])
    atoms = [Atom(0, 9.0, 0.3), Atom(0, 10.0, 0.2), Atom(0, 13.0, 0.15)] if wide else []
    atoms = atoms or [Atom(0, 9.0, 0.48), Atom(0, 40.0, 0.06)]
    rows = as_recorded(mixture.sample(100_000, rng=0), mixture, atoms, (1.0,))
    assert (rows == np.rint(rows)).all()
    for atom in atoms:
        share = float((rows == atom.value).mean())
        # rows that are rounded to the value come on top
        assert atom.share - 0.01 <= share <= atom.share + 0.13


def test_without_a_grid_shares_are_as_found() -> None:
    mixture = Mixture([1.0], [[10.0]], [[[9.0]]])
    atoms = [Atom("x1", 9.0, 0.3), Atom("x1", 10.0, 0.2), Atom("x1", 13.0, 0.15)]
    rows = as_recorded(mixture.sample(100_000, rng=0), mixture, atoms, ())
    for atom in atoms:
        assert float((rows == atom.value).mean()) == pytest.approx(atom.share, abs=0.01)


@pytest.mark.parametrize("step", STEPS)
def test_decimals_come_out_as_a_file_has_them(step: float) -> None:
    mixture = Mixture([1.0], [[0.0]], [[[1e6]]])
    rows = as_recorded(mixture.sample(1000, rng=0), mixture, (), (step,))
    assert all(value == float(f"{value:.2f}") for value in rows[:, 0].tolist())
    assert (coarsest_step(rows[:, 0][rows[:, 0] != 0]) <= STEPS.index(step)).all()
