"""Engines: neither their kind nor the fate of their workers changes a result."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from privgmm.data.engines import Engine, Step, Submitting, Threads, engine_for
from privgmm.data.rows import row_source
from privgmm.errors import InvalidInput
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.releases import Release, release

N = 60_000
TRUTH = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])
OPTIONS = {"epsilon": 2.0, "delta": 1e-6, "n_components": 2, "n_features": 2}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = TRUTH.sample(N, rng=0)
    who = [f"p{i % 25_000}" for i in range(N)]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(
        pa.table({"a": rows[:, 0], "b": rows[:, 1], "who": who}), path, row_group_size=3_000
    )
    return path


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privgmm.data.parts._PART_ROWS", 3_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """Two worker processes on this machine."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def plan_of(persons: bool) -> Plan:
    return best_plan(25_000 if persons else N, **OPTIONS)  # type: ignore[arg-type]


def published(file: Path, persons: bool, executor: object, watch: object = None) -> Mixture:
    result = release(
        row_source(file, ["a", "b"], in_memory=False),
        plan_of(persons),
        rng=4,
        groups="who" if persons else None,
        executor=executor,  # type: ignore[arg-type]
        watch=watch,  # type: ignore[arg-type]
    ).result
    assert isinstance(result, Release)
    return result.mixture


@pytest.mark.parametrize("persons", [False, True])
def test_threads_a_pool_and_worker_processes_publish_the_same(
    file: Path, cluster: Client, persons: bool
) -> None:
    alone = published(file, persons, Threads(1))
    assert published(file, persons, None) == alone
    assert published(file, persons, Threads(5)) == alone
    with ThreadPoolExecutor(2) as pool:
        assert published(file, persons, pool) == alone
    assert published(file, persons, cluster) == alone
    assert published(file, persons, cluster.scheduler.address) == alone


@pytest.mark.parametrize("when", ["taking blocks", "sketching"])
def test_a_worker_that_is_killed_changes_nothing(file: Path, when: str) -> None:
    """Killed without a word in the middle of a pass; its work is done again by others."""
    alone = published(file, False, None)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Event()

        def watch(step: Step) -> None:
            if step.what == when and step.done >= N // 5 and not killed.is_set():
                killed.set()
                os.kill(victim, signal.SIGKILL)

        assert published(file, False, client, watch) == alone
        assert killed.is_set()
        assert victim not in client.run(os.getpid).values()


def test_an_error_of_a_worker_is_told_as_it_is(cluster: Client, tmp_path: Path) -> None:
    values = np.arange(9_000.0)
    values[8_000] = np.nan
    pq.write_table(
        pa.table({"a": values, "b": np.arange(9_000.0) ** 2}),
        tmp_path / "x.parquet",
        row_group_size=999,
    )
    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match="in data row 8,001"):
        release(
            row_source(tmp_path / "x.parquet", in_memory=False),
            best_plan(9_000, **OPTIONS),  # type: ignore[arg-type]
            rng=0,
            ledger=ledger,
            executor=cluster,
        )
    assert not ledger.entries


def test_dask_by_name_is_a_client_in_use_or_processes_of_its_own(cluster: Client) -> None:
    with cluster.as_current():
        engine = engine_for("dask")
    assert isinstance(engine, Submitting)
    assert engine.executor is cluster
    assert engine.workers == 2
    own = engine_for("dask")
    assert isinstance(own, Submitting)
    assert list(own.each(abs, [-3, 2, -1])) == [3, 2, 1]
    own.close()
    assert own.executor.status == "closed"  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", [Threads(1), Threads(3), Submitting(ThreadPoolExecutor(2))])
def test_pieces_come_back_in_their_order_and_few_are_ahead(engine: Engine) -> None:
    begun: list[int] = []

    def call(piece: int) -> int:
        begun.append(piece)
        return 10 * piece

    found = []
    for answer in engine.each(call, range(50)):
        found.append(answer)
        assert len(begun) - len(found) <= 3 * engine.workers + 1
    assert found == [10 * piece for piece in range(50)]
    assert sorted(begun) == list(range(50)), "each once"


def test_after_an_error_no_more_is_begun() -> None:
    begun: list[int] = []

    def call(piece: int) -> int:
        begun.append(piece)
        if piece == 3:
            raise InvalidInput("no")
        return piece

    with pytest.raises(InvalidInput):
        list(Threads(2).each(call, range(1_000)))
    assert len(begun) < 20


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privgmm.data.engines._PATIENCE", 0.5)
    with pytest.raises(InvalidInput, match=r"no Dask scheduler answers at .tcp://127\.0\.0\.1:9"):
        engine_for("tcp://127.0.0.1:9")


def test_steps_tell_the_rate_and_the_time_left() -> None:
    step = Step("reading", 25, 100, "rows", 5.0)
    assert step.rate == 5.0
    assert step.left == 15.0
    assert Step("reading", 0, 100, "rows", 0.0).left is None
