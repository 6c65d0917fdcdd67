"""No module of the package takes names from the root, which would reach upwards unseen.

The root loads its names when they are first asked for, so import-linter finds no import behind
them. Within the package each name is imported from its own module.
"""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import FILES, place, tree

VERSION = "__version__"


def from_the_root(module: ast.Module) -> list[ast.Import | ast.ImportFrom | ast.Attribute]:
    """Find what asks the root for anything but its version or a room."""
    found: list[ast.Import | ast.ImportFrom | ast.Attribute] = []
    for node in ast.walk(module):
        match node:
            case ast.ImportFrom(module="privgmm", names=names):
                asked = [alias.name for alias in names]
            case ast.Attribute(value=ast.Name(id="privgmm"), attr=attr):
                asked = [attr]
            case _:
                continue
        if any(name != VERSION and f"privgmm.{name}" not in FILES for name in asked):
            found.append(node)
    return found


def test_no_module_takes_names_from_the_root() -> None:
    offenders = [place(name, node) for name in FILES for node in from_the_root(tree(name))]
    assert offenders == [], "import the name from its own module"


@pytest.mark.parametrize(
    "source",
    [
        "from privgmm import Mixture",
        "from privgmm import __version__, release",
        "def later():\n    from privgmm import Plan as P",
        "import privgmm\n\nmixture = privgmm.Mixture",
    ],
)
def test_planted_imports_are_found(source: str) -> None:
    assert len(from_the_root(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from privgmm import __version__",
        "from privgmm import audit, methods",
        "from privgmm.mixture import Mixture",
        "import privgmm\n\nversion = privgmm.__version__",
    ],
)
def test_other_imports_are_left_alone(source: str) -> None:
    assert from_the_root(ast.parse(source)) == []
