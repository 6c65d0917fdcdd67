"""The command line, called in the process and once from outside, with much malformed input."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privgmm import Mixture, Plan, gaussian_tv, mixture_tv
from privgmm.audit import Finding, Report
from privgmm.cli import checks, mixtures
from privgmm.cli import release as release_command
from privgmm.cli.main import main
from privgmm.cli.source import load_source
from privgmm.data.fingerprint import file_fingerprint
from privgmm.errors import InvalidInput, Wording
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.methods import registry
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import rows_for
from privgmm.records.receipt import verify_receipt
from privgmm.releases import CuratorView, release
from privgmm.stages.agreement.stage import Agreement

TRUTH = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 1.0]], [np.eye(2), 2 * np.eye(2)])
OPTIONS = ["--k", "2", "--epsilon", "8", "--delta", "1e-5"]
KNOBS = ["--mask-accuracy", "1", "--blocks", "100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table, a mixture and two Gaussians as files."""
    here = tmp_path_factory.mktemp("cli")
    rows = TRUTH.sample(25_000, rng=0)
    named = np.column_stack([rows, np.arange(len(rows))])
    np.savetxt(here / "data.csv", named, delimiter=",", header="u,v,id", comments="")
    hump = np.random.default_rng(0).normal(size=(25_000, 2))
    np.savetxt(here / "hump.csv", hump, delimiter=",", header="u,v", comments="")
    (here / "truth.json").write_text(json.dumps(TRUTH.to_dict()))
    (here / "a.json").write_text(json.dumps({"mean": [0, 0], "covariance": [[1, 0], [0, 1]]}))
    (here / "b.json").write_text(json.dumps({"mean": [1, 0], "covariance": [[2, 1], [1, 2]]}))
    return here


# -------------------------------------------------------------------------------- release


def test_release_writes_a_receipt_that_samples_and_compares(
    run: Any, folder: Path, tmp_path: Path
) -> None:
    receipt = tmp_path / "receipt.json"
    done = run(
        "release", folder / "data.csv", *OPTIONS, "--columns", "u, v", "--seed", 1, "--out", receipt
    )
    assert done.code == 0, done.err
    assert "released" in done.out
    assert "a demonstration, NOT differentially private" in done.err
    assert verify_receipt(receipt.read_bytes()).intact
    written = json.loads(receipt.read_text())
    assert written["released"]
    assert written["seeded"]
    found = Mixture.from_dict(written["mixture"])
    assert found.n_features == 2

    compared = run("tv", receipt, folder / "truth.json", "--json").json()
    assert compared["tv"] == pytest.approx(float(mixture_tv(found, TRUTH)), abs=1e-12)
    assert compared["tv"] < 0.1

    # the columns' names are those of the receipt
    drawn = run("sample", receipt, "-n", 500, "--seed", 3).out
    table = list(csv.reader(io.StringIO(drawn)))
    assert table[0] == ["u", "v"]
    np.testing.assert_array_equal(
        np.array(table[1:], dtype=float), found.sample(500, rng=np.random.default_rng(3))
    )
    assert run("verify", receipt).code == 1, "made with a seed"
    receipt.write_bytes(receipt.read_bytes().replace(b'"seeded": true', b'"seeded": false'))
    tampered = run("verify", receipt, "--json")
    assert tampered.code == 1
    assert tampered.json()["problems"]


def test_release_without_a_seed_goes_to_standard_output(run: Any, folder: Path) -> None:
    done = run("release", folder / "data.csv", *OPTIONS, *KNOBS, "--columns", "u,v")
    assert done.code == 0, done.err
    assert not done.json()["seeded"]
    assert done.err.startswith("privgmm: read 25,000 rows from 'data.csv', columns 'u', 'v'")


