"""Where rows of a column were seen: what is said of rows far out, and what is not."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from privgmm import InvalidInput, Mixture, Release, read_receipt, release, verify_receipt
from privgmm.methods.usefulness import LESS_ACCURATE
from privgmm.records import make_receipt
from privgmm.records.receipt import receipt_text
from privgmm.stages.tails import SeenRange, tail_sentences, unseen_sentences

N = 20_000


def _bins(rows: np.ndarray, width: float, offset: float) -> tuple[np.ndarray, np.ndarray]:
    values, counts = np.unique(np.floor(rows / width + offset), return_counts=True)
    shown = counts >= 100
    return values[shown].astype(np.int64), counts[shown].astype(np.int64)


def _seen(rows: np.ndarray, width: float = 2.0, offset: float = 0.3) -> SeenRange:
    shown = _bins(rows, width, offset)
    return SeenRange.of_bins(0, shown, width, offset, n=len(rows), sigma=20.0, centre=0.0)


def test_stretches_hold_the_rows_that_were_counted() -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=9_000), rng.normal(30, 1, size=1_000)])
    seen = _seen(rows)
    assert len(seen.stretches) == 2
    inside = sum(((rows >= low) & (rows < high)).mean() for low, high in seen.stretches)
    assert inside == pytest.approx(seen.share)
    assert seen.low < -2 < 30 < seen.high
    # touching bins are joined, and none of the gap is taken for seen
    (_, left), (right, _) = seen.stretches
    assert left < 10 < 20 < right


@pytest.mark.parametrize("seed", range(20))
def test_light_tails_are_not_pointed_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = Mixture([0.7, 0.3], [[0.0], [6.0]], [[[1.0]], [[2.0]]], columns=("x",))
    rows = mixture.sample(N, rng=rng)[:, 0]
    seen = _seen(rows, width=float(rng.uniform(1.5, 3)), offset=float(rng.uniform())).named(("x",))
    assert seen.unexpected(mixture) == 0
    assert tail_sentences([seen], mixture) == []


def test_a_tail_that_the_mixture_lacks_is_measured() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=N)
    far = rng.random(N) < 0.04
    rows[far] = rng.standard_cauchy(far.sum()) * 1e4
    seen = _seen(rows).named(("x",))
    mixture = Mixture([1.0], [[0.0]], [[[1.0]]], columns=("x",))
    assert seen.unexpected(mixture) == pytest.approx(0.04, abs=0.008)
    (said,) = tail_sentences([seen], mixture)
    assert said.startswith("About 4")
    # a mixture that is as wide as the rows expects them
    wide = Mixture([0.96, 0.04], [[0.0], [0.0]], [[[1.0]], [[1e8]]], columns=("x",))
    assert seen.unexpected(wide) == 0


def test_the_mass_of_a_mixture_is_that_of_the_stretches() -> None:
    seen = SeenRange("x", ((-1.0, 0.5), (2.0, 3.0)), 0.2, 1e-4, 0.0, 1.0)
    mixture = Mixture([1.0], [[0.5]], [[[4.0]]], columns=("x",))
    law = norm(0.5, 2.0)
    mass = law.cdf(0.5) - law.cdf(-1) + law.cdf(3) - law.cdf(2)
    assert seen.unexpected(mixture) == pytest.approx(mass - 0.2)


@functools.cache
def released() -> Release:
    """Release a lognormal column next to a smooth one."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"gain": np.exp(rng.normal(8, 2, N)), "height": rng.normal(170, 9, N)})
    result = release(table, epsilon=1.0, n_components=2, rng=1).result
    assert isinstance(result, Release)
    return result


def test_a_release_says_beyond_which_values_nothing_is_resolved() -> None:
    gain, height = released().ranges
    assert gain.unseen > 0.05
    assert height.unseen == 0
    (said,) = unseen_sentences(released().ranges)
    assert "Values of gain below" in said
    assert "are not resolved" in said
    assert "arcsinh((gain " in said
    assert said in repr(released())
    assert released().usefulness().answer == LESS_ACCURATE


def test_the_scale_that_is_offered_has_shorter_tails() -> None:
    """The remedy is tried: on the scale that is named, nearly all rows are seen."""
    gain = released().ranges[0]
    rng = np.random.default_rng(0)
    rows = np.arcsinh((np.exp(rng.normal(8, 2, N)) - gain.centre) / gain.spread)
    result = release(rows[:, None], epsilon=1.0, n_components=2, rng=1).result
    assert isinstance(result, Release)
    assert result.ranges[0].unseen < gain.unseen / 2


def test_a_receipt_keeps_ranges_and_holds_them_against_the_plan() -> None:
    receipt = make_receipt(released())
    text = receipt_text(receipt)
    back = read_receipt(text)
    assert isinstance(back, Release)
    assert back.ranges == released().ranges
    assert back.tails == released().tails
    for change in (
        {"share": receipt["ranges"][0]["share"] + 0.3 / N},
        {"error": receipt["ranges"][0]["error"] / 2},
        {"spread": 2 * receipt["ranges"][0]["spread"]},
        {"column": "height"},
        {"stretches": [[2.0, 1.0]]},
        {"share": 5 / N, "error": receipt["ranges"][0]["error"]},
    ):
        ranges = [receipt["ranges"][0] | change, *receipt["ranges"][1:]]
        assert not verify_receipt(receipt_text(receipt | {"ranges": ranges})).intact
    assert not verify_receipt(receipt_text(receipt | {"ranges": receipt["ranges"][:1]})).intact


@pytest.mark.parametrize(
    "change",
    [
        {"stretches": ()},
        {"stretches": ((1.0, 1.0),)},
        {"stretches": ((0.0, np.inf),)},
        {"share": 0.0},
        {"error": -1.0},
        {"spread": np.nan},
        {"centre": np.inf},
    ],
)
def test_what_is_no_range_is_refused(change: dict[str, Any]) -> None:
    good = SeenRange("x", ((0.0, 1.0),), 0.5, 0.1, 0.0, 1.0)
    with pytest.raises(InvalidInput):
        dataclasses.replace(good, **change)
