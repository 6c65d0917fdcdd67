"""No code outside ``privgmm/methods`` decides by a method's name or by the kind of its parts."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.method_names import PARTS, offending_lines, part_types
from tests.architecture.sources import FILES, ROOT, tree


def test_only_methods_know_what_their_names_mean() -> None:
    types = part_types(tree(module) for module in FILES)
    offenders = [
        f"{path.relative_to(ROOT)}:{line}"
        for module, path in FILES.items()
        if not f"{module}.".startswith("privgmm.methods.")
        for line in offending_lines(tree(module), types)
    ]
    assert offenders == [], f"{len(offenders)} places decide by a method's name or parts: ask it"


PLANTED = {
    "equal": 'if method == "lifted": pass',
    "unequal, the other way round": 'if "paper" != plan.method: pass',
    "one of a tuple": 'if plan.method in ("paper", "tight"): pass',
    "not in a set": 'if plan.method not in {"sketch"}: pass',
    "in a frozen set": 'if plan.method in frozenset({"paper"}): pass',
    "in a list, in an expression": 'words = "a" if method in ["tight"] else "b"',
    "in a chain": 'if a == b == "tight": pass',
    "within a comprehension": '[m for m in methods if m != "lifted"]',
    "under another name": 'VOTING = ("paper", "tight")\ndef f(m):\n    return m in VOTING',
    "under another name, typed": 'BEST: str = "lifted"\ndef f(m):\n    return m == BEST',
    "matched": 'match method:\n    case "lifted":\n        pass',
    "matched among others": 'match method:\n    case "other" | "paper":\n        pass',
    "a space": "if isinstance(plan.space, LiftedSpace): pass",
    "a space by its module": "if isinstance(plan.space, spaces.PaperSpace): pass",
    "a test, among others": "ok = isinstance(test, (int, PopulousTest))",
    "a test, in a union": "ok = isinstance(test, AgreementTest | None)",
    "a kind of agreement": "ok = isinstance(stage, AveragedAgreement)",
    "a class": "ok = issubclass(cls, LiftedSpace)",
    "a type": "ok = type(space) is LiftedSpace",
    "a matched type": "match space:\n    case LiftedSpace(eta=eta):\n        pass",
}


@pytest.mark.parametrize("source", PLANTED.values(), ids=PLANTED.keys())
def test_planted_decisions_are_found(source: str) -> None:
    assert len(offending_lines(ast.parse(source), PARTS | {"AveragedAgreement"})) == 1


INNOCENT = {
    "asked": "if plan.method.refines: pass",
    "looked up": 'colour = COLOURS["lifted"]',
    "called": 'plan = calibrate("paper", epsilon=1.0)',
    "listed": 'for name in ("paper", "tight"): pass',
    "a default": 'def f(method: str = "lifted") -> None: ...',
    "other words": 'if unit == "person" or kind in ("row", "papers"): pass',
    "the family": "ok = isinstance(stage, Agreement)",
    "a result": "ok = isinstance(result, Refusal)",
    "made": "space = LiftedSpace(0.1)",
    "a matched word": 'match unit:\n    case "row":\n        pass',
    "a matched result": "match result:\n    case Refusal():\n        pass",
}


@pytest.mark.parametrize("source", INNOCENT.values(), ids=INNOCENT.keys())
def test_what_decides_nothing_is_left_alone(source: str) -> None:
    assert offending_lines(ast.parse(source), PARTS | {"AveragedAgreement"}) == []


def test_lines_are_listed_in_order() -> None:
    source = 'a = 1\nif m == "paper":\n    b = isinstance(s, LiftedSpace)\nc = m in ("tight",)'
    assert offending_lines(ast.parse(source)) == [2, 3, 4]


def test_descendants_count_as_parts() -> None:
    source = """
class Agreement(Stage): ...
class AveragedAgreement(Agreement): ...
class GentleAgreement(stage.AveragedAgreement): ...
class WarpedSpace(LiftedSpace): ...
class Refinement(Stage): ...
"""
    more = {"AveragedAgreement", "GentleAgreement", "WarpedSpace"}
    assert part_types([ast.parse(source)]) == PARTS | more
