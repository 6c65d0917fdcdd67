"""Receipts: one JSON document that says what was released, how, and what it promises.

What anyone can check without the data: the document follows its JSON schema; the hash is that of
the content, so nothing was changed by accident or in part; the plan, priced again, costs no more
than is stated, and proves the stated ceiling on right guesses; a published sketch has the waves,
the number of rows and the noise of that plan; whether the noise was fresh, by its own account; and,
with a public key, who signed it.

What no one can check without the data: that the mixture was made by that plan, and that noise of
the stated size was drawn. An author can put any other mixture into a receipt, such as a fit without
privacy, hash it, and sign it with a key of their own. A signature shows whom to trust, or to blame;
it proves no noise.

A receipt of method `sketch` holds the noisy sketch too, which is public: from the receipt anyone
can fit other numbers of components and draw densities, without the data and at no cost
(`sketch_of`).
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib.resources
import json
import math
import os
import textwrap
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
from privgmm.records.document import (
    RECEIPT_SCHEMA,
    Document,
    alterations,
    canonical,
    content_of,
    digest,
    parsed,
    receipt_text,
)
from privgmm.records.files import write_whole
from privgmm.records.signature import Signer, key_name, read_public_key, signature_holds
from privgmm.results import Refusal, Release
from privgmm.stages.accuracy import NOT_RESOLVED, RESOLVED, ExpectedError
from privgmm.stages.recorded import atoms_from_dicts
from privgmm.stages.sketch.choice import Choice
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.standard_errors import StandardErrors
from privgmm.stages.tails import ranges_from_dicts

__all__ = [
    "RECEIPT_SCHEMA",
    "Document",
    "Verification",
    "make_receipt",
    "read_receipt",
    "receipt_schema",
    "receipt_text",
    "sketch_of",
    "verify_receipt",
    "write_receipt",
]

_SIGNED = b"privgmm receipt, signed\n"
"""Stands before what is signed, so that no signature of anything else can be passed off for it."""

_SEEDED = (
    "NOT differentially private: made with a seed. Knowing or guessing the seed is enough to take "
    "the noise away, so this is a demonstration and must not be shown where privacy matters"
)

_CEILING_SLACK = 1e-6
"""A proved ceiling may exceed the stated one by this: other machines round the proof otherwise."""

_NOISE_SLACK = 1e-9
"""Relative slack for the noise on a sketch; by convention far above the rounding of a float."""

_DIRECTION_SLACK = 1e-6
"""Slack for coordinates of directions: other machines round the steps that spread them otherwise
(measured: 1e-11 between kinds of processor). By convention between that and other directions."""

_AS_WIDE = 0.2501
"""Variance, in units of a component, at which two standard errors of its mean are as wide as it is;
a little is left for rounding to six digits."""

_MANY_DIRECTIONS = 1_000
"""More directions than this are spread again only where the usual sketch has them: it takes memory
in proportion to their square, and a hostile receipt may name any number."""

_NEIGHBOURS: dict[Unit, str] = {
    "row": "one data set becomes the other by replacing one row",
    "person": "one data set becomes the other by replacing all rows of one person",
}
"""Relations of neighbours, as the schema has them."""

_RULES = {
    "type": "must be of type {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "required": "lacks {}",
    "additionalProperties": "has unknown fields: {}",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "pattern": "must match {}",
    "format": "must be a {} with its zone",
    "uniqueItems": "must not have equal items",
}
"""The rules of the schema, by the keywords of JSON Schema."""


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
            "Checked: nothing was changed since it was written, and its plan, priced again, costs "
            "no more than it states."
        )
        if self.checked:
            found.append(f"Checked: it was signed with the key given, {self.signer}.")
        elif self.wanted:
            pass  # the problems say why it does not hold
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
            + ("the holder of the key." if self.checked else "the person who gave it to you.")
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
    """Make the receipt of a release or a refusal.

    Parameters
    ----------
    result : Release or Refusal
        ``outcome.result``, never the curator's part. If the spend is in a ledger, the receipt names
        it: its number, and its random mark, which finds it in the curator's ledger and says
        nothing about the data. Two receipts of one data set cannot be matched by the mark.
    learner : str, optional
        How blocks were fitted, a name in `privgmm.learners.registry`. The guarantee holds for any.
    jitter : array-like (d,), optional
        Widths of the public noise that `jittered` added to the rows: it accounts for width^2 / 12
        of each variance, which readers of the covariances must know.
    columns : sequence of str, optional
        The names of the d columns, which become public with the receipt; by default those of the
        result.
    reading : mapping, optional
        How a file was read, nothing of which depends on single cells: its format, its number of
        rows (None where persons are protected: their numbers of rows are confidential),
        separator, decimal sign, header and encoding.
    signer : Signer, optional
        Signs it, see `privgmm.records.signature`.

    Notes
    -----
    All facts that the result publishes (`Published.facts`) are written as they are; a field that
    the schema requires and that has nothing to say is null.

    Raises
    ------
    InvalidInput
        If the receipt would not follow its schema.
    """
    if not isinstance(result, Release | Refusal):
        raise InvalidInput(
            f"result must be a Release or a Refusal, got {type(result).__name__}: pass "
            "outcome.result"
        )
    columns = columns or result.columns or None
    if isinstance(result, Release) and len(set(columns or ())) == result.mixture.n_features:
        result = result.with_columns(tuple(columns or ()))
    plan, ceiling = result.plan, result.plan.ceiling
    receipt: dict[str, Any] = dict.fromkeys(receipt_schema()["required"])
    del receipt["sha256"]
    receipt |= {
        "schema": RECEIPT_SCHEMA,
        "library": {"name": "privgmm", "version": _library_version()},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "released": result.released,
        "seeded": result.seeded,
        "guarantee": {
            **result.budget.to_dict(),
            "ceiling": ceiling,
            "words": _words(result.budget, result.unit, ceiling, seeded=result.seeded),
        },
        "neighbours": {"unit": result.unit, "relation": _NEIGHBOURS[result.unit]},
        "learner": learner,
        "jitter": None if jitter is None else jitter_widths(jitter, plan.n_features).tolist(),
        "columns": None if columns is None else list(columns),
        "reading": None if reading is None else dict(reading),
        "ledger": None if result.mark is None else {"entry": result.entry, "mark": result.mark},
        "plan": plan.to_dict(),
    }
    if isinstance(result, Refusal):
        receipt["refusal"] = {"reason": result.reason}
    else:
        receipt |= result.facts()
        if result.sketch is not None:
            receipt["sketch"] = result.sketch.to_dict()
    # the hash follows once the form is known to be right
    problem = _broken_rule({**receipt, "sha256": "0" * 64}) or next(_size_problems(receipt), None)
    if problem is not None:
        raise InvalidInput(f"no receipt can be made: {problem}")
    if signer is not None:
        receipt["signature"] = {
            "algorithm": "Ed25519",
            "public_key": signer.public_key.hex(),
            "value": signer.sign(_signed_bytes(receipt)).hex(),
        }
    return {**receipt, "sha256": digest(receipt)}


def write_receipt(
    receipt: Mapping[str, Any], path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a receipt to a file, whole or not at all; its owner alone can read it.

    A file that exists is replaced only with `overwrite`.
    """
    return write_whole(path, receipt_text(receipt).encode("ascii"), overwrite=overwrite)


