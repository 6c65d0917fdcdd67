"""Where work on rows is done: in threads of this process, or in the workers of an executor.

Work is cut into independent pieces. Results are added up as whole numbers, or put side by side in
the order of the pieces. So no engine changes a result: neither its kind, nor its number of workers,
nor a piece that was done twice because a worker was lost.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from privgmm.errors import InvalidInput

__all__ = ["Engine", "Step", "Submits", "Submitting", "Threads", "Watch", "Watched", "engine_for"]

_P = TypeVar("_P")
_R = TypeVar("_R")

_PATIENCE = 10.0
"""Seconds within which a Dask scheduler must answer; a convention."""
_AHEAD = 2
"""Pieces submitted per worker: with two no worker waits, and few results are held in memory."""


class Submits(Protocol):
    """Anything that runs a call elsewhere: an executor of concurrent.futures, a Dask client."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Start the call and return something with ``result()``."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The progress of a piece of work.

    Parameters
    ----------
    what : str
        What is being done, in words.
    done, total : int
    unit : str
        What is counted: rows, blocks or components.
    seconds : float
        Since it began.
    """

    what: str
    done: int
    total: int
    unit: str
    seconds: float

    @property
    def rate(self) -> float | None:
        """Units per second so far; None at the very beginning."""
        return self.done / self.seconds if self.done and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds left at this rate; None while there is none."""
        return None if self.rate is None else (self.total - self.done) / self.rate


Watch = Callable[[Step], None]
"""Called at each step; raising from it stops the work."""


class Watched:
    """A counter of the work done, which reports to the watch if there is one.

    Parameters
    ----------
    watch : Watch or None
    what : str
    total : int
    unit : str
    """

    def __init__(self, watch: Watch | None, what: str, total: int, unit: str = "rows") -> None:
        self._watch, self._what, self._total, self._unit = watch, what, total, unit
        self._done, self._began = 0, time.monotonic()

    def more(self, count: int) -> None:
        """Add this count to the work done and report it."""
        self._done += count
        if self._watch is not None:
            passed = time.monotonic() - self._began
            self._watch(Step(self._what, self._done, self._total, self._unit, passed))


class Engine(abc.ABC):
    """A place that runs a call on each of many pieces."""

    @property
    @abc.abstractmethod
    def workers(self) -> int:
        """Number of pieces that can be worked on at a time."""

    @abc.abstractmethod
    def each(self, call: Callable[[_P], _R], pieces: Sequence[_P]) -> Iterator[_R]:
        """Yield the result of the call for each piece, in their order, some pieces ahead."""

    def close(self) -> None:  # noqa: B027 - most engines belong to the caller
        """Release what was started for this engine alone."""


class Threads(Engine):
    """Threads of this process; compiled code and file readers release the interpreter's lock.

    Parameters
    ----------
    workers : int, optional
        By default one per core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = max(1, workers or os.cpu_count() or 1)

    @property
    def workers(self) -> int:
        """Number of threads."""
        return self._workers

    def each(self, call: Callable[[_P], _R], pieces: Sequence[_P]) -> Iterator[_R]:
        """Run the pieces in threads, or in the calling thread where one is enough."""
        if min(self._workers, len(pieces)) < 2:
            yield from map(call, pieces)
            return
        with ThreadPoolExecutor(self._workers) as pool:
            yield from _windowed(pool.submit, call, pieces, _AHEAD * self._workers)


class Submitting(Engine):
    """An engine on the caller's executor, which may run calls in processes or on other machines.

    Parameters
    ----------
    executor : Submits
    owned : sequence of closeable
        What was started for this engine, to be closed with it.
    """

    def __init__(self, executor: Submits, owned: Sequence[Any] = ()) -> None:
        self.executor, self._owned = executor, tuple(owned)
        # Dask merges equal calls into one, unless they are declared impure
        self._options = {"pure": False} if _is_dask(executor) else {}

    @property
    def workers(self) -> int:
        """Number of workers that the executor reports, else one per core."""
        threads = getattr(self.executor, "nthreads", None)
        if callable(threads):
            return max(1, int(sum(threads().values())))
        return int(getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1)

    def submit(self, call: Callable[..., _R], *args: Any) -> Any:
        """Start one call and return something with ``result()``."""
        return self.executor.submit(call, *args, **self._options)

    def each(self, call: Callable[[_P], _R], pieces: Sequence[_P]) -> Iterator[_R]:
        """Run the pieces in the executor."""
        yield from _windowed(self.submit, call, pieces, _AHEAD * self.workers)

    def close(self) -> None:
        """Close what was started for this engine."""
        for one in self._owned:
            one.close()


def _windowed(
    submit: Callable[..., Any], call: Callable[[_P], _R], pieces: Sequence[_P], ahead: int
) -> Iterator[_R]:
    waiting: collections.deque[Any] = collections.deque()
    try:
        for piece in pieces:
            waiting.append(submit(call, piece))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # after an error, or when the consumer stops early, the pieces still queued are cancelled
        for future in waiting:
            future.cancel()


def _is_dask(executor: object) -> bool:
    return type(executor).__module__.partition(".")[0] == "distributed"


def engine_for(executor: Engine | Submits | str | None) -> Engine:
    """Return the engine for an executor, its name or its address.

    Parameters
    ----------
    executor : None, "threads", "dask", address, executor or Engine
        None and "threads": threads of this process. "dask": the Dask client that is in use, or a
        cluster of processes on this machine. An address like "tcp://…": the Dask scheduler there.
        Else anything with ``submit``, a Dask client for example.
    """
    if executor is None or executor == "threads":
        return Threads()
    if isinstance(executor, Engine):
        return executor
    if isinstance(executor, str):
        if executor == "dask":
            return _dask_engine()
        if "://" in executor:
            return _dask_engine(executor)
        raise InvalidInput(
            f"executor must be 'threads', 'dask', the address of a Dask scheduler (tcp://…) or "
            f"something with submit(), got {executor!r}"
        )
    if not hasattr(executor, "submit"):
        raise InvalidInput(
            f"executor must have submit(), like those of concurrent.futures; got "
            f"{type(executor).__name__}"
        )
    return Submitting(executor)


def _dask_engine(address: str | None = None) -> Submitting:
    try:
        import distributed
    except ImportError as problem:
        raise InvalidInput(
            "executor='dask' needs the package distributed: pip install 'privgmm[scale]'"
        ) from problem
    if address is not None:
        try:
            client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise InvalidInput(
                f"no Dask scheduler answers at {address!r} ({problem}): check the address, and "
                "that it is running"
            ) from problem
        return Submitting(client, [client])
    with contextlib.suppress(ValueError):
        # a client of the caller's, or of the task that this runs in
        return Submitting(distributed.get_client())
    cluster = distributed.LocalCluster(
        n_workers=os.cpu_count() or 1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    )
    client = distributed.Client(cluster, set_as_default=False)
    return Submitting(client, [client, cluster])
