"""`privgmm plan`: what a release would take, without data."""

from __future__ import annotations

import argparse
from typing import Any

from privgmm.cli.arguments import (
    a_count,
    a_count_or_auto,
    a_number,
    a_row_count,
    add_budget,
    add_max_components,
)
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.parser import CommandParser
from privgmm.cli.terminal import as_json, progress_bar, say
from privgmm.methods import registry
from privgmm.methods.planner import usefulness_for
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest, components_asked
from privgmm.methods.searching import as_text
from privgmm.methods.usefulness import USUAL_ALPHA
from privgmm.methods.what_if import RowsNeeded, alpha_for, epsilon_for, prospect, rows_needed

__all__ = ["add_plan"]

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Budgets of the what-if table: each twice the one before, from strict to weak."""


def add_plan(part: CommandParser) -> None:
    """Declare the arguments of `privgmm plan`."""
    part.runs(_plan)
    part.add_argument(
        "--k", type=a_count_or_auto, required=True, help="components, or auto (method sketch)"
    )
    add_max_components(part)
    part.add_argument("--d", type=a_count, required=True, help="columns")
    part.add_argument("--rows", type=a_row_count, help="how many rows there are")
    add_budget(part)
    part.add_argument(
        "--alpha",
        type=a_number,
        default=USUAL_ALPHA,
        help="accuracy asked for: how far the mixture may be from the truth, in dist_GMM (0 is "
        f"perfect, 1 is wrong; default {USUAL_ALPHA:g})",
    )


def _request(chosen: argparse.Namespace, name: str) -> PlanRequest:
    """Ask a method for a plan."""
    k, is_open = components_asked(chosen.k, chosen.max_components)
    return PlanRequest(
        n_components=k,
        choose_components=is_open,
        n_features=chosen.d,
        n_rows=chosen.rows,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        method=name,
        alpha=chosen.alpha,
    )


def _plan(chosen: argparse.Namespace) -> int:
    """Compute what a release takes, without data.

    Printed are the rows that each method needs and, with --rows, the chance of a release, the error
    to expect, the smallest epsilon and the plan itself.
    """
    usual = _request(chosen, DEFAULT_METHOD)
    methods = [
        method.name
        for method in registry.all_methods()
        if method.publishes_sketch or not usual.choose_components
    ]
    asked = [_request(chosen, name) for name in methods]
    asked += [usual.but(epsilon=epsilon) for epsilon in _EPSILONS]
    progress = progress_bar("searches")
    found: list[RowsNeeded] = []
    for request in asked:
        found.append(rows_needed(request))
        if progress is not None:
            progress(len(found), len(asked))
    needs = dict(zip(methods, found, strict=False))
    what_if = dict(zip(_EPSILONS, found[len(methods) :], strict=True))
    answer: dict[str, Any] = {
        "n_components": usual.n_components,
        "choose_components": usual.choose_components,
        "n_features": chosen.d,
        "epsilon": chosen.epsilon,
        "delta": chosen.delta,
        "alpha": chosen.alpha,
        "beta": usual.beta,
        "rows_needed": {name: rows.to_answer for name, rows in needs.items()},
        "rows_within_alpha": {name: rows.within for name, rows in needs.items()},
        "what_if": [
            {"epsilon": epsilon, "rows": rows.to_answer, "rows_within_alpha": rows.within}
            for epsilon, rows in what_if.items()
        ],
    }
    width = max(13, *(len(name) + 2 for name in methods))
    head = f"{f'within {chosen.alpha:g}':>{14}}{'any answer':>14}"
    lines = [
        f"Rows needed for {usual.components_in_words} components in {chosen.d} dimensions at "
        f"epsilon {chosen.epsilon:g}, delta {chosen.delta:g}: to be within {chosen.alpha:g} of the "
        f"truth in {1 - usual.beta:.0%} of runs (dist_GMM: 0 is perfect, 1 is wrong), and to get "
        "any answer. The components are taken to be well separated.",
        " " * (width + 2) + head,
        *(f"  {name:<{width}}{_two(rows)}" for name, rows in needs.items()),
        f"What if? Rows for method {usual.method}:",
        *(f"  {f'epsilon {epsilon:g}':<{width}}{_two(rows)}" for epsilon, rows in what_if.items()),
    ]
    if chosen.rows is not None:
        seen, least, reached = prospect(usual), epsilon_for(usual), alpha_for(usual)
        useful = usefulness_for(usual)
        answer["at_rows"] = {
            "rows": chosen.rows,
            "method": seen.method,
            "pass_probability": seen.pass_probability,
            "expected_error": seen.error,
            "smallest_epsilon": least,
            "smallest_alpha": reached,
            "usefulness": useful.to_dict(),
            "plan": None if seen.plan is None else seen.plan.to_dict(),
        }
        lines += [
            f"At {chosen.rows:,} rows, method {seen.method}: {useful.title.lower()}.",
            f"  {useful.sentence}",
            f"  chance of a release  {seen.pass_probability:.1%}",
            f"  expected error       {as_text(seen.error)}",
            f"  smallest alpha       {as_text(reached)}",
            f"  smallest epsilon     {as_text(least)}",
        ]
        if seen.plan is not None and seen.pass_probability >= 0.5:
            lines += ["", seen.plan.explain()]
    say(as_json(answer) if chosen.json else "\n".join(lines))
    return ExitCode.DONE


def _two(rows: RowsNeeded) -> str:
    """Write both numbers of rows, for a table."""
    return f"{as_text(rows.within):>14}{as_text(rows.to_answer):>14}"
