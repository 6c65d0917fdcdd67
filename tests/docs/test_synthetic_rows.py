"""Synthetic rows of real tables: how they are judged, run, and written down on the page."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import re
import statistics
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privgmm
from benchmarks.peers import makers, page, rows_page, synthetic_cases
from benchmarks.peers.campaign import RESULTS, Campaign, Run, measured_rows
from benchmarks.peers.environments import Unavailable
from benchmarks.peers.makers import MAKERS, Maker
from benchmarks.peers.rows_page import DISTANCES, LESSONS, ROWS_RUNS
from benchmarks.peers.synthetic_cases import (
    AS_IT_COMES,
    DEVIATIONS,
    IN_OUR_FRAME,
    MOST_ROWS,
    MOST_STEPS,
    SHEETS,
    SYNTHETIC_CASES,
    Sheet,
    SyntheticCase,
)
from benchmarks.peers.yardsticks import QUANTILES, Yardsticks
from benchmarks.tables import Split, Table
from privgmm import Release
from privgmm.arrays import Array

KEPT = Campaign.load()
RAW = [
    one for one in json.loads(RESULTS.read_text("utf-8"))["runs"] if one["case"].startswith("rows-")
]
TEXT = page.PAGE.read_text("utf-8")
PART = TEXT.split("## Synthetic rows of real tables", 1)[1].split("\n## ", 1)[0]
FRAMED = ", our frame as bounds"


# ------------------------------------------------------------------------------ the yardsticks


def _heaped(n: int, seed: int) -> Array:
    """Draw three columns: half zeros, whole numbers, and one that depends on both."""
    rng = np.random.default_rng(seed)
    heap = np.where(rng.random(n) < 0.5, 0.0, rng.gamma(2.0, 3.0, n))
    whole = rng.integers(0, 12, n).astype(np.float64)
    return np.stack([heap, whole, heap + whole + rng.standard_normal(n)], axis=1)


def _by_pandas(held_out: Array, made: Array, columns: tuple[int, ...]) -> float:
    """Compute the total variation by pandas: cut at quantiles, cross-tabulate, compare."""
    shares = []
    for rows in (held_out, made):
        binned = {}
        for j in columns:
            cuts = pd.Series(held_out[:, j]).quantile(np.arange(1, QUANTILES) / QUANTILES)
            ends = [-np.inf, *cuts.drop_duplicates(), np.inf]
            binned[str(j)] = pd.cut(rows[:, j], ends, labels=False)
        shares.append(pd.DataFrame(binned).value_counts(normalize=True))
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


@pytest.mark.parametrize("ways", [1, 2])
def test_distances_are_those_of_pandas(ways: int) -> None:
    held_out, made = _heaped(700, 1), 1.2 * _heaped(900, 2) - 0.3
    sets = itertools.combinations(range(3), ways)
    expected = statistics.mean(_by_pandas(held_out, made, some) for some in sets)
    assert Yardsticks(held_out, 2).variation(made, ways) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(0.2, 5), st.floats(-3, 3))
def test_pairs_are_at_least_as_far_apart_as_their_columns(
    seed: int, scale: float, shift: float
) -> None:
    """A marginal cannot be told apart better than what it is a marginal of; 0 is itself."""
    yardsticks = Yardsticks(_heaped(200, seed), 2)
    made = scale * _heaped(200, seed + 1) + shift
    assert 0 <= yardsticks.variation(made, 1) <= yardsticks.variation(made, 2) + 1e-12 <= 1 + 1e-9
    for ways in (1, 2):
        assert yardsticks.variation(yardsticks.held_out, ways) == 0


def test_a_value_that_many_rows_share_ends_a_bin() -> None:
    """Half zeros, and all other values above: a maker that blurs the zeros upwards is seen."""
    held_out = _heaped(1_000, 3)
    blurred = held_out.copy()
    zero = blurred[:, 0] == 0
    blurred[zero, 0] = 1e-9
    assert Yardsticks(held_out, 2).variation(blurred, 1) == pytest.approx(zero.mean() / 3)


def test_rows_of_the_law_teach_and_shuffled_rows_do_not() -> None:
    yardsticks = Yardsticks(_heaped(2_000, 4), 2)
    made = _heaped(4_000, 5)
    r2, rank = yardsticks.taught(made)
    # the noise has variance 1: no prediction can have more than this
    assert 0.9 < r2 < 1 - 1 / np.var(yardsticks.held_out[:, 2]) + 0.01
    assert rank > 0.9
    made[:, 2] = np.random.default_rng(6).permutation(made[:, 2])
    r2, rank = yardsticks.taught(made)
    assert r2 < 0.1
    assert abs(rank) < 0.3


def test_a_constant_prediction_has_no_rank() -> None:
    yardsticks = Yardsticks(_heaped(500, 7), 2)
    made = _heaped(500, 8)
    true = yardsticks.held_out[:, 2]
    made[:, 2] = true.mean() + 2 * true.std()
    r2, rank = yardsticks.taught(made)
    assert rank == 0
    assert r2 == pytest.approx(-4)


# ----------------------------------------------------------------------------- how it is run


def _small() -> Sheet:
    sheet = Sheet(Table("small", "none", "none", ("a", "b", "c"), ""), "c", "")
    vars(sheet)["split"] = Split(_heaped(300, 9), _heaped(200, 10))
    return sheet


SMALL = SyntheticCase(_small(), AS_IT_COMES)


class _Copies(Maker):
    """Answers with the rows."""

    key = title = "copies"
    takes_bounds, needs_bounds = True, False

    def make(self, case: SyntheticCase, run: int) -> Array:
        return case.rows(run)


class _Fails(_Copies):
    key = title = "fails"

    def make(self, case: SyntheticCase, run: int) -> Array:
        raise Unavailable(f"cannot do {case.key}")


class _Holes(_Copies):
    key = title = "holes"

    def make(self, case: SyntheticCase, run: int) -> Array:
        made = case.rows(run).copy()
        made[:7, 1] = np.nan
        return made


def test_all_makers_come_before_the_second_run_of_any_and_failures_stay() -> None:
    framed = SyntheticCase(SMALL.sheet, IN_OUR_FRAME)
    campaign = Campaign()
    makers: list[Maker] = [_Copies(), _Fails()]
    first = list(campaign.go_rows(runs=2, makers=makers, cases=[SMALL, framed]))
    expected = [
        (maker, case, run)
        for run in (0, 1)
        for case in ("rows-small-none", "rows-small-frame")
        for maker in ("copies", "fails")
    ]
    assert [one.place for one in first] == expected
    assert {one.reason for one in first if one.tool == "fails"} == {
        "cannot do rows-small-none",
        "cannot do rows-small-frame",
    }
    assert campaign.sizes == {"rows-small-none": 300, "rows-small-frame": 300}
    assert campaign.rows_date
    assert not campaign.date
    # one more run: nothing of the first two again
    again = list(campaign.go_rows(runs=3, makers=makers, cases=[SMALL, framed]))
    assert {one.run for one in again} == {2}


def test_rows_that_are_not_numbers_are_a_failure() -> None:
    one = measured_rows(_Holes(), SMALL, 0)
    assert one.reason == "7 of 300 rows hold a value that is not a finite number"
    assert not one.numbers


def test_the_numbers_of_a_run_are_those_of_the_yardsticks() -> None:
    one = measured_rows(_Copies(), SMALL, 0)
    yardsticks = Yardsticks(SMALL.sheet.split.held_out, 2)
    for name, value in yardsticks.judge(SMALL.sheet.split.learn).items():
        assert one.numbers[name] == pytest.approx(value, rel=1e-5)
    assert set(one.numbers) == {measure.name for measure in (*DISTANCES, *LESSONS)}


def test_whole_numbers_of_other_tools_are_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the second column of the small table is whole, and only rows of others are rounded."""
    seen = []

    def answered(_environment: object, worker: str, rows: Array, bounds: object, run: int) -> Array:
        seen.append((worker, bounds, run))
        return rows + 0.3

    monkeypatch.setattr(makers, "synthetic_rows", answered)
    peer = next(maker for maker in MAKERS if maker.key == "dpmm_mst")
    learn = SMALL.sheet.split.learn
    np.testing.assert_array_equal(peer.make(SMALL, 3), learn + np.array([0.3, 0.0, 0.3]))
    assert seen == [("dpmm_mst", None, 3)]


