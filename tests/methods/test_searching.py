"""Round numbers: printed as they are, dense, and found again; the first step that is enough."""

from __future__ import annotations

import math

from privgmm.methods.searching import (
    as_text,
    first_step,
    first_step_below,
    round_number,
    rounded_up,
    step_above,
    step_below,
)


def test_round_numbers_rise_by_a_hundredth_at_most_and_print_in_three_digits() -> None:
    for step in range(-1000, 3000):
        number = round_number(step)
        assert float(f"{number:.3g}") == number
        assert number < round_number(step + 1) <= number * (1 + 0.01 + 1e-12)
        assert step_above(number) == step == step_below(number)
        assert step_above(number * (1 + 1e-9)) == step + 1
        assert step_below(number * (1 - 1e-9)) == step - 1


def test_what_people_type_is_round() -> None:
    for epsilon in (
        0.02,
        0.1,
        0.25,
        0.3,
        0.5,
        0.75,
        1.0,
        1.25,
        1.5,
        2.0,
        2.5,
        4.0,
        8.0,
        10.0,
        20.0,
    ):
        assert rounded_up(epsilon) == epsilon
    assert rounded_up(math.inf) == math.inf


def test_a_round_number_is_told_with_all_its_digits() -> None:
    for step in range(-600, 3000):
        number = round_number(step)
        if number == int(number) or number < 100:
            assert float(as_text(number).replace(",", "")) == number
    assert as_text(math.inf) == "none"


def test_the_first_step_is_found_and_no_step_asked_for_twice() -> None:
    for answer in (0, 1, 37, 99, 100):
        asked: list[int] = []

        def holds(step: int, answer: int = answer, asked: list[int] = asked) -> bool:
            asked.append(step)
            return step >= answer

        assert first_step(0, 100, holds) == answer
        assert len(asked) == len(set(asked))
        assert all(0 <= step <= 100 for step in asked)
    assert first_step(0, 100, lambda _: False) is None


def test_the_first_step_of_a_falling_excess_is_found_in_few_questions() -> None:
    for answer in (1, 2, 37, 350, 3_000):
        for power in (0.3, 1.0, 2.5):
            for bend in (0.0, 0.1):
                asked: list[int] = []

                def excess(
                    step: int,
                    at: float = math.log(round_number(answer) * (1 - 1e-9)),
                    power: float = power,
                    bend: float = bend,
                    asked: list[int] = asked,
                ) -> float:
                    asked.append(step)
                    below = at - math.log(round_number(step))
                    return math.inf if below > 5 else below * (power + bend * abs(below))

                assert first_step_below(excess, 0, 3_500, fall=0.005) == answer
                assert len(asked) == len(set(asked)) <= 20
    assert first_step_below(lambda _: -1.0, 5, 9, fall=0.005) == 5
    assert first_step_below(lambda _: 1.0, 5, 9, fall=0.005) is None
