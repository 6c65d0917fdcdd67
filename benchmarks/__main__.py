"""Run every benchmark: ``python -m benchmarks [name ...]``.

Each compares, within one run, with what a user would use instead, and prints ratios.
"""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "em",
    "learners",
    "distances",
    "release",
    "real_data",
    "sketch",
    "wide",
    "scale",
    "dashboard",
)


def main() -> None:
    chosen = [name for name in sys.argv[1:] if not name.startswith("-")] or list(NAMES)
    for name in chosen:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}: choose from {', '.join(NAMES)}")
        print(f"== {name} ==", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
