"""Run the command line: ``python -m privgmm``."""

from __future__ import annotations

from privgmm.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