def test_many_whole_numbers_are_left_as_they_are() -> None:
    """Whole numbers without an end are no grid that bins could see; few are, zeros as well."""
    rows = np.arange(3 * MOST_STEPS, dtype=np.float64)[:, None] * [1.0, 0.0, 0.5]
    sheet = dataclasses.replace(SMALL.sheet, words="whole")
    vars(sheet)["split"] = Split(rows, rows)
    assert sheet.whole.tolist() == [False, True, False]
    vars(sheet).pop("whole")
    vars(sheet)["split"] = Split(rows[:MOST_STEPS], rows)
    assert sheet.whole.tolist() == [True, True, False]


def test_bounds_are_those_of_the_public_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five deviations to either side, by coordinates of the frame drawn from a unit Gaussian."""
    rows = np.random.default_rng(0).normal([50.0, -3.0], [2.0, 7.0], size=(4_000, 2))
    result = privgmm.release(rows, epsilon=4, n_components=1, rng=0).result
    assert isinstance(result, Release)
    assert result.sketch is not None
    monkeypatch.setattr(synthetic_cases, "released", lambda *_: result)
    assert SMALL.bounds(0) is None
    box = SyntheticCase(SMALL.sheet, IN_OUR_FRAME).bounds(0)
    assert box is not None
    frame = result.sketch.frame
    z = np.random.default_rng(1).standard_normal((200_000, 2))
    spread = (frame.centre + z @ frame.root.T).std(axis=0)
    np.testing.assert_allclose(box.half, DEVIATIONS * spread, rtol=0.01)
    np.testing.assert_allclose(box.centre, frame.centre)
    # and the frame fits these rows within a factor of two
    assert (box.half > DEVIATIONS * np.array([2.0, 7.0]) / 2).all()
    assert (box.half < DEVIATIONS * np.array([2.0, 7.0]) * 2).all()


def test_tables_have_five_to_ten_columns_and_no_row_is_both_learned_from_and_held_out() -> None:
    assert len(SHEETS) >= 4
    assert len({sheet.name for sheet in SHEETS}) == len(SHEETS)
    for sheet in SHEETS:
        assert 5 <= len(sheet.table.columns) <= 10
        assert sheet.target in sheet.table.columns
        if sheet.table.missing is None:
            whole = sheet.table.split()
            assert len(sheet.split.learn) == min(MOST_ROWS, len(whole.learn))
            assert sheet.split.held_out.shape == whole.held_out.shape
            for situation in (AS_IT_COMES, IN_OUR_FRAME):
                assert KEPT.sizes[SyntheticCase(sheet, situation).key] == len(sheet.split.learn)


# ------------------------------------------------------------------------ the page and the file


def _cells(heading: str) -> dict[str, list[str]]:
    """Read the table below a heading of the part: cells by the words that begin a line."""
    below = PART.split(heading, 1)[1].split("###", 1)[0]
    lines = [line for line in below.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head, *rest = cells
    assert head == ["tool", *(sheet.name for sheet in SHEETS)]
    return {one[0]: one[1:] for one in rest}


def _titles() -> dict[tuple[str, str], str]:
    """Title of a line by tool and situation, put together by other means than the page's."""
    found = {}
    for maker in MAKERS:
        title = maker.title.format(KEPT.versions.get(maker.key, ""))
        if not maker.needs_bounds:
            found[maker.key, "none"] = title
        if maker.takes_bounds:
            found[maker.key, "frame"] = title + FRAMED
    return found


