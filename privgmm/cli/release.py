"""`privgmm release`: a table in, a receipt out, and the spend in the ledger."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import budget_warnings
from privgmm.cli.arguments import (
    a_count_or_auto,
    a_number,
    a_seed,
    a_whole_number,
    a_width,
    add_budget,
    add_columns,
    add_covariance_type,
    add_layout,
    add_ledger_options,
    add_max_components,
)
from privgmm.cli.delivery import deliver
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.files import STANDARD_STREAM, NewFile
from privgmm.cli.parser import CommandParser
from privgmm.cli.receipts import SEEDED_NOTE
from privgmm.cli.source import Source, load_source
from privgmm.cli.terminal import as_json, print_note, progress_lines, say, silence
from privgmm.data.jitter import jitter_widths, jittered
from privgmm.data.rows import RowsLike
from privgmm.data.tables import listed
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.learners.registry import OFFERED, make_learner
from privgmm.ledger.protocol import Ledger
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest, components_asked
from privgmm.methods.usefulness import USUAL_ALPHA
from privgmm.records.bundle import BUNDLE_ROOM, bundle_bytes, check_figures
from privgmm.records.receipt import make_receipt, receipt_text
from privgmm.records.signature import read_signer
from privgmm.releases import Outcome, release
from privgmm.results import LIKE_A_VALUE, Refusal, Release

__all__ = ["add_release"]

_NUMBER_BYTES = 32
"""Bytes that a number takes in a receipt, at most: 17 digits, sign, exponent, comma, indent."""
_SKETCH_BYTES = 200_000
"""Bytes that a receipt takes apart from its mixture, at most; a test holds receipts to it."""


def add_release(part: CommandParser) -> None:
    """Declare the arguments of `privgmm release`."""
    methods = _listed((name, registry.get(name).sentence) for name in registry.names())
    learners = _listed((kind.name, f"{kind.title}. {kind.good_at}") for kind in OFFERED.values())
    heading = "learners (the guarantee is the same with any of them):"
    part.runs(_release)
    part.epilog = "\n".join(["methods:", *methods, "", heading, *learners])
    part.add_argument(
        "data",
        help="a CSV or Parquet file (gzip too), a folder of Parquet files or a pattern like "
        "'rows/*.parquet', or the name of a shipped sample; - reads standard input",
    )
    part.add_argument(
        "--k",
        type=a_count_or_auto,
        required=True,
        help="components; auto chooses their number from the noisy sketch, at no further cost "
        "(method sketch)",
    )
    add_max_components(part)
    add_covariance_type(part)
    add_budget(part)
    add_columns(
        part, "what to fit: names, comma separated; by default all, which must hold numbers only"
    )
    add_layout(part)
    part.add_argument(
        "--groups",
        metavar="COLUMN",
        help="which person each row belongs to: protects all rows of a person together",
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
        type=a_number,
        help="accuracy asked for: how far the mixture may be from the truth, in dist_GMM (0 is "
        f"perfect, 1 is wrong; default {USUAL_ALPHA:g}). The summary says whether it is reached",
    )
    part.add_argument(
        "--mask-accuracy",
        type=a_number,
        help="how far a mask may move what blocks agree on; by default the method's choice",
    )
    part.add_argument(
        "--blocks",
        type=a_whole_number,
        help="n_blocks, how many blocks rows are dealt into; by default the method's choice. With "
        "both --mask-accuracy and --blocks the release is tried even if it is not expected to "
        "succeed",
    )
    part.add_argument(
        "--out",
        type=Path,
        metavar="RECEIPT",
        help="write the receipt here; must not exist. By default a new file in this folder, named "
        "after the data; - prints the receipt instead of a summary, and so does --json alone",
    )
    part.add_argument(
        "--sign",
        type=Path,
        metavar="KEY",
        help="sign the receipt with this private key (Ed25519): openssl genpkey -algorithm ed25519 "
        "-out KEY",
    )
    part.add_argument(
        "--bundle",
        type=Path,
        metavar="ZIP",
        help="also write receipt, synthetic rows, a figure and a notebook here; must not exist",
    )
    part.add_argument(
        "--seed",
        type=a_seed,
        help="repeatable: a demonstration, NOT differentially private; the ledger marks and counts "
        "it",
    )
    add_ledger_options(part)
    part.add_argument(
        "--hint",
        action="store_true",
        help="if refused, say on standard error what stands in the way, read off the data: "
        "CONFIDENTIAL, for you only",
    )
    part.add_argument(
        "--engine",
        choices=("threads", "dask"),
        default="threads",
        help="where blocks are fitted, and Parquet files read part by part: threads of this "
        "process, or Dask workers (on this machine, or those of --scheduler). The result does not "
        "depend on it",
    )
    part.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="with --engine dask: the address of a Dask scheduler, tcp://host:8786",
    )
    part.add_argument("--no-ledger", action="store_true", help="keep no account of this spend")


def _listed(entries: Iterable[tuple[str, str]]) -> list[str]:
    return [
        textwrap.fill(text, 78, initial_indent=f"  {name}: ", subsequent_indent="    ")
        for name, text in entries
    ]


def _release(chosen: argparse.Namespace) -> int:
    """Release a mixture from a table, or refuse (exit code 3). Spends the budget once.

    Prints what was found, and keeps the receipt in a file: it says what was released and how, and
    everything that is free begins with it (`fit`, `picture`, `sample`, `verify`). What was read is
    shown on standard error and written into the receipt. No column is left out
    unless you ask for it. How the file is read does not depend on single cells; what cannot be
    read is an error. The spend is written into the ledger before noise is drawn. If it would pass
    the cap of the data set, the release stops (exit code 2, nothing spent). If the result cannot be
    written where it was asked for, it is printed instead (exit code 1).
    """
    source = load_source(chosen)
    if str(chosen.out) == STANDARD_STREAM:
        chosen.out = None
    elif chosen.out is None and not chosen.json:
        chosen.out = _unused_name(source.rows.name)
    widths = _widths(source, chosen)
    plan = _plan(source, chosen)
    learner = make_learner(chosen.learner, plan.n_components)
    signer = None if chosen.sign is None else read_signer(chosen.sign)
    if chosen.bundle is not None:
        check_figures()
    ledger = _ledger(source, chosen)
    numbers = plan.n_components * (source.rows.n_features + 1) ** 2
    with contextlib.ExitStack() as files:
        out = bundle = None
        if chosen.out is not None:
            room = _SKETCH_BYTES + _NUMBER_BYTES * numbers
            out = files.enter_context(NewFile(chosen.out, "--out", room=room))
        if chosen.bundle is not None:
            bundle = files.enter_context(NewFile(chosen.bundle, "--bundle", room=BUNDLE_ROOM))
        _before(source, plan, chosen, ledger)
        outcome = release(
            _recorded(source, widths, chosen.seed),
            plan,
            learner=learner,
            rng=chosen.seed,
            groups=source.persons
            if widths is None or source.persons is None
            else source.rows.labels(source.persons),
            ledger=ledger,
            executor=_engine(chosen),
            watch=progress_lines(),
        )
        result = outcome.result
        receipt = make_receipt(
            result,
            learner=chosen.learner,
            jitter=widths,
            columns=source.rows.columns,
            reading=source.reading,
            signer=signer,
        )
        sent = deliver(receipt_text(receipt), out)
        whole = sent.problem is None
        if not whole:
            print_note(f"{_word(result)}, and kept: it is in {sent.place} ({sent.problem})")
        if bundle is not None and isinstance(result, Release):
            whole &= _write_bundle(receipt, source, bundle)
    if out is not None and sent.problem is None:
        with _after_spending("the report"):
            _report(result, source, chosen, ledger)
    elif isinstance(result, Release) and result.choice is not None:
        # standard output is the receipt
        sys.stderr.write(f"{result.choice}\n")
    return _ending(outcome, chosen, whole=whole)


def _unused_name(data: str) -> Path:
    """Name a new file in this folder for the receipt, after the data."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(data).stem).strip("-")
    names = (f"{stem or 'data'}-receipt{f'-{n}' * (n > 1)}.json" for n in itertools.count(1))
    return next(path for path in map(Path, names) if not os.path.lexists(path))


