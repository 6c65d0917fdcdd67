"""Receipts: what they say, and what verification notices. `test_fuzz` feeds it anything at all."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import math
import os
import random
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgmm
from privgmm.budget import Budget
from privgmm.data.fingerprint import content_fingerprint
from privgmm.errors import InvalidInput
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.mixture import Mixture
from privgmm.records.receipt import (
    RECEIPT_SCHEMA,
    make_receipt,
    receipt_schema,
    receipt_text,
    verify_receipt,
    write_receipt,
)
from privgmm.releases import Refusal, Release, release
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Drawn, Published
from tests.ledger.ledger_children import PLAN, ROWS
from tests.plans import refined
from tests.records.test_sketches import sketch_of_plan

WHY = "The fits of the blocks did not agree closely enough."

CALIBRATED = ("paper", "tight", "lifted")
"""Methods that plan without a number of rows."""

MIXTURE = Mixture(
    [0.25, 0.75], [[0.0, 1.0], [3.0, -2.0]], [[[1.0, 0.5], [0.5, 2.0]], [[0.1, 0.0], [0.0, 0.2]]]
)
REFINE = Refinement((60.0, 90.0), (4.0, 3.0))


def a_plan(method: str, refine: Refinement | None = None) -> Plan:
    return refined(
        calibrate(
            method,
            epsilon=1.0,
            delta=1e-6,
            alpha=0.6,
            n_components=2,
            n_features=2,
            n_blocks=300,
        ),
        refine,
    )


WEIGHTED = a_plan("lifted", REFINE)
PLANS = [
    *(a_plan(method) for method in CALIBRATED),
    best_plan(20_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2),
    WEIGHTED.but(dataclasses.replace(WEIGHTED.stage(Agreement), smallest_weight=0.2), REFINE),
]
RESULTS: list[Release | Refusal] = [
    *(
        Release(
            mixture=MIXTURE,
            budget=plan.spent(),
            plan=plan,
            seeded=False,
            sketch=sketch_of_plan(plan) if plan.method == "sketch" else None,
        )
        for plan in PLANS
    ),
    Release(mixture=MIXTURE, budget=PLANS[0].spent(), plan=PLANS[0], seeded=True),
    *(Refusal(budget=plan.spent(), plan=plan, seeded=False, why=WHY) for plan in PLANS),
]
RECEIPT = make_receipt(
    dataclasses.replace(RESULTS[4], unit="person", entry=7, mark="0123456789abcdef"), learner="em"
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
        if whole.get(part) is None:
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
    plan = PLANS[0].but(*PLANS[0].stages, REFINE)
    # it could be priced, but no release of this method makes such passes
    assert plan.spent().epsilon > PLANS[0].spent().epsilon
    with pytest.raises(InvalidInput, match=r"refine must be null"):
        Plan.from_dict(plan.to_dict())


# ------------------------------------------------------------------------- what they say


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("as_what", ["dict", "text", "bytes"])
def test_a_receipt_verifies(result: Release | Refusal, as_what: str) -> None:
    receipt = make_receipt(result)
    text = receipt_text(receipt)
    documents: dict[str, Any] = {"dict": receipt, "text": text, "bytes": text.encode()}
    document = documents[as_what]
    found = verify_receipt(document)
    assert found.intact, found.problems
    assert found.seeded is result.seeded
    assert found.ok is bool(found) is (not result.seeded) is (found.problems == ())


def test_a_seeded_receipt_is_not_private_and_says_so() -> None:
    """It is as it was written, but no one may take it for a differentially private release."""
    found = verify_receipt(make_receipt(RESULTS[5]))
    assert (found.ok, found.intact, found.seeded) == (False, True, True)
    assert "NOT differentially private" in found.problems[0]
    assert "NOT differentially private" in found.words[0]


def test_what_a_receipt_cannot_show_is_said(tmp_path: Path) -> None:
    """A receipt around the fit without privacy is as good as any: the words must not hide it."""
    outcome = release(ROWS, PLAN, rng=None)
    bare = Release(
        mixture=outcome.curator.nonprivate(), budget=PLAN.spent(), plan=PLAN, seeded=False
    )
    found = verify_receipt(make_receipt(bare))
    assert found.ok, "nobody can tell without the data"
    words = " ".join(found.words)
    assert "no receipt can show it: that the mixture was made by that plan" in words
    assert "not signed: anyone can have written it" in words
    broken = verify_receipt({**RECEIPT, "created": "2000-01-01T00:00:00+00:00"})
    assert not broken.intact
    assert " ".join(broken.words) == "".join(f"{problem}." for problem in broken.problems)


@pytest.mark.parametrize("result", RESULTS)
def test_a_receipt_says_everything(result: Release | Refusal) -> None:
    receipt = make_receipt(result)
    assert receipt["schema"] == RECEIPT_SCHEMA
    assert receipt["library"]["version"] == privgmm.__version__
    assert receipt["seeded"] is result.seeded
    assert ("not differentially private" in receipt["guarantee"]["words"]) is result.seeded
    assert Plan.from_dict(receipt["plan"]) == result.plan
    assert Budget.from_dict(receipt["guarantee"]) == result.budget
    ceiling = receipt["guarantee"]["ceiling"]
    assert ceiling == result.plan.ceiling
    assert f"{100 * ceiling:.6g}%" in receipt["guarantee"]["words"]
    if isinstance(result, Release):
        assert Mixture.from_dict(receipt["mixture"]) == result.mixture
        assert receipt["refusal"] is None
    else:
        assert receipt["mixture"] is None
        assert receipt["refusal"]["reason"] == result.reason


def test_columns_and_how_the_file_was_read_are_named() -> None:
    reading: dict[str, Any] = {
        "format": "CSV",
        "rows": 9000,
        "separator": ";",
        "decimal": ",",
        "header": True,
        "encoding": "utf-8",
    }
    receipt = make_receipt(RESULTS[1], columns=["height", "weight"], reading=reading)
    assert verify_receipt(receipt_text(receipt)).ok
    assert receipt["columns"] == ["height", "weight"]
    assert receipt["reading"] == reading
    # where rows with gaps were dropped, the receipt says so
    dropped = make_receipt(RESULTS[1], reading={**reading, "gaps_dropped": True})
    assert dropped["reading"]["gaps_dropped"] is True
    assert verify_receipt(dropped)
    for columns, rule in (
        (["a"], "columns has 1 items, not one per column as planned: 2"),
        (["a", "a"], "columns is not valid: it must not have equal items"),
        (["a", ""], r"columns\[1\] is not valid: it must have at least 1 characters"),
    ):
        with pytest.raises(InvalidInput, match=rule):
            make_receipt(RESULTS[1], columns=columns)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rows": 0}, "reading.rows is not valid: it must be at least 1"),
        ({"first": "Ann"}, 'reading is not valid: it has unknown fields: "first"'),
        ({"header": "yes"}, "reading.header is not valid: it must be of type boolean or null"),
        ({"rows": 1.5}, "reading.rows is not valid: it must be of type integer or null"),
        ({"gaps_dropped": False}, "reading.gaps_dropped is not valid: it must be True"),
    ]
    for change, rule in changes:
        with pytest.raises(InvalidInput, match=rule):
            make_receipt(RESULTS[1], reading={**reading, **change})


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
    full = make_receipt(result, learner="em")
    assert verify_receipt(receipt_text(full)).intact
    assert full["learner"] == "em"
    (row,) = ledger.export()
    assert full["ledger"] == {"entry": row["number"], "mark": row["mark"]}
    # neither the data nor the account can be read from it
    text = receipt_text(full)
    assert ledger.standing().account not in text
    assert content_fingerprint(ROWS) not in text
    # what no ledger of this package gave is not written down
    for mark in ("", "x" * 16, "0" * 15):
        with pytest.raises(InvalidInput, match=r"ledger.mark is not valid: it must match"):
            make_receipt(dataclasses.replace(result, mark=mark))
    for entry in (None, 0):
        with pytest.raises(InvalidInput, match=r"ledger.entry is not valid"):
            make_receipt(dataclasses.replace(result, entry=entry))
    assert make_receipt(dataclasses.replace(result, mark=None))["ledger"] is None
    with pytest.raises(InvalidInput, match="learner"):
        make_receipt(result, learner="")


def test_a_real_release_makes_a_valid_file(tmp_path: Path) -> None:
    outcome = release(ROWS, PLAN)
    path = write_receipt(make_receipt(outcome.result), tmp_path / "receipt.json")
    assert verify_receipt(path.read_bytes()).ok
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]
    with pytest.raises(InvalidInput, match=r"outcome\.result"):
        make_receipt(outcome)  # type: ignore[arg-type]  # a likely mistake


def test_a_receipt_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_receipt(RECEIPT, tmp_path / "receipt.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("result", RESULTS)
def test_receipts_follow_the_schema(result: Release | Refusal) -> None:
    jsonschema: Any = importlib.import_module("jsonschema")
    schema = receipt_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    receipt = make_receipt(dataclasses.replace(result, entry=3, mark="a" * 16), learner="em")
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
    twice = TEXT.replace(b'{\n "choice"', b'{\n "seeded": false,\n "choice"', 1)
    assert twice != TEXT
    assert not verify_receipt(twice).ok


def rehashed(change: Callable[[dict[str, Any]], object] | dict[str, Any]) -> dict[str, Any]:
    """A forger's receipt: changed, and hashed again by the published rule."""
    receipt = importlib.import_module("privgmm.records.receipt")
    forged = copy.deepcopy(RECEIPT)
    del forged["sha256"]
    if isinstance(change, dict):
        forged |= change
    else:
        change(forged)
    return {**forged, "sha256": receipt.digest(forged)}


