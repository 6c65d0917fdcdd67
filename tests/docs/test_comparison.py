"""The comparison with other tools: the page says what the file of runs says, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.peers import chart, page
from benchmarks.peers.campaign import RESULTS, Campaign, Run, measured
from benchmarks.peers.cases import CASES, SITUATIONS, MixtureCase, ProblemCase, TableCase
from benchmarks.peers.environments import ENVIRONMENTS, Environment, Unavailable, last_line
from benchmarks.peers.makers import MAKERS
from benchmarks.peers.reading import median_of
from benchmarks.peers.synthetic_cases import SYNTHETIC_CASES
from benchmarks.peers.tools import TOOLS, Tool, em
from benchmarks.peers.workers.job import Job
from benchmarks.release import PROBLEM
from privgmm import Mixture
from privgmm.baselines import Box
from tests.docs.names import ROOT

KEPT = Campaign.load()
TEXT = page.PAGE.read_text("utf-8")


def _tool(key: str) -> Tool:
    return next(tool for tool in TOOLS if tool.key == key)


def _case(key: str) -> MixtureCase:
    return next(case for case in CASES if case.key == key)


# ------------------------------------------------------------------------- the page and the file


def test_the_page_and_the_readme_are_those_of_the_results() -> None:
    """`python -m benchmarks.peers --page` writes both again."""
    assert page.page(KEPT) == TEXT
    assert page.readme_part(KEPT) in page.README.read_text("utf-8")
    assert page.PICTURE.read_text("utf-8") == chart.svg(KEPT)


def test_a_changed_result_changes_the_page() -> None:
    """Ours fifty times worse: it is shown, and no longer called the first."""

    def worse(one: Run) -> Run:
        if (one.tool, one.case) != ("privgmm", "problem-100000-none"):
            return one
        numbers = {name: 50 * value for name, value in one.numbers.items()}
        return dataclasses.replace(one, numbers=numbers)

    other = page.page(dataclasses.replace(KEPT, runs=[worse(one) for one in KEPT.runs]))
    assert other != TEXT
    places = [
        re.findall(r"100,000 rows: \*\*privgmm is first in (?:all )?(\d+)", text)[0]
        for text in (TEXT, other)
    ]
    assert int(places[1]) < int(places[0])


def _line(heading: str, begins: str) -> list[str]:
    """The cells of a line in the first table below a heading, read from the page's words."""
    below = TEXT.split(heading, 1)[1]
    for line in below.splitlines():
        if line.startswith(f"| {begins}"):
            return [cell.strip() for cell in line.strip("|").split("|")]
    raise AssertionError(f"no line {begins!r} below {heading!r}")


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_cells_are_medians_of_the_runs_in_the_file(n: int) -> None:
    """Read and computed by other means than those that write the page."""
    raw = json.loads(RESULTS.read_text("utf-8"))["runs"]
    for begins, key in (
        ("dpmm", "dpmm_aim"),
        ("OpenDP", "opendp_aim"),
        ("DP-EM", "baseline-dp_em"),
    ):
        cells = _line(f"### {n:,} rows", begins)
        for column, situation in enumerate(("right", "wide", "tight"), start=1):
            found = [
                one["numbers"]
                for one in raw
                if one["tool"] == key and one["case"] == f"problem-{n}-{situation}"
            ]
            assert len(found) >= 3
            shown = (
                cells[column]
                .replace("*", "")
                .replace(",", "")
                .replace("\N{NO-BREAK SPACE}", "")
                .split("/")
            )
            for text, name in zip(shown, ("mean", "covariance", "variation"), strict=True):
                true = statistics.median(one[name] for one in found)
                assert float(text) == pytest.approx(true, rel=0.051)


def test_single_runs_that_others_won_are_counted() -> None:
    """At 100,000 rows, straight from the file: ours has no bounds in any column."""
    raw = json.loads(RESULTS.read_text("utf-8"))["runs"]
    lost = whole = 0
    for situation in ("right", "wide", "tight", "none", "shifted"):
        own = "shifted" if situation == "shifted" else "none"
        for name in ("mean", "covariance", "variation"):
            for ours in raw:
                if (ours["tool"], ours["case"]) != ("privgmm", f"problem-100000-{own}"):
                    continue
                others = [
                    one["numbers"][name]
                    for one in raw
                    if one["case"] == f"problem-100000-{situation}"
                    and one["run"] == ours["run"]
                    and one["tool"] not in ("privgmm", "without")
                    and one["numbers"]
                ]
                whole += 1
                lost += min(others) < ours["numbers"][name]
    (said,) = re.findall(r"Two Gaussians, 100,000 rows: .*", TEXT)
    assert f"ahead in {lost} of {whole} places" in said or (not lost and "every single" in said)


