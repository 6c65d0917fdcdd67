"""The command line: plan, release, sample, compare, audit, and start the dashboard.

Exit codes: 0 done or released, 1 an audit or a receipt failed, 2 bad input (nothing was spent),
3 the release was refused. What went wrong is one line on standard error.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from privgmm.audit import run_audit
from privgmm.calibration import calibrate
from privgmm.datasets import Dataset, load_sample, load_table, sample_names
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.mixture_variation import mixture_tv
from privgmm.plan import METHODS, Plan
from privgmm.planner import best_plan
from privgmm.prospects import Question, epsilon_for, prospect, rows_for
from privgmm.receipt import make_receipt, receipt_text, verify_receipt
from privgmm.release import Refusal, release
from privgmm.terminal import as_csv, as_json, file_content, output, progress_bar, read_mixture, say

__all__ = ["main"]

DONE, FAILED, BAD_INPUT, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_CHUNK = 100_000
_MOST = 100
_WIDEST = 1e13


class _Parser(argparse.ArgumentParser):
    """Complains like everything else here, instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message} (see {self.prog} --help)")


def _count(text: str) -> int:
    """A number of components or columns."""
    number = int(text)
    if not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"must lie in 1..{_MOST}, got {number}")
    return number


def _rows(text: str) -> int:
    """A number of rows, 1e6 allowed."""
    number = float(text)
    if not (1 <= number <= 1e18 and number == int(number)):
        raise argparse.ArgumentTypeError(f"must be a whole number in 1..1e18, got {text}")
    return int(number)