@contextlib.contextmanager
def _after_spending(what: str) -> Iterator[None]:
    """Turn any failure into a note: the exit code must say how the release ended.

    The receipt was delivered by then, and exit code 2 would say that nothing was spent.
    """
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - the budget is spent in any case
        if isinstance(problem, OSError):
            silence()
        print_note(f"{what} failed: {problem}")


def _widths(source: Source, chosen: argparse.Namespace) -> Array | None:
    """Return the public width of noise per column, or None if no column gets any."""
    if not chosen.jitter:
        return None
    names = [name for name, _ in chosen.jitter]
    if len(set(names)) != len(names):
        raise InvalidInput(f"--jitter must name each column once, got {', '.join(names)}")
    columns = source.rows.columns
    return jitter_widths(dict(chosen.jitter), len(columns), columns=columns)


def _recorded(source: Source, widths: Array | None, seed: int | None) -> RowsLike:
    """Return the rows, with uniform noise where --jitter asks for it; a seed repeats the noise."""
    if widths is None:
        return source.rows
    if not source.rows.in_memory:
        raise InvalidInput(
            "--jitter is for tables that fit into memory: undo the rounding where the files are "
            "written"
        )
    rng = None if seed is None else np.random.default_rng([seed, 1])
    return jittered(source.rows.rows(), widths, rng=rng)


def _engine(chosen: argparse.Namespace) -> str:
    """Return where the work is done: a kind of engine, or the address of a scheduler."""
    if chosen.scheduler is None:
        return str(chosen.engine)
    if chosen.engine != "dask":
        raise InvalidInput("--scheduler goes with --engine dask: add it, or leave both out")
    if "://" not in chosen.scheduler:
        raise InvalidInput(
            f"--scheduler must be an address like tcp://host:8786, got {chosen.scheduler!r}"
        )
    return str(chosen.scheduler)