def _medians(name: str) -> dict[tuple[str, str, str], float]:
    """Compute medians by tool, situation and table, straight from the file."""
    values: dict[tuple[str, str, str], list[float]] = collections.defaultdict(list)
    for one in RAW:
        _, sheet, situation = one["case"].split("-")
        if one["numbers"]:
            values[one["tool"], situation, sheet].append(one["numbers"][name])
    return {place: statistics.median(found) for place, found in values.items()}


@pytest.mark.parametrize(
    ("heading", "measures"),
    [
        ("### Total variation of marginals", DISTANCES),
        ("### Train on synthetic, test on real", LESSONS),
    ],
)
def test_cells_are_medians_of_the_runs_in_the_file(heading: str, measures: Any) -> None:
    table = _cells(heading)
    assert list(table) == list(_titles().values())
    compared = 0
    for column, measure in enumerate(measures):
        for (tool, situation, sheet), median in _medians(measure.name).items():
            cell = table[_titles()[tool, situation]][[s.name for s in SHEETS].index(sheet)]
            plain = cell.replace("*", "").replace("−", "-").replace("\N{NO-BREAK SPACE}", "")
            shown = float(plain.split("/")[column].replace(",", ""))
            exact = 0.0051 if measure.decimals == 2 else 0.051 * median
            assert shown == pytest.approx(median, abs=exact), (tool, situation, sheet)
            compared += 1
    assert compared


