"""What a test shows of its votes is what it does with them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.space import MixtureSpace
from privgmm.stages.agreement.votes import AgreementTest, PrivateTest

T = 60
EXACT = AgreementTest(n_blocks=T, radius=1.0, sigma=2.0, threshold=6, member=32, full=34, core=20)
PAPER = PopulousTest(T, 1.0, 1.0, 1e-4)
TESTS = pytest.mark.parametrize("test", [EXACT, PAPER], ids=["exact", "paper"])


def _distances(spread: float) -> np.ndarray:
    points = np.random.default_rng(5).normal(0, spread, T)
    distances = np.abs(points[:, None] - points[None, :])
    distances[3] = distances[:, 3] = np.inf
    return distances


@TESTS
@pytest.mark.parametrize("spread", [0.05, 0.3, 0.45, 5.0])
def test_the_first_band_holds_the_block_that_is_picked(test: PrivateTest, spread: float) -> None:
    verdict = test.examine(_distances(spread), rng=1)
    bands = test.read_votes(verdict.counts).bands
    assert [band.least for band in bands] == sorted({band.least for band in bands}, reverse=True)
    assert bands[-1].least == 0
    qualified = np.flatnonzero(verdict.counts >= bands[0].least)
    assert verdict.reference == (qualified[0] if qualified.size else -1)


@TESTS
@pytest.mark.parametrize("spread", [0.05, 0.3, 0.45, 5.0])
def test_the_statistic_is_shown_as_it_is(test: PrivateTest, spread: float) -> None:
    verdict = test.examine(_distances(spread), rng=1)
    reading = test.read_votes(verdict.counts)
    assert reading.numbers[0].label == test.words.letter
    assert reading.numbers[0].value == f"{verdict.statistic:.3g}"
    assert reading.numbers[0].value in reading.words
    for line in reading.lines:
        if line.role == "value":
            assert line.start[1] == line.end[1] == pytest.approx(verdict.statistic * T)
    if reading.mark is not None:
        rank, friends = reading.mark.place
        assert (rank - EXACT.core, friends - EXACT.full) == (verdict.statistic,) * 2


@pytest.mark.parametrize("spread", [0.05, 0.3, 0.45, 5.0])
def test_what_passes_in_the_law_is_the_chance_to_pass(spread: float) -> None:
    """Summed over whole numbers, integrated over a density."""
    counts = EXACT.examine(_distances(spread), rng=1).counts
    law = EXACT.noisy_law(EXACT.examine(_distances(spread), rng=1).statistic)
    chance = float(law.heights[law.passes].sum())
    assert law.whole
    assert chance == pytest.approx(EXACT.pass_probability(counts), abs=1e-5)
    large = PopulousTest(400, 1.0, 1.0, 1e-4)
    for votes in (200, 340, 380, 400):
        counts = np.full(400, votes)
        law = large.noisy_law(votes / 400)
        inside = law.passes
        chance = float(np.trapezoid(law.heights[inside], law.values[inside]))
        assert not law.whole
        assert chance == pytest.approx(large.pass_probability(counts), abs=0.01)


@TESTS
@pytest.mark.parametrize("space", [PaperSpace(0.1, 0.1, 0.1), LiftedSpace(0.1)], ids=str)
def test_what_is_masked_is_described(test: PrivateTest, space: MixtureSpace) -> None:
    verdict = test.examine(_distances(0.3), rng=1)
    chosen = space.describe_chosen(verdict)
    counted = int((verdict.weights > 0).sum())
    named = f"{counted} blocks" if space.averages else f"block **{verdict.reference + 1}**"
    assert named in chosen.sentences
    assert all(number.meaning for number in chosen.numbers)
    if space.averages:
        share = float(chosen.numbers[1].value.rstrip("%")) / 100
        assert math.isclose(share, verdict.weights.max() / verdict.weights.sum(), abs_tol=1e-4)
    else:
        assert chosen.numbers[1].value == f"{verdict.counts[verdict.reference]} of {T}"