def with_radius(plan: Plan, radius: float) -> Plan:
    """The plan with a wider test, and everything that follows from it."""
    test: Any = dataclasses.replace(plan.stage(Agreement).test, radius=radius)  # type: ignore[type-var]  # of any kind
    return plan.but(dataclasses.replace(plan.stage(Agreement), test=test), *plan.stages[1:])


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "smaller epsilon": (lambda r: r["guarantee"].update(epsilon=0.1), "more than the guarantee"),
    "smaller budget": (lambda r: r["plan"].update(epsilon=0.1), "more than its budget"),
    "less noise": (lambda r: r["plan"]["noise"].update(eta=0.01), "more than its budget"),
    "less test noise": (lambda r: r["plan"]["test"].update(sigma=0.5), "costs"),
    "lower threshold": (lambda r: r["plan"]["test"].update(threshold=1), "costs"),
    "wider radius": (lambda r: r.update(plan=with_radius(PLANS[4], 2.9).to_dict()), "costs"),
    "wider radius alone": (lambda r: r["plan"].update(tau=2.9), "gamma must be"),
    "no separation": (lambda r: r["plan"].update(separation=0.0), "separation must be"),
    "cheap refinement": (lambda r: r["plan"]["refine"].update(multiplier=[1.0, 1.0]), "costs"),
    "lower ceiling": (
        lambda r: r["guarantee"].update(ceiling=r["guarantee"]["ceiling"] - 1e-3),
        "proves that guesses are right",
    ),
    "no ceiling": (lambda r: r["guarantee"].pop("ceiling"), "guarantee is not valid: it lacks"),
    "a ceiling of nothing": (lambda r: r["guarantee"].update(ceiling=0.1), "at least 0.5"),
    "other words": (lambda r: r["guarantee"].update(words="perfectly private"), "words"),
    "hidden seed": (lambda r: r.update(seeded="no"), "seeded"),
    "smaller mixture": (
        lambda r: r.update(mixture=MIXTURE.marginal([0]).to_dict()),
        "not as planned",
    ),
    "no mixture": (
        lambda r: r.update(mixture={"weights": [1.0]}),
        "mixture is not valid: it lacks",
    ),
    "a mixture of nothing": (
        lambda r: r["mixture"].update(weights=[0.0, 0.0]),
        "the mixture is not valid: weights",
    ),
    "both": (lambda r: r.update(refusal={"reason": "none"}), "refusal"),
    "neither": (
        lambda r: r.update(released=False, mixture=None, refusal={"reason": "none"}, misfit=1.0),
        "misfit is not valid: it must be of type null",
    ),
    "other time": (lambda r: r.update(created="yesterday"), "a date-time with its zone"),
    "no zone": (lambda r: r.update(created="2026-01-01T00:00:00"), "a date-time with its zone"),
    "other relation": (lambda r: r["neighbours"].update(relation="none"), "neighbours"),
    "other schema": (lambda r: r.update(schema="privgmm/receipt-1"), "schema"),
    "one column": (lambda r: r.update(columns=["height"]), "not one per column as planned"),
    "one width": (lambda r: r.update(jitter=[0.5]), "not one per column as planned"),
    "names that are none": (lambda r: r.update(columns=["a", "a"]), "columns is not valid"),
    "more of the file": (lambda r: r.update(reading={"first": "Ann"}), "reading is not valid"),
    "no number": (lambda r: r.update(misfit="none"), "misfit"),
    "no sketch": (lambda r: r.update(sketch={"frame": {}}), "sketch"),
    "a sketch of nothing": (lambda r: r.update(sketch=[]), "sketch"),
    "no errors": (lambda r: r.update(standard_errors={"weights": []}), "standard_errors"),
    "no signature": (lambda r: r.update(signature="signed"), "signature is not valid"),
    "other unit": (lambda r: r["neighbours"].update(unit="row"), "neighbours"),
    "other unit and relation": (
        lambda r: r.update(neighbours=make_receipt(RESULTS[4])["neighbours"]),
        "words",
    ),
    "no learner": (lambda r: r.update(learner=3), "learner"),
    "no entry": (lambda r: r["ledger"].update(entry=0), "ledger"),
    "no mark": (lambda r: r["ledger"].update(mark="0123456789ABCDEF"), "ledger.mark"),
    "a mark and a line": (lambda r: r["ledger"].update(mark="0" * 16 + "\n"), "ledger.mark"),
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


