"""Run all tools on all cases; results are kept, so it can be stopped and resumed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import privgmm
from benchmarks.peers.cases import CASES, MANY_ROWS, Case, MixtureCase, ProblemCase
from benchmarks.peers.environments import Unavailable
from benchmarks.peers.makers import MAKERS, Maker
from benchmarks.peers.synthetic_cases import SYNTHETIC_CASES, SyntheticCase
from benchmarks.peers.tools import TOOLS, Entrant, Tool

__all__ = ["RESULTS", "Campaign", "Run", "measured", "measured_rows"]

E = TypeVar("E", bound=Entrant)
C = TypeVar("C", bound=Case)

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
        From rows to mixture, wall clock; from rows to synthetic rows, processor time. Another
        tool's start is included.
    numbers : dict
        What the case's ``judge`` says; empty if there is nothing to judge.
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


def measured(tool: Tool, case: MixtureCase, run: int) -> Run:
    """Learn a mixture and judge it, once."""
    start = time.perf_counter()
    try:
        found = tool.learn(case, run)
    except Unavailable as reason:
        return Run(tool.key, case.key, run, time.perf_counter() - start, {}, str(reason))
    seconds = round(time.perf_counter() - start, 2)
    return Run(tool.key, case.key, run, seconds, _short(case.judge(found)))


def measured_rows(maker: Maker, case: SyntheticCase, run: int) -> Run:
    """Make synthetic rows and judge them, once."""
    start = _processor_seconds()

    def spent() -> float:
        return round(_processor_seconds() - start, 2)

    try:
        made = maker.make(case, run)
    except Unavailable as failure:
        return Run(maker.key, case.key, run, spent(), {}, str(failure))
    seconds = spent()
    broken = int((~np.isfinite(made)).any(axis=1).sum())
    if broken:
        reason = f"{broken} of {len(made)} rows hold a value that is not a finite number"
        return Run(maker.key, case.key, run, seconds, {}, reason)
    return Run(maker.key, case.key, run, seconds, _short(case.judge(made)))


def _short(numbers: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in numbers.items()}


def _processor_seconds() -> float:
    """Sum the processor time of this process and of all that it has waited for."""
    whole = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in whole)


@dataclasses.dataclass
class Campaign:
    """All measurements, as the file of results has them.

    Parameters
    ----------
    date : str
        Of the last run that learned a mixture.
    rows_date : str
        Of the last run that made synthetic rows.
    machine : str
    versions : dict
        Of the tools by key; a reason in place of a version where one could not be installed.
    sizes : dict
        How many rows there are to learn from, by case.
    runs : list of Run
    """

    date: str = ""
    rows_date: str = ""
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
        order = {one.key: i for i, one in enumerate((*MAKERS, *TOOLS))}
        cases = {one.key: i for i, one in enumerate((*CASES, *SYNTHETIC_CASES))}
        runs = sorted(self.runs, key=lambda one: (cases[one.case], order[one.tool], one.run))
        lines = ",\n".join("    " + json.dumps(dataclasses.asdict(one)) for one in runs)
        head = {
            "date": self.date,
            "rows_date": self.rows_date,
            "machine": self.machine,
            "versions": self.versions,
            "sizes": self.sizes,
        }
        text = json.dumps(head, indent=2)[:-2]
        path.write_text(f'{text},\n  "runs": [\n{lines}\n  ]\n}}\n', "utf-8")

    def go(
        self, *, runs: int, tools: Iterable[Tool] = TOOLS, cases: Iterable[MixtureCase] = CASES
    ) -> Iterator[Run]:
        """Do what is missing or failed before, and yield each run when it is done."""
        cases = tuple(cases)
        of_mixtures = {case.key for case in cases}
        self.runs = [one for one in self.runs if not (one.reason and one.case in of_mixtures)]
        able = self._begun(tools, cases)
        places = (
            (tool, case, run)
            for run in range(runs)
            for case in cases
            for tool in able
            if run < _FEW_RUNS or not _is_large(case)
        )
        for one in self._done(places, measured):
            self.date = _today()
            yield one

    def go_rows(
        self,
        *,
        runs: int,
        makers: Iterable[Maker] = MAKERS,
        cases: Iterable[SyntheticCase] = SYNTHETIC_CASES,
    ) -> Iterator[Run]:
        """Make and judge synthetic rows where that is missing, and yield each run when it is done.

        All makers on all tables come before the second run of any, so that it may be stopped at
        any time. What failed is a result and stays: most of that are runs out of time.
        """
        cases = tuple(cases)
        able = self._begun(makers, cases)
        places = ((maker, case, run) for run in range(runs) for case in cases for maker in able)
        for one in self._done(places, measured_rows):
            self.rows_date = _today()
            yield one

    def _begun(self, entrants: Iterable[E], cases: Iterable[Case]) -> list[E]:
        """Note machine and sizes; return who could be installed."""
        self.machine = f"{platform.machine()}, Python {platform.python_version()}"
        self.sizes |= {case.key: len(case.rows(0)) for case in cases}
        return [entrant for entrant in entrants if self._prepared(entrant)]

    def _done(
        self, places: Iterable[tuple[E, C, int]], measure: Callable[[E, C, int], Run]
    ) -> Iterator[Run]:
        """Measure where there is something to run and no result yet."""
        done = {one.place for one in self.runs}
        for entrant, case, run in places:
            if entrant.plays(case) and (entrant.key, case.key, run) not in done:
                one = measure(entrant, case, run)
                self.runs.append(one)
                yield one

    def _prepared(self, tool: Entrant) -> bool:
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


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _is_large(case: Case) -> bool:
    return isinstance(case, ProblemCase) and case.n_rows >= MANY_ROWS
