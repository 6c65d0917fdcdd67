"""The package's source files by module name, and their syntax trees."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "privgmm"


def module_name(path: Path) -> str:
    """The dotted name by which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def tree(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def place(module: str, node: ast.expr | ast.stmt) -> str:
    """Where a piece of code stands, as ``file:line``."""
    return f"{FILES[module].relative_to(ROOT)}:{node.lineno}"
