"""Receipts: one JSON document that says what was released, how, and what it promises.

Anyone can check one without the data: its hash is that of its content, and its plan, priced
afresh, costs no more than it says.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import hmac
import importlib.resources
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.budget import Budget, Unit
from privgmm.data.jitter import jitter_widths
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.results import Refusal, Release

__all__ = [
    "RECEIPT_SCHEMA",
    "Verification",
    "make_receipt",
    "receipt_schema",
    "receipt_text",
    "verify_receipt",
    "write_receipt",
    "write_whole",
]

RECEIPT_SCHEMA = "privgmm/receipt-2"

_NEIGHBOURS: dict[Unit, str] = {
    "row": "one data set becomes the other by replacing one row",
    "person": "one data set becomes the other by replacing all rows of one person",
}
_KEYS = frozenset(
    {
        "schema",
        "library",
        "created",
        "released",
        "seeded",
        "mixture",
        "refusal",
        "guarantee",
        "neighbours",
        "learner",
        "jitter",
        "ledger",
        "plan",
        "sha256",
    }
)


@dataclasses.dataclass(frozen=True)
class Verification:
    """What checking a receipt found.

    Parameters
    ----------
    ok : bool
    problems : tuple of str
        Empty if ok.
    """

    ok: bool
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


def make_receipt(
    result: Release | Refusal,
    *,
    learner: str | None = None,
    jitter: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """The receipt of a release or a refusal.

    Parameters
    ----------
    result : Release or Refusal
        ``outcome.result``, never the curator's part. If a ledger was told of it, the receipt names
        the spend: its number, and its random mark, which finds it in the curator's ledger and says
        nothing about the data. Two receipts of one data set cannot be matched by it.
    learner : str, optional
        How blocks were fitted, a name in `privgmm.learners.registry`. The guarantee holds for any.
    jitter : array-like (d,), optional
        Widths of the public noise that `jittered` added to the rows: whoever reads the
        covariances must know that width^2 / 12 of each variance is its doing.
    """
    if not isinstance(result, Release | Refusal):
        raise InvalidInput(
            f"result must be a Release or a Refusal, got {type(result).__name__}: pass "
            "outcome.result"
        )
    ledger = None if result.mark is None else {"entry": result.entry, "mark": result.mark}
    if not _is_spend(ledger):
        raise InvalidInput(
            "result must carry the entry (1 or more) and the mark (16 hexadecimal digits) that its "
            f"ledger gave, got entry {result.entry!r} and mark {result.mark!r}: pass the result as "
            "`release` returned it"
        )
    if not _is_learner(learner):
        raise InvalidInput(f"learner must be a name, got {learner!r}: leave it out or give a name")
    widths = None if jitter is None else jitter_widths(jitter, result.plan.n_features).tolist()
    receipt: dict[str, Any] = {
        "schema": RECEIPT_SCHEMA,
        "library": {"name": "privgmm", "version": _library_version()},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "released": result.released,
        "seeded": result.seeded,
        "mixture": result.mixture.to_dict() if isinstance(result, Release) else None,
        "refusal": {"reason": result.reason} if isinstance(result, Refusal) else None,
        "guarantee": {
            **result.budget.to_dict(),
            "words": _words(result.budget, result.unit, seeded=result.seeded),
        },
        "neighbours": {"unit": result.unit, "relation": _NEIGHBOURS[result.unit]},
        "learner": learner,
        "jitter": widths,
        "ledger": ledger,
        "plan": result.plan.to_dict(),
    }
    return {**receipt, "sha256": _digest(receipt)}


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """The one way a receipt is written: keys sorted, one space of indent, ASCII, final newline."""
    try:
        return json.dumps(dict(receipt), sort_keys=True, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"receipt must be a JSON object: {problem}") from problem


def write_receipt(receipt: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a receipt; the file is there whole or not at all."""
    return write_whole(path, receipt_text(receipt).encode("ascii"))


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file, or replace it: by another name first, so that nobody sees a part of it."""
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def receipt_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of receipts."""
    file = importlib.resources.files("privgmm.records") / "schema" / "receipt-2.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def verify_receipt(document: bytes | str | Mapping[str, Any]) -> Verification:
    """Check a receipt: form, hash, and that its plan, priced afresh, costs what it says.

    Parameters
    ----------
    document : bytes, str or mapping
        The file's content. As bytes or text it must be what `write_receipt` wrote, byte by byte:
        one changed space is a change. A mapping is checked by its values.

    Returns
    -------
    Verification
        For malformed content a failed one, not an error.

    Notes
    -----
    The hash shows that a receipt was not changed by accident or in part; it is not a signature:
    whoever writes a new document can hash it too. The price cannot be talked down that way.
    """
    if not isinstance(document, bytes | bytearray | str | Mapping):
        raise InvalidInput(
            f"document must be bytes, text or a dict, got {type(document).__name__}: pass "
            "Path(...).read_bytes()"
        )
    try:
        receipt, text = _parsed(document)
        problems = list(_form_problems(receipt))
        if not problems:
            if text is not None and text != receipt_text(receipt):
                problems.append("the text is not laid out as it was written: it was edited")
            content = {key: value for key, value in receipt.items() if key != "sha256"}
            if not hmac.compare_digest(receipt["sha256"], _digest(content)):
                problems.append("the hash does not belong to the content: something was changed")
            problems.extend(_price_problems(receipt))
            problems.extend(_mixture_problems(receipt))
    except InvalidInput as problem:
        problems = [str(problem)]
    return Verification(not problems, tuple(problems))


