"""Tables that are read part by part give what tables in memory give, or a clear error."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data import parts
from privgmm.data.engines import Step, Threads
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.people import ArrayPeople
from privgmm.data.rows import FileSource, row_source
from privgmm.data.source import RowSource
from privgmm.errors import BudgetExceeded, InvalidInput
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.releases import Release, join_sketch, prepare, release
from privgmm.stages.agreement.stage import PreparedAgreement
from privgmm.stages.sketch.features import SketchShape, WaveTask, integer_sensitivity
from privgmm.stages.sketch.frame import Frame

N, G = 30_000, 12_000
TRUTH = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])
ROWS: Array = TRUTH.sample(N, rng=0)
OWNERS: IntArray = np.random.default_rng(1).integers(0, G, N)
WHO = np.array([f"id-{owner}" for owner in OWNERS], dtype=object)
TABLE = pa.table({"who": WHO.tolist(), "a": ROWS[:, 0], "note": ["-"] * N, "b": ROWS[:, 1]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in files of different lengths, in row groups of different sizes."""
    place = tmp_path_factory.mktemp("rows")
    edges = [0, 7_000, 7_001, 20_000, N]
    for i, (first, last) in enumerate(itertools.pairwise(edges)):
        part = TABLE.slice(first, last - first)
        pq.write_table(part, place / f"{i}.parquet", row_group_size=1_500 + 700 * i)
    (place / "_SUCCESS").write_text("written by another program")
    return place


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("file") / "rows.parquet"
    pq.write_table(TABLE, place, row_group_size=4_000)
    return place


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts and batches, though the tables are small."""
    monkeypatch.setattr(parts, "_PART_ROWS", 3_000)
    monkeypatch.setattr(parts, "_BATCH_ROWS", 1_024)


def frame() -> Any:
    return TABLE.to_pandas()


SOURCES: dict[str, Callable[[Path, Path], Any]] = {
    "file": lambda _, file: row_source(file, ["a", "b"], in_memory=False),
    "folder": lambda folder, _: folder,
    "pattern": lambda folder, _: f"{folder}/*.parquet",
    "dataset": lambda folder, _: pads.dataset(str(folder), format="parquet"),
    "Dask data frame": lambda *_: dask.dataframe.from_pandas(frame(), npartitions=7),
    "Dask array": lambda *_: dask.array.from_array(ROWS, chunks=(4_321, 1)),
}
NAMED = [name for name in SOURCES if name != "Dask array"]


def source_of(name: str, folder: Path, file: Path) -> RowSource:
    made = SOURCES[name](folder, file)
    return row_source(made, None if name == "Dask array" else ["a", "b"])


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_those_of_the_table(name: str, folder: Path, file: Path) -> None:
    source = source_of(name, folder, file)
    assert not source.in_memory
    assert source.n_rows == N
    assert np.array_equal(source.rows(), ROWS)
    assert np.array_equal(np.concatenate([*source.chunks(999)]), ROWS)
    places = np.random.default_rng(0).integers(0, N, (40, 3))
    assert np.array_equal(source.take(places), ROWS[places])
    assert np.array_equal(source.glance(), ROWS[: len(source.glance())])
    if name != "Dask array":
        assert source.columns == ("a", "b")
        assert set(source.left_out) == {"who", "note"}
        assert source.labels("who").tolist() == WHO.tolist()
        assert source.choose(["b"]).rows()[:, 0].tolist() == ROWS[:, 1].tolist()
        assert source.count_persons("who") == len(set(WHO.tolist()))


def test_a_file_is_one_data_set_however_it_is_read(file: Path, folder: Path) -> None:
    at_once = row_source(file, ["a"])
    assert isinstance(at_once, FileSource)
    by_parts = row_source(file, ["b", "a"], in_memory=False)
    assert at_once.fingerprint == by_parts.fingerprint == file_fingerprint(file)
    # of several files neither the names nor their order matter
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    (other / "0.parquet").rename(other / "9.parquet")
    assert row_source(folder, ["a"]).fingerprint == row_source(other, ["a"]).fingerprint
    shutil.rmtree(other)


def test_large_files_are_read_by_parts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privgmm.data.rows._AT_ONCE", 1_000)
    assert not row_source(file, ["a", "b"]).in_memory
    assert row_source(file, ["a", "b"], in_memory=True).in_memory


def test_what_a_curator_sees_of_many_rows_comes_from_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = row_source(folder, ["a", "b"])
    assert np.array_equal(source.curated(), ROWS)
    monkeypatch.setattr(parts, "_MOST_CURATED", 1_000)
    assert np.array_equal(source.curated(), ROWS[::30])


# ------------------------------------------------------------------------- the same release


def plan_of(n: int, **more: Any) -> Plan:
    return best_plan(n, epsilon=2.0, delta=1e-6, n_components=2, n_features=2, **more)


@pytest.fixture(scope="module")
def plain() -> Mixture:
    return mixture_of(release(ROWS, plan_of(N), rng=3).result)


@pytest.fixture(scope="module")
def persons() -> Mixture:
    return mixture_of(release(ROWS, plan_of(len(set(OWNERS))), rng=3, groups=OWNERS_TEXT).result)


OWNERS_TEXT = WHO


def mixture_of(result: object) -> Mixture:
    assert isinstance(result, Release)
    return result.mixture


@pytest.mark.parametrize("name", SOURCES)
def test_released_numbers_are_the_same_bit_for_bit(
    name: str, folder: Path, file: Path, plain: Mixture
) -> None:
    source = source_of(name, folder, file)
    assert mixture_of(release(source, plan_of(N), rng=3).result) == plain


@pytest.mark.parametrize("name", NAMED)
def test_persons_too(name: str, folder: Path, file: Path, persons: Mixture) -> None:
    made = SOURCES[name](folder, file)
    plan = plan_of(len(set(OWNERS)))
    outcome = release(made, plan, columns=["a", "b"], rng=3, groups="who")
    assert outcome.result.unit == "person"
    assert mixture_of(outcome.result) == persons


@pytest.mark.parametrize("route", ["lifted", "rich"])
def test_every_way_of_a_release_reads_by_parts(route: str, folder: Path, tmp_path: Path) -> None:
    """Refinement of `lifted`, and noisy EM with its vote where no mixture explains the rows."""
    if route == "lifted":
        plan = best_plan(N, method="lifted", epsilon=4.0, delta=1e-4, n_components=2, n_features=2)
        rows, place = ROWS, folder
    else:
        rng = np.random.default_rng(0)
        rows = rng.exponential(size=(N, 2)) * np.where(rng.random((N, 1)) < 0.5, 1.0, 9.0)
        place = tmp_path / "skewed.parquet"
        pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), place, row_group_size=4_000)
        plan = plan_of(N)
    source = row_source(place, ["a", "b"], in_memory=False)
    steps: list[Step] = []
    found = mixture_of(release(source, plan, rng=5, watch=steps.append).result)
    assert found == mixture_of(release(rows, plan, rng=5).result)
    seen = {step.what for step in steps}
    assert {"summing moments", *(["voting"] if route == "rich" else [])} <= seen
    # every pass was over all rows
    assert all(step.total == N for step in steps if step.unit == "rows")


def test_the_curator_can_look_at_a_large_table(folder: Path) -> None:
    plan = best_plan(N, method="lifted", epsilon=4.0, delta=1e-4, n_components=2, n_features=2)
    view = release(row_source(folder, ["a", "b"]), plan, rng=5).curator
    assert view.nonprivate() == release(ROWS, plan, rng=5).curator.nonprivate()
    assert view.hint() is None


# --------------------------------------------------------------------------------- the unit


def written(place: Path, rows: Array) -> Path:
    """A folder like the others, with other numbers."""
    place.mkdir()
    table = pa.table({"who": WHO.tolist(), "a": rows[:, 0], "b": rows[:, 1]})
    for i in range(3):
        pq.write_table(table.slice(10_000 * i, 10_000), place / f"{i}.parquet", row_group_size=900)
    return place


@pytest.mark.parametrize("far", [1e3, 1e9])
def test_a_person_changes_one_block_and_moves_sums_by_the_sensitivity_at_most(
    tmp_path: Path, far: float
) -> None:
    """The adversary owns many rows, spread over all files, and moves all of them."""
    who = OWNERS.copy()
    changed = ROWS.copy()
    mine = who == np.bincount(who).argmax()
    assert len(set((np.flatnonzero(mine) // 10_000).tolist())) == 3
    changed[mine] = far * np.random.default_rng(0).normal(size=(int(mine.sum()), 2))
    plan = best_plan(
        len(set(who)), method="lifted", epsilon=4.0, delta=1e-4, n_components=2, n_features=2
    )
    sides = []
    waves = WaveTask(Frame([0.0, 0.0], np.eye(2)), SketchShape.default(2), 2**20)
    for name, rows in (("one", ROWS), ("two", changed)):
        source = row_source(written(tmp_path / name, rows), ["a", "b"])
        ready = prepare(source, plan, rng=8, groups="who")
        people = source.people("who", noise_source(8).key(), Threads())
        sides.append((ready._first, people.total(waves)))
        people.close()
        ready.close()
    (one, first), (two, second) = sides
    assert isinstance(one, PreparedAgreement)
    assert isinstance(two, PreparedAgreement)
    same = [np.array_equal(*pair) for pair in zip(one.fits.means, two.fits.means, strict=True)]
    assert same.count(False) <= 1
    moved = float(np.linalg.norm((first - second).astype(np.float64)))
    assert 0 < moved <= integer_sensitivity(waves.shape, waves.scale)


def test_rows_of_a_person_are_together_wherever_they_lie(folder: Path) -> None:
    source = row_source(folder, ["a", "b"])
    people = source.people("who", noise_source(2**63).key(), Threads())
    taken = people.take(np.arange(len(people)))
    assert sorted(WHO[taken.positions].tolist()) == sorted(set(WHO.tolist()))
    same = ArrayPeople.labelled(ROWS, WHO, noise_source(2**63).key())
    assert np.array_equal(same.take(np.arange(len(people))).positions, taken.positions)
    people.close()


def test_nothing_is_left_on_the_disk(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = row_source(folder, ["a", "b"])
    release(source, plan_of(source.count_persons("who")), rng=3, groups="who")
    assert not list(tmp_path.iterdir())
    with pytest.raises(BudgetExceeded):
        release(
            source,
            plan_of(source.count_persons("who")),
            rng=3,
            groups="who",
            ledger=MemoryLedger(plan_of(N).budget.__class__(0.1, 1e-9)),
        )
    assert not list(tmp_path.iterdir())

    class Stop(Exception):
        pass

    def stop(step: Step) -> None:
        assert oct(next(tmp_path.iterdir()).stat().st_mode & 0o777) == "0o700"
        raise Stop

    with pytest.raises(Stop):
        release(source, plan_of(G), rng=3, groups="who", watch=stop)
    assert not list(tmp_path.iterdir())


def test_sorted_files_do_as_well_as_shuffled_ones(tmp_path: Path) -> None:
    n = 6_000
    rows = ROWS[:n][np.argsort(ROWS[:n, 0])]
    pq.write_table(
        pa.table({"a": rows[:, 0], "b": rows[:, 1]}),
        tmp_path / "sorted.parquet",
        row_group_size=2_500,
    )
    source = row_source(tmp_path / "sorted.parquet", in_memory=False)
    errors: dict[str, list[float]] = {"sorted": [], "shuffled": []}
    for seed in range(20):
        for name, table in (("sorted", source), ("shuffled", ROWS[:n])):
            # none is refused
            found = mixture_of(release(table, plan_of(n), rng=seed).result)
            first = found.means[np.argsort(found.means[:, 0])]
            errors[name].append(float(np.abs(first - TRUTH.means).max()))
    one, two = (np.array(errors[name]) for name in ("sorted", "shuffled"))
    scatter = np.hypot(one.std(), two.std()) / np.sqrt(20)
    assert abs(one.mean() - two.mean()) < 4 * scatter


# ------------------------------------------------------------------------------- bad input


def spoilt(folder: Path, place: Path, how: Callable[[Path], None]) -> Path:
    shutil.copytree(folder, place / "rows")
    how(place / "rows")
    return place / "rows"


def no_column(place: Path) -> None:
    pq.write_table(TABLE.drop_columns(["b"]).slice(0, 50), place / "7.parquet")


def other_kind(place: Path) -> None:
    rows = TABLE.slice(0, 50)
    text = rows.column("b").cast(pa.string())
    pq.write_table(rows.set_column(3, "b", text), place / "7.parquet")


def not_finite(place: Path) -> None:
    rows = ROWS[:4_000].copy()
    rows[3_456, 1] = np.nan
    table = pa.table(
        {"who": ["x"] * 4_000, "a": rows[:, 0], "note": ["-"] * 4_000, "b": rows[:, 1]}
    )
    pq.write_table(table, place / "7.parquet", row_group_size=500)


def missing(place: Path) -> None:
    table = TABLE.slice(0, 40)
    gaps = pa.array([None if i == 17 else float(i) for i in range(40)])
    pq.write_table(table.set_column(1, "a", gaps), place / "7.parquet")


def truncated(place: Path) -> None:
    path = place / "2.parquet"
    path.write_bytes(path.read_bytes()[:-2_000])


def stranger(place: Path) -> None:
    (place / "readme.txt").write_text("not rows")


def empty(place: Path) -> None:
    for path in place.glob("*.parquet"):
        path.unlink()


def no_rows(place: Path) -> None:
    empty(place)
    pq.write_table(TABLE.slice(0, 0), place / "0.parquet")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (no_column, "the same columns"),
        (other_kind, "column 'b' holds string"),
        (not_finite, "column 'b' has missing or infinite values, in data row 33,457"),
        (missing, "column 'a' has missing"),
        (truncated, "not a whole Parquet file"),
        (stranger, "'readme.txt', which is not Parquet"),
        (empty, "no Parquet file"),
        (no_rows, "no rows of data"),
    ],
)
@pytest.mark.parametrize("groups", [None, "who"])
def test_bad_folders_are_refused_before_any_spend(
    folder: Path, tmp_path: Path, how: Callable[[Path], None], words: str, groups: str | None
) -> None:
    place = spoilt(folder, tmp_path, how)
    ledger = MemoryLedger()
    n = N + (4_000 if how is not_finite else 40 if how is missing else 0)
    plan = plan_of(n) if groups is None else plan_of(len(set(WHO.tolist())) + 1)
    with pytest.raises(InvalidInput, match=words):
        release(place, plan, columns=["a", "b"], rng=0, groups=groups, ledger=ledger)
    assert not ledger.entries


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        ("nowhere/*.parquet", {}, "no file matches"),
        ("{folder}", {"columns": ["a", "z"]}, "no column 'z'"),
        ("{folder}", {"columns": ["a", "note"]}, "no numbers in column 'note'"),
        ("{folder}", {}, "no numbers in column 'who', 'note'"),
        ("{folder}", {"columns": ["a", "b"], "groups": "z"}, "no column 'z'"),
        ("{folder}", {"columns": ["a", "b"], "groups": WHO}, "the name of a column"),
        ("{folder}", {"columns": ["a", "b"], "groups": "a"}, "not fitted"),
        ("{folder}", {"columns": ["a", "b"], "executor": "moon"}, "executor must be"),
        ("{folder}", {"columns": ["a", "b"], "executor": 3}, "submit"),
    ],
)
def test_what_cannot_be_meant_is_said(
    folder: Path, X: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        release(X.format(folder=folder), plan_of(N), rng=0, **options)


def test_a_filtered_dataset_is_refused(folder: Path) -> None:
    """Which rows there are would depend on values."""
    dataset = pads.dataset(str(folder), format="parquet").filter(pads.field("a") > 0)
    with pytest.raises(InvalidInput, match="filtered"):
        row_source(dataset, ["a", "b"])


def grow(place: Path) -> None:
    """Somebody appends to a file, and keeps its time of writing."""
    path = sorted(place.glob("*.parquet"))[-1]
    before = path.stat()
    with path.open("ab") as out:
        out.write(b"more")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_grows_before_noise_is_drawn_costs_nothing(
    folder: Path, tmp_path: Path
) -> None:
    place = spoilt(folder, tmp_path, lambda _: None)
    source, ledger = row_source(place, ["a", "b"]), MemoryLedger()
    grow(place)
    with pytest.raises(InvalidInput, match="changed while it was read"):
        release(source, plan_of(N), rng=0, ledger=ledger)
    assert not ledger.entries


def test_a_file_that_grows_afterwards_is_a_recorded_spend_and_no_release(
    folder: Path, tmp_path: Path
) -> None:
    place = spoilt(folder, tmp_path, lambda _: None)
    ledger = MemoryLedger()

    def watch(step: Step) -> None:
        if step.what == "sketching" and step.done < 10_000:
            grow(place)

    with pytest.raises(InvalidInput, match="changed while it was read"):
        release(place, plan_of(N), columns=["a", "b"], rng=0, ledger=ledger, watch=watch)
    assert [entry.released for entry in ledger.entries] == [None]


def test_parts_are_small_enough_to_be_sent(folder: Path) -> None:
    source = row_source(folder, ["a", "b"])
    assert isinstance(source, parts.PartSource)
    sizes = [len(pickle.dumps(part)) for part in source._parts]
    assert max(sizes) < 2_000
    assert len(sizes) > 8
    again = pickle.loads(pickle.dumps(source._parts[1]))
    assert np.array_equal(
        np.concatenate([*again.chunks()]), np.concatenate([*source._parts[1].chunks()])
    )


# ------------------------------------------------------------------------- several holders


def test_sketches_of_several_holders_add_up(folder: Path) -> None:
    north, south = ROWS[:18_000], ROWS[18_000:]
    first = release(north, plan_of(18_000), rng=1).result
    assert isinstance(first, Release)
    assert first.sketch is not None
    ledger = MemoryLedger()
    named = first.sketch.with_columns(["a", "b"])
    second = join_sketch(south, named, epsilon=2.0, delta=1e-6, rng=2, ledger=ledger)
    both = named + second
    assert both.n_rows == N
    assert both.columns == ("a", "b")
    (entry,) = ledger.entries
    assert entry.released is True
    assert 1.99 < entry.spend.budget.epsilon <= 2.0
    # together they know more than one alone: half the squared noise and more
    means = both.fit(2).mixture.means
    assert np.abs(means[np.argsort(means[:, 0])] - TRUTH.means).max() < 0.1
    # from files, columns by name, persons as a unit
    third = join_sketch(folder, named, epsilon=2.0, delta=1e-6, rng=2, groups="who")
    assert third.n_rows == len(set(WHO.tolist()))
    with pytest.raises(InvalidInput, match="agreed must be a PrivateSketch"):
        join_sketch(south, first, epsilon=1.0, delta=1e-6)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="3 columns"):
        join_sketch(np.zeros((10, 3)), named, epsilon=1.0, delta=1e-6)
