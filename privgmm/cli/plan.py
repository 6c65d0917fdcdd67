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
from privgmm.methods.request import DEFAULT_ALPHA, DEFAULT_METHOD, PlanRequest, components_asked
from privgmm.methods.searching import as_text
from privgmm.methods.what_if import epsilon_for, prospect, rows_for

__all__ = ["add_plan"]

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Budgets of the what-if table: each twice the one before, from strict to weak."""


def add_plan(part: CommandParser) -> None:
    """Declare the arguments of `privgmm plan`."""
    promising = ", ".join(m.name for m in registry.all_methods() if m.error_is_promised)
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
        default=DEFAULT_ALPHA,
        help=f"accuracy to be promised (methods: {promising}; default {DEFAULT_ALPHA:g})",
    )


def _request(chosen: argparse.Namespace, name: str) -> PlanRequest:
    """Ask a method for a plan; only methods that promise an accuracy are asked for alpha."""
    method = registry.get(name)
    k, is_open = components_asked(chosen.k, chosen.max_components)
    return PlanRequest(
        n_components=k,
        choose_components=is_open,
        n_features=chosen.d,
        n_rows=chosen.rows,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        method=name,
        alpha=chosen.alpha if method.error_is_promised else None,
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
    progress, found = progress_bar("searches"), []
    for request in asked:
        found.append(float(rows_for(request)))
        if progress is not None:
            progress(len(found), len(asked))
    needs = dict(zip(methods, found, strict=False))
    what_if = [
        {"epsilon": epsilon, "rows": rows}
        for epsilon, rows in zip(_EPSILONS, found[len(methods) :], strict=True)
    ]
    answer: dict[str, Any] = {
        "n_components": usual.n_components,
        "choose_components": usual.choose_components,
        "n_features": chosen.d,
        "epsilon": chosen.epsilon,
        "delta": chosen.delta,
        "rows_needed": needs,
        "what_if": what_if,
    }
    width = max(8, *(len(name) + 2 for name in methods))
    lines = [
        f"Rows needed for {usual.components_in_words} components in {chosen.d} dimensions at "
        f"epsilon {chosen.epsilon:g}, delta {chosen.delta:g} (well separated, 95 % of runs):",
        *(f"  {name:<{width}}{as_text(rows):>12}" for name, rows in needs.items()),
        f"What if? Rows for method {usual.method}:",
        *(f"  epsilon {row['epsilon']:<6g}{as_text(row['rows']):>12}" for row in what_if),
    ]
    if chosen.rows is not None:
        seen, least = prospect(usual), epsilon_for(usual)
        answer["at_rows"] = {
            "rows": chosen.rows,
            "method": seen.method,
            "pass_probability": seen.pass_probability,
            "expected_error": seen.error,
            "smallest_epsilon": least,
            "plan": None if seen.plan is None else seen.plan.to_dict(),
        }
        lines += [
            f"At {chosen.rows:,} rows, method {seen.method}:",
            f"  chance of a release  {seen.pass_probability:.1%}",
            f"  expected error       {as_text(seen.error)}",
            f"  smallest epsilon     {as_text(least)}",
        ]
        if seen.plan is not None and seen.pass_probability >= 0.5:
            lines += ["", seen.plan.explain()]
    say(as_json(answer) if chosen.json else "\n".join(lines))
    return ExitCode.DONE
