"""Bad input: a clear error, no noise drawn, nothing spent. Odd input: an answer, no crash."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest

from privgmm.arrays import Array
from privgmm.data.rows import row_source
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.privacy.noise import SeededNoise
from privgmm.releases import Refusal, release
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.plans import refined


def make_plan(**change: Any) -> Plan:
    usual: dict[str, Any] = {
        "epsilon": 4.0,
        "delta": 1e-6,
        "alpha": 1.0,
        "n_components": 2,
        "n_features": 2,
        "n_blocks": 100,
    }
    return calibrate("lifted", **{**usual, **change})


PLAN = make_plan()
REFINED = refined(PLAN, Refinement((10.0,), (5.0,)))


def good(n: int = 3_000) -> Array:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) + 30.0 * rng.integers(0, 2, n)[:, None]


@dataclasses.dataclass(frozen=True)
class NoDraws(SeededNoise):
    """Fail on any draw of noise."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("noise was drawn")

    normal = laplace = discrete_gaussian = permutation = _refuse  # type: ignore[assignment]


def with_cell(value: Any) -> Array:
    rows = good()
    rows[1_234, 1] = value
    return rows


def strings() -> Any:
    return [*good().astype(str).tolist()[:-1], ["1.0", "blue"]]


RAGGED: list[Any] = [[1.0, 2.0]] * 2_999 + [[1.0]]

DATA: list[tuple[str, Any, str]] = [
    ("NaN", with_cell(np.nan), r"1 of 3000 rows hold NaN .*row 1234"),
    ("infinity", with_cell(np.inf), "finite"),
    ("words", strings(), "numbers only"),
    ("objects", np.full((3_000, 2), object(), dtype=object), "numbers only"),
    ("missing values", np.full((3_000, 2), None, dtype=object), "finite|numbers only"),
    ("complex numbers", good() + 0j, "numbers only"),
    ("ragged rows", RAGGED, "numbers"),
    (
        "a column with a word",
        pd.DataFrame({"u": good()[:, 0], "v": ["x", *[1.0] * 2_999]}),
        "column 'v' must hold numbers only",
    ),
    ("one row", good(1), "1 rows in 100 blocks"),
    ("no rows", np.empty((0, 2)), "0 rows in 100 blocks"),
    ("five rows per block for two components", good(599), "at least 6"),
    ("a vector", good()[:, 0], r"table .* shape \(3000,\)"),
    ("a number", 3.0, "table"),
    ("three axes", good()[None], "table"),
    ("too many columns", np.column_stack([good(), good()]), "4 columns, the plan is for 2"),
    ("no columns", np.empty((3_000, 0)), "0 columns"),
]


@pytest.mark.parametrize(("data", "words"), [case[1:] for case in DATA], ids=[c[0] for c in DATA])
def test_bad_data_is_an_error_that_costs_nothing(data: Any, words: str) -> None:
    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match=words):
        release(data, PLAN, rng=NoDraws(np.random.default_rng(0)), ledger=ledger)
    assert ledger.entries == ()


ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("a learner of another k", {"learner": EM(3)}, "learner fits 3 components, the plan 2"),
    ("a learner's class", {"learner": EM}, r"the class EM: write EM\(2\)"),
    ("no plan", {"plan": None}, "epsilon must be given where there is no plan"),
    ("a plan's words", {"plan": "lifted"}, "plan must be a Plan, got 'lifted'"),
    ("a negative seed", {"rng": -1}, "rng"),
    ("a seed in words", {"rng": "seven"}, "rng"),
    ("too few persons named", {"groups": np.arange(10)}, "groups"),
    ("a table of persons", {"groups": np.zeros((3_000, 2))}, "groups"),
    ("too few persons", {"groups": np.arange(3_000) % 500}, "500 persons in 100 blocks"),
]


