"""Write the results as a page of the documentation, and as the small table of the README.

Every number, every bold one and every sentence that names a winner is made from the results.
"""

from __future__ import annotations

import collections
import datetime
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers import chart, rows_page
from benchmarks.peers.campaign import Campaign, Run
from benchmarks.peers.cases import CASES, SIZES, Case, ProblemCase, TableCase
from benchmarks.peers.makers import MAKERS
from benchmarks.peers.reading import median_of, name_of, runs_of
from benchmarks.peers.synthetic_cases import SHEETS
from benchmarks.peers.tools import BUDGET, TIMEOUT, TOOLS, Tool
from benchmarks.peers.workers.job import BINS
from benchmarks.peers.writing import SUPERSCRIPTS, Measure, number, numbers_in_cell, table

__all__ = [
    "MEASURES",
    "PAGE",
    "PICTURE",
    "README",
    "cell",
    "number",
    "page",
    "readme_part",
    "write",
]

_ROOT = Path(__file__).parent.parent.parent
PAGE = _ROOT / "docs" / "comparison.md"
README = _ROOT / "README.md"
PICTURE = _ROOT / "docs" / "images" / "comparison.svg"

OURS = "privgmm"
_START, _END = "<!-- peers: start -->", "<!-- peers: end -->"

MEASURES = (
    Measure("mean", "means"),
    Measure("covariance", "covariances"),
    Measure("variation", "total variation"),
)
_LIKELIHOODS = (
    Measure("held_out", "log-likelihood", less=False, decimals=2),
    Measure("plain", "log-likelihood of all rows", less=False, decimals=2),
)


# ----------------------------------------------------------------------------------- reading


def _best(campaign: Campaign, case: Case, measure: Measure) -> list[Tool]:
    """List differentially private tools with the best median, as it is shown."""
    found = {
        tool.key: value
        for tool in TOOLS
        if tool.private and (value := median_of(campaign, tool, case, measure.name)) is not None
    }
    if not found:
        return []
    best = min(found.values()) if measure.less else max(found.values())
    shown = measure.shown(best)
    return [t for t in TOOLS if t.key in found and measure.shown(found[t.key]) == shown]


# ------------------------------------------------------------------------------------- cells


def cell(campaign: Campaign, tool: Tool, case: Case, measures: Sequence[Measure]) -> str:
    """Write medians, the best of a column in bold; or why there are none."""
    runs = runs_of(campaign, tool, case)
    done = [one for one in runs if one.numbers]
    if not runs:
        if tool.key not in campaign.versions or "not installed" in campaign.versions[tool.key]:
            return "not installed"
        return "needs bounds" if tool.needs_bounds and not tool.plays(case) else "not run"
    if not done:
        return f"failed: {runs[0].reason}"
    shown = []
    for measure in measures:
        value = median_of(campaign, tool, case, measure.name)
        text = "" if value is None else measure.shown(value)
        shown.append(f"**{text}**" if tool in _best(campaign, case, measure) else text)
    failed = f" ({len(runs) - len(done)} of {len(runs)} failed)" if len(done) < len(runs) else ""
    return numbers_in_cell(shown) + failed


def _spread(runs: Sequence[Run], measure: Measure) -> str:
    found = [one.numbers[measure.name] for one in runs if one.numbers]
    if not found:
        return ""
    low, high = measure.shown(min(found)), measure.shown(max(found))
    return (low if low == high else f"{low} to {high}").replace("-", "−")


def _seconds(runs: Sequence[Run]) -> str:
    found = [one.seconds for one in runs if one.numbers]
    return f"{np.median(found):,.1f}" if found else ""


# ----------------------------------------------------------------------------------- the page


def _of_problem(n: int) -> list[ProblemCase]:
    return [case for case in CASES if isinstance(case, ProblemCase) and case.n_rows == n]


def _problem(campaign: Campaign, n: int) -> str:
    cases = _of_problem(n)
    head = ["tool", *(case.situation.title for case in cases)]
    lines = [
        [name_of(campaign, tool), *(cell(campaign, tool, case, MEASURES) for case in cases)]
        for tool in TOOLS
    ]
    count = len({one.run for one in campaign.runs if one.case == cases[-1].key})
    right = next(case for case in cases if case.situation.key == "right")
    moved = next(case for case in cases if case.situation.key == "none")
    spread = [
        [
            name_of(campaign, tool),
            _spread(runs, MEASURES[2]),
            _seconds(runs),
        ]
        for tool in TOOLS
        if (runs := runs_of(campaign, tool, right if tool.needs_bounds else moved))
    ]
    return "\n\n".join(
        [
            f"### {n:,} rows",
            f"Medians of {count} runs: means / covariances / total variation.",
            table(head, lines),
            f"The spread of the {count} runs, without bounds, or with the right ones where bounds "
            "are needed; and seconds from rows to mixture:",
            table(["tool", "total variation, least to largest", "seconds"], spread),
        ]
    )


