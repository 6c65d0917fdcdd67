"""Receipts: one JSON document that says what was released, how, and what it promises.

What anyone can check without the data: the hash is that of the content, so nothing was changed by
accident or in part; the plan, priced afresh, costs no more than is stated, and proves the stated
ceiling on right guesses; whether the noise was fresh, by its own account; and, with a public key,
who signed it.

What nobody can check without the data: that the mixture was made by that plan. Whoever writes a
receipt around any other mixture, such as a fit without privacy, can hash it too, and sign it with
a key of their own. A signature shows whom to trust, or to blame; it proves no noise.

A receipt of method `sketch` holds the noisy sketch too, which is public: whoever has the receipt
can fit other numbers of components and draw densities, without the data and at no cost
(`sketch_of`). Format 3 is written. Format 2, which has no sketch, standard errors, names of columns
nor signature, is still read.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.budget import Budget, Unit
from privgmm.data.jitter import jitter_widths
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.records.files import write_whole
from privgmm.records.signature import Signer, key_name, read_public_key, signature_holds
from privgmm.results import Refusal, Release
from privgmm.stages.sketch.choice import Choice
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "RECEIPT_SCHEMA",
    "Verification",
    "make_receipt",
    "receipt_schema",
    "receipt_text",
    "sketch_of",
    "verify_receipt",
    "write_receipt",
]

RECEIPT_SCHEMA = "privgmm/receipt-3"
"""The format that is written."""

_OLDER = "privgmm/receipt-2"
_SIGNED = b"privgmm receipt, signed\n"
"""Stands before what is signed, so that no signature of anything else can be passed off for it."""

_SEEDED = (
    "NOT private: made with a seed. Whoever knows or guesses the seed can take the noise away, so "
    "this is a demonstration and must not be shown where privacy matters"
)

_CEILING_SLACK = 1e-6
"""Other machines may round the proof of a ceiling otherwise."""

_NEIGHBOURS: dict[Unit, str] = {
    "row": "one data set becomes the other by replacing one row",
    "person": "one data set becomes the other by replacing all rows of one person",
}
_OLDER_KEYS = frozenset(
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
_KEYS = _OLDER_KEYS | {
    "columns",
    "reading",
    "sketch",
    "misfit",
    "floored",
    "standard_errors",
    "signature",
}
_DROPPED = "gaps_dropped"
"""Only there, and true, where rows with missing values were dropped."""

_READING: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "rows": (int, type(None)),
    "separator": (str, type(None)),
    "decimal": (str, type(None)),
    "header": (bool, type(None)),
    "encoding": (str, type(None)),
}


@dataclasses.dataclass(frozen=True)
class Verification:
    """What checking a receipt found. True as a condition only if `ok`.

    Parameters
    ----------
    ok : bool
        The receipt is intact, its noise was fresh, and, if a key was given, it is signed with it.
    problems : tuple of str
        Empty if ok.
    intact : bool
        As it was written, of the right form, and its plan costs no more than it states. Also true
        of a seeded receipt, which is a demonstration and not ok.
    seeded : bool
        Whether its noise can be repeated. Only to be read if intact.
    signer : str or None
        The name of the key that the receipt says it was signed with, as ``ssh-keygen -l`` shows
        it; None without a signature.
    checked : bool
        Whether that signature was checked, with a key that was given, and holds.
    wanted : bool
        Whether a key was given. If so and not `checked`, the problems say what is wrong.
    """

    ok: bool
    problems: tuple[str, ...] = ()
    intact: bool = False
    seeded: bool = False
    signer: str | None = None
    checked: bool = False
    wanted: bool = False

    def __bool__(self) -> bool:
        return self.ok

    @property
    def words(self) -> tuple[str, ...]:
        """What was found, and what no check of a receipt can find, sentence by sentence."""
        if not self.intact:
            return tuple(f"{problem}." for problem in self.problems)
        found = [f"{problem}." for problem in self.problems]
        found.append(
            "Checked: nothing was changed since it was written, and its plan, priced afresh, costs "
            "no more than it states."
        )
        if self.checked:
            found.append(f"Checked: it was signed with the key given, {self.signer}.")
        elif self.wanted:
            # the problems say why it does not hold
            pass
        elif self.signer is None:
            found.append("It is not signed: anyone can have written it, hash included.")
        else:
            found.append(
                f"It says that it was signed with the key {self.signer}; that was not checked: "
                "give the public key."
            )
        found.append(
            "Not checked, because no receipt can show it: that the mixture was made by that plan, "
            "with fresh noise. For that, trust "
            + ("whoever holds the key." if self.checked else "whoever gave it to you.")
        )
        return tuple(found)


def make_receipt(
    result: Release | Refusal,
    *,
    learner: str | None = None,
    jitter: npt.ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    reading: Mapping[str, str | int | bool | None] | None = None,
    signer: Signer | None = None,
) -> dict[str, Any]:
    """The receipt of a release or a refusal.

    Parameters
    ----------
    result : Release or Refusal
        ``outcome.result``, never the curator's part. If a ledger was told of it, the receipt names
        the spend: its number, and its random mark, which finds it in the curator's ledger and says
        nothing about the data. Two receipts of one data set cannot be matched by the mark.
    learner : str, optional
        How blocks were fitted, a name in `privgmm.learners.registry`. The guarantee holds for any.
    jitter : array-like (d,), optional
        Widths of the public noise that `jittered` added to the rows: whoever reads the
        covariances must know that width^2 / 12 of each variance is its doing.
    columns : sequence of str, optional
        The names of the d columns, which become public with the receipt.
    reading : mapping, optional
        How a file was read, nothing of it hanging on single cells: its format, how many rows it
        has (None where persons are protected, whose numbers of rows are their own affair),
        separator, decimal sign, header and encoding.
    signer : Signer, optional
        Signs it, see `privgmm.records.signature`.
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
    if columns is not None and not _is_names(list(columns), result.plan.n_features):
        raise InvalidInput(
            f"columns must be {result.plan.n_features} distinct names, got {list(columns)}"
        )
    if not _is_reading(None if reading is None else dict(reading)):
        raise InvalidInput(f"reading must hold {', '.join(_READING)}, got {reading}")
    ceiling = result.plan.ceiling
    sketch = misfit = errors = None
    if isinstance(result, Release):
        sketch, misfit, errors = result.sketch, result.misfit, result.standard_errors
        if sketch is not None and columns is not None:
            sketch = sketch.with_columns(columns)
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
            "ceiling": ceiling,
            "words": _words(result.budget, result.unit, ceiling, seeded=result.seeded),
        },
        "neighbours": {"unit": result.unit, "relation": _NEIGHBOURS[result.unit]},
        "learner": learner,
        "jitter": widths,
        "columns": None if columns is None else list(columns),
        "reading": None if reading is None else dict(reading),
        "ledger": ledger,
        "plan": result.plan.to_dict(),
        "sketch": None if sketch is None else sketch.to_dict(),
        "misfit": misfit,
        "floored": isinstance(result, Release) and result.floored,
        "standard_errors": None if errors is None else errors.to_dict(),
        "signature": None,
    }
    if isinstance(result, Release) and result.choice is not None:
        receipt["choice"] = result.choice.to_dict()
    if signer is not None:
        receipt["signature"] = {
            "algorithm": "Ed25519",
            "public_key": signer.public_key.hex(),
            "value": signer.sign(_signed_bytes(receipt)).hex(),
        }
    return {**receipt, "sha256": _digest(receipt)}


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """The one way a receipt is written: keys sorted, one space of indent, ASCII, final newline."""
    try:
        return json.dumps(dict(receipt), sort_keys=True, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"receipt must be a JSON object: {problem}") from problem