def read_receipt(document: Document) -> Release | Refusal:
    """Read a release or a refusal back from its receipt; nothing but the receipt is needed.

    Parameters
    ----------
    document : path, text, bytes or mapping
        As for `verify_receipt`.

    Raises
    ------
    InvalidInput
        If the receipt does not verify. One of a seeded release is read, and its result says that
        it is `seeded`. That the mixture was made by the plan cannot be seen from a receipt.

    Examples
    --------
    >>> import numpy as np
    >>> from privgmm.releases import release
    >>> rows = np.random.default_rng(0).normal([5.0], [2.0], size=(4000, 1))
    >>> made = release(rows, epsilon=2.0, n_components=1, rng=0).result
    >>> read = read_receipt(make_receipt(made))
    >>> read.mixture == made.mixture, read.sketch.fit(2).n_components
    (True, 2)
    """
    content = content_of(document)
    found = verify_receipt(content)
    if not found.intact:
        raise InvalidInput(f"the receipt does not verify: {'; '.join(found.problems)}")
    receipt, _ = parsed(content)
    plan, ledger = Plan.from_dict(receipt["plan"]), receipt["ledger"] or {}
    columns = tuple(receipt["columns"] or ())
    record: dict[str, Any] = {
        "budget": Budget(receipt["guarantee"]["epsilon"], receipt["guarantee"]["delta"]),
        "plan": plan,
        "seeded": receipt["seeded"],
        "unit": receipt["neighbours"]["unit"],
        "entry": ledger.get("entry"),
        "mark": ledger.get("mark"),
        "columns": columns,
    }
    if receipt["mixture"] is None:
        reason = receipt["refusal"]["reason"]
        return Refusal(**record, why=reason, stated=reason)
    errors, choice = receipt["standard_errors"], receipt["choice"]
    expected = receipt.get("expected_error")
    return Release(
        **record,
        mixture=Mixture.from_dict(receipt["mixture"]).with_columns(columns),
        sketch=sketch_of(receipt),
        misfit=receipt["misfit"],
        floored=bool(receipt["floored"]),
        standard_errors=None if errors is None else StandardErrors.from_dict(errors),
        expected_error=None if expected is None else ExpectedError.from_dict(expected),
        resolution=tuple(receipt.get("resolution") or ()),
        atoms=atoms_from_dicts(receipt.get("atoms") or ()),
        steps=tuple(receipt.get("steps") or ()),
        ranges=ranges_from_dicts(receipt.get("ranges") or ()),
        choice=None if choice is None else Choice.from_dict(choice),
    )


