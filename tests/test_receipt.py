"""Receipts: what they say, what verification notices, and that no input breaks the reader."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privgmm
from privgmm.budget import Budget
from privgmm.calibration import calibrate
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.ledger_store import SQLiteLedger, content_fingerprint
from privgmm.mixture import Mixture
from privgmm.plan import METHODS, Method, Plan
from privgmm.receipt import (
    RECEIPT_SCHEMA,
    make_receipt,
    receipt_schema,
    receipt_text,
    verify_receipt,
    write_receipt,
)
from privgmm.refinement import Refinement
from privgmm.release import Refusal, Release, release
from tests.ledger_children import PLAN, ROWS

MIXTURE = Mixture(
    [0.25, 0.75], [[0.0, 1.0], [3.0, -2.0]], [[[1.0, 0.5], [0.5, 2.0]], [[0.1, 0.0], [0.0, 0.2]]]
)
REFINE = Refinement((60.0, 90.0), (4.0, 3.0))


def a_plan(method: Method, refine: Refinement | None = None) -> Plan:
    return calibrate(
        method,
        epsilon=1.0,
        delta=1e-6,
        alpha=0.6,
        n_components=2,
        n_features=2,
        n_blocks=300,
        refine=refine,
    )


PLANS = [
    *(a_plan(method) for method in METHODS),
    a_plan("tight", REFINE),
    dataclasses.replace(a_plan("lifted", REFINE), smallest_weight=0.2),
]
RESULTS: list[Release | Refusal] = [
    *(Release(MIXTURE, plan.spent(), plan, seeded=False) for plan in PLANS),
    Release(MIXTURE, PLANS[0].spent(), PLANS[0], seeded=True),
    *(Refusal(plan.spent(), plan, seeded=False) for plan in PLANS),
]
RECEIPT = make_receipt(
    dataclasses.replace(RESULTS[4], unit="person", entry=7), learner="em", mark="0123456789abcdef"
)
TEXT = receipt_text(RECEIPT).encode()

# ------------------------------------------------------------------------- plans


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.method)
def test_a_plan_comes_back_from_its_numbers(plan: Plan) -> None:
    back = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert back == plan
    assert back.spent() == plan.spent()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.method)
def test_a_plan_needs_every_field(plan: Plan) -> None:
    whole = plan.to_dict()
    for key in whole:
        with pytest.raises(InvalidInput, match=key):
            Plan.from_dict({k: v for k, v in whole.items() if k != key})
    for part in ("test", "noise", "refine"):
        if whole[part] is None:
            continue
        for key in whole[part]:
            if part == "test" and plan.method == "paper" and key in ("m", "M", "G"):
                continue
            broken = copy.deepcopy(whole)
            del broken[part][key]
            with pytest.raises(InvalidInput, match=key):
                Plan.from_dict(broken)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("method",), "magic"),
        (("n_blocks",), 300.0),
        (("n_blocks",), True),
        (("tau",), math.nan),
        (("tau",), 10**400),
        (("tau",), "0.1"),
        (("separation",), -1.0),
        (("delta",), 1.0),
        (("test",), None),
        (("test", "kind"), "populous"),
        (("test", "sigma"), 1e8),
        (("test", "m"), 3),
        (("refine", "scales"), [0.4, 0.6]),
        (("refine", "steps"), 3),
        (("refine", "radius"), [4.0]),
        (("refine",), []),
    ],
)
def test_a_plan_with_a_wrong_field_is_refused(path: tuple[str, ...], value: object) -> None:
    broken = PLANS[4].to_dict()
    inner = broken
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InvalidInput):
        Plan.from_dict(broken)


def test_a_paper_plan_cannot_carry_a_refinement() -> None:
    with pytest.raises(PrivGMMError, match="not private"):
        dataclasses.replace(PLANS[0], refine=REFINE).spent()
    with pytest.raises(PrivGMMError, match="not private"):
        Plan.from_dict({**PLANS[0].to_dict(), "refine": REFINE.to_dict()}).spent()


# ------------------------------------------------------------------------- what they say


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("as_what", ["dict", "text", "bytes"])
def test_a_receipt_verifies(result: Release | Refusal, as_what: str) -> None:
    receipt = make_receipt(result)
    text = receipt_text(receipt)
    documents: dict[str, Any] = {"dict": receipt, "text": text, "bytes": text.encode()}
    document = documents[as_what]
    found = verify_receipt(document)
    assert found.ok, found.problems
    assert bool(found)
    assert found.problems == ()


@pytest.mark.parametrize("result", RESULTS)
def test_a_receipt_says_everything(result: Release | Refusal) -> None:
    receipt = make_receipt(result)
    assert receipt["schema"] == RECEIPT_SCHEMA
    assert receipt["library"]["version"] == privgmm.__version__
    assert receipt["seeded"] is result.seeded
    assert ("not private" in receipt["guarantee"]["words"]) is result.seeded
    assert Plan.from_dict(receipt["plan"]) == result.plan
    assert Budget.from_dict(receipt["guarantee"]) == result.budget
    if isinstance(result, Release):
        assert Mixture.from_dict(receipt["mixture"]) == result.mixture
        assert receipt["refusal"] is None
    else:
        assert receipt["mixture"] is None
        assert receipt["refusal"]["reason"] == result.reason


def test_the_neighbours_are_named() -> None:
    row = make_receipt(RESULTS[1])
    person = make_receipt(dataclasses.replace(RESULTS[1], unit="person"))
    assert "one row" in row["guarantee"]["words"]
    assert "all rows of one person" in person["guarantee"]["words"]
    assert (row["neighbours"]["unit"], person["neighbours"]["unit"]) == ("row", "person")
    assert "replacing one row" in row["neighbours"]["relation"]
    assert "all rows of one person" in person["neighbours"]["relation"]
    assert verify_receipt(person).ok


def test_the_learner_and_the_spend_are_named(tmp_path: Path) -> None:
    plain = make_receipt(RESULTS[1])
    assert plain["learner"] is plain["ledger"] is None
    ledger = SQLiteLedger(tmp_path / "spends.db", content_fingerprint(ROWS))
    result = release(ROWS, PLAN, rng=11, ledger=ledger).result
    assert result.entry is not None
    full = make_receipt(result, learner="em", mark=ledger.mark(result.entry))
    assert verify_receipt(receipt_text(full)).ok
    assert full["learner"] == "em"
    (row,) = ledger.export()
    assert full["ledger"] == {"entry": row["number"], "mark": row["mark"]}
    # neither the data nor the account can be read from it
    text = receipt_text(full)
    assert ledger.account not in text
    assert content_fingerprint(ROWS) not in text
    for mark in ("", "x" * 16, "0" * 15):
        with pytest.raises(InvalidInput, match="mark"):
            make_receipt(result, mark=mark)
    with pytest.raises(InvalidInput, match="mark"):
        make_receipt(RESULTS[1], mark="0" * 16)
    with pytest.raises(InvalidInput, match="learner"):
        make_receipt(result, learner="")


def test_a_real_release_makes_a_valid_file(tmp_path: Path) -> None:
    outcome = release(ROWS, PLAN, rng=11)
    path = write_receipt(make_receipt(outcome.result), tmp_path / "receipt.json")
    assert verify_receipt(path.read_bytes()).ok
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]
    with pytest.raises(InvalidInput, match=r"outcome\.result"):
        make_receipt(outcome)  # type: ignore[arg-type]  # a likely mistake


@pytest.mark.parametrize("result", RESULTS)
def test_receipts_follow_the_schema(result: Release | Refusal) -> None:
    jsonschema: Any = importlib.import_module("jsonschema")
    schema = receipt_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    receipt = make_receipt(dataclasses.replace(result, entry=3), learner="em", mark="a" * 16)
    validator.validate(make_receipt(result))
    validator.validate(receipt)
    for key in receipt:
        shorter = {k: v for k, v in receipt.items() if k != key}
        assert not validator.is_valid(shorter)
        assert not verify_receipt(shorter).ok
    assert not validator.is_valid({**receipt, "votes": [1, 2]})
    assert not validator.is_valid({**receipt, "released": not receipt["released"]})


# ------------------------------------------------------------------------- what is noticed


def test_every_single_changed_byte_is_noticed() -> None:
    """Each byte in turn becomes another one; also spaces, case and digits that parse alike."""
    chooser = random.Random(4)
    for place, byte in enumerate(TEXT):
        other = chooser.choice([b for b in range(256) if b != byte])
        alike = {ord(" "): ord("\t"), ord("\n"): ord(" "), ord("e"): ord("E")}.get(byte, other)
        for new in {other, alike}:
            changed = TEXT[:place] + bytes([new]) + TEXT[place + 1 :]
            assert not verify_receipt(changed).ok, (place, byte, new)


def test_lost_and_added_bytes_are_noticed() -> None:
    for changed in (TEXT[:-1], TEXT + b"\n", b"\xef\xbb\xbf" + TEXT, TEXT.replace(b"\n", b"\r\n")):
        assert not verify_receipt(changed).ok
    twice = TEXT.replace(b'{\n "created"', b'{\n "seeded": false,\n "created"', 1)
    assert twice != TEXT
    assert not verify_receipt(twice).ok


def rehashed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A forger's receipt: changed, and hashed anew by the published rule."""
    receipt = importlib.import_module("privgmm.receipt")
    forged = copy.deepcopy(RECEIPT)
    del forged["sha256"]
    change(forged)
    return {**forged, "sha256": receipt._digest(forged)}


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "smaller epsilon": (lambda r: r["guarantee"].update(epsilon=0.1), "more than the guarantee"),
    "smaller budget": (lambda r: r["plan"].update(epsilon=0.1), "more than its budget"),
    "less noise": (lambda r: r["plan"]["noise"].update(eta=0.01), "more than its budget"),
    "less test noise": (lambda r: r["plan"]["test"].update(sigma=0.5), "costs"),
    "lower threshold": (lambda r: r["plan"]["test"].update(threshold=1), "costs"),
    "wider radius": (lambda r: r["plan"].update(tau=2.9), "costs"),
    "no separation": (lambda r: r["plan"].update(separation=0.0), "not private"),
    "cheap refinement": (lambda r: r["plan"]["refine"].update(multiplier=[1.0, 1.0]), "costs"),
    "other words": (lambda r: r["guarantee"].update(words="perfectly private"), "words"),
    "hidden seed": (lambda r: r.update(seeded="no"), "seeded"),
    "smaller mixture": (
        lambda r: r.update(mixture=MIXTURE.marginal([0]).to_dict()),
        "not as planned",
    ),
    "no mixture": (lambda r: r.update(mixture={"weights": [1.0]}), "the mixture is none"),
    "both": (lambda r: r.update(refusal={"reason": "none"}), "refusal"),
    "other time": (lambda r: r.update(created="yesterday"), "created"),
    "other relation": (lambda r: r["neighbours"].update(relation="none"), "neighbours"),
    "other schema": (lambda r: r.update(schema="privgmm/receipt-1"), "schema"),
    "other unit": (lambda r: r["neighbours"].update(unit="row"), "neighbours"),
    "other unit and relation": (
        lambda r: r.update(neighbours=make_receipt(RESULTS[4])["neighbours"]),
        "words",
    ),
    "no learner": (lambda r: r.update(learner=3), "learner"),
    "no entry": (lambda r: r["ledger"].update(entry=0), "ledger"),
    "no mark": (lambda r: r["ledger"].update(mark="0123456789ABCDEF"), "ledger"),
    "extra": (lambda r: r.update(votes=[3]), "votes"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_content_fails_even_with_a_fitting_hash(name: str) -> None:
    change, message = FORGERIES[name]
    found = verify_receipt(rehashed(change))
    assert not found.ok
    assert any(message in problem for problem in found.problems), found.problems


def test_rehashing_alone_changes_nothing() -> None:
    assert rehashed(lambda r: r.get("plan")) == RECEIPT


# ------------------------------------------------------------------------- no input breaks it

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=8)
    | st.sampled_from([10**400, -(10**400), 1e308, 5e-324, 0.0, -1, 1, 2, 300, "1", "\ud800"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    if isinstance(value, dict):
        inner = [place for key, v in value.items() for place in places(v, (*before, key))]
    elif isinstance(value, list):
        inner = [place for i, v in enumerate(value) for place in places(v, (*before, i))]
    else:
        inner = []
    return [before, *inner] if before else inner


def with_changes(document: dict[str, Any], changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    changed = copy.deepcopy(document)
    for path, value in changes:
        inner: Any = changed
        # an earlier change may have cut off the way to this one
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
    return changed


def mutations(document: dict[str, Any]) -> st.SearchStrategy[Any]:
    change = st.tuples(st.sampled_from(places(document)), VALUES)
    return st.lists(change, min_size=1, max_size=3).map(lambda c: with_changes(document, c))


@settings(max_examples=500)
@given(st.one_of(*(mutations(make_receipt(RESULTS[i])) for i in (0, 3, 4, 6))))
def test_no_changed_receipt_breaks_verification(document: Any) -> None:
    found = verify_receipt(document)
    assert found.ok == (found.problems == ())


@settings(max_examples=300)
@given(mutations(RECEIPT))
def test_no_forged_receipt_breaks_verification(document: Any) -> None:
    """As above with the hash made to fit, so that every check behind it is reached."""
    receipt = importlib.import_module("privgmm.receipt")
    try:
        content = {k: v for k, v in document.items() if k != "sha256"}
        forged = {**content, "sha256": receipt._digest(content)}
    except ValueError:  # NaN and infinity cannot be hashed, nor written
        forged = document
    found = verify_receipt(forged)
    if found.ok:
        plan = Plan.from_dict(forged["plan"])
        assert Budget.from_dict(forged["guarantee"]).covers(plan.spent())


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text(max_size=60) | st.dictionaries(st.text(), VALUES))
def test_no_other_document_breaks_verification(document: Any) -> None:
    assert not verify_receipt(document).ok


def test_monstrous_documents_fail_quietly() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    for document in (
        b"[" * 100_000,
        '{"schema":' * 100_000,
        b'{"schema": 1e999}',
        b"9" * 10_000,
        loop,
        {"a": {1, 2}},
        {1: 2, "b": 3},
        {"a": np.float64("nan")},
    ):
        assert not verify_receipt(document).ok  # type: ignore[arg-type]  # the point of the test
    for thing in (None, 3, [1], object()):
        with pytest.raises(InvalidInput, match="document"):
            verify_receipt(thing)  # type: ignore[arg-type]  # the point of the test


@settings(max_examples=500)
@given(st.one_of(*(mutations(plan.to_dict()) for plan in PLANS), VALUES))
def test_reading_a_plan_raises_only_our_errors(document: Any) -> None:
    try:
        plan = Plan.from_dict(document)
    except InvalidInput:
        return
    assert Plan.from_dict(plan.to_dict()) == plan


ARRAYS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(-1e150, 1e150)
    | st.sampled_from([math.nan, math.inf, 0.0, 1.0, "x", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(places(MIXTURE.to_dict())), ARRAYS), max_size=3))
def test_reading_a_mixture_raises_only_our_errors(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    try:
        mixture = Mixture.from_dict(with_changes(MIXTURE.to_dict(), changes))
    except InvalidInput:
        return
    assert Mixture.from_dict(mixture.to_dict()) == mixture
