"""`privgmm release`: a table in, a receipt out, and the spend in the ledger."""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Unit
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
    number,
)
from privgmm.cli.delivery import deliver
from privgmm.cli.files import NewFile, as_json, progress_bar, say
from privgmm.cli.source import Source, fingerprint_of, load_source
from privgmm.data.jitter import jitter_widths, jittered
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.learners.registry import LEARNERS, make_learner
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods import METHODS
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_as_asked
from privgmm.records.bundle import BUNDLE_ROOM, bundle_bytes, check_figures
from privgmm.records.receipt import make_receipt, receipt_text
from privgmm.release import release
from privgmm.results import Refusal, Release

__all__ = ["add_release"]

_NUMBER_BYTES = 32


def add_release(add: Add) -> None:
    """Add the command."""
    kinds = [
        textwrap.fill(
            f"{kind.title}. {kind.good_at}",
            78,
            initial_indent=f"  {kind.name}: ",
            subsequent_indent="    ",
        )
        for kind in LEARNERS.values()
    ]
    heading = "learners (the guarantee is the same with any of them):"
    part = add("release", _release, more="\n".join([heading, *kinds]))
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
    part.add_argument("--method", choices=METHODS, default="lifted")
    part.add_argument("--learner", choices=tuple(LEARNERS), default=next(iter(LEARNERS)))
    part.add_argument("--alpha", type=float, help="with --blocks: every knob in your hands")
    part.add_argument("--blocks", type=int, help="with --alpha: every knob in your hands")
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


