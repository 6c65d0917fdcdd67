"""`privgmm ledger`: what was spent on each data set, what that adds up to, and caps."""

from __future__ import annotations

import argparse
from pathlib import Path

from privgmm.budget import UNITS, Budget, Unit
from privgmm.cli.arguments import add_ledger_options
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.files import output
from privgmm.cli.parser import CommandParser
from privgmm.cli.source import fingerprint_of
from privgmm.cli.terminal import as_json, print_note, say
from privgmm.errors import InvalidInput
from privgmm.ledger.history import Entry, History, LedgerStanding, LookAlike, exported, write_csv
from privgmm.ledger.protocol import Book
from privgmm.ledger.sqlite import SQLiteBook

__all__ = ["add_ledger"]


def add_ledger(part: CommandParser) -> None:
    """Declare the arguments of `privgmm ledger`."""
    part.runs(_ledger)
    part.add_argument("data", nargs="?", help="a file or a shipped sample (default: all data sets)")
    add_ledger_options(part)
    part.add_argument("--cap-epsilon", type=float, help="with --cap-delta: set the data set's cap")
    part.add_argument("--cap-delta", type=float, help="with --cap-epsilon")
    part.add_argument(
        "--cap-unit", choices=UNITS, help="what the cap protects (default row)", default=None
    )
    part.add_argument("--export", type=Path, help="write the spends as .csv or .json; a new file")


def _ledger(chosen: argparse.Namespace) -> int:
    """List data sets and their spends, what they cost together, and what their caps leave.

    Totals are those of joint Rényi accounting, which for several releases lie below the sums. They
    hold if all releases were planned before the first result; the sums hold in any case. Refused,
    unfinished and seeded runs count too. A cap is set once and stays: set it before the first
    release. From then on `release` refuses to pass it, whichever releases are chosen. Data sets
    that may be about the same people as an earlier one are pointed out: each has an account of its
    own, and for a person in both the spends of both add up.
    """
    if chosen.data is not None and chosen.dataset is not None:
        raise InvalidInput("DATA and --dataset both name a data set: give one of them")
    name, label = chosen.dataset, chosen.dataset
    if chosen.data is not None:
        name, label = fingerprint_of(chosen.data), Path(chosen.data).name
    if chosen.export is not None and chosen.export.suffix.lower() not in (".csv", ".json"):
        raise InvalidInput(f"--export must end in .csv or .json, got {str(chosen.export)!r}")
    if name == "":
        raise InvalidInput(
            "--dataset must be a name, got an empty one: leave it out or give a name"
        )
    book = SQLiteBook(chosen.ledger)
    _set_cap(book, chosen, name, label)
    histories = _histories(book, name)
    alike = _look_alikes(book, histories)
    answer = {
        "ledger": str(book.path),
        "data_sets": [
            history.standing().to_dict()
            | {
                "n_rows": history.n_rows,
                "columns": history.columns,
                "look_alikes": [
                    {"account": found.history.account, "likeness": found.likeness}
                    for found in alike[history.account]
                ],
                "entries": history.export(),
            }
            for history in histories
        ],
    }
    if chosen.export is not None:
        with output(chosen.export, "--export") as stream:
            if chosen.export.suffix.lower() == ".csv":
                write_csv(exported(histories), stream)
            else:
                stream.write(as_json(answer) + "\n")
    if chosen.json:
        say(as_json(answer))
    else:
        say("\n".join(_lines(book.path, histories, alike)))
    return ExitCode.DONE


def _histories(book: Book, name: str | None) -> list[History]:
    """Return all histories of a book, or that of the data set with this name."""
    if name is None:
        return book.histories()
    ledger = book.find(name)
    return [] if ledger is None else [ledger.history()]


def _look_alikes(book: Book, histories: list[History]) -> dict[str, list[LookAlike]]:
    """Find for each account the earlier ones that may be about the same people."""
    everything = book.histories() if histories else []
    places = {history.account: place for place, history in enumerate(everything)}
    return {
        history.account: history.look_alikes(everything[: places.get(history.account, 0)])
        for history in histories
    }


def _set_cap(book: Book, chosen: argparse.Namespace, name: str | None, label: str | None) -> None:
    if (chosen.cap_epsilon is None) != (chosen.cap_delta is None):
        raise InvalidInput("--cap-epsilon and --cap-delta belong together: give both or neither")
    if chosen.cap_epsilon is None:
        if chosen.cap_unit is not None:
            raise InvalidInput("--cap-unit needs --cap-epsilon and --cap-delta")
        return
    if name is None:
        raise InvalidInput("a cap is for one data set: name it by DATA or --dataset")
    cap = Budget(chosen.cap_epsilon, chosen.cap_delta)
    unit: Unit = "row" if chosen.cap_unit is None else chosen.cap_unit
    if book.open(name, cap=cap, cap_unit=unit, label=label).entries:
        print_note(
            "there were releases before this cap: it counts them, but a cap chosen in view of "
            "results is weaker than one set before"
        )


def _lines(path: Path, histories: list[History], alike: dict[str, list[LookAlike]]) -> list[str]:
    lines = [f"ledger {str(path)!r}"]
    if not histories:
        return [*lines, "nothing was spent"]
    for history in histories:
        standing = history.standing()
        called = "" if standing.label is None else f"{standing.label!r}, "
        lines += ["", f"{called}account {standing.account[:12]}: {standing.total_in_words}"]
        if standing.attacker:
            lines.append(f"  {standing.attacker}")
        if standing.cap is not None:
            lines.append(f"  {_cap(standing)}")
        lines += [f"  the same people? {found}" for found in alike[history.account]]
        lines += [_line(entry) for entry in history.entries]
    return lines


def _cap(standing: LedgerStanding) -> str:
    words = f"cap {standing.cap} for a {standing.cap_unit}"
    if standing.more is None:
        return f"{words}: all of it is left"
    left = "nothing more is sure to fit"
    if standing.remaining is not None:
        left = f"any release up to {standing.remaining} fits"
    return f"{words}: {standing.more:,} more like the last fit; {left}"


def _line(entry: Entry) -> str:
    seeded = ", seeded (a demonstration)" if entry.seeded else ""
    return (
        f"  {entry.number:>4}  {entry.intended[:19]}Z  {entry.method:<6}  {entry.budget}  "
        f"{entry.unit:<6}  {entry.meaning}{seeded}"
    )