def _tables(campaign: Campaign) -> str:
    cases = [case for case in CASES if isinstance(case, TableCase)]
    lines = [
        [name_of(campaign, tool), *(cell(campaign, tool, case, _LIKELIHOODS) for case in cases)]
        for tool in TOOLS
    ]
    head = ["tool", *(_title(case) for case in cases)]
    return table(head, lines)


def _summary(campaign: Campaign) -> str:
    """Collect the verdicts of all tables."""
    groups: list[tuple[str, Sequence[Case], Sequence[Measure]]] = [
        (f"Two Gaussians, {n:,} rows", _of_problem(n), MEASURES) for n in SIZES
    ]
    real = [case for case in CASES if isinstance(case, TableCase)]
    groups.append(("Two real tables", real, _LIKELIHOODS))
    bullets = [
        f"- {title}: {_verdict(campaign, cases, measures)} {_single(campaign, cases, measures)}"
        for title, cases, measures in groups
    ]
    bullets.append(
        f"- Synthetic rows of {len(SHEETS)} real tables ({rows_page.runs_in_words(campaign)}): "
        f"{rows_page.verdict(campaign)}"
    )
    return "\n".join(bullets)


def _single(campaign: Campaign, cases: Sequence[Case], measures: Sequence[Measure]) -> str:
    """Count how often another tool with privacy did better on the same rows, and where."""
    whole, ahead = 0, collections.Counter[tuple[str, str]]()
    for case, measure in itertools.product(cases, measures):
        sign = 1 if measure.less else -1
        found: dict[int, dict[str, float]] = {}
        for tool in TOOLS:
            for one in runs_of(campaign, tool, case) if tool.private else ():
                if one.numbers:
                    found.setdefault(one.run, {})[tool.key] = sign * one.numbers[measure.name]
        for levels in found.values():
            if OURS in levels:
                whole += 1
                first = min(levels, key=lambda key: (levels[key], key != OURS))
                if first != OURS:
                    (tool,) = (one for one in TOOLS if one.key == first)
                    ahead[name_of(campaign, tool), measure.words] += 1
    if not ahead:
        return f"It is first in every single run too, {whole} places in all."
    words = "; ".join(f"{tool} in {what}: {n}" for (tool, what), n in ahead.most_common())
    return f"In single runs another tool is ahead in {ahead.total()} of {whole} places ({words})."


def _verdict(campaign: Campaign, cases: Sequence[Case], measures: Sequence[Measure]) -> str:
    """Say which tool is first in which place."""
    lost: dict[str, list[str]] = {}
    ahead, lucky = 0, []
    for case in cases:
        for measure in measures:
            best = _best(campaign, case, measure)
            if any(tool.key == OURS for tool in best):
                ahead += 1
            elif best:
                place = f"{measure.words} ({_title(case)})"
                lost.setdefault(name_of(campaign, best[0]), []).append(place)
                lucky.append(_as_good_as_without_privacy(campaign, case, measure))
    whole = len(cases) * len(measures)
    if not lost:
        return f"**privgmm is first in all {whole} places**, or level with the first."
    words = "; ".join(f"{name}: {', '.join(places)}" for name, places in lost.items())
    said = (
        f"**privgmm is first in {ahead} of {whole} places**, or level with the first. In the rest, "
        f"others are. {words}."
    )
    if all(lucky):
        said += (
            " In these, privgmm's error is that of EM without privacy, to within a tenth: the "
            "order is chance."
        )
    return said


def _as_good_as_without_privacy(campaign: Campaign, case: Case, measure: Measure) -> bool:
    """Check whether our error is within a tenth of that of EM without privacy."""
    ours, plain = (
        median_of(campaign, tool, case, measure.name)
        for tool in TOOLS
        if tool.key == OURS or not tool.private
    )
    return measure.less and ours is not None and plain is not None and ours <= 1.1 * plain


def _title(case: Case) -> str:
    if isinstance(case, TableCase):
        return f"{case.name}, {case.situation.title}"
    return case.situation.title


def _failures(campaign: Campaign) -> str:
    entrants = {one.key: one for one in (*MAKERS, *TOOLS)}
    lines = [
        f"- {name_of(campaign, tool)}: {campaign.versions[tool.key]}"
        for tool in entrants.values()
        if "not installed" in campaign.versions.get(tool.key, "")
    ]
    lines += [
        f"- {one.tool}, {one.case}, run {one.run}: {one.reason}"
        for one in campaign.runs
        if one.reason
    ]
    return (
        "\n".join(lines)
        if lines
        else "None: every tool was installed and every run that began gave a result."
    )