def test_every_tool_was_run_in_every_case_it_can_play() -> None:
    done = {(one.tool, one.case) for one in KEPT.runs}
    for tool in TOOLS:
        assert tool.key in KEPT.versions
        for case in CASES:
            assert ((tool.key, case.key) in done) == tool.plays(case), (tool.key, case.key)
    assert set(KEPT.sizes) == {case.key for case in (*CASES, *SYNTHETIC_CASES)}
    for case in CASES:
        if isinstance(case, ProblemCase):
            assert KEPT.sizes[case.key] == case.n_rows


def test_the_stated_versions_are_the_pinned_ones() -> None:
    for tool in (*TOOLS, *MAKERS):
        if tool.environment is not None:
            pinned = tool.environment.pinned[tool.environment.distribution]
            assert KEPT.versions[tool.key] == pinned
            assert f" {pinned}" in TEXT


def _ours(case: str) -> dict[int, dict[str, float]]:
    return {one.run: one.numbers for one in KEPT.runs if (one.tool, one.case) == ("privgmm", case)}


@pytest.mark.parametrize("n", [100_000, 1_000_000])
def test_ours_is_the_same_wherever_the_rows_lie(n: int) -> None:
    """To the digits that are kept: the same rows and noise, shifted by 10,000."""
    here, there = _ours(f"problem-{n}-none"), _ours(f"problem-{n}-shifted")
    assert here.keys() == there.keys()
    for run, numbers in here.items():
        for name, value in numbers.items():
            assert there[run][name] == pytest.approx(value, rel=1e-3), (n, run, name)


def test_ours_is_as_good_wherever_few_rows_lie() -> None:
    """Bins are fixed there: a shift changes the luck of a run, not the size of its error."""
    here, there = _ours("problem-10000-none"), _ours("problem-10000-shifted")
    for name in ("mean", "covariance", "variation"):
        medians = [statistics.median(one[name] for one in some.values()) for some in (here, there)]
        assert max(medians) < 2 * min(medians)


def test_others_collapse_where_the_rows_have_moved() -> None:
    for tool in TOOLS:
        if tool.private and tool.key != "privgmm":
            moved = [
                one.numbers["mean"]
                for one in KEPT.runs
                if one.tool == tool.key and one.case == "problem-100000-shifted" and one.numbers
            ]
            assert all(error > 1 for error in moved), tool.key


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0106, "0.011"),
        (0.00123456, "0.0012"),
        (0.00996, "0.010"),
        (5.34, "5.3"),
        (24.6, "25"),
        (99.7, "100"),
        (2553.4, "2,600"),
        (7e6, "7.0 × 10⁶"),
        (0.0, "0"),
    ],
)
def test_numbers_read_as_one_would_write_them(value: float, shown: str) -> None:
    assert page.number(value) == shown


def test_the_picture_has_a_mark_for_every_median() -> None:
    """Read back: how far to the right a mark lies says its total variation."""
    picture = ElementTree.fromstring(page.PICTURE.read_text("utf-8"))
    marks = [
        (one.get("class"), float(re.findall(r"[\d.]+", one.get("transform", ""))[0]))
        for one in picture.iter("{http://www.w3.org/2000/svg}path")
        if one.get("class")
    ]
    for situation in ("right", "shifted"):
        shown = sorted(x for kind, x in marks if kind == situation)
        case = _case(f"problem-{chart.N_ROWS}-{situation}")
        found = [median_of(KEPT, tool, case, "variation") for tool in TOOLS]
        # one mark more, in the legend
        expected = sorted(chart.place(value) for value in found if value is not None)
        assert len(shown) == len(expected) + 1
        for x in expected:
            assert min(abs(x - other) for other in shown) < 0.06
    assert chart.place(1e-9) < chart.place(0.01) < chart.place(0.1) < chart.place(1.0)
    ratio = chart.place(0.1) - chart.place(0.01)
    assert chart.place(1.0) - chart.place(0.1) == pytest.approx(ratio)