def write_receipt(receipt: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a receipt; the file is there whole or not at all, and its owner alone can read it."""
    return write_whole(path, receipt_text(receipt).encode("ascii"))


def sketch_of(receipt: Mapping[str, Any]) -> PrivateSketch | None:
    """The noisy sketch in a receipt, if there is one: for looks that cost nothing.

    Raises
    ------
    InvalidInput
        If what is there is not a sketch. Whether to believe the receipt is another question, for
        `verify_receipt`.
    """
    written = receipt.get("sketch")
    return None if written is None else PrivateSketch.from_dict(written)


def receipt_schema(name: str = RECEIPT_SCHEMA) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of receipts of a format, by default the one written."""
    if name not in (RECEIPT_SCHEMA, _OLDER):
        raise InvalidInput(f"name must be {RECEIPT_SCHEMA!r} or {_OLDER!r}, got {name!r}")
    folder = importlib.resources.files("privgmm.records") / "schema"
    file = folder / f"{name.removeprefix('privgmm/')}.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def verify_receipt(
    document: bytes | str | Mapping[str, Any], *, key: str | os.PathLike[str] | None = None
) -> Verification:
    """Check a receipt: form, hash, price, that its noise was fresh, and who signed it.

    Parameters
    ----------
    document : bytes, str or mapping
        The file's content. As bytes or text it must be what `write_receipt` wrote, byte by byte:
        one changed space is a change. A mapping is checked by its values.
    key : path, optional
        A file with the public key that it must have been signed with.

    Returns
    -------
    Verification
        For malformed content a failed one, not an error.

    Notes
    -----
    The hash shows that a receipt was not changed by accident or in part; it is not a signature:
    whoever writes a new document can hash it too. The price cannot be talked down that way, but a
    mixture that never saw any noise can be put beside it: nobody can tell without the data.
    """
    if not isinstance(document, bytes | bytearray | str | Mapping):
        raise InvalidInput(
            f"document must be bytes, text or a dict, got {type(document).__name__}: pass "
            "Path(...).read_bytes()"
        )
    public_key = None if key is None else read_public_key(key)
    try:
        receipt, text = _parsed(document)
        problems = list(_form_problems(receipt))
        if not problems:
            if text is not None and text != receipt_text(receipt):
                problems.append("the text is not laid out as it was written: it was edited")
            content = {name: value for name, value in receipt.items() if name != "sha256"}
            if not hmac.compare_digest(receipt["sha256"], _digest(content)):
                problems.append("the hash does not belong to the content: something was changed")
            problems.extend(_price_problems(receipt))
            problems.extend(_mixture_problems(receipt))
    except InvalidInput as problem:
        problems = [str(problem)]
    if problems:
        return Verification(ok=False, problems=tuple(problems))
    if receipt["seeded"]:
        problems.append(_SEEDED)
    unsigned = None if public_key is None else _signature_problem(receipt, public_key)
    if unsigned is not None:
        problems.append(unsigned)
    signature = receipt.get("signature")
    return Verification(
        ok=not problems,
        problems=tuple(problems),
        intact=True,
        seeded=receipt["seeded"],
        signer=None if signature is None else key_name(bytes.fromhex(signature["public_key"])),
        checked=public_key is not None and unsigned is None,
        wanted=public_key is not None,
    )


