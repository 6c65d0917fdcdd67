"""The checks of the audit notice single lines of the real code that were changed."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.audit.real_votes import examined_vote
from privgmm.errors import InvalidInput
from privgmm.privacy import noise
from privgmm.privacy.noise import SecureNoise, noise_source
from privgmm.stages.agreement.votes import AgreementTest
from tests.audit.mutations import GUARDS, MUTATIONS, NAMED, Mutation, mutated, mutation_findings

STAGES = {
    "votes",
    "algorithm_1",
    "lifted_space",
    "paper_space",
    "public_grid",
    "noisy_moments",
    "winsorised",
    "projection",
    "histogram_frame",
    "features",
    "finish",
    "noise",
    "releases",
    "composition",
    "soft_looks",
    "subspace",
    "pooled",
    "gaussian_account",
    "sqlite",
    "receipt",
    "isolation",
    "jitter",
    "blocks",
}


def test_there_are_fifty_and_more_over_all_stages() -> None:
    assert len(MUTATIONS) >= 50
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    touched = {mutation.where.partition(":")[0].rpartition(".")[2] for mutation in MUTATIONS}
    assert touched >= STAGES


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_its_line_is_there_and_comes_back(mutation: Mutation) -> None:
    with mutated(mutation):
        pass
    # a second time: what was put back has the line again
    with mutated(mutation):
        pass


def test_the_change_reaches_all_who_imported_the_function() -> None:
    test = AgreementTest(60, 1.0, 4.0, 15, 31, 38, 36)
    numpys = next(one for one in NAMED if "NumPy" in one.name)
    with mutated(numpys):
        assert not isinstance(noise.noise_source(None), SecureNoise)
        assert noise_source(None) is not None
    assert isinstance(noise.noise_source(None), SecureNoise)
    with mutated(NAMED[0]):
        assert test.examine(np.full((60, 60), np.inf), rng=0).passed
    assert not test.examine(np.full((60, 60), np.inf), rng=0).passed


def test_a_line_that_is_gone_is_an_error() -> None:
    gone = Mutation("gone", NAMED[0].where, "no such line", "", NAMED[0].check)
    with pytest.raises(InvalidInput, match="0 times: it must move with the code"), mutated(gone):
        pass


def test_those_most_asked_about_are_caught() -> None:
    """Always pass, no guard, a tenth less noise, NumPy's generator, noise used twice."""
    found = mutation_findings(NAMED)
    assert [one.name for one in found] == [f"broken: {one.name}" for one in NAMED]
    assert all(one.passed for one in found), found
    for one in found:
        assert one.claim.startswith("must be caught by: ")


@pytest.mark.parametrize("mutation", GUARDS, ids=lambda mutation: mutation.name)
def test_a_guard_that_is_taken_away_is_missed(mutation: Mutation) -> None:
    (found,) = mutation_findings((mutation,))
    assert found.passed, found


def test_a_check_that_fails_anyway_catches_nothing() -> None:
    worse = Mutation(
        "x",
        NAMED[0].where,
        NAMED[0].line,
        NAMED[0].becomes,
        lambda: examined_vote(_Deaf(60, 1.0, 4.0, 15, 31, 38, 36), "deaf"),
    )
    (found,) = mutation_findings((worse,))
    assert not found.passed
    assert "fails on the code as it is" in found.detail


class _Deaf(AgreementTest):
    """A test that runs with another threshold than it states."""

    def examine(self, distances: np.ndarray, *, rng: noise.RandomState):  # type: ignore[no-untyped-def]  # a test double
        return AgreementTest(60, 1.0, 4.0, 10, 31, 38, 36).examine(distances, rng=rng)


@pytest.mark.study
def test_every_mutation_is_caught() -> None:
    found = mutation_findings()
    missed = [one for one in found if not one.passed]
    assert missed == []