def _word(result: Release | Refusal) -> str:
    """Say in a word how it ended."""
    return "released" if result.released else "refused"


def _before(source: Source, plan: Plan, chosen: argparse.Namespace, ledger: Ledger | None) -> None:
    """Say what to know before anything is spent."""
    print_note(str(source))
    if source.suspects:
        print_note(
            f"column {listed(source.suspects)} looks like a number of rows or persons: if it is "
            "not a measurement, leave it out (--columns)"
        )
    for words in budget_warnings(plan.budget, source.n_units, source.unit):
        print_note(words)
    if ledger is not None and not ledger.entries:
        for found in SQLiteBook(chosen.ledger).look_alikes(ledger):
            print_note(
                f"a new account in the ledger, but {found}. If it is about the same people, their "
                "spends add up: give both one name from now on (--dataset NAME)"
            )


def _ledger(source: Source, chosen: argparse.Namespace) -> Ledger | None:
    if chosen.no_ledger:
        if chosen.ledger is not None or chosen.dataset is not None:
            raise InvalidInput("--no-ledger leaves nothing to do for --ledger and --dataset")
        return None
    named = chosen.dataset
    return SQLiteBook(chosen.ledger).open(
        source.rows.fingerprint if named is None else named,
        label=source.rows.name if named is None else named,
        n_rows=source.rows.n_rows,
        columns=source.rows.columns,
    )


def _plan(source: Source, chosen: argparse.Namespace) -> Plan:
    """Make the plan from the options and the public shape of the table alone."""
    most, is_open = components_asked(chosen.k, chosen.max_components)
    request = PlanRequest(
        n_components=most,
        choose_components=is_open,
        n_features=source.rows.n_features,
        n_rows=source.n_units,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        method=chosen.method,
        unit=source.unit,
        alpha=chosen.alpha,
        mask_accuracy=chosen.mask_accuracy,
        n_blocks=chosen.blocks,
        covariance_type=chosen.covariance_type,
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
        print_note(
            f"the bundle could not be written ({problem}): the receipt is safe; "
            "`privgmm bundle RECEIPT -o ZIP` makes one from it"
        )
        return False
    return True


def _report(
    result: Release | Refusal, source: Source, chosen: argparse.Namespace, ledger: Ledger | None
) -> None:
    """Say on standard output what a release into a file found, and what it cost."""
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
                    "ceiling": result.plan.ceiling,
                    **(_said(result) if isinstance(result, Release) else {}),
                    "columns": list(source.rows.columns),
                    "reading": source.reading,
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
    lines = [
        f"{_word(result)} with {result.budget} for a {result.unit}: {str(chosen.out)!r}",
        result.attacker,
    ]
    if standing is not None:
        cap = "" if standing.cap is None else f" (cap {standing.cap})"
        lines.append(f"ledger entry {result.entry}; this data set: {standing.total_in_words}{cap}")
    if isinstance(result, Release):
        lines += _found(result)
    say("\n".join(lines))


def _found(result: Release) -> list[str]:
    """List the mixture, how its size was chosen, and how well it explains the rows."""
    lines = [] if result.choice is None else [str(result.choice)]
    if result.verdict is not None:
        lines.append(f"{result.verdict} Misfit: {result.misfit:.3g}.")
    if result.floored:
        lines.append(LIKE_A_VALUE)
    lines += result.tails
    return lines + result.recorded_in_lines() + result.components_in_lines()


def _said(result: Release) -> dict[str, Any]:
    """Return what a release says about itself, for JSON; the rest is in the receipt."""
    return {
        "n_components": result.mixture.n_components,
        "covariance_type": result.covariance_type,
        "misfit": result.misfit,
        "verdict": result.verdict,
        "floored": result.floored,
        "choice": None if result.choice is None else result.choice.to_dict(),
    }


def _ending(outcome: Outcome, chosen: argparse.Namespace, *, whole: bool) -> ExitCode:
    """Say what to know afterwards, and return how the command ended."""
    result = outcome.result
    if chosen.no_ledger:
        print_note(
            "in no ledger (--no-ledger): add this spend to others from the same data yourself"
        )
    elif outcome.ledger_problem is not None:
        print_note(f"the ledger counts the spend as unfinished: {outcome.ledger_problem}")
    if result.seeded:
        print_note(SEEDED_NOTE)
    if isinstance(result, Refusal):
        print_note(f"refused. {result.reason}")
        if chosen.bundle is not None:
            print_note("a refusal has no mixture to draw from: there is no bundle")
        if chosen.hint:
            with _after_spending("the hint"):
                found = outcome.curator.hint() or "nothing stands out: the test itself is random."
                print_note(f"CONFIDENTIAL, for the holder of the data only: {found}")
    if not whole:
        return ExitCode.FAILED
    return ExitCode.DONE if result.released else ExitCode.REFUSED
