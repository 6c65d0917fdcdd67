"""Measure a release from large Parquet files, against reading the same file with pyarrow.

``python -m benchmarks scale`` makes files of 10^7 and 10^8 rows (``SCALE_ROWS`` sets others),
releases from each in a process of its own, and removes them. It prints processor time, peak memory
and their ratios.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from privgmm import Mixture, Plan, best_plan, release
from privgmm.data.engines import Step
from privgmm.data.rows import row_source

TRUTH = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])
ROWS = (10**7, 10**8)
GROUP = 1 << 20
GIB = 2**30


def write(path: Path, n: int) -> None:
    """Write a file of n rows, a row group at a time."""
    schema = pa.schema([("x1", pa.float64()), ("x2", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, n, GROUP):
            rows = TRUTH.sample(min(GROUP, n - start), rng=start)
            writer.write_table(pa.table({"x1": rows[:, 0], "x2": rows[:, 1]}, schema))


def read(path: Path) -> None:
    """Read every number once, which any use of the file has to do first."""
    pq.read_table(path)


def scan(path: Path) -> None:
    """Read one row group at a time, in one thread: the least that reading takes."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        file.read_row_group(group, use_threads=False)


TASKS = {"read": read, "scan": scan}


def publish(path: Path) -> dict[str, object]:
    """Release, and measure how long each kind of step takes."""
    steps: dict[str, float] = {}

    def watch(step: Step) -> None:
        if step.done == step.total:
            steps[step.what] = steps.get(step.what, 0.0) + step.seconds

    plan = _plan(row_source(path, in_memory=False).n_rows)
    began, wall = time.process_time(), time.perf_counter()
    outcome = release(row_source(path, in_memory=False), plan, rng=0, watch=watch)
    return {
        "released": outcome.released,
        "steps": steps,
        "method": plan.method,
        "cpu": time.process_time() - began,
        "wall": time.perf_counter() - wall,
    }


def _plan(n: int) -> Plan:
    return best_plan(n, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)


def _measured(task: str, path: Path) -> dict[str, object]:
    """Run one task in a process of its own."""
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", task, str(path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    found: dict[str, object] = json.loads(out.stdout.splitlines()[-1])
    return found


def _task(task: str, path: Path) -> None:
    # compiled code is loaded, and a small release done, before the clock starts
    warnings.simplefilter("ignore")
    if task == "publish":
        release(TRUTH.sample(10_000, rng=0), _plan(10_000), rng=0)
        said = publish(path)
    else:
        began, wall = time.process_time(), time.perf_counter()
        TASKS[task](path)
        said = {"cpu": time.process_time() - began, "wall": time.perf_counter() - wall}
    said["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(said))


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of a task: seconds of processor and clock, and bytes of memory at its peak."""

    cpu: float
    wall: float
    memory: float


def _cost(said: dict[str, object]) -> Cost:
    return Cost(*(float(str(said[name])) for name in ("cpu", "wall", "memory")))


def main() -> None:
    wanted = os.environ.get("SCALE_ROWS", "")
    sizes = [int(float(one)) for one in wanted.split(",")] if wanted else list(ROWS)
    found: list[tuple[int, Cost]] = []
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="privgmm-scale-") as folder:
            path = Path(folder) / "rows.parquet"
            write(path, n)
            plain, least = _cost(_measured("read", path)), _cost(_measured("scan", path))
            said = _measured("publish", path)
        ours = _cost(said)
        found.append((n, ours))
        print(
            f"{n:>13,} rows: released {said['released']} ({said['method']}); processor "
            f"{ours.cpu:.1f} s, {ours.cpu / plain.cpu:.1f} times reading with pyarrow "
            f"as a table ({plain.cpu:.2f} s), {ours.cpu / least.cpu:.1f} times by row groups "
            f"({least.cpu:.2f} s); clock {ours.wall:.1f} s; peak memory "
            f"{ours.memory / GIB:.2f} GiB",
            flush=True,
        )
        print(f"{'':>13} seconds by step: {said['steps']}")
    for (n, small), (more, large) in itertools.pairwise(found):
        print(
            f"{n:,} to {more:,} rows: processor {large.cpu / small.cpu:.1f} times, memory "
            f"{large.memory / small.memory:.2f} times"
        )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        _task(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
