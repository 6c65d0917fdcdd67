"""The shape of the package: rooms that explain themselves, honest modules, pinned public names.

Who may import whom is checked by the contracts in ``pyproject.toml``, which ``make lint`` runs.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import privgmm
from docs import import_graph
from tests.architecture.sources import FILES, PACKAGE, ROOT, place, tree

# ------------------------------------------------------------------------------- layout

MOST_ROOT_MODULES = 12
MOST_PAGE_LINES = 5
SHORTEST_ROOM_DOCSTRING = 60
TESTS_OF_NO_ROOM = {"architecture", "browser", "docs", "paper"}


def test_the_walk_sees_the_package() -> None:
    assert {"privgmm", "privgmm.release", "privgmm.stages.agreement.paper_space"} <= FILES.keys()


def test_the_root_holds_a_dozen_modules_at_most() -> None:
    names = sorted(path.stem for path in PACKAGE.glob("*.py"))
    assert len(names) <= MOST_ROOT_MODULES, f"find a room for one of {names}"


def test_every_room_explains_itself() -> None:
    texts = {
        folder.relative_to(ROOT): ast.get_docstring(tree(".".join(folder.relative_to(ROOT).parts)))
        for folder in {path.parent for path in FILES.values()}
    }
    short = {
        str(folder) for folder, text in texts.items() if len(text or "") < SHORTEST_ROOM_DOCSTRING
    }
    assert short == set(), "say in the docstring of __init__.py what the room is for"


def test_pages_only_call_the_dashboard() -> None:
    pages = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py"))]
    assert len(pages) > 1
    long = [str(page.relative_to(ROOT)) for page in pages if _code_lines(page) > MOST_PAGE_LINES]
    assert long == []


def _code_lines(path: Path) -> int:
    """Lines that are neither blank nor a comment."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def test_tests_lie_in_the_rooms_of_what_they_test() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    strangers = {
        str(folder)
        for folder in folders
        if not (PACKAGE / folder).is_dir() and folder.parts[0] not in TESTS_OF_NO_ROOM
    }
    assert strangers == set()


# ------------------------------------------------------------------------------ modules


def test_every_module_says_what_it_is() -> None:
    first_lines = {
        module: (ast.get_docstring(tree(module)) or "").split("\n")[0] for module in FILES
    }
    silent = [module for module, line in first_lines.items() if len(line) <= 10]
    assert silent == []


def test_every_module_names_what_is_public() -> None:
    offenders = [
        f"{module}: {complaint}"
        for module in FILES
        if not _is_only_a_docstring(module)
        for complaint in _complaints_about_public_names(module)
    ]
    assert offenders == []


def _is_only_a_docstring(module: str) -> bool:
    return FILES[module].name == "__init__.py" and len(tree(module).body) == 1


def _complaints_about_public_names(module: str) -> list[str]:
    names = _public_names(module)
    if names is None:
        return ["has no __all__"]
    twice = sorted({name for name in names if names.count(name) > 1})
    missing = sorted(set(names) - _defined_names(module))
    return [f"names {name} twice" for name in twice] + [f"has no {name}" for name in missing]


def _public_names(module: str) -> list[str] | None:
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            return list(ast.literal_eval(node.value))
    return None


def _defined_names(module: str) -> set[str]:
    names: set[str] = set()
    # what a module gives on demand it imports for a type checker only
    lazy = [inner for node in tree(module).body if isinstance(node, ast.If) for inner in node.body]
    for node in [*tree(module).body, *lazy]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {
                part.id
                for target in node.targets
                for part in (target.elts if isinstance(target, ast.Tuple) else [target])
                if isinstance(part, ast.Name)
            }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_no_assert_guards_user_input() -> None:
    """Asserts vanish under ``python -O``; errors have types here."""
    asserts = [
        place(module, node)
        for module in FILES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Assert)
    ]
    assert asserts == []


PASSED_IN = {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "BitGenerator"}


def test_no_hidden_state_of_randomness() -> None:
    """Generators are passed in: nobody draws from NumPy's global one or from ``random``."""
    hidden = [
        place(module, node)
        for module in FILES
        for node in ast.walk(tree(module))
        if _draws_from_a_global_generator(node) and isinstance(node, ast.expr | ast.stmt)
    ]
    assert hidden == []


