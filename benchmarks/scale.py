"""Large tables: what a release from Parquet takes, against reading the same file with pyarrow.

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

from privgmm import Mixture, best_plan, release
from privgmm.data.engines import Step
from privgmm.data.rows import row_source

TRUTH = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])
ROWS = (10**7, 10**8)
GROUP = 1 << 20
GIB = 2**30


def write(path: Path, n: int) -> None:
    """A file of n rows, a row group at a time."""
    schema = pa.schema([("x1", pa.float64()), ("x2", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, n, GROUP):
            rows = TRUTH.sample(min(GROUP, n - start), rng=start)
            writer.write_table(pa.table({"x1": rows[:, 0], "x2": rows[:, 1]}, schema))


def read(path: Path) -> None:
    """What anybody would have to do first: read every number once."""
    pq.read_table(path)


def publish(path: Path) -> dict[str, object]:
    """A release, with how long each kind of step took."""
    steps: dict[str, float] = {}

    def watch(step: Step) -> None:
        if step.done == step.total:
            steps[step.what] = steps.get(step.what, 0.0) + step.seconds

    source = row_source(path, in_memory=False)
    plan = best_plan(source.n_rows, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    outcome = release(source, plan, rng=0, watch=watch)
    return {"released": outcome.released, "steps": steps, "method": plan.method}


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
        rows = TRUTH.sample(10_000, rng=0)
        plan = best_plan(10_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
        release(rows, plan, rng=0)
    began, wall = time.process_time(), time.perf_counter()
    said: dict[str, object] = {}
    if task == "publish":
        said = publish(path)
    else:
        read(path)
    print(
        json.dumps(
            {
                **said,
                "cpu": time.process_time() - began,
                "wall": time.perf_counter() - wall,
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a task took: seconds of processor and clock, and bytes of memory at its peak."""

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
            plain, said = _cost(_measured("read", path)), _measured("publish", path)
        ours = _cost(said)
        found.append((n, ours))
        print(
            f"{n:>13,} rows: released {said['released']} ({said['method']}); processor "
            f"{ours.cpu:.1f} s, {ours.cpu / plain.cpu:.1f} times reading with pyarrow "
            f"({plain.cpu:.2f} s); clock {ours.wall:.1f} s; peak memory "
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
