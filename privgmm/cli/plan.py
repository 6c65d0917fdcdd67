"""`privgmm plan`: what a release would take, without data."""

from __future__ import annotations

import argparse
from typing import Any

from privgmm.cli.arguments import (
    DONE,
    Add,
    a_count,
    add_budget,
    add_forgiving,
    number,
    some_rows,
)
from privgmm.cli.files import as_json, progress_bar, say
from privgmm.methods import METHODS
from privgmm.methods.plan import Method
from privgmm.methods.what_if import Question, epsilon_for, prospect, rows_for

__all__ = ["add_plan"]

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def add_plan(add: Add) -> None:
    """Add the command."""
    part = add("plan", _plan)
    part.add_argument("--k", type=a_count, required=True, help="components")
    part.add_argument("--d", type=a_count, required=True, help="columns")
    part.add_argument("--rows", type=some_rows, help="how many rows there are")
    add_budget(part)
    add_forgiving(part)
    part.add_argument("--alpha", type=float, default=0.5, help="for methods tight and paper")


def _plan(chosen: argparse.Namespace) -> int:
    """What it takes, without data: rows for each method and budget, chances at your rows."""
    question = Question(chosen.k, chosen.d, chosen.delta, forgiving=chosen.forgiving)
    asked: list[tuple[Method, float]] = [(method, chosen.epsilon) for method in METHODS]
    asked += [("lifted", epsilon) for epsilon in _EPSILONS]
    progress, found = progress_bar("searches"), []
    for method, epsilon in asked:
        found.append(float(rows_for(question, method, epsilon=epsilon, alpha=chosen.alpha)))
        if progress is not None:
            progress(len(found), len(asked))
    needs = dict(zip(METHODS, found, strict=False))
    what_if = [
        {"epsilon": epsilon, "rows": rows}
        for epsilon, rows in zip(_EPSILONS, found[len(METHODS) :], strict=True)
    ]
    answer: dict[str, Any] = {
        "n_components": chosen.k,
        "n_features": chosen.d,
        "epsilon": chosen.epsilon,
        "delta": chosen.delta,
        "forgiving": chosen.forgiving,
        "rows_needed": needs,
        "what_if": what_if,
    }
    kind = "well separated, lifted forgiving" if chosen.forgiving else "well separated"
    lines = [
        f"Rows needed for {chosen.k} components in {chosen.d} dimensions at epsilon "
        f"{chosen.epsilon:g}, delta {chosen.delta:g} ({kind}, 95 % of runs):",
        *(f"  {method:<8}{number(rows):>12}" for method, rows in needs.items()),
        "What if? Rows for method lifted:",
        *(f"  epsilon {row['epsilon']:<6g}{number(row['rows']):>12}" for row in what_if),
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
            f"  expected error       {number(seen.error)}",
            f"  smallest epsilon     {number(least)}",
        ]
        if seen.plan is not None and seen.pass_probability >= 0.5:
            lines += ["", seen.plan.explain()]
    say(as_json(answer) if chosen.json else "\n".join(lines))
    return DONE
