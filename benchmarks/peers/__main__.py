"""``python -m benchmarks.peers [--only=dpmm_aim,…] [--part=rows]``: measure what is missing.

Mixtures are learned first (``--part=mixtures``, ``--runs=7``), then synthetic rows are made
(``--part=rows``, ``--runs=5``). Then the page, its picture and the README's table are written.
``--again`` measures everything again. ``--page`` measures nothing and writes them from the results
that are there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.peers import page
from benchmarks.peers.campaign import Campaign, Run
from benchmarks.peers.makers import MAKERS
from benchmarks.peers.rows_page import ROWS_RUNS
from benchmarks.peers.tools import TOOLS

_RUNS = 7


def _option(name: str) -> str | None:
    given = [word.partition("=")[2] for word in sys.argv if word.startswith(f"--{name}=")]
    return given[-1] if given else None


def _measured(campaign: Campaign) -> Iterator[Run]:
    only, part, runs = _option("only"), _option("part"), _option("runs")
    if part not in (None, "mixtures", "rows"):
        sys.exit("no such part: choose mixtures or rows")
    chosen = None if only is None else set(only.split(","))
    known = {one.key for one in (*TOOLS, *MAKERS)}
    if chosen is not None and not chosen <= known:
        sys.exit(f"no such tool: choose from {', '.join(sorted(known))}")
    if part != "rows":
        tools = [tool for tool in TOOLS if chosen is None or tool.key in chosen]
        yield from campaign.go(runs=int(runs or _RUNS), tools=tools)
    if part != "mixtures":
        makers = [maker for maker in MAKERS if chosen is None or maker.key in chosen]
        yield from campaign.go_rows(runs=int(runs or ROWS_RUNS), makers=makers)


def main() -> None:
    campaign = Campaign() if "--again" in sys.argv else Campaign.load()
    if "--page" not in sys.argv:
        for one in _measured(campaign):
            print(f"{one.case:26} {one.tool:22} {one.seconds:6.1f} s  ", end="")
            print(one.reason or "  ".join(f"{k} {v:.4g}" for k, v in one.numbers.items()))
            sys.stdout.flush()
            campaign.save()
    page.write(campaign)


if __name__ == "__main__":
    main()
