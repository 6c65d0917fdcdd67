"""`privgmm ledger`: what was spent on each data set, what it adds up to, and caps."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from privgmm.budget import UNITS, Budget, Unit
from privgmm.cli.arguments import DONE, Add, add_ledger, ledger_path
from privgmm.cli.files import as_json, output, say
from privgmm.cli.source import fingerprint_of
from privgmm.errors import InvalidInput
from privgmm.ledger.protocol import Standing
from privgmm.ledger.sqlite import (
    SQLiteLedger,
    find_account,
    read_spends,
    read_standings,
    write_spends_csv,
)

__all__ = ["add_ledger_command"]


def add_ledger_command(add: Add) -> None:
    """Add the command."""
    part = add("ledger", _ledger)
    part.add_argument("data", nargs="?", help="one file or shipped sample; by default all")
    add_ledger(part)
    part.add_argument("--cap-epsilon", type=float, help="with --cap-delta: set the data set's cap")
    part.add_argument("--cap-delta", type=float, help="with --cap-epsilon")
    part.add_argument(
        "--cap-unit", choices=UNITS, help="what the cap protects (default row)", default=None
    )
    part.add_argument("--export", type=Path, help="write the spends as .csv or .json; a new file")


def _ledger(chosen: argparse.Namespace) -> int:
    """List data sets and their spends, what they cost together, and what their caps leave.

    Totals are those of joint Rényi accounting, which for several releases lie below the sums.
    Refused, unfinished and seeded runs count too. A cap is set once and stays: set it before the
    first release. From then on `release` refuses to pass it.
    """
    if chosen.data is not None and chosen.dataset is not None:
        raise InvalidInput("DATA and --dataset both name a data set: give one of them")
    name, label = chosen.dataset, chosen.dataset
    if chosen.data is not None:
        name, label = fingerprint_of(chosen.data), Path(chosen.data).name
    if chosen.export is not None and chosen.export.suffix.lower() not in (".csv", ".json"):
        raise InvalidInput(f"--export must end in .csv or .json, got {str(chosen.export)!r}")
    if name == "":
        raise InvalidInput("--dataset must not be empty")
    _set_cap(chosen, name, label)
    path = ledger_path(chosen)
    standings: list[Standing] = []
    spends: list[dict[str, Any]] = []
    if chosen.ledger is not None or path.exists():
        standings, spends = read_standings(path), read_spends(path)
        if name is not None:
            account = find_account(path, name)
            standings = [standing for standing in standings if standing.account == account]
            spends = [spend for spend in spends if spend["account"] == account]
    answer = {
        "ledger": str(path),
        "data_sets": [
            standing.to_dict()
            | {"entries": [spend for spend in spends if spend["account"] == standing.account]}
            for standing in standings
        ],
    }
    if chosen.export is not None:
        with output(chosen.export, "--export") as stream:
            if chosen.export.suffix.lower() == ".csv":
                write_spends_csv(spends, stream)
            else:
                stream.write(as_json(answer) + "\n")
    if chosen.json:
        say(as_json(answer))
    else:
        say("\n".join(_lines(path, standings, spends)))
    return DONE


def _set_cap(chosen: argparse.Namespace, name: str | None, label: str | None) -> None:
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
    ledger = SQLiteLedger(chosen.ledger, name, cap=cap, cap_unit=unit, label=label)
    if ledger.entries:
        sys.stderr.write(
            "privgmm: there were releases before this cap: it counts them, but a cap chosen in "
            "view of results is weaker than one set before\n"
        )


def _lines(path: Path, standings: list[Standing], spends: list[dict[str, Any]]) -> list[str]:
    lines = [f"ledger {str(path)!r}"]
    if not standings:
        return [*lines, "nothing was spent"]
    for standing in standings:
        own = [spend for spend in spends if spend["account"] == standing.account]
        called = "" if standing.label is None else f"{standing.label!r}, "
        lines += ["", f"{called}account {standing.account[:12]}: {_total(standing)}"]
        if standing.cap is not None:
            lines.append(f"  {_cap(standing)}")
        lines += [_line(spend) for spend in own]
    return lines


def _total(standing: Standing) -> str:
    if standing.total is None:
        return "nothing was spent"
    times = "1 spend" if standing.spends == 1 else f"{standing.spends} spends, together"
    return f"{times} {standing.total} for a {standing.unit}"


def _cap(standing: Standing) -> str:
    words = f"cap {standing.cap} for a {standing.cap_unit}"
    if standing.more is None:
        return f"{words}: all of it is left"
    left = "nothing more is sure to fit"
    if standing.remaining is not None:
        left = f"any release up to {standing.remaining} fits"
    return f"{words}: {standing.more:,} more like the last fit; {left}"


def _line(spend: dict[str, Any]) -> str:
    budget = Budget(spend["epsilon"], spend["delta"])
    seeded = ", seeded (a demonstration)" if spend["seeded"] else ""
    return (
        f"  {spend['number']:>4}  {spend['intended'][:19]}Z  {spend['method']:<6}  {budget}  "
        f"{spend['unit']:<6}  {spend['meaning']}{seeded}"
    )