def test_a_cell_says_why_there_is_no_number() -> None:
    case, tool = _case("problem-10000-right"), _tool("dpmm_aim")
    kept = Campaign(versions={tool.key: "1.0"})
    assert page.cell(kept, tool, case, page.MEASURES) == "not run"
    assert page.cell(Campaign(), tool, case, page.MEASURES) == "not installed"
    needs = _tool("opendp_aim")
    shown = page.cell(
        Campaign(versions={needs.key: "1"}), needs, _case("problem-10000-none"), page.MEASURES
    )
    assert shown == "needs bounds"
    failed = Run(tool.key, case.key, 0, 1.0, {}, "ValueError: no")
    kept = Campaign(versions={tool.key: "1.0"}, runs=[failed])
    assert page.cell(kept, tool, case, page.MEASURES) == "failed: ValueError: no"
    good = Run(tool.key, case.key, 1, 1.0, {"mean": 1.0, "covariance": 2.0, "variation": 0.5})
    kept = Campaign(versions={tool.key: "1.0"}, runs=[failed, good])
    assert page.cell(kept, tool, case, page.MEASURES).endswith("(1 of 2 failed)")


# --------------------------------------------------------------------------------- how it is run


def test_a_campaign_comes_back_from_its_file(tmp_path: Path) -> None:
    KEPT.save(tmp_path / "results.json")
    assert (tmp_path / "results.json").read_text("utf-8") == RESULTS.read_text("utf-8")
    assert Campaign.load(tmp_path / "results.json") == KEPT


@pytest.mark.parametrize("bounds", [None, [(-1.0, 2.0), (0.0, 5.5)]])
def test_a_job_comes_back_from_its_file(
    tmp_path: Path, bounds: list[tuple[float, float]] | None
) -> None:
    job = Job("a.npy", "b.npy", bounds, 1.0, 1e-6, 3)
    job.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == job


class _Broken(Tool):
    key = title = "broken"
    takes_bounds = needs_bounds = False

    def learn(self, case: MixtureCase, run: int) -> Mixture:
        raise Unavailable(f"cannot do {case.key}")


class _Near(Tool):
    """Answers with the truth, moved a little."""

    key = title = "near"
    takes_bounds = needs_bounds = False

    def learn(self, case: MixtureCase, run: int) -> Mixture:
        return PROBLEM.transformed(np.eye(2), [0.1, 0.0])


def test_runs_are_done_once_and_failures_are_tried_again() -> None:
    cases = [_case("problem-10000-none")]
    campaign = Campaign()
    first = list(campaign.go(runs=2, tools=[_Broken(), _Near()], cases=cases))
    assert [(one.tool, one.run) for one in first] == [
        ("broken", 0),
        ("near", 0),
        ("broken", 1),
        ("near", 1),
    ]
    assert first[0].reason == "cannot do problem-10000-none"
    # a tenth along the first column, in units of each component
    shifts = [np.linalg.norm(np.linalg.solve(root, [0.1, 0.0])) for root in PROBLEM.cholesky]
    assert first[1].numbers["mean"] == pytest.approx(max(shifts), rel=1e-4)
    assert first[1].numbers["covariance"] == pytest.approx(0, abs=1e-9)
    assert campaign.sizes == {"problem-10000-none": 10_000}
    again = list(campaign.go(runs=2, tools=[_Broken(), _Near()], cases=cases))
    assert {one.tool for one in again} == {"broken"}
    assert len(campaign.runs) == 4


