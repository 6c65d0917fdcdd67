"""Run all tools on all cases; results are kept, so it can be stopped and resumed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import privgmm
from benchmarks.peers.cases import CASES, MANY_ROWS, Case, ProblemCase
from benchmarks.peers.environments import Unavailable
from benchmarks.peers.tools import TOOLS, Tool

__all__ = ["RESULTS", "Campaign", "Run", "measured"]

RESULTS = Path(__file__).parent / "results.json"

_FEW_RUNS = 3


@dataclasses.dataclass(frozen=True)
class Run:
    """Result of one run.

    Parameters
    ----------
    tool, case : str
        Their keys.
    run : int
        Which draw of rows and noise.
    seconds : float
        From rows to mixture, wall clock; another tool's start included.
    numbers : dict
        What `Case.judge` says; empty if there is no mixture.
    reason : str
        Why there is none.
    """

    tool: str
    case: str
    run: int
    seconds: float
    numbers: dict[str, float]
    reason: str = ""

    @property
    def place(self) -> tuple[str, str, int]:
        """Identify the run."""
        return self.tool, self.case, self.run


def measured(tool: Tool, case: Case, run: int) -> Run:
    """Learn and judge once."""
    start = time.perf_counter()
    try:
        found = tool.learn(case, run)
    except Unavailable as reason:
        return Run(tool.key, case.key, run, time.perf_counter() - start, {}, str(reason))
    seconds = round(time.perf_counter() - start, 2)
    numbers = {name: float(f"{value:.6g}") for name, value in case.judge(found).items()}
    return Run(tool.key, case.key, run, seconds, numbers)


@dataclasses.dataclass
class Campaign:
    """All measurements, as the file of results has them.

    Parameters
    ----------
    date : str
        Of the last run.
    machine : str
    versions : dict
        Of the tools by key; a reason in place of a version where one could not be installed.
    sizes : dict
        How many rows there are to learn from, by case.
    runs : list of Run
    """

    date: str = ""
    machine: str = ""
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    runs: list[Run] = dataclasses.field(default_factory=list)

    @classmethod
    def load(cls, path: Path = RESULTS) -> Campaign:
        """Read what `save` wrote; empty if there is no such file."""
        if not path.is_file():
            return cls()
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        runs = [Run(**one) for one in found.pop("runs")]
        return cls(**found, runs=runs)

    def save(self, path: Path = RESULTS) -> None:
        """Write one line per run, in the order of tools, cases and runs."""
        order = {one.key: i for i, one in enumerate(TOOLS)}
        cases = {one.key: i for i, one in enumerate(CASES)}
        runs = sorted(self.runs, key=lambda one: (cases[one.case], order[one.tool], one.run))
        lines = ",\n".join("    " + json.dumps(dataclasses.asdict(one)) for one in runs)
        head = {
            "date": self.date,
            "machine": self.machine,
            "versions": self.versions,
            "sizes": self.sizes,
        }
        text = json.dumps(head, indent=2)[:-2]
        path.write_text(f'{text},\n  "runs": [\n{lines}\n  ]\n}}\n', "utf-8")

    def go(
        self, *, runs: int, tools: Iterable[Tool] = TOOLS, cases: Iterable[Case] = CASES
    ) -> Iterator[Run]:
        """Do what is missing or failed before, and yield each run when it is done."""
        self.machine = f"{platform.machine()}, Python {platform.python_version()}"
        able = [tool for tool in tools if self._prepared(tool)]
        self.runs = [one for one in self.runs if not one.reason]
        done = {one.place for one in self.runs}
        cases = tuple(cases)
        self.sizes = {case.key: len(case.rows(0)) for case in cases}
        for run in range(runs):
            for case in cases:
                if _is_large(case) and run >= _FEW_RUNS:
                    continue
                for tool in able:
                    if not tool.plays(case) or (tool.key, case.key, run) in done:
                        continue
                    one = measured(tool, case, run)
                    self.runs.append(one)
                    self.date = datetime.datetime.now(datetime.UTC).date().isoformat()
                    yield one

    def _prepared(self, tool: Tool) -> bool:
        where = tool.environment
        if where is None:
            self.versions[tool.key] = privgmm.__version__
            return True
        try:
            where.prepare()
            self.versions[tool.key] = where.version()
        except Unavailable as reason:
            self.versions[tool.key] = f"not installed: {reason}"
            return False
        return True


def _is_large(case: Case) -> bool:
    return isinstance(case, ProblemCase) and case.n_rows >= MANY_ROWS