def sketch_of(receipt: Mapping[str, Any]) -> PrivateSketch | None:
    """Return the noisy sketch in a receipt, if there is one: looks at it cost nothing.

    Raises
    ------
    InvalidInput
        If what is there is not a sketch. Whether to believe the receipt is another question, for
        `verify_receipt`.
    """
    written = receipt.get("sketch")
    return None if written is None else PrivateSketch.from_dict(written)


def receipt_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of receipts."""
    folder = importlib.resources.files("privgmm.records") / "schema"
    file = folder / f"{RECEIPT_SCHEMA.removeprefix('privgmm/')}.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def verify_receipt(
    document: Document, *, key: str | os.PathLike[str] | None = None
) -> Verification:
    """Check a receipt: schema, hash, price, that its noise was fresh, and who signed it.

    Parameters
    ----------
    document : path, bytes, text or mapping
        A file, or the content of one. As bytes or text it must be what `write_receipt` wrote, byte
        by byte: one changed space is a change. A mapping is checked by its values. A text in one
        line without a brace is the path of a file.
    key : path, optional
        A file with the public key that it must have been signed with.

    Returns
    -------
    Verification
        For malformed content a failed one, not an error.

    Notes
    -----
    The hash shows that a receipt was not changed by accident or in part; it is not a signature:
    the author of a new document can hash it too. The price cannot be talked down that way, but a
    mixture that never saw any noise can be put next to it: no one can tell without the data.
    """
    content = content_of(document)
    public_key = None if key is None else read_public_key(key)
    try:
        receipt, text = parsed(content)
        problems = list(_problems(receipt, text))
    except InvalidInput as problem:
        problems = [str(problem)]
    if problems:
        return Verification(ok=False, problems=tuple(problems))
    if receipt["seeded"]:
        problems.append(_SEEDED)
    unsigned = None if public_key is None else _signature_problem(receipt, public_key)
    if unsigned is not None:
        problems.append(unsigned)
    signature = receipt["signature"]
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
    signature, wanted = receipt["signature"], key_name(public_key)
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
    return _SIGNED + canonical(content)


def _problems(receipt: dict[str, Any], text: str | None) -> Iterator[str]:
    """Find what is wrong: first by the schema, then by what no schema can say."""
    broken = _broken_rule(receipt)
    if broken is not None:
        yield broken
        return
    yield from alterations(receipt, text)
    yield from _price_problems(receipt)
    yield from _size_problems(receipt)
    yield from _mixture_problems(receipt)


@functools.cache
def _validator() -> Any:
    """Load the checker of the schema; late, because `import privgmm` has to be quick."""
    from jsonschema import Draft202012Validator, FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(_is_time)
    return Draft202012Validator(receipt_schema(), format_checker=formats)


def _is_time(value: object) -> bool:
    """Whether it is a time with its zone, if it is text at all."""
    return not isinstance(value, str) or datetime.datetime.fromisoformat(value).tzinfo is not None


def _broken_rule(receipt: dict[str, Any]) -> str | None:
    """Name the first rule of the schema that is broken, and where.

    Only the first: a hostile document may break millions of them. The sentence quotes the schema,
    and of the document no more than the names of unknown fields, cut short.
    """
    if receipt.get("schema") != RECEIPT_SCHEMA:
        return f"schema must be {RECEIPT_SCHEMA!r}: this is another kind of document"
    error = next(_validator().iter_errors(receipt), None)
    if error is None:
        return None
    rule, value, found = error.validator, error.validator_value, error.instance
    if rule == "required":
        value = [name for name in value if name not in found]
    elif rule == "additionalProperties":
        # escaped: a name may hold anything, and this is printed on terminals
        value = [json.dumps(name) for name in sorted(found.keys() - error.schema["properties"])]
    listed = value if isinstance(value, list) else [value]
    words = (" or " if rule == "type" else ", ").join(map(str, listed))
    place = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path
    )
    kept = _RULES.get(rule, f"breaks the rule {rule}: {{}}").format(_short(words))
    return f"{place[1:] or 'the receipt'} is not valid: it {kept}"


def _short(words: object) -> str:
    """Cut words to a length that never quotes a document whole."""
    return textwrap.shorten(str(words), 300, placeholder=" …")


def _price_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """Price the plan again and compare with what is stated."""
    stated = receipt["guarantee"]
    try:
        budget = Budget(stated["epsilon"], stated["delta"])
        plan = Plan.from_dict(receipt["plan"])
        # numbers no calibration would give may overflow on the way to a refusal
        with np.errstate(all="ignore"):
            spent = plan.spent()
    except (PrivGMMError, ArithmeticError, ValueError) as problem:
        yield f"the plan cannot be priced: {_short(problem)}"
        return
    if not plan.budget.covers(spent):
        yield f"the plan costs {spent}, more than its budget {plan.budget}"
    if not budget.covers(spent):
        yield f"the plan costs {spent}, more than the guarantee states: {budget}"
    else:
        yield from _ceiling_problems(plan, stated["ceiling"])
    unit = receipt["neighbours"]["unit"]
    if stated["words"] != _words(budget, unit, stated["ceiling"], seeded=receipt["seeded"]):
        yield "the guarantee in words is not the one in numbers"


def _ceiling_problems(plan: Plan, stated: float) -> Iterator[str]:
    """Prove the ceiling on right guesses again."""
    try:
        with np.errstate(all="ignore"):
            proved = plan.ceiling
    except (PrivGMMError, ArithmeticError, ValueError) as problem:
        yield f"no ceiling on right guesses can be proved: {_short(problem)}"
        return
    if not stated >= proved - _CEILING_SLACK:
        yield (
            f"the plan proves that guesses are right at most {proved:.6g} of the time, not "
            f"{stated:.6g} as the guarantee states"
        )


def _size_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """Check that there are widths and names for the planned number of columns."""
    planned = receipt["plan"]["n_features"]
    for name in ("jitter", "columns"):
        if receipt[name] is not None and len(receipt[name]) != planned:
            yield f"{name} has {len(receipt[name])} items, not one per column as planned: {planned}"


def _mixture_problems(receipt: dict[str, Any]) -> Iterator[str]:
    """Check that the mixture is one, of the size that was planned."""
    if receipt["mixture"] is None:
        return
    try:
        with np.errstate(all="ignore"):
            mixture = Mixture.from_dict(receipt["mixture"])
    except (InvalidInput, ArithmeticError) as problem:
        yield f"the mixture is not valid: {_short(problem)}"
        return
    plan, size = receipt["plan"], (mixture.n_components, mixture.n_features)
    # next to a sketch it may be any other fit to it, which is free
    k = plan["n_components"] if receipt["sketch"] is None else size[0]
    if size != (k, plan["n_features"]):
        yield f"the mixture has {size[0]} components in {size[1]} dimensions, not as planned"
    yield from _look_problems(receipt, mixture)


def _look_problems(receipt: dict[str, Any], mixture: Mixture) -> Iterator[str]:
    """Check that sketch, standard errors and choice can be read, and fit the mixture."""
    errors, choice = receipt["standard_errors"], receipt["choice"]
    # receipts of older versions do not say how good the mixture is
    expected, resolution = receipt.get("expected_error"), receipt.get("resolution")
    try:
        with np.errstate(all="ignore"):
            sketch = sketch_of(receipt)
            errors = None if errors is None else StandardErrors.from_dict(errors)
            choice = None if choice is None else Choice.from_dict(choice)
            if expected is not None and ExpectedError.from_dict(expected).to_dict() != expected:
                yield "the expected error does not agree with its own quantiles"
    except (InvalidInput, ArithmeticError) as problem:
        yield (
            "the sketch, the standard errors, the expected error or the choice are not valid: "
            f"{_short(problem)}"
        )
        return
    yield from _choice_problems(receipt["plan"], choice, mixture)
    if sketch is not None and sketch.to_dict() != receipt["sketch"]:
        yield "the sketch is not written as this package writes it"
    if sketch is not None and sketch.n_features != mixture.n_features:
        yield f"the sketch is of {sketch.n_features} columns, the mixture of {mixture.n_features}"
    yield from _sketch_problems(receipt["plan"], sketch)
    if errors is not None and errors.means.shape != mixture.means.shape:
        yield "the standard errors are not of the mixture's size"
    if resolution is not None and len(resolution) != mixture.n_components:
        yield "the resolution is not stated for each component of the mixture"
    yield from _error_problems(receipt, errors, mixture)
    yield from _recorded_problems(receipt, mixture)


def _error_problems(
    receipt: dict[str, Any], errors: StandardErrors | None, mixture: Mixture
) -> Iterator[str]:
    """Check that what is said of accuracy does not contradict the standard errors.

    The law of the error follows from correlations too, which are not published.
    """
    said = receipt.get("resolution") or ()
    if (
        errors is None
        or errors.means.shape != mixture.means.shape
        or len(said) != len(errors.means)
    ):
        return
    if not errors.well_specified and (receipt.get("expected_error") or RESOLVED in said):
        yield "such a mixture does not explain the rows: no distance to a truth can be stated"
    for number, (root, place, how) in enumerate(
        zip(mixture.cholesky, errors.mean_covariances, said, strict=True), start=1
    ):
        with np.errstate(all="ignore"):
            across = np.linalg.solve(root, np.linalg.solve(root, place).T)
        widest = float(np.trace(across))
        # the trace is at most d times the largest variance, which is less than a quarter
        if how != NOT_RESOLVED and not widest < mixture.n_features * _AS_WIDE:
            yield f"component {number} is called {how}, and its errors are as wide as itself"


def _recorded_problems(receipt: dict[str, Any], mixture: Mixture) -> Iterator[str]:
    """Check that values and grids are of the mixture's columns, and such as the plan looks for."""
    written, steps = receipt.get("atoms") or (), receipt.get("steps") or ()
    seen = receipt.get("ranges") or ()
    names = list(receipt["columns"] or mixture.columns)
    if any(one["column"] not in names for one in written):
        yield "an atom is in a column that the mixture does not have"
    if steps and len(steps) != mixture.n_features:
        yield "the steps are not stated for each column of the mixture"
    if seen and [one["column"] for one in seen] != names:
        yield "where rows were seen is not stated for each column of the mixture"
    if not written and not steps and not seen:
        return
    try:
        plan, atoms = Plan.from_dict(receipt["plan"]), atoms_from_dicts(written)
        ranges = ranges_from_dicts(seen)
    except (PrivGMMError, ArithmeticError, ValueError) as problem:
        yield f"atoms or ranges are not valid, or the plan is not: {_short(problem)}"
        return
    frame, n = plan.stages[0], plan.request.n_rows
    if not isinstance(frame, HistogramFrame):
        yield "there are atoms, steps or ranges, and the plan looks for none"
        return
    if (written or steps) and frame.values is None:
        yield "there are atoms or steps, and the plan looks for none"
    if n is None:
        return
    if frame.values is not None:
        yield from frame.values.contradictions(atoms, steps, frame.units_of(n))
    for one in ranges:
        yield from one.contradictions(
            frame.units_of(n), frame.location_sigma, frame.location_threshold
        )


