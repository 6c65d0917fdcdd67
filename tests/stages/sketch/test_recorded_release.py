"""A release of columns with heaps and whole numbers: what it names, draws, states and keeps."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pandas as pd
import pytest

from privgmm import Release, read_receipt, release, verify_receipt
from privgmm.records import make_receipt
from privgmm.records.receipt import receipt_text
from privgmm.stages.recorded import Atom

N = 12_000


@functools.cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(N) < 0.8, 0.0, np.rint(np.exp(rng.normal(8, 0.7, N))))
    hours = np.where(rng.random(N) < 0.4, 40.0, np.rint(rng.normal(38, 12, N)))
    return pd.DataFrame({"gain": gain, "hours": hours, "height": rng.normal(170, 9, N)})


@functools.cache
def released() -> Release:
    result = release(table(), epsilon=1.0, n_components=3, rng=1).result
    assert isinstance(result, Release)
    return result


def test_atoms_are_named_with_their_shares() -> None:
    found = {(atom.column, atom.value): atom.share for atom in released().atoms}
    assert set(found) == {("gain", 0.0), ("hours", 40.0)}
    for (column, value), share in found.items():
        assert share == pytest.approx((table()[column] == value).mean(), abs=0.02)
    assert released().steps == (1.0, 1.0, None)
    said = repr(released())
    assert "80 % of rows have gain = 0." in said
    assert "Nearly all values of hours are whole numbers." in said


def test_synthetic_rows_have_the_values_themselves() -> None:
    drawn = released().sample(20_000, rng=2)
    assert drawn.dtypes.astype(str).to_dict() == {
        "gain": "int64",
        "hours": "int64",
        "height": "float64",
    }
    for atom in released().atoms:
        assert (drawn[atom.column] == atom.value).mean() == pytest.approx(atom.share, abs=0.04)


def test_a_receipt_keeps_them() -> None:
    receipt = make_receipt(released())
    text = receipt_text(receipt)
    assert verify_receipt(text).intact
    back = read_receipt(text)
    assert isinstance(back, Release)
    assert (back.atoms, back.steps) == (released().atoms, released().steps)
    assert all(isinstance(atom, Atom) for atom in back.atoms)
    for change in (
        {"atoms": [{"column": "age", "value": 0.0, "share": 0.5}]},
        {"steps": [1.0]},
    ):
        broken = copy.deepcopy(receipt) | change
        assert not verify_receipt(receipt_text(broken)).intact


def test_persons_and_files_have_the_same_atoms(tmp_path: object) -> None:
    path = f"{tmp_path}/people.parquet"
    table().to_parquet(path)
    result = release(path, epsilon=1.0, n_components=3, rng=1).result
    assert isinstance(result, Release)
    assert result.atoms == released().atoms
    assert result.to_dict() == released().to_dict()


def test_components_on_a_value_are_shown_as_that_value() -> None:
    found = released()
    on_zero = [j for (j, column), value in found.single_values.items() if (column, value) == (0, 0)]
    # four in five rows have it
    assert found.mixture.weights[on_zero].sum() == pytest.approx(0.8, abs=0.05)
    assert "gain    = 0, a value of many rows" in repr(found)
    shown = found.summary()["single value"]
    assert np.isfinite(shown).sum() == len(found.single_values)
    # no smooth column has any
    assert all(column != 2 for _, column in found.single_values)


def test_no_distance_to_a_truth_is_stated_for_a_single_value() -> None:
    assert released().floored
    assert released().expected_error is None
    assert not released().usefulness().is_useful


def test_a_receipt_with_other_names_has_them_everywhere() -> None:
    receipt = make_receipt(released(), columns=["a", "b", "c"])
    assert verify_receipt(receipt_text(receipt)).intact
    assert {one["column"] for one in receipt["atoms"]} == {"a", "b"}
    assert [one["column"] for one in receipt["ranges"]] == ["a", "b", "c"]
