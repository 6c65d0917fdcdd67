"""``python -m benchmarks.peers [--runs=7] [--only=dpmm_aim,…]``: measure what is missing.

Then the page, its picture and the README's table are written. ``--again`` measures everything
again. ``--page`` measures nothing and writes them from the results that are there.
"""

from __future__ import annotations

import sys

from benchmarks.peers import page
from benchmarks.peers.campaign import Campaign
from benchmarks.peers.tools import TOOLS

_RUNS = 7


def _option(name: str) -> str | None:
    given = [word.partition("=")[2] for word in sys.argv if word.startswith(f"--{name}=")]
    return given[-1] if given else None


def main() -> None:
    campaign = Campaign() if "--again" in sys.argv else Campaign.load()
    if "--page" not in sys.argv:
        only = _option("only")
        wanted = [tool for tool in TOOLS if only is None or tool.key in only.split(",")]
        if not wanted:
            sys.exit(f"no such tool: choose from {', '.join(tool.key for tool in TOOLS)}")
        for one in campaign.go(runs=int(_option("runs") or _RUNS), tools=wanted):
            print(f"{one.case:26} {one.tool:22} {one.seconds:6.1f} s  ", end="")
            print(one.reason or "  ".join(f"{k} {v:.4g}" for k, v in one.numbers.items()))
            sys.stdout.flush()
            campaign.save()
    page.write(campaign)


if __name__ == "__main__":
    main()