class _Account:
    """The ledger of one release, which must not take the result along if it fails at the end."""

    def __init__(self, ledger: SQLiteLedger) -> None:
        self.ledger = ledger
        self.mark: str | None = None
        self.problem: str | None = None

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> int:
        """Write the spend down, and keep its mark for the receipt."""
        entry = self.ledger.intend(plan, seeded=seeded, unit=unit)
        self.mark = self.ledger.mark(entry)
        return entry

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended; if that fails, the spend stays counted as unfinished."""
        try:
            self.ledger.conclude(entry, released=released)
        except PrivGMMError as problem:
            self.problem = str(problem)


def _release(chosen: argparse.Namespace) -> int:
    """Release a mixture from a table, or refuse (exit code 3). Spends the budget once.

    The spend is written into the ledger before noise is drawn; a cap that it would pass stops it
    (exit code 2, nothing spent). If the result cannot be written where it was asked for, it is
    printed instead (exit code 1).
    """
    source = load_source(chosen.data, chosen.columns, chosen.groups)
    widths = _widths(source, chosen)
    plan = _plan_for(source, chosen)
    learner = make_learner(chosen.learner, chosen.k)
    if chosen.bundle is not None:
        check_figures()
    account = _account(chosen)
    numbers = chosen.k * (source.data.n_features + 1) ** 2
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
            ledger=account,
            progress=progress_bar("blocks fitted"),
        )
        result = outcome.result
        mark = None if account is None else account.mark
        receipt = make_receipt(result, learner=chosen.learner, jitter=widths, mark=mark)
        sent = deliver(receipt_text(receipt), out)
        whole = sent.problem is None
        if not whole:
            _note(f"{result_word(result)}, and kept: it is in {sent.place} ({sent.problem})")
        if bundle is not None and isinstance(result, Release):
            whole &= _write_bundle(receipt, source, bundle)
    if out is not None and sent.problem is None:
        _report(result, chosen, account)
    if chosen.hint and not result.released:
        told = outcome.curator.hint() or "nothing stands out: the test is random, too."
        _note(f"for the holder of the data only, NOT private: {told}")
    return _ending(result, chosen, account, whole=whole)


def _widths(source: Source, chosen: argparse.Namespace) -> Array | None:
    """The width of public noise for each column, or None for none at all."""
    if not chosen.jitter:
        return None
    names = [name for name, _ in chosen.jitter]
    if len(set(names)) != len(names):
        raise InvalidInput(f"--jitter must name each column once, got {', '.join(names)}")
    columns = source.data.columns
    return jitter_widths(dict(chosen.jitter), len(columns), columns=columns)


def _recorded(source: Source, widths: Array | None, seed: int | None) -> Array:
    """The rows, with public noise where asked for; of a seeded run that noise is repeatable too."""
    if widths is None:
        return source.data.rows
    rng = np.random.default_rng() if seed is None else np.random.default_rng([seed, 1])
    return jittered(source.data.rows, widths, rng=rng)


def result_word(result: Release | Refusal) -> str:
    """One word."""
    return "released" if result.released else "refused"


def _note(text: str) -> None:
    sys.stderr.write(f"privgmm: {text}\n")


def _account(chosen: argparse.Namespace) -> _Account | None:
    if chosen.no_ledger:
        if chosen.ledger is not None or chosen.dataset is not None:
            raise InvalidInput("--no-ledger leaves nothing to do for --ledger and --dataset")
        return None
    name = fingerprint_of(chosen.data) if chosen.dataset is None else chosen.dataset
    label = Path(chosen.data).name if chosen.dataset is None else chosen.dataset
    return _Account(SQLiteLedger(chosen.ledger, name, label=label))


def _plan_for(source: Source, chosen: argparse.Namespace) -> Plan:
    """The plan of a release: from the options and the public shape of the table alone."""
    n, d = source.n_units, source.data.n_features
    what = "rows" if source.persons is None else "persons"
    if (chosen.alpha is None) != (chosen.blocks is None):
        raise InvalidInput("--alpha and --blocks belong together: give both or neither")
    if chosen.blocks is not None and chosen.blocks > n:
        raise InvalidInput(f"--blocks must be at most the {n:,} {what}")
    if chosen.forgiving and (chosen.alpha is not None or chosen.method != "lifted"):
        raise InvalidInput(
            "--forgiving is for method lifted with all choices automatic: leave --alpha, --blocks "
            "and --method away"
        )
    plan = plan_as_asked(
        n,
        method=chosen.method,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        n_components=chosen.k,
        n_features=d,
        alpha=chosen.alpha,
        n_blocks=chosen.blocks,
        forgiving=chosen.forgiving,
    )
    automatic = chosen.alpha is None
    if automatic and plan.method != "lifted" and (need := plan.rows_needed()) > n:
        raise InvalidInput(
            f"method {plan.method!r} takes about {number(need)} {what} here and there are {n:,}: "
            "use --method lifted, or give --alpha and --blocks to try anyway"
        )
    return plan


def _write_bundle(receipt: dict[str, Any], source: Source, file: NewFile) -> bool:
    try:
        file.stream.write(bundle_bytes(receipt, columns=source.data.columns))
        file.keep()
    except (OSError, PrivGMMError) as problem:
        _note(
            f"the bundle could not be written ({problem}): the receipt is safe; "
            "`privgmm bundle RECEIPT -o ZIP` makes one from it"
        )
        return False
    return True


def _report(
    result: Release | Refusal, chosen: argparse.Namespace, account: _Account | None
) -> None:
    """What a release into a file says on standard output."""
    standing = None if account is None else account.ledger.standing()
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
                    if account is None or standing is None
                    else {
                        "path": str(account.ledger.path),
                        "entry": result.entry,
                        "data_set": standing.to_dict(),
                    },
                }
            )
        )
        return
    lines = [f"{result_word(result)} with {result.budget} for a {result.unit}: {str(chosen.out)!r}"]
    if account is not None and standing is not None:
        lines.append(
            f"ledger entry {result.entry}; all spends of this data set together: {standing.total}"
            + ("" if standing.cap is None else f" of {standing.cap}")
        )
    say("\n".join(lines))


def _ending(
    result: Release | Refusal, chosen: argparse.Namespace, account: _Account | None, *, whole: bool
) -> int:
    if account is None:
        _note("in no ledger (--no-ledger): add this spend to others from the same data yourself")
    elif account.problem is not None:
        _note(f"the ledger counts the spend as unfinished: {account.problem}")
    if result.seeded:
        _note("made with a seed: a demonstration, NOT a private release")
    if isinstance(result, Refusal):
        _note(f"refused. {result.reason}")
        if chosen.bundle is not None:
            _note("a refusal has no mixture to draw from: there is no bundle")
    if not whole:
        return FAILED
    return DONE if result.released else REFUSED