def test_what_is_wrong_is_named_without_quoting_the_document() -> None:
    """Nor is the whole of a monstrous document searched: one broken rule is enough."""
    secret = "a cell of the table"
    changes: tuple[dict[str, Any], ...] = (
        {"created": secret * 10_000},
        {secret * 1_000: 1, "other": 2},
        {secret: 1, "\x1b[2J": 2},
        {"columns": [secret] * 100_000},
        {"columns": [*(f"{secret}{i}" for i in range(100_000)), 3.0]},
        {"mixture": {**RECEIPT["mixture"], "weights": [secret] * 100_000}},
        {"plan": {**RECEIPT["plan"], "refine": {str(i): secret for i in range(10_000)}}},
    )
    for change in changes:
        began = time.process_time()
        found = verify_receipt(rehashed(change))
        assert time.process_time() - began < 3
        assert not found.ok
        for problem in found.problems:
            assert len(problem) < 500
            assert problem.isprintable()


# ------------------------------------------------------------------------- a new published fact


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tailed(Published):
    """What a stage publishes that knows one more fact."""

    tail: float

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "tail": self.tail}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailedRelease(Tailed, Release):
    """A release with that fact."""


def with_tail() -> dict[str, Any]:
    """The schema with the fact as a property."""
    schema = receipt_schema()
    schema["properties"]["tail"] = {"type": ["number", "null"], "minimum": 0}
    schema["required"].append("tail")
    return schema