def test_a_refusal_has_its_own_exit_code(run: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "refusal.json"
    done = run(
        *("release", folder / "hump.csv", *OPTIONS, *KNOBS, "--method", "lifted"),
        *("--out", out, "--json"),
    )
    assert done.code == 3
    assert "may help" in done.err
    assert done.json()["released"] is False
    assert verify_receipt(out.read_bytes())
    refused = run("sample", out, "-n", 3)
    assert refused.code == 2
    assert "refusal" in refused.err


def test_nothing_is_spent_where_the_answer_could_not_be_kept(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(*_: object, **__: object) -> None:
        raise AssertionError("a release was made")

    monkeypatch.setattr(release_command, "release", spend)
    there = tmp_path / "there.json"
    there.write_text("precious")
    order = ("release", folder / "data.csv", *OPTIONS, *KNOBS, "--columns", "u,v", "--out")
    assert "exists" in run(*order, there).err
    assert there.read_text() == "precious"
    assert run(*order, tmp_path / "no folder" / "x.json").code == 2
    assert run(*order, tmp_path).code == 2
    with pytest.raises(AssertionError, match="was made"):
        run(*order, tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize(
    "extra",
    [
        ["--k", "0"],
        ["--k", "two"],
        ["--k", "1000000000"],
        ["--epsilon", "-1"],
        ["--epsilon", "nan"],
        ["--delta", "1"],
        ["--delta", "inf"],
        ["--columns", "u,missing"],
        ["--columns", ""],
        ["--columns", "u,u"],
        ["--method", "magic"],
        ["--method", "tight"],
        ["--method", "paper"],
        ["--mask-accuracy", "-1"],
        ["--blocks", "4"],
        ["--blocks", "1000000000000"],
        ["--mask-accuracy", "2", "--method", "tight"],
        ["--mask-accuracy", "1", "--blocks", "4"],
        ["--mask-accuracy", "1", "--blocks", "1000000000000"],
        ["--mask-accuracy", "nan", "--blocks", "100"],
        ["--seed", "-1"],
        ["--seed", "1.5"],
        ["--epsilon", "0.001"],
        ["--surprise"],
    ],
)
def test_bad_options_are_one_line_and_cost_nothing(
    run: Any, folder: Path, extra: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_command, "release", None)
    usual = [*OPTIONS, "--columns", "u,v"]
    kept = [
        word for i in range(0, len(usual), 2) if usual[i] not in extra for word in usual[i : i + 2]
    ]
    done = run("release", folder / "data.csv", *kept, *extra)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("privgmm: ")
    assert done.err.count("\n") == 1
    assert "twice" not in done.err
    for jargon in ("a_count", "a_seed", "invalid int", "invalid float"):
        assert jargon not in done.err


@pytest.mark.parametrize("knob", [KNOBS[:2], KNOBS[2:]], ids=["mask", "blocks"])
def test_one_knob_is_enough(run: Any, folder: Path, knob: list[str]) -> None:
    """The method chooses the other one, as for every other request."""
    done = run(
        *("release", folder / "data.csv", *OPTIONS, *knob, "--columns", "u,v"),
        *("--seed", 0, "--no-ledger"),
    )
    assert done.code == 0, done.err
    plan = Plan.from_dict(done.json()["plan"])
    name, value = (
        {"--mask-accuracy": "mask_accuracy", "--blocks": "n_blocks"}[knob[0]],
        float(knob[1]),
    )
    asked = PlanRequest(n_components=2, n_features=2, n_rows=25_000, epsilon=8.0, delta=1e-5)
    assert getattr(plan.stage(Agreement), name) == value
    assert plan == plan_for(asked.but(**{name: int(value) if name == "n_blocks" else value})).plan


def test_too_few_rows_are_reported_before_anything_is_spent(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the plan's shortage, with options instead of arguments."""
    monkeypatch.setattr(release_command, "release", None)
    asked = PlanRequest(n_components=2, n_features=2, n_rows=25_000, epsilon=8.0, delta=1e-5)
    for order, request in (
        (["--method", "tight"], asked.but(method="tight")),
        (
            ["--method", "paper", "--mask-accuracy", "1"],
            asked.but(method="paper", mask_accuracy=1.0),
        ),
        (["--mask-accuracy", "1", "--blocks", "9999"], asked.but(mask_accuracy=1.0, n_blocks=9999)),
    ):
        done = run("release", folder / "data.csv", *OPTIONS, "--columns", "u,v", *order)
        assert done.code == 2
        shortage = plan_for(request).shortage
        assert shortage
        wording = Wording(
            {
                "mask_accuracy": "--mask-accuracy",
                "n_blocks": "--blocks",
                "epsilon": "--epsilon",
            }
        )
        assert done.err == f"privgmm: {shortage.worded(wording)}\n"


@pytest.mark.parametrize(
    "order",
    [
        ["release", "{}", "--k", "2"],
        ["verify", "{}"],
        ["sample", "{}", "-n", "1"],
        ["bundle", "{}", "-o", "x.zip"],
        ["fit", "{}", "--k", "2"],
        ["tv", "{}", "{}"],
    ],
    ids=lambda order: order[0],
)
def test_a_missing_folder_is_named(run: Any, tmp_path: Path, order: list[str]) -> None:
    lost = tmp_path / "nowhere" / "file.json"
    done = run(*(str(lost) if part == "{}" else part for part in order))
    assert done.code == 2
    assert f"there is no folder {str(lost.parent)!r}" in done.err
    here = tmp_path / "file.json"
    done = run(*(str(here) if part == "{}" else part for part in order))
    assert f"there is no file {str(here)!r}: check the path" in done.err


@pytest.fixture
def newcomer() -> Iterator[str]:
    """Register a method that the package does not know, for as long as a test runs."""

    class Newcomer(LiftedMethod):
        name = "newcomer"
        sentence = "comes late, and is offered everywhere"

    registry.register(Newcomer())
    yield Newcomer.name
    registry.unregister(Newcomer.name)


def test_a_method_that_comes_later_is_offered(run: Any, folder: Path, newcomer: str) -> None:
    plan = run("plan", "--k", 1, "--d", 1, "--json").json()
    assert list(plan["rows_needed"]) == list(registry.names())
    assert plan["rows_needed"][newcomer] == plan["rows_needed"]["lifted"]
    assert f"  {newcomer} " in run("plan", "--k", 1, "--d", 1).out
    order = ("release", folder / "data.csv", *OPTIONS, "--columns", "u,v", "--method", newcomer)
    done = run(*order, *KNOBS, "--seed", 0)
    assert done.code == 0, done.err
    assert done.json()["plan"]["method"] == newcomer


def test_the_help_lists_every_method(newcomer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for method in registry.all_methods():
        assert f"{method.name}: {method.sentence}" in said


# --------------------------------------------------------------- the file is read once


def test_a_command_opens_its_file_once(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "people.csv"
    data.write_bytes((folder / "data.csv").read_bytes())
    opened: list[object] = []
    whole = io.open

    def count(file: Any, *arguments: Any, **options: Any) -> Any:
        if str(file) == str(data):
            opened.append(file)
        return whole(file, *arguments, **options)

    monkeypatch.setattr(io, "open", count)
    monkeypatch.setattr("builtins.open", count)
    grouped = ("release", data, *OPTIONS, *KNOBS, "--groups", "id", "--jitter", "u=0.01")
    for order in ((*grouped, "--out", tmp_path / "r.json"), ("ledger", data)):
        opened.clear()
        assert run(*order).code == 0
        assert len(opened) == 1, order


def test_what_is_released_and_what_is_charged_belong_together(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced between reading and the ledger's entry, and again before the noise."""
    book = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(book))
    data, first, second = tmp_path / "data.csv", folder / "data.csv", folder / "hump.csv"
    order = ("release", data, *OPTIONS, *KNOBS, "--seed", 3)
    data.write_bytes(first.read_bytes())
    quiet = run(*order, "--columns", "u,v").json()

    def load_then_replace(*arguments: Any) -> Any:
        source = load_source(*arguments)
        data.write_bytes(second.read_bytes())
        return source

    def replace_then_release(*arguments: Any, **options: Any) -> Any:
        data.unlink()
        return release(*arguments, **options)

    monkeypatch.setattr(release_command, "load_source", load_then_replace)
    monkeypatch.setattr(release_command, "release", replace_then_release)
    done = run(*order, "--columns", "u,v")
    assert done.code == 0, done.err
    assert done.json()["mixture"] == quiet["mixture"]
    accounts = SQLiteBook(book)
    charged = accounts.find(file_fingerprint(first))
    assert charged is not None
    assert len(charged.entries) == 2
    assert accounts.find(file_fingerprint(second)) is None
    assert len(accounts.histories()) == 1


# ------------------------------------------------------------------- sample, tv, plan, audit


def test_samples_in_chunks_and_as_json(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixtures, "_CHUNK", 7)
    truth = folder / "truth.json"
    rows = run("sample", truth, "-n", 20, "--seed", 1, "--json").json()
    assert rows["columns"] == ["x1", "x2"]
    out = tmp_path / "rows.csv"
    assert run("sample", truth, "-n", 20, "--seed", 1, "--out", out).code == 0
    written = np.loadtxt(out, delimiter=",", skiprows=1)
    np.testing.assert_array_equal(written, np.array(rows["rows"]))
    assert written.shape == (20, 2)
    assert "distinct" in run("sample", truth, "-n", 1, "--columns", "a,a").err
    assert run("sample", truth, "-n", 1, "--columns", "a").code == 2


def test_tv_of_two_gaussians(run: Any, folder: Path) -> None:
    exact = float(gaussian_tv([0, 0], np.eye(2), [1, 0], [[2, 1], [1, 2]]))
    done = run("tv", folder / "a.json", folder / "b.json", "--json").json()
    assert done["tv"] == pytest.approx(exact, abs=1e-13)
    assert done["method"] == "contour"
    assert float(run("tv", folder / "a.json", folder / "b.json").out.split()[0]) == done["tv"]


def test_plan_answers_what_if(run: Any) -> None:
    answer = run("plan", "--k", 2, "--d", 1, "--rows", "1e5", "--epsilon", 2, "--json").json()
    asked = PlanRequest(n_components=2, n_features=1, epsilon=2.0, method="lifted")
    assert answer["rows_needed"]["lifted"] == rows_for(asked)
    assert answer["rows_needed"]["tight"] == rows_for(asked.but(method="tight"))
    needs = [row["rows"] for row in answer["what_if"]]
    assert needs == sorted(needs, reverse=True)
    at = answer["at_rows"]
    assert at["pass_probability"] > 0.9
    assert at["smallest_epsilon"] < 2
    assert at["plan"]["method"] == at["method"] == "sketch"
    words = run("plan", "--k", 2, "--d", 1, "--rows", "50")
    assert words.code == 0
    assert "chance of a release  0.0%" in words.out


def test_a_plan_may_leave_the_number_of_components_open(run: Any) -> None:
    order = ("plan", "--k", "auto", "--max-components", 3, "--d", 2)
    answer = run(*order, "--json").json()
    assert (answer["n_components"], answer["choose_components"]) == (3, True)
    # no other method publishes a sketch to choose from
    assert list(answer["rows_needed"]) == ["sketch"]
    assert "Rows needed for up to 3 components in 2 dimensions" in run(*order).out


def test_errors_name_options(run: Any) -> None:
    for order, words in (
        (("release", "old_faithful", "--k", 2, "--epsilon", -1), "--epsilon must be positive"),
        (("release", "old_faithful", "--k", "auto", "--method", "tight"), "--k must be a number"),
        (("plan", "--k", 2, "--d", 2, "--alpha", 2), "--alpha must be at most 1"),
    ):
        done = run(*order)
        assert done.code == 2
        assert done.err.startswith(f"privgmm: {words}")


def test_audit_says_what_failed(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def audit(passed: bool) -> Any:
        def run_audit(*, thorough: bool, rng: int, progress: Any) -> Report:
            assert not thorough
            assert rng == 5
            return Report((Finding("mask", "at most 1", 0.5, 1.0, passed),))

        return run_audit

    for passed, code in ((True, 0), (False, 1)):
        monkeypatch.setattr(checks, "run_audit", audit(passed))
        assert run("audit", "--quick", "--seed", 5).code == code
        assert run("audit", "--quick", "--seed", 5, "--json").json()["passed"] is passed


def test_app_starts_the_dashboard(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[list[str]] = []

    def call(order: list[str]) -> int:
        orders.append(order)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    assert run("app", "--port", 8765, "--json").json()["url"] == "http://localhost:8765"
    (order,) = orders
    assert order[1:] == ["-m", "privgmm.dashboard.launch", "--server.port", "8765"]
    assert run("app", "--port", 0).code == 2
    assert len(orders) == 1


def test_a_terminal_sees_progress(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = run("release", folder / "data.csv", *OPTIONS, *KNOBS, "--columns", "u,v", "--seed", 0)
    assert "fitting blocks: 100 of 100 blocks" in done.err
    searches = len(registry.names()) + 5
    assert f"{searches} of {searches} searches" in run("plan", "--k", 1, "--d", 1).err


def test_from_outside(folder: Path) -> None:
    """The module form, a real exit code, and a reader that leaves early."""
    order = [sys.executable, "-m", "privgmm"]
    with subprocess.Popen(
        [*order, "sample", str(folder / "truth.json"), "-n", "1e9"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'"x1","x2"\n'
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("size", [1e59, 1e-59, 1e61, 1e-61, 1e150, 5e-324, 1.7e308])
def test_units_beyond_reason_are_refused(run: Any, tmp_path: Path, size: float) -> None:
    """They would overflow far from here; up to 1e60 everything is finite."""
    path = tmp_path / "far.json"
    path.write_text(json.dumps({"mean": [size], "covariance": [[size * size or size]]}))
    fine = 1e-60 < size < 1e60
    done = run("sample", path, "-n", 3, "--json")
    assert done.code == (0 if fine else 2)
    if fine:
        assert np.isfinite(done.json()["rows"]).all()
        assert run("tv", path, path, "--json").json()["tv"] == 0


@pytest.mark.parametrize(("mean", "variance"), [(1e14, 1.0), (0.0, 1e40), (1.0, 1e-40)])
def test_mixtures_of_very_different_scales_are_compared(
    run: Any, tmp_path: Path, folder: Path, mean: float, variance: float
) -> None:
    path = tmp_path / "far.json"
    cov = [[variance, 0], [0, variance]]
    path.write_text(json.dumps({"mean": [mean, 0], "covariance": cov}))
    found = run("tv", path, folder / "truth.json", "--json").json()
    assert found["tv"] == pytest.approx(1, abs=1e-12)
    assert found["half_width"] < 1e-9


# ------------------------------------------------------------------------ real data


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups recorded in whole numbers, coarse against their spread."""
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.normal(0, 1.5, (9000, 2)), rng.normal(30, 2.5, (11000, 2))]).round()
    path = tmp_path_factory.mktemp("minutes") / "minutes.csv"
    np.savetxt(path, rng.permutation(rows), fmt="%d", delimiter=",", header="u,v", comments="")
    return path


def test_public_jitter_is_added_and_written_down(run: Any, minutes: Path, tmp_path: Path) -> None:
    out = tmp_path / "receipt.json"
    order = ("release", minutes, *OPTIONS, *KNOBS, "--seed", 0)
    assert run(*order, "--jitter", "v=1", "--out", out).code == 0
    receipt = json.loads(out.read_text())
    assert receipt["jitter"] == [0.0, 1.0]
    assert verify_receipt(out.read_bytes()).intact
    again = tmp_path / "again.json"
    assert run(*order, "--jitter", "v=1", "--out", again).code == 0
    assert json.loads(again.read_text())["mixture"] == receipt["mixture"]
    plain = tmp_path / "plain.json"
    assert run(*order, "--out", plain).code == 0
    without = json.loads(plain.read_text())
    assert without["jitter"] is None
    assert without["mixture"] != receipt["mixture"]
    # 12^2 / 12 more variance; the groups' own are 1.5^2 and 2.5^2
    wide = tmp_path / "wide.json"
    wider = ("--jitter", "u=12", "--jitter", "v=12", "--out", wide)
    assert run("release", minutes, *OPTIONS, "--seed", 0, *wider).code == 0
    covariances = np.array(json.loads(wide.read_text())["mixture"]["covariances"])
    variances = np.sort(np.einsum("kii->ki", covariances), axis=0)
    assert variances == pytest.approx(np.array([[14.25] * 2, [18.25] * 2]), rel=0.15)


def test_jitter_needs_a_column_and_a_step(run: Any, minutes: Path) -> None:
    for bad in ("v", "v=", "v=x", "v=0", "v=-1", "v=nan", "v=inf", "=1", "w=1"):
        assert run("release", minutes, *OPTIONS, *KNOBS, "--jitter", bad).code == 2, bad
    twice = ("--jitter", "v=1", "--jitter", "v=2")
    assert "once" in run("release", minutes, *OPTIONS, *KNOBS, *twice).err


def test_a_hint_is_given_on_request_only(run: Any, folder: Path) -> None:
    """One component too many: the blocks split the larger one in any way."""
    order = ("release", folder / "data.csv", "--columns", "u,v", "--seed", 0, *KNOBS, "--k", 3)
    order = (*order, "--method", "lifted")
    plain, asked = run(*order, "--epsilon", 1), run(*order, "--epsilon", 1, "--hint")
    assert plain.code == asked.code == 3
    assert "CONFIDENTIAL" not in plain.err
    assert "CONFIDENTIAL, for the holder of the data only: " in asked.err
    assert "k = 2" in asked.err


@pytest.fixture
def scattered(tmp_path: Path) -> Path:
    """Few rows, whose first column spreads evenly over 60 orders of magnitude."""
    rng = np.random.default_rng(0)
    wild = rng.choice([-1.0, 1.0], 2_000) * 10 ** rng.uniform(-30, 30, 2_000)
    path = tmp_path / "scattered.csv"
    rows = np.column_stack([wild, rng.normal(size=2_000)])
    np.savetxt(path, rows, delimiter=",", header="u,v", comments="")
    return path


def test_a_refusal_of_the_default_method_is_explained(
    run: Any, scattered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no blocks vote: the frame of few rows is made of histograms."""
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "ledger.sqlite"))
    done = run("release", scattered, "--k", 2, "--hint", "--out", tmp_path / "r.json")
    assert done.code == 3, done.err
    why = "In column 'u' no difference between rows is common enough to outweigh the noise."
    assert f"refused. {why} The budget of" in done.err
    assert "CONFIDENTIAL, for the holder of the data only: Column 1: " in done.err
    (spend,) = SQLiteBook().export()
    assert (spend["released"], spend["reason"]) == (False, why)
    assert f"refused: the budget is spent although nothing is published. {why}" in run("ledger").out
    assert "CONFIDENTIAL" not in run("release", scattered, "--k", 2).err


def test_what_fails_after_the_spend_does_not_hide_how_it_ended(
    run: Any, folder: Path, scattered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 would say that nothing was spent."""

    def broken(*_: object) -> str:
        raise InvalidInput("no words for it")

    monkeypatch.setattr(CuratorView, "hint", broken)
    done = run("release", scattered, "--k", 2, "--hint")
    assert done.code == 3
    assert "the hint failed: no words for it" in done.err
    monkeypatch.setattr(release_command, "_report", broken)
    done = run("release", folder / "data.csv", *OPTIONS, "--out", tmp_path / "r.json")
    assert done.code == 0
    assert "the report failed: no words for it" in done.err
    assert verify_receipt((tmp_path / "r.json").read_bytes()).ok


def test_covariances_of_a_release_are_chosen(run: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "tied.json"
    order = ("release", folder / "data.csv", *OPTIONS, "--columns", "u,v", "--seed", 0)
    done = run(*order, "--covariance-type", "tied", "--out", out, "--json")
    assert done.code == 0, done.err
    assert done.json()["covariance_type"] == "tied"
    first, second = json.loads(out.read_text())["mixture"]["covariances"]
    assert first == second
    assert run(*order, "--covariance-type", "round").code == 2
    none = run(*order, "--covariance-type", "tied", "--method", "tight")
    assert none.code == 2
    assert "--covariance-type must be 'full' for method 'tight'" in none.err


# ------------------------------------------------------------------------ malformed input

numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([10**400, 1e308, -1e308, 5e-324, True, None, "1", "x", {}, []]),
)
trees = st.recursive(numbers, lambda inner: st.lists(inner, max_size=3), max_leaves=12)
documents = st.one_of(
    trees,
    st.fixed_dictionaries({"weights": trees, "means": trees, "covariances": trees}),
    st.fixed_dictionaries({"mean": trees, "covariance": trees}),
    st.fixed_dictionaries({"mixture": trees, "released": st.booleans()}),
    st.lists(numbers, min_size=1, max_size=2).map(
        lambda x: {
            "mean": x,
            "covariance": [[v if i == j else 0 for j in x] for i, v in enumerate(x)],
        }
    ),
    st.lists(numbers, min_size=4, max_size=4).map(
        lambda x: {
            "weights": [0.5, 0.5],
            "means": [x[:1], x[1:2]],
            "covariances": [[x[2:3]], [x[3:]]],
        }
    ),
)
often = settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@often
@given(document=documents)
def test_no_mixture_file_breaks_it(document: Any, folder: Path, run: Any) -> None:
    path = folder / "fuzz.json"
    path.write_text(json.dumps(document))
    for order in (
        ("tv", path, folder / "truth.json", "--json"),
        ("tv", path, path),
        ("sample", path, "-n", 2, "--seed", 0),
        ("verify", path),
    ):
        done = run(*order)
        assert done.code in (0, 1, 2)
        assert (done.code == 2) == (done.err != "")
        assert done.err.count("\n") <= 1


@often
@given(
    content=st.one_of(
        st.binary(max_size=80), st.text("0123456789.,;-eE+naif\n\"' \t", max_size=120)
    )
)
def test_no_data_file_breaks_it(content: bytes | str, folder: Path, run: Any) -> None:
    path = folder / "fuzz.bin"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for order in (("release", path, *OPTIONS), ("sample", path, "-n", 1), ("verify", path)):
        done = run(*order)
        assert done.code in (1, 2)
        if done.code == 2:
            assert done.err.startswith("privgmm: ")


words = st.one_of(
    st.sampled_from(["plan", "release", "sample", "tv", "verify", "ledger", "bundle"]),
    st.sampled_from(["nan", "-1", "0", "2", "1e400", "/", "lifted"]),
    st.sampled_from(
        [
            "--json",
            "--k",
            "--d",
            "-n",
            "--epsilon",
            "--delta",
            "--columns",
            "--out",
            "--seed",
            "--method",
            "--groups",
            "--learner",
            "--ledger",
            "--no-ledger",
            "--dataset",
            "--cap-unit",
            "--export",
        ]
    ),
    st.sampled_from(["9" * 5000, "x" * 5000, "", "\udc80", "a\0b"]),
    st.text(max_size=6).filter(lambda word: not word.startswith("-h")),
)


@often
@given(arguments=st.lists(words, max_size=7))
def test_no_arguments_break_it(arguments: list[str], run: Any) -> None:
    done = run(*arguments)
    assert done.code in (0, 1, 2)
    assert (done.code == 2) == done.err.startswith("privgmm: ")
