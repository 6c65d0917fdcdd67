"""`privgmm release`: a table in, a receipt out, and the spend in the ledger."""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from privgmm.arrays import Array
from privgmm.cli.arguments import (
    DONE,
    FAILED,
    REFUSED,
    Add,
    a_count,
    a_seed,
    a_width,
    add_budget,
    add_forgiving,
    add_ledger,
)
from privgmm.cli.delivery import deliver
from privgmm.cli.files import NewFile, as_json, progress_bar, say
from privgmm.cli.source import Source, load_source
from privgmm.data.jitter import jitter_widths, jittered
from privgmm.data.rows import RowsLike
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.learners.registry import OFFERED, make_learner
from privgmm.ledger.protocol import Ledger
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest
from privgmm.records.bundle import BUNDLE_ROOM, bundle_bytes, check_figures
from privgmm.records.receipt import make_receipt, receipt_text
from privgmm.release import Outcome, release
from privgmm.results import Refusal, Release

__all__ = ["add_release"]

_NUMBER_BYTES = 32


def add_release(add: Add) -> None:
    """Add the command."""
    methods = _listed((method.name, method.sentence) for method in registry.all_methods())
    learners = _listed((kind.name, f"{kind.title}. {kind.good_at}") for kind in OFFERED.values())
    heading = "learners (the guarantee is the same with any of them):"
    part = add("release", _release, more="\n".join(["methods:", *methods, "", heading, *learners]))
    part.add_argument("data", help="a CSV or Parquet file, or the name of a shipped sample")
    part.add_argument("--k", type=a_count, required=True, help="components")
    add_budget(part)
    add_forgiving(part)
    part.add_argument("--columns", help="names, comma separated; by default all columns of numbers")
    part.add_argument(
        "--groups",
        metavar="COLUMN",
        help="who each row belongs to: protects all rows of a person together, not one row",
    )
    part.add_argument(
        "--jitter",
        action="append",
        type=a_width,
        metavar="COLUMN=STEP",
        help="the column was recorded in steps of this public size (1: whole numbers): uniform "
        "noise of that width undoes the rounding; may be repeated",
    )
    part.add_argument(
        "--method",
        choices=registry.names(),
        default=DEFAULT_METHOD,
        help=f"see below (default {DEFAULT_METHOD})",
    )
    part.add_argument("--learner", choices=tuple(OFFERED), default=next(iter(OFFERED)))
    part.add_argument(
        "--alpha",
        type=float,
        help="accuracy of the mixture, which is not refined then; by default the method's choice",
    )
    part.add_argument(
        "--blocks",
        type=int,
        help="n_blocks, how many blocks rows are dealt into; by default the method's choice. With "
        "both --alpha and --blocks the release is tried even if it is not expected to succeed",
    )
    part.add_argument("--out", type=Path, help="write the receipt here; must not exist")
    part.add_argument(
        "--bundle",
        type=Path,
        metavar="ZIP",
        help="also write receipt, synthetic rows, a figure and a notebook here; must not exist",
    )
    part.add_argument(
        "--seed",
        type=a_seed,
        help="repeatable: a demonstration, NOT private; the ledger marks it and counts it",
    )
    add_ledger(part)
    part.add_argument(
        "--hint",
        action="store_true",
        help="if refused, say on standard error why the blocks disagree: NOT private, for you only",
    )
    part.add_argument("--no-ledger", action="store_true", help="keep no account of this spend")


def _listed(entries: Iterable[tuple[str, str]]) -> list[str]:
    return [
        textwrap.fill(text, 78, initial_indent=f"  {name}: ", subsequent_indent="    ")
        for name, text in entries
    ]


def _release(chosen: argparse.Namespace) -> int:
    """Release a mixture from a table, or refuse (exit code 3). Spends the budget once.

    The spend is written into the ledger before noise is drawn; a cap that it would pass stops it
    (exit code 2, nothing spent). If the result cannot be written where it was asked for, it is
    printed instead (exit code 1).
    """
    source = load_source(chosen.data, chosen.columns, chosen.groups)
    widths = _widths(source, chosen)
    plan = _plan(source, chosen)
    learner = make_learner(chosen.learner, chosen.k)
    if chosen.bundle is not None:
        check_figures()
    ledger = _ledger(source, chosen)
    numbers = chosen.k * (source.rows.n_features + 1) ** 2
    with contextlib.ExitStack() as files:
        out = bundle = None
        if chosen.out is not None:
            room = 16_384 + _NUMBER_BYTES * numbers
            out = files.enter_context(NewFile(chosen.out, "--out", room=room))
        if chosen.bundle is not None:
            bundle = files.enter_context(NewFile(chosen.bundle, "--bundle", room=BUNDLE_ROOM))
        outcome = release(
            _recorded(source, widths, chosen.seed),
            plan,
            learner=learner,
            rng=chosen.seed,
            groups=source.persons,
            ledger=ledger,
            progress=progress_bar("blocks fitted"),
        )
        result = outcome.result
        receipt = make_receipt(result, learner=chosen.learner, jitter=widths)
        sent = deliver(receipt_text(receipt), out)
        whole = sent.problem is None
        if not whole:
            _note(f"{_word(result)}, and kept: it is in {sent.place} ({sent.problem})")
        if bundle is not None and isinstance(result, Release):
            whole &= _write_bundle(receipt, source, bundle)
    if out is not None and sent.problem is None:
        _report(result, chosen, ledger)
    if chosen.hint and not result.released:
        told = outcome.curator.hint() or "nothing stands out: the test itself is random."
        _note(f"for the holder of the data only, NOT private: {told}")
    return _ending(outcome, chosen, whole=whole)