def _draws_from_a_global_generator(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random")):
            return node.attr not in PASSED_IN
        case ast.Import():
            return any(alias.name == "random" for alias in node.names)
        case ast.ImportFrom(module="random"):
            return True
        case ast.ImportFrom(module="numpy.random"):
            return any(alias.name not in PASSED_IN for alias in node.names)
    return False


@pytest.mark.parametrize(
    ("source", "hidden"),
    [
        ("x = np.random.normal()", True),
        ("from numpy.random import normal", True),
        ("import random", True),
        ("from random import choice", True),
        ("rng = np.random.default_rng(1)", False),
        ("from numpy.random import Generator", False),
        ("x = rng.normal()", False),
    ],
)
def test_hidden_randomness_is_recognised(source: str, hidden: bool) -> None:
    found = [_draws_from_a_global_generator(node) for node in ast.walk(ast.parse(source))]
    assert any(found) is hidden


def test_nobody_imports_relatively() -> None:
    relative = [
        place(module, node)
        for module in FILES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


# ------------------------------------------------------------------------- public names


def rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_public_names_are_sorted_and_there() -> None:
    names = privgmm.__all__
    assert names == sorted(names, key=rank)
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(privgmm, name) is not None


PROMISED = {
    "Budget",
    "CuratorView",
    "EM",
    "Mixture",
    "MixtureBatch",
    "Moments",
    "Outcome",
    "Plan",
    "Refusal",
    "Release",
    "TruncatedLaplace",
    "best_plan",
    "bottleneck_matching",
    "calibrate",
    "dist_comp",
    "dist_gmm",
    "dist_param",
    "gaussian_tv",
    "mixture_tv",
    "private_populous_estimator",
    "release",
    "theorem_1_8",
}


def test_what_the_documentation_promises_is_public() -> None:
    assert set(privgmm.__all__) >= PROMISED


@pytest.mark.parametrize("name", ["FromEstimator", "PrivateGaussianMixture"])
def test_what_needs_scikit_learn_is_public_too(name: str) -> None:
    assert getattr(privgmm, name).__name__ == name
    assert getattr(privgmm, name) is getattr(
        importlib.import_module(privgmm._ON_DEMAND[name]), name
    )
    assert name in privgmm.__all__
    assert name in dir(privgmm)


def test_public_things_are_documented() -> None:
    for name in privgmm.__all__:
        thing = getattr(privgmm, name)
        if callable(thing):
            assert (thing.__doc__ or "").strip(), name
            # and defined where it says, so that it can be found and pickled
            assert hasattr(importlib.import_module(thing.__module__), thing.__name__)


# --------------------------------------------------------------------- documents agree


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert ProjectMetadata(str(ROOT), PluginManager()).version == privgmm.__version__


def test_the_citation_names_that_version() -> None:
    stated = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert stated is not None
    assert stated.group(1) == privgmm.__version__


def test_the_drawn_import_graph_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "import_graph.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_the_drawn_import_graph_leaves_out_what_follows() -> None:
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set[str]()}
    assert import_graph.without_shortcuts(graph) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}
    with pytest.raises(SystemExit, match="import each other"):
        import_graph.without_shortcuts({"a": {"b"}, "b": {"a"}})


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_architecture_page_names_every_room() -> None:
    rooms = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    missing = [name for name in sorted(rooms | modules) if f"`{name}" not in ARCHITECTURE]
    assert missing == []


def test_the_architecture_page_names_files_that_exist() -> None:
    paths = set(re.findall(r"`([\w./]+/(?:[\w.]+\.\w+)?)`", ARCHITECTURE))
    assert len(paths) > 10
    gone = {path for path in paths if not ((PACKAGE / path).exists() or (ROOT / path).exists())}
    assert gone == set()


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_dotted_names_in_the_pages_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"`(privgmm(?:\.\w+)+)", text):
        module, _, attribute = name.rpartition(".")
        assert name in FILES or hasattr(importlib.import_module(module), attribute), name