def test_the_page_counts_the_runs_that_were_made() -> None:
    """Every tool was run in every case it can play, or it is said how often it was."""
    counts = collections.Counter((one["tool"], one["case"]) for one in RAW)
    table = _cells("### Runs and processor time")
    shown = _cells("### Total variation of marginals")
    for (tool, situation), title in _titles().items():
        for cell, number, sheet in zip(table[title], shown[title], SHEETS, strict=True):
            n = counts.pop((tool, f"rows-{sheet.name}-{situation}"), 0)
            assert cell.startswith(f"{n} of {ROWS_RUNS}")
            assert (number == "not run") == (n == 0)
    assert not counts
    whole = ROWS_RUNS * len(_titles()) * len(SHEETS)
    tables = {one["case"].split("-")[1] for one in RAW if one["tool"] != "privgmm"}
    said = f"{len(RAW)} of {whole} runs, on {len(tables)} of {len(SHEETS)} tables"
    assert f"**Measured so far: {said}.**" in PART
    assert f"real tables ({said}): " in TEXT


def test_runs_are_numbered_without_gaps_where_a_tool_can_play() -> None:
    found: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for one in RAW:
        found[one["tool"], one["case"]].append(one["run"])
    playing = {(maker.key, case.key) for maker in MAKERS for case in SYNTHETIC_CASES}
    assert set(found) <= playing
    for maker in MAKERS:
        for case in SYNTHETIC_CASES:
            runs = found[maker.key, case.key]
            assert sorted(runs) == list(range(len(runs)))
            assert len(runs) <= ROWS_RUNS
            assert not runs or maker.plays(case), (maker.key, case.key)


def _won_and_lost(situations: tuple[str, ...]) -> tuple[int, set[tuple[str, str]]]:
    """Count where ours is best to the digits that are shown, and list where it is not."""
    won, behind = 0, set()
    for measure in (*DISTANCES, *LESSONS):
        medians = _medians(measure.name)
        for sheet in SHEETS:
            found = {
                place[:2]: value
                for place, value in medians.items()
                if place[2] == sheet.name and place[0] != "without" and place[1] in situations
            }
            if ("privgmm", "none") not in found or len({tool for tool, _ in found}) < 2:
                continue
            best = min(found.values()) if measure.less else max(found.values())
            if measure.shown(found["privgmm", "none"]) == measure.shown(best):
                won += 1
            else:
                behind.add((measure.words, sheet.name))
    return won, behind