def _seed(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**128:
        raise argparse.ArgumentTypeError(f"must lie in 0..2^128 - 1, got {number}")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    try:
        chosen = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = chosen.command
        return command(chosen)
    except PrivGMMError as problem:
        sys.stderr.write(f"privgmm: {problem}\n")
        return BAD_INPUT
    except BrokenPipeError:
        # whoever read the output has seen enough; nothing may be flushed into the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        sys.stderr.write("privgmm: stopped\n")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="privgmm", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        text = (command.__doc__ or "").strip()
        part = commands.add_parser(name, help=text.splitlines()[0], description=text)
        part.add_argument("--json", action="store_true", help="print JSON")
        part.set_defaults(command=command)
        return part

    part = add("app", _app)
    part.add_argument("--port", type=int, default=8501)

    part = add("plan", _plan)
    part.add_argument("--k", type=_count, required=True, help="components")
    part.add_argument("--d", type=_count, required=True, help="columns")
    part.add_argument("--rows", type=_rows, help="how many rows there are")
    _budget_arguments(part)
    part.add_argument("--alpha", type=float, default=0.5, help="for methods tight and paper")

    part = add("release", _release)
    part.add_argument("data", help="a CSV or Parquet file, or the name of a shipped sample")
    part.add_argument("--k", type=_count, required=True, help="components")
    _budget_arguments(part)
    part.add_argument("--columns", help="names, comma separated; by default all columns of numbers")
    part.add_argument("--method", choices=METHODS, default="lifted")
    part.add_argument("--alpha", type=float, help="with --blocks: every knob in your hands")
    part.add_argument("--blocks", type=int, help="with --alpha: every knob in your hands")
    part.add_argument("--out", type=Path, help="write the result here; must not exist")
    part.add_argument("--seed", type=_seed, help="repeatable: a demonstration, NOT private")

    part = add("sample", _sample)
    part.add_argument("file", type=Path, help="a receipt, or a mixture as JSON")
    part.add_argument("--columns", help="names for the columns, comma separated")
    part.add_argument("-n", type=_rows, required=True, help="rows to draw")
    part.add_argument("--out", type=Path, help="write CSV here; must not exist")
    part.add_argument("--seed", type=_seed)

    part = add("tv", _tv)
    part.add_argument("first", type=Path, help="a receipt, a mixture or a Gaussian as JSON")
    part.add_argument("second", type=Path)

    part = add("verify", _verify)
    part.add_argument("file", type=Path, help="a receipt that release wrote")

    part = add("audit", _audit)
    part.add_argument("--quick", action="store_true", help="some seconds instead of minutes")
    part.add_argument("--seed", type=_seed, default=0, help="other random attacks")
    return parser


def _budget_arguments(part: argparse.ArgumentParser) -> None:
    part.add_argument("--epsilon", type=float, default=1.0, help="TOTAL epsilon (default 1)")
    part.add_argument("--delta", type=float, default=1e-6, help="TOTAL delta (default 1e-6)")


# --------------------------------------------------------------------------------- commands


def _app(chosen: argparse.Namespace) -> int:
    """Start the dashboard in a browser."""
    if not 1 <= chosen.port <= 65_535:
        raise InvalidInput(f"--port must lie in 1..65535, got {chosen.port}")
    if chosen.json:
        say(as_json({"url": f"http://localhost:{chosen.port}"}))
    # a process of its own: streamlit takes over signals and arguments; it also says what is missing
    order = [sys.executable, "-m", "privgmm.dashboard.launch"]
    return subprocess.call([*order, "--server.port", str(chosen.port)])


def _plan(chosen: argparse.Namespace) -> int:
    """What it takes, without data: rows for each method and budget, chances at your rows."""
    question = Question(chosen.k, chosen.d, chosen.delta)
    needs = {m: _rows_for(question, m, chosen.epsilon, chosen.alpha) for m in METHODS}
    what_if = [
        {"epsilon": e, "rows": _rows_for(question, "lifted", e, chosen.alpha)} for e in _EPSILONS
    ]
    answer: dict[str, Any] = {
        "n_components": chosen.k,
        "n_features": chosen.d,
        "epsilon": chosen.epsilon,
        "delta": chosen.delta,
        "rows_needed": needs,
        "what_if": what_if,
    }
    lines = [
        f"Rows needed for {chosen.k} components in {chosen.d} dimensions at epsilon "
        f"{chosen.epsilon:g}, delta {chosen.delta:g} (well separated, 95 % of runs):",
        *(f"  {method:<8}{_number(rows):>12}" for method, rows in needs.items()),
        "What if? Rows for method lifted:",
        *(f"  epsilon {row['epsilon']:<6g}{_number(row['rows']):>12}" for row in what_if),
    ]
    if chosen.rows is not None:
        seen = prospect(question, "lifted", n_rows=chosen.rows, epsilon=chosen.epsilon)
        least = epsilon_for(question, "lifted", n_rows=chosen.rows)
        answer["at_rows"] = {
            "rows": chosen.rows,
            "pass_probability": seen.pass_probability,
            "expected_error": seen.error,
            "smallest_epsilon": least,
            "plan": None if seen.plan is None else seen.plan.to_dict(),
        }
        lines += [
            f"At {chosen.rows:,} rows, method lifted:",
            f"  chance of a release  {seen.pass_probability:.1%}",
            f"  expected error       {_number(seen.error)}",
            f"  smallest epsilon     {_number(least)}",
        ]
        if seen.plan is not None and seen.pass_probability >= 0.5:
            lines += ["", seen.plan.explain()]
    say(as_json(answer) if chosen.json else "\n".join(lines))
    return DONE


def _rows_for(question: Question, method: Any, epsilon: float, alpha: float) -> float:
    return float(rows_for(question, method, epsilon=epsilon, alpha=alpha))


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "none"
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"


def _names(columns: str | None) -> list[str] | None:
    """Column names from one argument; quotes keep a comma inside a name."""
    if columns is None:
        return None
    try:
        return next(csv.reader([columns], skipinitialspace=True), [])
    except csv.Error as problem:
        raise InvalidInput(f"--columns must be comma separated names: {problem}") from problem


def _load(source: str, columns: str | None) -> Dataset:
    if columns is None and source in sample_names() and not Path(source).exists():
        return load_sample(source)
    try:
        return load_table(source, columns=_names(columns))
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise InvalidInput(f"cannot read {source!r}: {problem}") from problem


def _plan_for(data: Dataset, chosen: argparse.Namespace) -> Plan:
    """The plan of a release: from the options and the public shape of the table alone."""
    if (chosen.alpha is None) != (chosen.blocks is None):
        raise InvalidInput("--alpha and --blocks belong together: give both or neither")
    if chosen.blocks is not None and chosen.blocks > data.n_rows:
        raise InvalidInput(f"--blocks must be at most the {data.n_rows:,} rows")
    if chosen.alpha is not None:
        return calibrate(
            chosen.method,
            epsilon=chosen.epsilon,
            delta=chosen.delta,
            alpha=chosen.alpha,
            n_components=chosen.k,
            n_features=data.n_features,
            n_blocks=chosen.blocks,
        )
    plan = best_plan(
        data.n_rows,
        method=chosen.method,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        n_components=chosen.k,
        n_features=data.n_features,
    )
    if plan.method != "lifted" and (need := plan.rows_needed()) > data.n_rows:
        raise InvalidInput(
            f"method {plan.method!r} takes about {_number(need)} rows here and there are "
            f"{data.n_rows:,}: use --method lifted, or give --alpha and --blocks to try anyway"
        )
    return plan


def _release(chosen: argparse.Namespace) -> int:
    """Release a mixture from a table, or refuse (exit code 3). Spends the budget once."""
    data = _load(chosen.data, chosen.columns)
    plan = _plan_for(data, chosen)
    with output(chosen.out) as stream:
        outcome = release(data.rows, plan, rng=chosen.seed, progress=progress_bar("blocks fitted"))
        result = outcome.result
        stream.write(receipt_text(make_receipt(result)))
    if chosen.out is not None:
        verdict = "released" if result.released else "refused"
        done = {"released": result.released, "seeded": result.seeded, "out": str(chosen.out)}
        say(
            as_json(done | {"budget": result.budget.to_dict()})
            if chosen.json
            else f"{verdict} with {result.budget}: {str(chosen.out)!r}"
        )
    if result.seeded:
        sys.stderr.write("privgmm: made with a seed: a demonstration, NOT a private release\n")
    if isinstance(result, Refusal):
        sys.stderr.write(f"privgmm: refused. {result.reason}\n")
        return REFUSED
    return DONE


def _sample(chosen: argparse.Namespace) -> int:
    """Draw rows from a release as CSV; costs no privacy."""
    mixture = read_mixture(chosen.file)
    names = _names(chosen.columns) or [f"x{j + 1}" for j in range(mixture.n_features)]
    if len(names) != mixture.n_features or len(set(names)) != len(names):
        raise InvalidInput(f"--columns must be {mixture.n_features} distinct names, got {names}")
    rng = np.random.default_rng(chosen.seed)
    with output(chosen.out) as stream:
        if chosen.json:
            stream.write(f'{{"columns": {json.dumps(names)}, "rows": [')
        for start in range(0, chosen.n, _CHUNK):
            rows = mixture.sample(min(_CHUNK, chosen.n - start), rng=rng)
            if chosen.json:
                comma = ", " if start else ""
                stream.write(comma + json.dumps(rows.tolist(), allow_nan=False)[1:-1])
            else:
                stream.write(as_csv(rows, names, header=start == 0))
        if chosen.json:
            stream.write("]}\n")
    return DONE


def _tv(chosen: argparse.Namespace) -> int:
    """Total variation distance of two Gaussians or mixtures, with how far it may be off."""
    pair = read_mixture(chosen.first), read_mixture(chosen.second)
    if max(f.n_components for f in pair) > 1:
        deviations = np.concatenate([np.einsum("kii->ki", f.cholesky).ravel() for f in pair])
        sizes = np.concatenate([deviations, *(np.abs(f.means).ravel() for f in pair)])
        if sizes.max() > _WIDEST * deviations.min():
            raise InvalidInput(
                "means and deviations of mixtures must lie within 1e13 of the smallest deviation, "
                "or floats cannot tell a deviation from rounding: subtract a common offset"
            )
    found = mixture_tv(*pair)
    if chosen.json:
        say(as_json({"tv": found.value, "half_width": found.half_width, "method": found.method}))
    else:
        say(f"{found.value!r} ± {found.half_width:.2g} ({found.method})")
    return DONE


def _verify(chosen: argparse.Namespace) -> int:
    """Check a receipt without the data (exit code 1 if it is not what it claims)."""
    found = verify_receipt(file_content(chosen.file))
    if chosen.json:
        say(as_json({"ok": found.ok, "problems": list(found.problems)}))
    else:
        say("\n".join(found.problems) if found.problems else "the receipt is in order")
    return DONE if found.ok else FAILED


def _audit(chosen: argparse.Namespace) -> int:
    """Attack every mechanism and print what was found (exit code 1 if a claim fails)."""
    report = run_audit(thorough=not chosen.quick, rng=chosen.seed, progress=progress_bar("stages"))
    say(as_json(report.to_dict()) if chosen.json else str(report))
    return DONE if report.passed else FAILED