def _signature_problem(receipt: dict[str, Any], public_key: bytes) -> str | None:
    """Why the holder of this key cannot be said to have signed a receipt of the right form."""
    signature, wanted = receipt.get("signature"), key_name(public_key)
    if signature is None:
        return f"it is not signed, and a signature with the key {wanted} was asked for"
    named = bytes.fromhex(signature["public_key"])
    if named != public_key:
        return f"it was signed with another key, {key_name(named)}, not with {wanted}"
    if not signature_holds(public_key, bytes.fromhex(signature["value"]), _signed_bytes(receipt)):
        return f"the signature is not one of the key {wanted} for this content"
    return None


def _signed_bytes(receipt: Mapping[str, Any]) -> bytes:
    """What is signed: everything but the signature, and the hash, which covers it too."""
    content = {k: v for k, v in receipt.items() if k not in ("signature", "sha256")}
    return _SIGNED + _canonical(content)


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
    schema = receipt.get("schema")
    if schema not in (RECEIPT_SCHEMA, _OLDER):
        yield f"schema must be {RECEIPT_SCHEMA!r}: this is another kind of document"
        return
    keys = _KEYS if schema == RECEIPT_SCHEMA else _OLDER_KEYS
    # written only where the number of components was left open
    found = receipt.keys() - ({"choice"} if schema == RECEIPT_SCHEMA else set())
    if found != keys:
        yield f"fields missing or unknown: {', '.join(sorted(found ^ keys))}"
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
        "columns must be names or nothing": _is_names(receipt.get("columns")),
        "reading must say how the file was read, or nothing": _is_reading(receipt.get("reading")),
        "misfit must be a number or nothing": _is_number(receipt.get("misfit")),
        "floored must be true or false": isinstance(receipt.get("floored", False), bool),
        "sketch, misfit, standard_errors and choice must be there only if released": yes
        or not any(receipt.get(name) for name in ("sketch", "misfit", "standard_errors", "choice")),
        "signature must be a key and a value of Ed25519, or nothing": _is_signature(
            receipt.get("signature")
        ),
        "ledger must be an entry and its mark, or nothing": _is_spend(receipt["ledger"]),
        "guarantee must hold epsilon, delta, words and, since format 3, a ceiling": isinstance(
            receipt["guarantee"], dict
        )
        and receipt["guarantee"].keys() - ({"ceiling"} if schema == RECEIPT_SCHEMA else set())
        == {"epsilon", "delta", "words"}
        and ("ceiling" in receipt["guarantee"]) == (schema == RECEIPT_SCHEMA),
        "sha256 must be 64 hexadecimal digits": _is_hex(receipt["sha256"], 64),
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


