"""Three answers: useful, released but not as accurate as asked, refused; from one object."""

import pytest

from privgmm import Mixture, Refusal, Release, best_plan, random_mixture, release
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.method import OTHER_NUMBER
from privgmm.methods.planner import plan_for, usefulness_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.typical import expected_mixture
from privgmm.methods.usefulness import LESS_ACCURATE, REFUSED, USEFUL, Usefulness
from privgmm.stages.accuracy import CHANCES, RESOLVED, ExpectedError

LAW = ExpectedError(tuple(0.1 * (1 + chance) for chance in CHANCES))
"""Of errors spread evenly between 0.1 and 0.2."""
PLANE = PlanRequest(n_components=2, n_features=2)


@pytest.mark.parametrize(
    ("chance", "alpha", "answer", "title"),
    [
        (0.99, 0.2, USEFUL, "Useful"),
        (0.99, 0.14, LESS_ACCURATE, "Released, but not as accurate as asked"),
        (0.99, 0.16, LESS_ACCURATE, "Released, but perhaps not as accurate as asked"),
        (0.8, 0.2, LESS_ACCURATE, "Useful, but may be refused"),
        (0.4, 0.2, REFUSED, "Probably refused"),
    ],
)
def test_the_chance_of_being_within_alpha_decides(
    chance: float, alpha: float, answer: str, title: str
) -> None:
    found = Usefulness(chance=chance, expected_error=LAW, alpha=alpha)
    assert (found.answer, found.title) == (answer, title)
    assert found.within == chance * LAW.within(alpha)
    assert found.is_useful == (found.within >= 0.9) == (answer == USEFUL)
    assert found.to_dict()["answer"] == answer


def test_what_is_of_concern_or_unknown_is_never_useful() -> None:
    sure = Usefulness(chance=1.0, expected_error=LAW)
    assert sure.is_useful
    doubtful = Usefulness(chance=1.0, expected_error=LAW, concerns=("No such mixture fits.",))
    assert doubtful.answer == LESS_ACCURATE
    assert doubtful.sentence.startswith("No such mixture fits.")
    unknown = Usefulness(chance=1.0, expected_error=None)
    assert unknown.answer == LESS_ACCURATE
    assert unknown.sentence == "How far it is from the truth is not known."
    with pytest.raises(InvalidInput):
        Usefulness(chance=1.0, expected_error=LAW, beta=1.5)


def test_a_plan_and_its_request_give_one_answer() -> None:
    for n, epsilon in ((700, 1.0), (3_000, 0.2), (10_000, 1.0)):
        request = PLANE.but(n_rows=n, epsilon=epsilon)
        plan = best_plan(n, epsilon=epsilon, delta=1e-6, n_components=2, n_features=2)
        assert usefulness_for(request) == plan.usefulness()
        assert plan.usefulness(0.1).is_useful == plan.meets(0.1)
        outlook = registry.get(plan.method).outlook(plan, expected_mixture(plan.request), n)
        assert outlook.usefulness() == plan.usefulness()
    few = usefulness_for(PLANE.but(n_rows=100))
    assert few.answer == REFUSED
    assert few.expected_error is None


def test_rows_of_another_number_of_components_promise_nothing() -> None:
    plan = best_plan(10_000, epsilon=1.0, delta=1e-6, n_components=4, n_features=2)
    two = random_mixture(2, 2, separation=5.0, rng=0)
    found = registry.get(plan.method).outlook(plan, two, 10_000).usefulness()
    assert found.answer == LESS_ACCURATE
    assert found.concerns == (OTHER_NUMBER,)


def test_a_release_states_it_from_published_numbers() -> None:
    truth = random_mixture(2, 2, separation=5.0, rng=0)
    rows = truth.sample(10_000, rng=1)
    good = release(rows, epsilon=2.0, n_components=2, rng=2).result
    assert isinstance(good, Release)
    found = good.usefulness()
    assert found.is_useful
    assert found.expected_error == good.expected_error
    assert set(good.resolution) == {RESOLVED}
    # four groups asked, two there
    wrong = release(rows, epsilon=2.0, n_components=4, rng=2).result.usefulness()
    assert wrong.answer == LESS_ACCURATE
    assert "not resolved" in wrong.sentence


def test_a_refusal_states_why() -> None:
    apart = Mixture([1.0], [[0.0]], [[[1.0]]])
    plan = best_plan(2_000, epsilon=1.0, delta=1e-6, n_components=1, n_features=1)
    rows = apart.sample(2_000, rng=0)
    rows[:, 0] *= 10.0 ** (30 * rows[:, 0])
    refused = release(rows, plan, rng=0).result
    assert isinstance(refused, Refusal)
    assert refused.usefulness().answer == REFUSED
    assert refused.why in refused.usefulness().sentence


@pytest.mark.parametrize("method", ["sketch", "tight"])
def test_no_plan_depends_on_the_accuracy_asked_for(method: str) -> None:
    """An alpha out of reach is said to be so; it refuses nothing."""
    request = PLANE.but(n_rows=2_000, method=method)
    plan = plan_for(request).plan
    for alpha in (1e-3, 0.3):
        asked = plan_for(request.but(alpha=alpha)).plan
        assert asked.stages == plan.stages
        assert asked.request.alpha == alpha
        assert asked.usefulness() == plan.usefulness(alpha)
