"""The command on Parquet files, folders and clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster

from privgmm.cli import release as release_command
from privgmm.cli import terminal
from privgmm.data.engines import Step
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.mixture import Mixture

TRUTH = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])
N = 9_000
ROWS = TRUTH.sample(N, rng=0)
ORDER = ["--k", "2", "--epsilon", "4", "--delta", "1e-5", "--seed", "1", "--columns", "a,b"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "visits"
    place.mkdir()
    who = [f"p{i % 4_000}" for i in range(N)]
    table = pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1], "who": who})
    for i in range(3):
        pq.write_table(table.slice(3_000 * i, 3_000), place / f"{i}.parquet", row_group_size=700)
    return place


def mixture(run: Any, *arguments: object) -> Any:
    done = run("release", *arguments, *ORDER)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_folder_a_pattern_and_one_file_are_one_table(
    run: Any, folder: Path, ledger: Path, tmp_path: Path
) -> None:
    first = mixture(run, folder)
    assert first["reading"]["format"] == "Parquet"
    assert first["columns"] == ["a", "b"]
    again = mixture(run, f"{folder}/*.parquet")
    assert again["mixture"] == first["mixture"]
    # both are one data set of the ledger
    (account,) = SQLiteBook(ledger).histories()
    assert len(account.entries) == 2
    assert "2" in run("ledger", folder).out
    # as one file it is another one to the ledger, and gives the same numbers
    pq.write_table(pq.read_table(folder), tmp_path / "all.parquet")
    other = mixture(run, tmp_path / "all.parquet")
    assert other["mixture"] == first["mixture"]


@pytest.mark.usefixtures("ledger")
def test_persons_over_several_files(run: Any, folder: Path) -> None:
    receipt = mixture(run, folder, "--groups", "who")
    assert receipt["neighbours"]["unit"] == "person"
    assert receipt["reading"]["rows"] is None, "how many rows persons have is theirs"


@pytest.mark.usefixtures("ledger")
def test_workers_of_a_cluster_give_the_same(run: Any, folder: Path) -> None:
    alone = mixture(run, folder)
    with LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        there = mixture(run, folder, "--engine", "dask", "--scheduler", cluster.scheduler.address)
    assert there["mixture"] == alone["mixture"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scheduler", "tcp://127.0.0.1:1"], "--engine dask"),
        (["--engine", "dask", "--scheduler", "host"], "an address like tcp://"),
        (["--groups", "whom"], "no column 'whom'"),
        (["--jitter", "a=1"], "fit into memory"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_spent(
    run: Any, folder: Path, ledger: Path, options: list[str], words: str
) -> None:
    done = run("release", folder, *ORDER, *options)
    assert done.code == 2
    assert words in done.err
    assert not ledger.exists() or not any(found.entries for found in SQLiteBook(ledger).histories())


def test_steps_are_shown_with_rate_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.progress_lines() is None, "nobody watches"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show = terminal.progress_lines()
    assert show is not None
    show(Step("sketching", 25_000, 100_000, "rows", 10.0))
    assert (
        "sketching: 25,000 of 100,000 rows, 2,500 per second, 30 s left" in capsys.readouterr().err
    )
    show(Step("sketching", 100_000, 100_000, "rows", 40.0))
    assert capsys.readouterr().err.endswith(", 40.0 s\x1b[K\n")


@pytest.mark.usefixtures("ledger")
def test_stopping_early_costs_nothing(
    run: Any, folder: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(step: Step) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(release_command, "progress_lines", lambda: stop)
    done = run("release", folder, *ORDER)
    assert done.code == 130
    assert not any(found.entries for found in SQLiteBook(ledger).histories())


@pytest.mark.usefixtures("ledger")
def test_stopping_late_is_a_spend_without_a_result(
    run: Any, folder: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(step: Step) -> None:
        if step.what == "sketching":
            raise KeyboardInterrupt

    monkeypatch.setattr(release_command, "progress_lines", lambda: stop)
    done = run("release", folder, *ORDER)
    assert done.code == 130
    assert not done.out
    (account,) = SQLiteBook(ledger).histories()
    assert [entry.released for entry in account.entries] == [None]