def _sketch_problems(written: dict[str, Any], sketch: PrivateSketch | None) -> Iterator[str]:
    """Check that a sketch is one that the plan draws: its frame, rows, waves and noise.

    It must be there if the plan draws one: a mixture next to no sketch could be any.

    A plan may draw two sketches and publish their average, or the first alone; next to a rich
    mixture it is the first.
    """
    try:
        plan = Plan.from_dict(written)
    except (PrivGMMError, ArithmeticError, ValueError):
        return  # `_price_problems` has said so
    drawn = next((stage for stage in plan.stages if isinstance(stage, Sketch)), None)
    if sketch is None:
        if drawn is not None:
            yield "the plan draws a sketch, and none is there"
        return
    if drawn is None:
        yield f"there is a sketch, and a plan of method {plan.method!r} draws none"
        return
    if sketch.n_features != drawn.n_features:
        yield (
            f"the sketch is of {sketch.n_features} columns, but the plan draws one of "
            f"{drawn.n_features}"
        )
        return
    if sketch.n_rows != drawn.n_units:
        yield (
            f"the sketch is of {sketch.n_rows} rows or persons, but the plan draws one of "
            f"{drawn.n_units}"
        )
    yield from _wave_problems(drawn.shape, sketch)
    if not any(_as_noisy(sketch, noise) for noise in _planned_noise(plan, drawn, sketch)):
        yield "the noise on the sketch is not that of the plan"
    yield from _rich_problems(plan, sketch)