def _widths(source: Source, chosen: argparse.Namespace) -> Array | None:
    """The width of public noise for each column, or None for none at all."""
    if not chosen.jitter:
        return None
    names = [name for name, _ in chosen.jitter]
    if len(set(names)) != len(names):
        raise InvalidInput(f"--jitter must name each column once, got {', '.join(names)}")
    columns = source.rows.columns
    return jitter_widths(dict(chosen.jitter), len(columns), columns=columns)


def _recorded(source: Source, widths: Array | None, seed: int | None) -> RowsLike:
    """The rows, with public noise where asked for; of a seeded run that noise is repeatable too."""
    if widths is None:
        return source.rows
    rng = np.random.default_rng() if seed is None else np.random.default_rng([seed, 1])
    return jittered(source.rows.rows(), widths, rng=rng)


def _word(result: Release | Refusal) -> str:
    """How it ended."""
    return "released" if result.released else "refused"


def _note(text: str) -> None:
    sys.stderr.write(f"privgmm: {text}\n")


def _ledger(source: Source, chosen: argparse.Namespace) -> Ledger | None:
    if chosen.no_ledger:
        if chosen.ledger is not None or chosen.dataset is not None:
            raise InvalidInput("--no-ledger leaves nothing to do for --ledger and --dataset")
        return None
    if chosen.dataset is not None:
        return SQLiteBook(chosen.ledger).open(chosen.dataset, label=chosen.dataset)
    return SQLiteBook(chosen.ledger).open(source.rows.fingerprint, label=source.rows.name)


def _plan(source: Source, chosen: argparse.Namespace) -> Plan:
    """The plan of a release: from the options and the public shape of the table alone."""
    request = PlanRequest(
        n_components=chosen.k,
        n_features=source.rows.n_features,
        n_rows=source.n_units,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        method=chosen.method,
        unit=source.unit,
        alpha=chosen.alpha,
        n_blocks=chosen.blocks,
        forgiving=chosen.forgiving,
    )
    if request.forgiving and request.by_hand:
        raise InvalidInput(
            "--forgiving changes what the method chooses, and --alpha and --blocks leave it no "
            "choice: leave one of the three out"
        )
    answer = plan_for(request)
    if answer.shortage:
        raise InvalidInput(answer.shortage)
    return answer.plan


def _write_bundle(receipt: dict[str, Any], source: Source, file: NewFile) -> bool:
    try:
        file.stream.write(bundle_bytes(receipt, columns=source.rows.columns))
        file.keep()
    except (OSError, PrivGMMError) as problem:
        _note(
            f"the bundle could not be written ({problem}): the receipt is safe; "
            "`privgmm bundle RECEIPT -o ZIP` makes one from it"
        )
        return False
    return True


def _report(result: Release | Refusal, chosen: argparse.Namespace, ledger: Ledger | None) -> None:
    """What a release into a file says on standard output."""
    standing = None if ledger is None else ledger.standing()
    if chosen.json:
        bundled = chosen.bundle is not None and result.released
        say(
            as_json(
                {
                    "released": result.released,
                    "seeded": result.seeded,
                    "unit": result.unit,
                    "out": str(chosen.out),
                    "bundle": str(chosen.bundle) if bundled else None,
                    "budget": result.budget.to_dict(),
                    "ledger": None
                    if ledger is None or standing is None
                    else {
                        "path": str(SQLiteBook(chosen.ledger).path),
                        "entry": result.entry,
                        "data_set": standing.to_dict(),
                    },
                }
            )
        )
        return
    lines = [f"{_word(result)} with {result.budget} for a {result.unit}: {str(chosen.out)!r}"]
    if standing is not None:
        lines.append(
            f"ledger entry {result.entry}; all spends of this data set together: {standing.total}"
            + ("" if standing.cap is None else f" of {standing.cap}")
        )
    say("\n".join(lines))


def _ending(outcome: Outcome, chosen: argparse.Namespace, *, whole: bool) -> int:
    result = outcome.result
    if chosen.no_ledger:
        _note("in no ledger (--no-ledger): add this spend to others from the same data yourself")
    elif outcome.ledger_problem is not None:
        _note(f"the ledger counts the spend as unfinished: {outcome.ledger_problem}")
    if result.seeded:
        _note("made with a seed: a demonstration, NOT a private release")
    if isinstance(result, Refusal):
        _note(f"refused. {result.reason}")
        if chosen.bundle is not None:
            _note("a refusal has no mixture to draw from: there is no bundle")
    if not whole:
        return FAILED
    return DONE if result.released else REFUSED