def _parsed(
    document: bytes | bytearray | str | Mapping[str, Any],
) -> tuple[dict[str, Any], str | None]:
    if isinstance(document, Mapping):
        # through text and back, so that what is checked is what would be written
        return _loaded(receipt_text(document)), None
    if isinstance(document, str):
        return _loaded(document), document
    try:
        text = bytes(document).decode("ascii")
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"the document is not a receipt: {problem}") from problem
    return _loaded(text), text


def _loaded(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"the document is not JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise InvalidInput("the document is not a JSON object")
    return value


def _form_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """What the schema asks for."""
    if receipt.get("schema") != RECEIPT_SCHEMA:
        yield f"schema must be {RECEIPT_SCHEMA!r}: this is another kind of document"
        return
    if receipt.keys() != _KEYS:
        yield f"fields missing or unknown: {', '.join(sorted(receipt.keys() ^ _KEYS))}"
        return
    yes, no = receipt["released"] is True, receipt["released"] is False
    library, neighbours = receipt["library"], receipt["neighbours"]
    rules = {
        "released must be true or false": yes or no,
        "seeded must be true or false": isinstance(receipt["seeded"], bool),
        "mixture must be there exactly if released": yes == isinstance(receipt["mixture"], dict)
        and no == (receipt["mixture"] is None),
        "refusal must give its reason exactly if not released": _is_refusal(receipt["refusal"])
        if no
        else receipt["refusal"] is None,
        "library must be privgmm and its version": isinstance(library, dict)
        and library.keys() == {"name", "version"}
        and library["name"] == "privgmm"
        and isinstance(library["version"], str),
        "created must be a time with its zone": _is_time(receipt["created"]),
        "neighbours must name a unit and its relation": any(
            neighbours == {"unit": unit, "relation": words} for unit, words in _NEIGHBOURS.items()
        ),
        "learner must be a name or nothing": _is_learner(receipt["learner"]),
        "jitter must be widths or nothing": _is_jitter(receipt["jitter"]),
        "ledger must be an entry and its mark, or nothing": _is_spend(receipt["ledger"]),
        "guarantee must hold epsilon, delta and words": isinstance(receipt["guarantee"], dict)
        and receipt["guarantee"].keys() == {"epsilon", "delta", "words"},
        "sha256 must be 64 hexadecimal digits": isinstance(receipt["sha256"], str)
        and len(receipt["sha256"]) == 64
        and set(receipt["sha256"]) <= set("0123456789abcdef"),
    }
    yield from (rule for rule, kept in rules.items() if not kept)


def _is_refusal(value: object) -> bool:
    return (
        isinstance(value, dict) and value.keys() == {"reason"} and isinstance(value["reason"], str)
    )


def _is_learner(value: object) -> bool:
    return value is None or (isinstance(value, str) and value != "")


def _is_jitter(value: object) -> bool:
    return value is None or (
        isinstance(value, list)
        and all(type(width) is float and 0 <= width < math.inf for width in value)
    )


def _is_spend(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and value.keys() == {"entry", "mark"}
        and type(value["entry"]) is int
        and value["entry"] >= 1
        and isinstance(value["mark"], str)
        and re.fullmatch("[0-9a-f]{16}", value["mark"]) is not None
    )


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return datetime.datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _price_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """Price the plan afresh and hold it against what is stated."""
    stated = receipt["guarantee"]
    numbers = [stated["epsilon"], stated["delta"]]
    if not all(isinstance(value, float) and math.isfinite(value) for value in numbers):
        yield "the guarantee must be two numbers"
        return
    try:
        budget = Budget(*numbers)
        plan = Plan.from_dict(receipt["plan"])
        # numbers no calibration would give may overflow on the way to a refusal
        with np.errstate(all="ignore"):
            spent = plan.spent()
    except (PrivGMMError, ArithmeticError, ValueError) as problem:
        yield f"the plan cannot be priced: {problem}"
        return
    if not plan.budget.covers(spent):
        yield f"the plan costs {spent}, more than its budget {plan.budget}"
    if not budget.covers(spent):
        yield f"the plan costs {spent}, more than the guarantee states: {budget}"
    unit = receipt["neighbours"]["unit"]
    if stated["words"] != _words(budget, unit, seeded=receipt["seeded"]):
        yield "the guarantee in words is not the one in numbers"


def _mixture_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """The mixture is one, and, like the jitter, of the size that was planned."""
    plan, jitter = receipt["plan"], receipt["jitter"]
    if jitter is not None and isinstance(plan, dict) and len(jitter) != plan.get("n_features"):
        yield f"jitter has {len(jitter)} widths, not one per dimension as planned"
    if receipt["mixture"] is None:
        return
    try:
        with np.errstate(all="ignore"):
            mixture = Mixture.from_dict(receipt["mixture"])
    except (InvalidInput, ArithmeticError) as problem:
        yield f"the mixture is not valid: {problem}"
        return
    size = (mixture.n_components, mixture.n_features)
    if isinstance(plan, dict) and size != (plan.get("n_components"), plan.get("n_features")):
        yield f"the mixture has {size[0]} components in {size[1]} dimensions, not as planned"


def _words(budget: Budget, unit: str, *, seeded: bool) -> str:
    """The guarantee as a sentence; part of the format, so it changes only with the schema."""
    who = "one row" if unit == "row" else "all rows of one person"
    promise = (
        f"Replacing {who} of the data changes the probability of any outcome by at most a factor "
        f"exp({budget.epsilon:.6g}), and an additional {budget.delta:.6g}."
    )
    if seeded:
        return f"{promise} But the noise can be repeated from a seed: a demonstration, not private."
    return promise


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON: keys sorted, no spaces, ASCII."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _library_version() -> str:
    # only when called: the package is still being put together when this module is loaded
    import privgmm

    return privgmm.__version__