def _rich_problems(plan: Plan, sketch: PrivateSketch) -> Iterator[str]:
    """Check that a rich mixture in a sketch is of the size, and has the noise, of the plan."""
    rich, noise, finish = sketch.rich_in_frame, sketch.rich_noise, plan.stages[-1]
    if rich is None and noise is None:
        return
    if rich is None or noise is None:
        yield "a rich mixture must be there exactly if its noise is"
        return
    with np.errstate(all="ignore"):
        if not isinstance(finish, Finish) or rich.n_components > finish.most_rich:
            yield f"the plan makes no rich mixture of {rich.n_components} components"
        elif not np.allclose(noise, finish.rich_noise, rtol=_NOISE_SLACK, atol=0.0):
            yield "the noise on the rich mixture is not that of the plan"


def _wave_problems(shape: SketchShape, sketch: PrivateSketch) -> Iterator[str]:
    """Check that a sketch has the waves of a shape, in its own frame."""
    if (len(sketch.directions), sketch.n_frequencies) != (shape.n_directions, shape.n_frequencies):
        yield (
            f"the sketch has {len(sketch.directions)} directions of {sketch.n_frequencies} "
            f"frequencies, but the plan has {shape.n_directions} of {shape.n_frequencies}"
        )
        return
    if not math.isclose(sketch.step, shape.step, rel_tol=_NOISE_SLACK):
        yield f"the sketch has frequencies {sketch.step!r} apart, but the plan {shape.step!r}"
    usual = SketchShape.default(sketch.n_features).n_directions
    if shape.n_directions > max(usual, _MANY_DIRECTIONS):
        yield (
            f"the sketch has {shape.n_directions} directions, too many to check: a plan for "
            f"{sketch.n_features} columns usually has {usual}"
        )
        return
    off = np.abs(sketch.directions - shape.directions(sketch.frame)).max()
    if not off <= _DIRECTION_SLACK:
        yield "the directions of the sketch are not those of the plan in its frame"