def test_places_won_and_lost_are_those_of_the_file() -> None:
    """Straight from the file, without and with the tools that were given our frame."""
    said = rows_page.verdict(KEPT)
    assert said in PART
    assert TEXT.count(said) == 2
    parts = said.split(" With our frame handed to the others as bounds, ")
    for words, situations in zip(parts, [("none",), ("none", "frame")], strict=True):
        won, behind = _won_and_lost(situations)
        places = won + len(behind)
        if not places:
            assert "nothing can be said yet" in words
            continue
        first = f"first in {won} of {places} places" if behind else f"first in all {places} places"
        assert first in words
        listed = {
            (what, name.strip())
            for what, names in re.findall(r"(1-way|2-way|R²|rank correlation) \(([^)]*)\)", words)
            for name in names.split(",")
        }
        assert listed == behind


@pytest.mark.parametrize(("ahead", "won"), [("privgmm", ["16", "16"]), ("dpmm_mst", ["0", "0"])])
def test_who_is_ahead_in_the_results_is_ahead_in_the_verdict(ahead: str, won: list[str]) -> None:
    """Two tools on every table, one of them better by every yardstick."""
    good = {"one_way": 0.1, "two_way": 0.2, "r2": 0.8, "rank": 0.9}
    poor = {"one_way": 1.0, "two_way": 1.0, "r2": -9.0, "rank": -1.0}
    runs = [
        Run(tool, SyntheticCase(sheet, AS_IT_COMES).key, 0, 1.0, good if tool == ahead else poor)
        for tool in ("privgmm", "dpmm_mst")
        for sheet in SHEETS
    ]
    said = rows_page.verdict(dataclasses.replace(KEPT, runs=runs))
    assert re.findall(r"first in (?:all )?(\d+)", said) == won
    assert ("dpmm" in said) == (ahead == "dpmm_mst")


def test_the_frame_counts_only_where_it_is_named() -> None:
    """One tool is ahead of ours, and has nothing but runs with our frame."""
    numbers = {"one_way": 0.2, "two_way": 0.2, "r2": 0.5, "rank": 0.5}
    better = {"one_way": 0.1, "two_way": 0.1, "r2": 0.6, "rank": 0.6}
    sheet = SHEETS[1]
    runs = [
        Run("privgmm", SyntheticCase(sheet, AS_IT_COMES).key, 0, 1.0, numbers),
        Run("opendp_aim", SyntheticCase(sheet, IN_OUR_FRAME).key, 0, 1.0, better),
    ]
    said = rows_page.verdict(dataclasses.replace(KEPT, runs=runs))
    assert "nothing can be said yet" in said.split("With our frame")[0]
    assert "first in 0 of 4 places" in said.split("With our frame")[1]
    assert f"1-way ({sheet.name})" in said


def test_a_failed_run_is_shown_and_counted() -> None:
    line = rows_page.lines()[1]
    case = line.case(SHEETS[0])
    failed = Run(line.maker.key, case.key, 0, 900.0, {}, "not done after 900 s of processor time")
    campaign = Campaign(versions=KEPT.versions, sizes=KEPT.sizes, runs=[failed])
    part = rows_page.part(campaign)
    assert "failed: not done after 900 s of processor time" in part
    assert f"1 of {ROWS_RUNS} (1 failed), 900 s" in part
    good = Run(
        line.maker.key,
        case.key,
        1,
        30.0,
        {"one_way": 0.25, "two_way": 0.5, "r2": 0.125, "rank": -0.5},
    )
    part = rows_page.part(dataclasses.replace(campaign, runs=[failed, good]))
    assert f"2 of {ROWS_RUNS} (1 failed), 465 s" in part
    assert "−0.50" in part