def test_a_tool_that_cannot_be_installed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip is asked for a file that asks for nothing that exists."""
    where = Environment("nothing", "nothing")
    (tmp_path / "nothing.txt").write_text("./no-such-folder-here\n", "utf-8")
    monkeypatch.setattr(Environment, "requirements", tmp_path / "nothing.txt")
    monkeypatch.setattr(Environment, "folder", tmp_path / "venv")

    class Missing(_Near):
        key = title = "missing"
        environment = where

    campaign = Campaign()
    assert list(campaign.go(runs=1, tools=[Missing()], cases=[_case("problem-10000-none")])) == []
    assert campaign.versions["missing"].startswith("not installed: ")
    assert "no-such-folder-here" in campaign.versions["missing"]


def test_a_run_that_fails_or_takes_too_long_gives_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environment, "python", Path(sys.executable))
    with pytest.raises(Unavailable, match=r"No module named benchmarks\.peers\.workers\.absent"):
        Environment("any", "any").run("absent", tmp_path / "job.json", 60)
    with pytest.raises(Unavailable, match="not done after 1 s of processor time"):
        Environment("any", "any")._call([sys.executable, "-c", "while True: pass"], 1)
    # a pause is not counted
    waits = "import time; time.sleep(1.5); print('done')"
    assert Environment("any", "any")._call([sys.executable, "-S", "-c", waits], 1) == "done\n"


def test_the_last_line_is_the_reason() -> None:
    assert last_line("Traceback\n  File x\nValueError: too few\n\n") == "ValueError: too few"
    assert last_line("") == "it ended without a word"


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_every_environment_pins_its_tool(name: str) -> None:
    where = ENVIRONMENTS[name]
    assert where.distribution in where.pinned
    lines = where.requirements.read_text("utf-8").splitlines()
    assert all(line.startswith("#") or "==" in line for line in lines)
    assert where.folder.parent.name == ".venvs"
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", str(where.folder)], cwd=ROOT, check=False
    )
    assert ignored.returncode in (0, 128)  # 128: not a clone


# ---------------------------------------------------------------------------- how it is measured


def test_the_common_em_finds_the_mixture_wherever_it_lies() -> None:
    rows = PROBLEM.sample(20_000, rng=1)
    case = _case("problem-10000-none")
    here = case.judge(em(rows, 2, case.least_width))
    assert here["mean"] < 0.05
    assert here["variation"] < 0.03
    moved = _case("problem-10000-shifted")
    there = moved.judge(em(rows + 1e4, 2, moved.least_width))
    for name, value in here.items():
        assert there[name] == pytest.approx(value, abs=1e-4)


def test_rows_are_the_same_in_every_situation_and_differ_from_run_to_run() -> None:
    cases = [ProblemCase(1_000, situation) for situation in SITUATIONS]
    for case in cases:
        np.testing.assert_allclose(
            case.rows(0) - case.situation.shift, cases[0].rows(0), atol=1e-10
        )
        assert not np.array_equal(case.rows(0), case.rows(1))
    right, wide, tight = (case.bounds for case in cases[:3])
    rows = cases[0].rows(0)
    assert (rows == right.clipped(rows)).all()
    assert (rows != tight.clipped(rows)).any()
    np.testing.assert_allclose(wide.half, 10 * right.half)
    np.testing.assert_allclose(tight.half, 0.5 * right.half)


def test_bounds_are_given_only_to_tools_that_take_them() -> None:
    right = ProblemCase(10_000, SITUATIONS[0])
    for tool in TOOLS:
        assert tool.plays(right) == tool.takes_bounds
        none = next(one for one in SITUATIONS if one.key == "none")
        assert tool.plays(ProblemCase(10_000, none)) != tool.needs_bounds
        shifted = next(one for one in SITUATIONS if one.key == "shifted")
        assert tool.plays(ProblemCase(10_000, shifted))


def test_bounds_of_tables_hold_nearly_all_of_the_flights() -> None:
    """Stated without looking, and right: less than one row in a thousand is outside."""
    (case,) = [one for one in CASES if one.key == "flights-right"]
    assert isinstance(case, TableCase)
    assert isinstance(case.bounds, Box)
    rows = case.rows(0)
    assert len(rows) == KEPT.sizes[case.key]
    assert np.mean((rows != case.bounds.clipped(rows)).any(axis=1)) < 1e-3


def test_a_run_of_ours_is_as_good_as_the_file_says() -> None:
    """The first at 10,000 rows, repeated here: within twice what all runs of the file span."""
    case = _case("problem-10000-none")
    kept = [one for one in KEPT.runs if (one.tool, one.case) == ("privgmm", case.key)]
    again = measured(_tool("privgmm"), case, 0)
    for name in ("mean", "covariance", "variation"):
        found = [one.numbers[name] for one in kept]
        assert min(found) / 2 < again.numbers[name] < 2 * max(found), name
