"""`privgmm plan`: what a release would take, without data."""

from __future__ import annotations

import argparse
from typing import Any

from privgmm.cli.arguments import (
    DONE,
    Add,
    a_count,
    a_number,
    add_budget,
    add_forgiving,
    some_rows,
)
from privgmm.cli.files import as_json, progress_bar, say
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_ALPHA, DEFAULT_METHOD, PlanRequest
from privgmm.methods.searching import as_told
from privgmm.methods.what_if import epsilon_for, prospect, rows_for

__all__ = ["add_plan"]

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def add_plan(add: Add) -> None:
    """Add the command."""
    promising = ", ".join(m.name for m in registry.all_methods() if m.error_is_promised)
    part = add("plan", _plan)
    part.add_argument("--k", type=a_count, required=True, help="components")
    part.add_argument("--d", type=a_count, required=True, help="columns")
    part.add_argument("--rows", type=some_rows, help="how many rows there are")
    add_budget(part)
    add_forgiving(part)
    part.add_argument(
        "--alpha",
        type=a_number,
        default=DEFAULT_ALPHA,
        help=f"accuracy to be promised (methods: {promising}; default {DEFAULT_ALPHA:g})",
    )


def _request(chosen: argparse.Namespace, name: str) -> PlanRequest:
    """What a method is asked: whatever of the options it can be asked at all."""
    method = registry.get(name)
    return PlanRequest(
        n_components=chosen.k,
        n_features=chosen.d,
        n_rows=chosen.rows,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        method=name,
        alpha=chosen.alpha if method.error_is_promised else None,
        forgiving=chosen.forgiving and method.takes_forgiving,
    )


def _plan(chosen: argparse.Namespace) -> int:
    """What it takes, without data: rows for each method and budget, chances at your rows."""
    methods, usual = registry.names(), _request(chosen, DEFAULT_METHOD)
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
        "n_components": chosen.k,
        "n_features": chosen.d,
        "epsilon": chosen.epsilon,
        "delta": chosen.delta,
        "forgiving": chosen.forgiving,
        "rows_needed": needs,
        "what_if": what_if,
    }
    forgiving = ", ".join(request.method for request in asked[: len(methods)] if request.forgiving)
    kind = f"well separated, {forgiving} forgiving" if forgiving else "well separated"
    width = max(8, *(len(name) + 2 for name in methods))
    lines = [
        f"Rows needed for {chosen.k} components in {chosen.d} dimensions at epsilon "
        f"{chosen.epsilon:g}, delta {chosen.delta:g} ({kind}, 95 % of runs):",
        *(f"  {name:<{width}}{as_told(rows):>12}" for name, rows in needs.items()),
        f"What if? Rows for method {usual.method}:",
        *(f"  epsilon {row['epsilon']:<6g}{as_told(row['rows']):>12}" for row in what_if),
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
            f"  expected error       {as_told(seen.error)}",
            f"  smallest epsilon     {as_told(least)}",
        ]
        if seen.plan is not None and seen.pass_probability >= 0.5:
            lines += ["", seen.plan.explain()]
    say(as_json(answer) if chosen.json else "\n".join(lines))
    return DONE
