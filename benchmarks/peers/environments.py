"""Make a virtual environment for every other tool, when it is first needed."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["ENVIRONMENTS", "Environment", "Unavailable", "last_line"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_INSTALL_SECONDS = 1800
_GRACE = 5
"""Choice: seconds after the limit when a process that ignores its signal is killed."""


class Unavailable(Exception):
    """An environment could not be made, or a run in it failed; the reason in one line."""


def last_line(text: str) -> str:
    """Return the last line of a traceback or of pip, cut to a length that fits into a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it ended without a word"


@dataclasses.dataclass(frozen=True)
class Environment:
    """Environment in which another tool is installed and run.

    Parameters
    ----------
    name : str
        Of its folder and of the file in ``requirements/``.
    distribution : str
        Whose version is stated.
    """

    name: str
    distribution: str

    @property
    def requirements(self) -> Path:
        """The file of pinned versions."""
        return _HERE / "requirements" / f"{self.name}.txt"

    @property
    def pinned(self) -> dict[str, str]:
        """Name and version of everything that the file pins."""
        found = re.findall(
            r"^([\w-]+)(?:\[\w+\])?==(\S+)$", self.requirements.read_text("utf-8"), re.MULTILINE
        )
        return dict(found)

    @property
    def folder(self) -> Path:
        """Folder of its environment; not in version control."""
        return _HERE / ".venvs" / self.name

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.folder / "bin" / "python"

    def prepare(self) -> None:
        """Make the environment, unless it exists with these requirements.

        Raises `Unavailable` if something cannot be installed.
        """
        stamp = self.folder / "requirements.txt"
        wanted = self.requirements.read_text("utf-8")
        if stamp.is_file() and stamp.read_text("utf-8") == wanted:
            return
        self._call([sys.executable, "-m", "venv", "--clear", str(self.folder)], _INSTALL_SECONDS)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "-r", str(self.requirements)]
        self._call(pip, _INSTALL_SECONDS)
        stamp.write_text(wanted, "utf-8")

    def version(self) -> str:
        """Version of the tool in its environment."""
        code = f"from importlib.metadata import version; print(version({self.distribution!r}))"
        return self._call([str(self.python), "-c", code], 60).strip()

    def run(self, worker: str, job: Path, seconds: int) -> None:
        """Run a module of `workers`; raise `Unavailable` with the reason if it fails."""
        module = f"benchmarks.peers.workers.{worker}"
        self._call([str(self.python), "-m", module, str(job)], seconds)

    def _call(self, command: list[str], seconds: int) -> str:
        """Run a command in its environment, for at most these seconds of processor time.

        Time on the clock does not count: a busy or paused machine is no fault of the tool.
        """
        done = subprocess.run(
            command,
            cwd=_ROOT,
            # one thread: tools are compared by what they learn, beside other work
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            preexec_fn=functools.partial(
                resource.setrlimit, resource.RLIMIT_CPU, (seconds, seconds + _GRACE)
            ),
            check=False,
        )
        if done.returncode == -signal.SIGXCPU:
            raise Unavailable(f"not done after {seconds} s of processor time")
        if done.returncode != 0:
            raise Unavailable(last_line(done.stderr))
        return done.stdout


ENVIRONMENTS = {
    one.name: one
    for one in (
        Environment("dpmm", "dpmm"),
        Environment("smartnoise", "smartnoise-synth"),
        Environment("opendp", "opendp"),
        Environment("diffprivlib", "diffprivlib"),
        Environment("pycle", "pycle"),
    )
}
