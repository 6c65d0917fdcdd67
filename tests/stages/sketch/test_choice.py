"""How a number of components was chosen, as a value: read back as written, and checked."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.sketch.choice import Choice, Tried
from tests.stages.sketch.test_private_sketch import TRUTH, sketch_of

CHOICE = Choice(8, (Tried(1, 40.0, 900.0), Tried(2, -0.3, 200.0), Tried(3, -0.4, 231.5)))


def test_the_least_criterion_is_chosen() -> None:
    assert CHOICE.n_components == 2
    assert CHOICE.above_best == (700.0, 0.0, 31.5)
    lines = str(CHOICE).splitlines()
    assert len(lines) == 4
    assert [line.endswith("chosen") for line in lines] == [False, False, True, False]


def test_it_comes_back_from_json() -> None:
    assert Choice.from_dict(json.loads(json.dumps(CHOICE.to_dict()))) == CHOICE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("n_components",), 3),
        (("max_components",), 2),
        (("max_components",), "8"),
        (("tried",), []),
        (("tried",), {}),
        (("tried", 1), None),
        (("tried", 1, "n_components"), 5),
        (("tried", 1, "misfit"), float("nan")),
        (("tried", 1, "criterion"), "200"),
        (("tried", 1, "extra"), 1.0),
    ],
)
def test_what_contradicts_itself_is_refused(path: tuple[Any, ...], value: Any) -> None:
    broken: Any = copy.deepcopy(CHOICE.to_dict())
    place = broken
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InvalidInput):
        Choice.from_dict(broken)


def test_a_sketch_says_what_it_chose_from() -> None:
    sketch = sketch_of(TRUTH.sample(20_000, rng=1), 2)
    choice = sketch.choice(8)
    chosen = sketch.choose(8)
    assert choice.n_components == chosen.n_components == 2
    # two more than the first that explains the rows are tried, and then no more
    assert [one.n_components for one in choice.tried] == [1, 2, 3, 4]
    for one, fit in zip(choice.tried, sketch.path(4), strict=True):
        assert (one.misfit, one.criterion) == (fit.misfit, fit.criterion)
    assert [one.n_components for one in sketch.choice(1).tried] == [1]
    assert isinstance(chosen.mixture, Mixture)