def page(campaign: Campaign) -> str:
    """Write the whole page."""
    problem = "\n\n".join(_problem(campaign, n) for n in SIZES)
    flights, diamonds = (
        next(case for case in CASES if isinstance(case, TableCase) and case.name == name)
        for name in ("flights", "diamonds")
    )
    return f"""---
hide:
  - toc
---

# Compared with other tools

What do other tools for differential privacy learn from the same rows, and what do they have to know
beforehand? This page is written by `make peers`, which installs each tool in an environment of its
own, runs it, and keeps every run in `benchmarks/peers/results.json`. Mixtures were measured on
{_date(campaign.date)}, synthetic rows on {_date(campaign.rows_date)}
({campaign.machine}), at ε = {BUDGET.epsilon:g} and δ = {_power_of_ten(BUDGET.delta)}.

## In short

![Total variation to the truth of every tool, by the bounds it was given](images/comparison.svg)

A place is one number in one column of the tables below.

{_summary(campaign)}

## How it is compared

- **Rows.** All tools get the same rows, drawn again for every run. No tool can know more about the
  truth than the rows show. The last line, EM without privacy, shows how much that is: among errors
  as small as these, the order is chance.
- **Bounds.** Most tools need to know between which values the rows lie, before they look. The
  columns of the tables say which bounds they were given: the right ones (five standard deviations
  around every component), bounds ten times too wide, bounds half as wide, or none. In the last
  column all values were shifted by 10,000, and tools that need bounds still have the old ones.
  privgmm takes no bounds, so its numbers are the same in all columns, the last one included. Only
  with 10,000 rows the last one differs: the frame of few rows comes from histograms with fixed
  bins, and a shift changes the errors of single runs, though not how large they typically are.
- **From synthetic rows to a mixture.** The other tools make synthetic rows. scikit-learn's EM, the
  best of four starts, fits a mixture to them: the same for all, and for the last line, which is EM
  on the rows themselves. [Baselines](reference/baselines.md) are other learners in this package;
  they have a last step of their own.
- **The promise.** The other tools count two tables as neighbours if one has a row *more*. privgmm
  and the baselines count them as neighbours if a row was *replaced*. That is the stronger promise,
  and takes up to twice the noise at the same ε. The other tools keep this advantage here.
- **Settings.** The defaults. Where the number of bins is left to the user it is {BINS} per column.
  dpmm spends a tenth of ε on its bins, SmartNoise a tenth on bounds if it is given none. A run may
  take {TIMEOUT} seconds of processor time. "Small counts dropped" clears the cells of diffprivlib's
  histogram that noise alone would fill.

## Two Gaussians in the plane

Weights 0.4 and 0.6, means (−4, 0) and (4, 0), two different covariances: the problem of all studies
here. Errors of the worse component: means in standard deviations, covariances relative. Total
variation is between the whole mixtures: 0 is perfect, 1 is nothing in common. The best
differentially private number of a column is **bold**.

{problem}

## Two real tables

Mean log-likelihood of rows that were held out, three components: without the worst 0.5 % of rows /
of all rows. Larger is better. The rows are split once; noise is drawn for every run.

- Air time (minutes) and distance (miles) of {campaign.sizes[flights.key]:,} flights, with bounds of
  {_told(flights)}.
- Carats and price (dollars) of {campaign.sizes[diamonds.key]:,} diamonds, with bounds of
  {_told(diamonds)}.

The bounds are what a person would state who has not seen the table. EM without privacy is not the
best possible: it climbs to one of many optima of the likelihood, from four starts.

{_tables(campaign)}

## Synthetic rows of real tables

{rows_page.part(campaign)}

## What went wrong

{_failures(campaign)}

## Repeat it

```
make peers
```

Versions are pinned in `benchmarks/peers/requirements/`. Runs that are in the file of results are
not measured again; `python -m benchmarks.peers --again` measures all of them. `--part=rows` goes on
with the synthetic rows where they were left. The noise of the other tools is drawn again each time,
so the digits differ a little from one campaign to the next.
"""


def _date(iso: str) -> str:
    """Write a date in words."""
    if not iso:
        return "no day yet"
    day = datetime.date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"


def _told(case: TableCase) -> str:
    """Say the bounds in words."""
    return " and ".join(
        f"{low:,.0f} to {high:,.0f}" for low, high in zip(case.low, case.high, strict=True)
    )


def _power_of_ten(value: float) -> str:
    return f"10{str(round(np.log10(value))).translate(SUPERSCRIPTS)}"


# ---------------------------------------------------------------------------------- the README


def readme_part(campaign: Campaign) -> str:
    """Write the part of the README between its marks."""
    cases = [case for case in _of_problem(100_000) if case.situation.key != "tight"]
    measures = MEASURES[:2]
    others = [tool for tool in TOOLS if tool.environment is not None]
    shown = [TOOLS[0], *others, next(tool for tool in TOOLS if tool.key == "baseline-dp_em")]
    head = ["tool", *(case.situation.title for case in cases)]
    lines = [
        [name_of(campaign, tool), *(cell(campaign, tool, case, measures) for case in cases)]
        for tool in shown
    ]
    return "\n\n".join([_START, table(head, lines), _END])


def write(campaign: Campaign) -> None:
    """Write the page, its picture, and the README's table."""
    PAGE.write_text(page(campaign), "utf-8")
    PICTURE.write_text(chart.svg(campaign), "utf-8")
    text = README.read_text("utf-8")
    between = re.compile(f"{_START}.*{_END}", re.DOTALL)
    if not between.search(text):
        raise LookupError(f"README.md must hold the marks {_START} and {_END}")
    README.write_text(between.sub(lambda _: readme_part(campaign), text), "utf-8")
