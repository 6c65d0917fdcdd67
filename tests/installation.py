"""Install the package as users do: a wheel in an environment of its own, without the checkout.

To install the dependencies afresh would take minutes. Instead the environment sees those of the
running one through links: all but the package itself, and, unless asked for, those of the
dashboard.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(sysconfig.get_path("purelib"))
APP_ONLY = ("streamlit", "plotly")


@dataclasses.dataclass(frozen=True)
class Installation:
    """Hold an environment with the wheel in it.

    Parameters
    ----------
    folder : Path
        Of the environment.
    empty : Path
        A folder with nothing in it, where commands run.
    extra : Path
        The dashboard's own dependencies, for those who may see them.
    """

    folder: Path
    empty: Path
    extra: Path

    @property
    def package(self) -> Path:
        """Return the folder of the package."""
        (found,) = self.folder.glob("lib/python*/site-packages/privgmm")
        return found

    def process(self, *command: object, app: bool = False) -> dict[str, Any]:
        """Return arguments of `subprocess` that run something there."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STREAMLIT"))}
        if app:
            kept["PYTHONPATH"] = str(self.extra)
        program, *rest = [str(part) for part in command]
        return {
            "args": [str(self.folder / "bin" / program), *rest],
            "cwd": self.empty,
            "env": {**kept, "HOME": str(self.empty.parent), "OMP_NUM_THREADS": "1"},
        }

    def run(self, *command: object, app: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        return subprocess.run(
            **self.process(*command, app=app), capture_output=True, text=True, timeout=170
        )


def build_wheel(folder: Path) -> Path:
    """Build the wheel from the checkout, without any package index."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=170,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Installation:
    """Make an environment with this wheel."""
    environment, empty = folder / "env", folder / "empty"
    # Streamlit takes itself for its own developers' checkout unless the path says site-packages
    core, extra = folder / "core" / "site-packages", folder / "extra" / "site-packages"
    for part in (empty, core, extra):
        part.mkdir(parents=True)
    venv.create(environment, with_pip=True)
    subprocess.run(
        [
            *(str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"),
            *("--disable-pip-version-check", "--no-index", "--no-deps", str(wheel)),
        ],
        check=True,
        capture_output=True,
        timeout=170,
    )
    for entry in SITE.iterdir():
        if "privgmm" not in entry.name and entry.suffix != ".pth":
            place = extra if entry.name.startswith(APP_ONLY) else core
            (place / entry.name).symlink_to(entry)
    done = Installation(environment, empty, extra)
    (done.package.parent / "dependencies.pth").write_text(f"{core}\n")
    _lend_kernels(done.package)
    return done


def _lend_kernels(package: Path) -> None:
    """Copy machine code compiled from the same sources: compiling takes 15 s and is not tested.

    Numba knows a source by its time and size.
    """
    for source in (ROOT / "privgmm").rglob("*.py"):
        target = package / source.relative_to(ROOT / "privgmm")
        stamp = source.stat()
        os.utime(target, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    for pattern in ("*.nbi", "*.nbc"):
        for compiled in (ROOT / "privgmm").rglob(pattern):
            target = package / compiled.relative_to(ROOT / "privgmm")
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(compiled, target)
