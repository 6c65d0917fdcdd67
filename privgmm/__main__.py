"""``python -m privgmm``: the command line."""

from __future__ import annotations

from privgmm.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