def _is_names(value: object, count: int | None = None) -> bool:
    return value is None or (
        isinstance(value, list)
        and len(value) == (len(value) if count is None else count)
        and all(isinstance(name, str) and name != "" for name in value)
        and len(set(value)) == len(value)
    )


def _is_reading(value: object) -> bool:
    return value is None or (
        isinstance(value, dict)
        and value.keys() - {_DROPPED} == _READING.keys()
        and value.get(_DROPPED, True) is True
        and all(type(value[name]) in kinds for name, kinds in _READING.items())
        and (value["rows"] is None or value["rows"] >= 1)
    )


def _is_number(value: object) -> bool:
    return value is None or (type(value) is float and math.isfinite(value))


def _is_signature(value: object) -> bool:
    return value is None or (
        isinstance(value, dict)
        and value.keys() == {"algorithm", "public_key", "value"}
        and value["algorithm"] == "Ed25519"
        and _is_hex(value["public_key"], 64)
        and _is_hex(value["value"], 128)
    )


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


def _is_spend(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and value.keys() == {"entry", "mark"}
        and type(value["entry"]) is int
        and value["entry"] >= 1
        and _is_hex(value["mark"], 16)
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
    ceiling = stated.get("ceiling")
    if not all(isinstance(value, float) and math.isfinite(value) for value in numbers):
        yield "the guarantee must be two numbers"
        return
    if "ceiling" in stated and not (isinstance(ceiling, float) and 0.5 <= ceiling <= 1):
        yield "the ceiling of the guarantee must lie in 0.5..1"
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
    elif ceiling is not None:
        yield from _ceiling_problems(plan, ceiling)
    unit = receipt["neighbours"]["unit"]
    if stated["words"] != _words(budget, unit, ceiling, seeded=receipt["seeded"]):
        yield "the guarantee in words is not the one in numbers"


def _ceiling_problems(plan: Plan, stated: float) -> Iterator[str]:
    """Prove the ceiling on right guesses afresh."""
    try:
        with np.errstate(all="ignore"):
            proved = plan.ceiling
    except (PrivGMMError, ArithmeticError, ValueError) as problem:
        yield f"no ceiling on right guesses can be proved: {problem}"
        return
    if not stated >= proved - _CEILING_SLACK:
        yield (
            f"the plan proves that guesses are right at most {proved:.6g} of the time, not "
            f"{stated:.6g} as the guarantee states"
        )


def _mixture_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """The mixture is one, and, like jitter and columns, of the size that was planned."""
    plan, jitter = receipt["plan"], receipt["jitter"]
    if jitter is not None and isinstance(plan, dict) and len(jitter) != plan.get("n_features"):
        yield f"jitter has {len(jitter)} widths, not one per dimension as planned"
    columns = receipt.get("columns")
    if columns is not None and isinstance(plan, dict) and len(columns) != plan.get("n_features"):
        yield f"there are names of {len(columns)} columns, not one per dimension as planned"
    if receipt["mixture"] is None:
        return
    try:
        with np.errstate(all="ignore"):
            mixture = Mixture.from_dict(receipt["mixture"])
    except (InvalidInput, ArithmeticError) as problem:
        yield f"the mixture is not valid: {problem}"
        return
    size = (mixture.n_components, mixture.n_features)
    if isinstance(plan, dict):
        # beside a sketch it may be any other fit to it, which is free
        k = plan.get("n_components") if receipt.get("sketch") is None else size[0]
        if size != (k, plan.get("n_features")):
            yield f"the mixture has {size[0]} components in {size[1]} dimensions, not as planned"
    yield from _look_problems(receipt, mixture)


def _look_problems(receipt: dict[str, Any], mixture: Mixture) -> Iterator[str]:
    """Sketch and standard errors can be read, and are of the mixture's size."""
    try:
        with np.errstate(all="ignore"):
            sketch = sketch_of(receipt)
            written = receipt.get("standard_errors")
            errors = None if written is None else StandardErrors.from_dict(written)
            choice = Choice.from_dict(receipt["choice"]) if "choice" in receipt else None
    except (InvalidInput, ArithmeticError) as problem:
        yield f"the sketch, the standard errors or the choice are not valid: {problem}"
        return
    yield from _choice_problems(receipt["plan"], choice, mixture)
    if sketch is not None and sketch.to_dict() != receipt["sketch"]:
        yield "the sketch is not written as this package writes it"
    if sketch is not None and sketch.n_features != mixture.n_features:
        yield f"the sketch is of {sketch.n_features} columns, the mixture of {mixture.n_features}"
    if errors is not None and errors.means.shape != mixture.means.shape:
        yield "the standard errors are not of the mixture's size"


def _choice_problems(plan: Any, choice: Choice | None, mixture: Mixture) -> Iterator[str]:
    """How the number of components was chosen is there exactly if the plan left it open."""
    finish = plan.get("finish") if isinstance(plan, dict) else None
    is_open = isinstance(finish, dict) and finish.get("choose") is True
    if is_open != (choice is not None):
        yield "a choice of components must be there exactly if the plan leaves their number open"
    elif choice is not None and (choice.n_components, choice.max_components) != (
        mixture.n_components,
        plan.get("n_components"),
    ):
        yield (
            f"{choice.n_components} components of up to {choice.max_components} were chosen, and "
            f"the mixture has {mixture.n_components} of up to {plan.get('n_components')}"
        )


def _words(budget: Budget, unit: Unit, ceiling: float | None, *, seeded: bool) -> str:
    """The guarantee as sentences; part of the format, so they change only with the schema."""
    who = "one row" if unit == "row" else "all rows of one person"
    promise = (
        f"Replacing {who} of the data changes the probability of any outcome by at most a factor "
        f"exp({budget.epsilon:.6g}), and an additional {budget.delta:.6g}."
    )
    if ceiling is not None:
        knows = (
            "every other row, and two values that one row may have had,"
            if unit == "row"
            else "the rows of every other person, and two sets of rows that one may have had,"
        )
        promise += (
            f" Somebody who knows {knows} guesses right which it was at most {100 * ceiling:.6g}% "
            "of the time; a coin is right 50% of the time."
        )
    if seeded:
        return f"{promise} But the noise can be repeated from a seed: a demonstration, not private."
    return promise


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Mapping[str, Any]) -> bytes:
    """JSON with keys sorted, no spaces, ASCII."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _library_version() -> str:
    # only when called: the package is still being put together when this module is loaded
    import privgmm

    return privgmm.__version__