@pytest.mark.parametrize(
    ("arguments", "words"), [case[1:] for case in ARGUMENTS], ids=[c[0] for c in ARGUMENTS]
)
def test_bad_arguments_are_errors_that_cost_nothing(arguments: dict[str, Any], words: str) -> None:
    ledger = MemoryLedger()
    source = NoDraws(np.random.default_rng(0))
    with pytest.raises(InvalidInput, match=words):
        release(good(), **{"plan": PLAN, "rng": source, **arguments}, ledger=ledger)
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1.5}, "delta"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": math.inf}, "alpha"),
        ({"beta": 1}, "beta"),
        ({"n_blocks": 3}, "n_blocks"),
        ({"n_blocks": 100.0}, "n_blocks"),
        ({"n_blocks": 10**9}, "n_blocks must be at most 100,000"),
        ({"n_components": 0}, "n_components"),
        ({"n_features": -2}, "n_features"),
    ],
)
def test_a_plan_out_of_range_names_its_argument(change: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        make_plan(**change)


def outliers(size: float) -> Array:
    rows = good()
    rows[::500] = size * np.array([1.0, -1.0])
    return rows


def few_values() -> Array:
    """Make two distinct points, each a thousand times: no covariance anywhere."""
    return np.repeat([[0.0, 0.0], [5.0, 1.0]], 1_500, axis=0)


ODD: list[tuple[str, Any]] = [
    ("outliers of 1e12", outliers(1e12)),
    ("outliers of 1e150", outliers(1e150)),
    ("outliers of 1e308", outliers(1e308)),
    ("tiny numbers", 1e-200 * good()),
    ("two distinct rows", few_values()),
    ("one column constant", good() * [1.0, 0.0] + [0.0, 5.0]),
    ("all rows equal", np.full((3_000, 2), 7.0)),
    ("whole numbers", np.round(good()).astype(np.int32)),
    ("truth values", good() > 15),
    ("single precision", good().astype(np.float32)),
    ("columns on a line", np.repeat(good()[:, :1], 2, axis=1)),
    ("numbers kept as objects", good().astype(object)),
    ("column-major order", np.asfortranarray(good())),
    ("lists", good().tolist()),
]


@pytest.mark.parametrize("data", [case[1] for case in ODD], ids=[c[0] for c in ODD])
@pytest.mark.parametrize("plan", [PLAN, REFINED], ids=["plain", "refined"])
def test_odd_data_is_answered(data: Any, plan: Plan) -> None:
    ledger = MemoryLedger()
    outcome = release(data, plan, rng=3, ledger=ledger)
    (entry,) = ledger.entries
    assert entry.released is outcome.released
    if outcome.released:
        mixture = outcome.result.mixture  # type: ignore[union-attr]
        assert np.isfinite(mixture.means).all()
        assert np.isfinite(mixture.covariances).all()


# ------------------------------------------------------- one row decides nothing that is not noisy


def one_row_of(rows: Array, value: float) -> Array:
    """Return the neighbour whose first row holds this value in the last column."""
    other = rows.copy()
    other[0, -1] = value
    return other


FLAT = [
    ("a constant column", good() * [1.0, 0.0]),
    ("all rows equal", np.full((3_000, 2), 7.0)),
    ("the largest number", np.full((3_000, 2), np.finfo(np.float64).max)),
    ("the smallest number", np.full((3_000, 2), 5e-324)),
    ("copies of a column", np.repeat(good()[:, :1], 2, axis=1)),
]
METHODS = {
    "histogram frame": best_plan(3_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2),
    "agreement frame": best_plan(60_000, epsilon=4.0, delta=1e-6, n_components=2, n_features=2),
    "lifted": PLAN,
    "tight": calibrate(
        "tight", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=100
    ),
    "paper": calibrate(
        "paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=100
    ),
}


@pytest.mark.parametrize("rows", [case[1] for case in FLAT], ids=[case[0] for case in FLAT])
@pytest.mark.parametrize("method", METHODS)
def test_every_table_of_finite_numbers_has_an_outcome(method: str, rows: Array) -> None:
    """No property of the values ends in an error: one row would decide what is seen."""
    plan = METHODS[method]
    least = max(stage.least_units() for stage in plan.stages)
    rows = np.resize(rows, (max(len(rows), plan.request.n_rows or 0, least), 2))
    for table in (rows, one_row_of(rows, 3.0)):
        ledger = MemoryLedger()
        outcome = release(table, plan, rng=1, ledger=ledger)
        assert [entry.released for entry in ledger.entries] == [outcome.released]


@pytest.mark.parametrize("groups", [None, "who"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_constant_column_of_a_file_has_an_outcome(
    in_memory: bool, groups: str | None, tmp_path: Path
) -> None:
    for value in (0.0, 3.0):
        rows = one_row_of(good() * [1.0, 0.0], value)
        pd.DataFrame(rows, columns=["height", "planet"]).assign(who=np.arange(3_000)).to_parquet(
            tmp_path / "table.parquet"
        )
        source = row_source(tmp_path / "table.parquet", ["height", "planet"], in_memory=in_memory)
        result = release(source, METHODS["histogram frame"], rng=1, groups=groups).result
        assert isinstance(result, Refusal)
        assert "'planet'" in result.reason


def test_outliers_in_a_few_rows_do_not_stop_a_release() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(13_000, 2)) + 30.0 * rng.integers(0, 2, 13_000)[:, None]
    rows[[3, 700, 9_000]] = [[1e12, 1e12], [-1e12, 0.0], [1e308, -1e308]]
    outcome = release(rows, REFINED, rng=3)
    assert outcome.released
    means = np.sort(outcome.result.mixture.means[:, 0])  # type: ignore[union-attr]
    assert means == pytest.approx([0.0, 30.0], abs=1.5)