def test_a_new_fact_takes_its_stage_and_a_property_of_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It travels into the receipt by itself, and is checked by the schema that names it."""
    stage = type(PLAN.stages[-1])
    prepare = stage.prepare

    def prepared(self: Any, work: Any, public: Any) -> Any:
        """What the stage draws, published with one more fact."""
        inner = prepare(self, work, public)

        def draw(source: Any) -> Drawn:
            drawn = inner.draw(source)
            return Drawn(Tailed(mixture=drawn.value, tail=0.25), drawn.view)

        return types.SimpleNamespace(draw=draw)

    receipts = importlib.import_module("privgmm.records.receipt")
    monkeypatch.setattr(stage, "prepare", prepared)
    monkeypatch.setattr(importlib.import_module("privgmm.releases"), "Release", TailedRelease)
    result = release(ROWS, PLAN, rng=11).result
    assert isinstance(result, TailedRelease)
    with pytest.raises(InvalidInput, match='unknown fields: "tail"'):
        make_receipt(result)
    monkeypatch.setattr(receipts, "receipt_schema", with_tail)
    receipts._validator.cache_clear()
    try:
        receipt = make_receipt(result)
        assert receipt["tail"] == 0.25
        assert verify_receipt(receipt).intact
        assert make_receipt(RESULTS[-1])["tail"] is None
        wrong = {**receipt, "tail": -1.0}
        assert verify_receipt(wrong).problems == ("tail is not valid: it must be at least 0",)
    finally:
        receipts._validator.cache_clear()
