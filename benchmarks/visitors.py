"""Visit the dashboard without a browser, by Streamlit's protocol to a real server.

A visitor opens a page, keeps what a browser keeps (its widgets and the refresh timers of parts of
the page), and presses Release. So one process can act as a class of any size.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

__all__ = ["Server", "Visit", "Visitor", "release_together", "serve"]

ROOT = Path(__file__).resolve().parent.parent
_VERDICT = "the verdict on a release"
_VERDICTS = ("Fresh noise, drawn once", "Seeded noise, ε")
"""Words above the picture once a release has ended, and not before."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of the dashboard on a port of this machine.

    Parameters
    ----------
    port : int
    process : subprocess.Popen
    log : Path
        What it has said.
    """

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def processor_seconds(self) -> float:
        """CPU seconds of the server so far, in all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serve(log: Path) -> Iterator[Server]:
    """Start the dashboard on a free port of this machine, and stop it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "privgmm.dashboard.launch", "--server.headless", "true"),
                *("--server.address", "127.0.0.1", "--server.port", str(port)),
                *("--server.fileWatcherType", "none"),
            ],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/_stcore/health")
        yield Server(port, process, log)
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(url: str) -> None:
    """Wait until there is an answer at this address."""
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"the app did not answer within a minute at {url}")


@dataclasses.dataclass(frozen=True)
class Visit:
    """Measurements of one visitor.

    Parameters
    ----------
    opened, answered : float
        Seconds until the first page was there, and from pressing Release to the result.
    runs, fragments : int
        Reruns of the page after that press, and of a part of it alone.
    told : tuple of str
        What was said while the release was under way, in this order.
    """

    opened: float
    answered: float
    runs: int
    fragments: int
    told: tuple[str, ...]


class Visitor:
    """One session: a socket, the widgets on its page, and the refresh timers of its parts."""

    def __init__(self, port: int, query: dict[str, str]) -> None:
        self._port, self._query = port, urlencode(query)
        self._widgets: dict[str, str] = {}
        self._clocks: dict[str, tuple[asyncio.Task[None], float]] = {}
        self._seen: set[str] = set()
        self._told: list[str] = []
        self._page = ""
        self._socket: ClientConnection | None = None
        self.runs = 0
        self.fragments = 0

    async def visit(self, ready: asyncio.Barrier, patience: float) -> Visit:
        """Open the page, wait for all others to have theirs, and press Release."""
        begun = time.perf_counter()
        async with connect(
            f"ws://127.0.0.1:{self._port}/_stcore/stream",
            subprotocols=[Subprotocol("streamlit")],
            max_size=None,
        ) as self._socket:
            try:
                await self._send()
                await asyncio.wait_for(self._until_drawn("release"), patience)
                opened = time.perf_counter() - begun
                await ready.wait()
                self.runs = self.fragments = 0
                self._told.clear()
                begun = time.perf_counter()
                await self._send(press=self._widgets["release"])
                await asyncio.wait_for(self._until_drawn(_VERDICT), patience)
                answered = time.perf_counter() - begun
            finally:
                self._stop_clocks()
        return Visit(opened, answered, self.runs, self.fragments, tuple(self._told))

    async def _send(self, *, press: str = "", fragment: str = "") -> None:
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._query, self._page
        state.fragment_id, state.is_auto_rerun = fragment, bool(fragment)
        if press:
            state.widget_states.widgets.append(WidgetState(id=press, trigger_value=True))
        assert self._socket is not None
        await self._socket.send(message.SerializeToString())

    async def _until_drawn(self, part: str) -> None:
        """Read on until a whole page with this part is there: a widget's key, or `_VERDICT`."""
        assert self._socket is not None
        whole = False
        async for data in self._socket:
            message = ForwardMsg()
            assert isinstance(data, bytes)
            message.ParseFromString(data)
            kind = message.WhichOneof("type")
            if kind == "new_session":
                whole = not message.metadata.run.fragment_ids
                if whole:
                    self._page = message.new_session.page_script_hash
                    self._stop_clocks()
                    self._seen.clear()
                self.runs += whole
                self.fragments += not whole
            elif kind == "navigation":
                # as a browser does: this is the page that was drawn
                self._page = message.navigation.page_script_hash
            elif kind == "delta":
                self._keep(message)
            elif kind == "auto_rerun":
                self._start_clock(message.auto_rerun.fragment_id, message.auto_rerun.interval)
            elif kind == "stop_auto_rerun":
                for fragment in message.stop_auto_rerun.fragment_ids:
                    self._stop_clock(fragment)
            elif kind == "script_finished" and whole:
                done = message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
                if done and part in self._seen:
                    return
        raise ConnectionError("the server closed the socket")

    def _keep(self, message: ForwardMsg) -> None:
        if message.delta.WhichOneof("type") != "new_element":
            return
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            raise RuntimeError(element.exception.message)
        if kind == "button":
            key = element.button.id.rsplit("-", 1)[-1]
            self._widgets[key] = element.button.id
            self._seen.add(key)
        elif kind == "html" and any(said in element.html.body for said in _VERDICTS):
            self._seen.add(_VERDICT)
        elif kind == "progress" and self._told[-1:] != [element.progress.text]:
            self._told.append(element.progress.text)

    def _start_clock(self, fragment: str, interval: float) -> None:
        if fragment in self._clocks and self._clocks[fragment][1] == interval:
            return
        self._stop_clock(fragment)
        self._clocks[fragment] = asyncio.create_task(self._tick(fragment, interval)), interval

    async def _tick(self, fragment: str, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            await self._send(fragment=fragment)

    def _stop_clock(self, fragment: str) -> None:
        if fragment in self._clocks:
            self._clocks.pop(fragment)[0].cancel()

    def _stop_clocks(self) -> None:
        for fragment in list(self._clocks):
            self._stop_clock(fragment)


async def _together(port: int, queries: Sequence[dict[str, str]], patience: float) -> list[Visit]:
    ready = asyncio.Barrier(len(queries))
    visits = (Visitor(port, query).visit(ready, patience) for query in queries)
    return list(await asyncio.gather(*visits))


def release_together(
    port: int, queries: Sequence[dict[str, str]], patience: float = 300.0
) -> list[Visit]:
    """Send one visitor per address: all open their page, then all press Release at once."""
    return asyncio.run(_together(port, queries, patience))