def _planned_noise(plan: Plan, drawn: Sketch, sketch: PrivateSketch) -> list[npt.NDArray[Any]]:
    """List the noise (L,) that a plan may leave on what it publishes."""
    # numbers no calibration would give may overflow on the way to a refusal
    with np.errstate(all="ignore"):
        first, finish = drawn.noise, plan.stages[-1]
        if not isinstance(finish, Finish) or sketch.rich_in_frame is not None:
            return [first]
        return [first, (first**-2 + finish.again.noise**-2) ** -0.5]


def _as_noisy(sketch: PrivateSketch, noise: npt.NDArray[Any]) -> bool:
    """Whether a sketch has this noise (L,), up to rounding."""
    return sketch.noise.shape == noise.shape and bool(
        np.allclose(sketch.noise, noise, rtol=_NOISE_SLACK, atol=0.0)
    )


def _choice_problems(
    plan: dict[str, Any], choice: Choice | None, mixture: Mixture
) -> Iterator[str]:
    """Check that a choice of components is there exactly if the plan left their number open."""
    finish = plan.get("finish")
    is_open = isinstance(finish, dict) and finish.get("choose") is True
    if is_open != (choice is not None):
        yield "a choice of components must be there exactly if the plan leaves their number open"
    elif choice is not None and (choice.n_components, choice.max_components) != (
        mixture.n_components,
        plan["n_components"],
    ):
        yield (
            f"{choice.n_components} components of up to {choice.max_components} were chosen, and "
            f"the mixture has {mixture.n_components} of up to {plan['n_components']}"
        )


def _words(budget: Budget, unit: Unit, ceiling: float, *, seeded: bool) -> str:
    """Say the guarantee in sentences; part of the format, so they change only with the schema."""
    who, others = (
        ("one row", "every other row, and two values that one row may have had,")
        if unit == "row"
        else (
            "all rows of one person",
            "the rows of every other person, and two sets of rows that one may have had,",
        )
    )
    promise = (
        f"Replacing {who} of the data changes the probability of any outcome by at most a factor "
        f"exp({budget.epsilon:.6g}), and an additional {budget.delta:.6g}. An attacker who knows "
        f"{others} guesses right which it was at most {100 * ceiling:.6g}% of the time; chance "
        "level is 50%."
    )
    if not seeded:
        return promise
    return (
        f"{promise} But the noise can be repeated from a seed: a demonstration, not "
        "differentially private."
    )


def _library_version() -> str:
    # only when called: the package is still being put together when this module is loaded
    import privgmm

    return privgmm.__version__
