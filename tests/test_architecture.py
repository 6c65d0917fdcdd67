"""The shape of the package: rooms with a docstring, declared names, pinned public names.

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
from typing import Any

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
    assert {"privgmm", "privgmm.releases", "privgmm.stages.agreement.paper_space"} <= FILES.keys()


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
    """Count lines that are neither blank nor a comment."""
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
    """Check that a package has a docstring only, or a stub that lists its names."""
    file = FILES[module]
    return file.name == "__init__.py" and (
        len(tree(module).body) == 1 or file.with_suffix(".pyi").exists()
    )


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
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "__all__":
            return list(ast.literal_eval(node.value or ast.List([])))
    return None


def _defined_names(module: str) -> set[str]:
    names: set[str] = set()
    for node in tree(module).body:
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
    """Generators are passed in: no code draws from NumPy's global one or from ``random``."""
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


def test_imports_are_absolute() -> None:
    relative = [
        place(module, node)
        for module in FILES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


# ------------------------------------------------------------------------- public names

ROOT_NAMES = [
    "Budget",
    "EM",
    "InvalidInput",
    "MemoryLedger",
    "Mixture",
    "Outcome",
    "Plan",
    "PlanRequest",
    "PrivacyWarning",
    "PrivateGaussianMixture",
    "PrivateSketch",
    "Refusal",
    "Release",
    "ReleaseRefused",
    "SQLiteLedger",
    "best_plan",
    "calibrate",
    "dist_gmm",
    "gaussian_tv",
    "generate",
    "join_sketch",
    "load_sample",
    "load_table",
    "mixture_tv",
    "prepare",
    "random_mixture",
    "read_mixture",
    "read_receipt",
    "release",
    "row_source",
    "theorem_1_8",
    "verify_receipt",
]

IN_ROOMS = {
    "data": "RowSource generate load_sample load_table row_source",
    "distances": "bottleneck_matching dist_comp dist_gmm dist_param gaussian_tv mixture_tv",
    "learners": "EM FromEstimator Learner Moments",
    "ledger": "Ledger MemoryLedger SQLiteLedger",
    "methods": "get names plan_for register unregister",
    "privacy": "DiscreteGaussian RenyiCurve TruncatedLaplace",
    "records": "make_bundle make_receipt read_receipt sketch_of verify_receipt write_receipt",
    "stages": "Agreement PopulousTest Refinement private_populous_estimator",
}
"""What each room promises; it may offer more."""

ROOMS = {name: importlib.import_module(f"privgmm.{name}") for name in IN_ROOMS}


def test_the_root_offers_what_users_type_first_and_no_more() -> None:
    root: Any = privgmm
    assert root.__all__ == ROOT_NAMES
    assert set(ROOT_NAMES) <= set(dir(privgmm))


@pytest.mark.parametrize("room", IN_ROOMS)
def test_rooms_offer_what_they_promise(room: str) -> None:
    offered = ROOMS[room]
    assert set(IN_ROOMS[room].split()) <= set(offered.__all__)
    folder = Path(privgmm.__file__).parent / room
    for name in offered.__all__:
        assert getattr(offered, name) is not None
        # once a module of that name is imported, it would be found in its place
        assert not (folder / f"{name}.py").exists()
        assert not (folder / name).exists()


@pytest.mark.parametrize("module", [privgmm, *ROOMS.values()], ids=lambda m: m.__name__)
def test_public_things_are_documented(module: Any) -> None:
    for name in module.__all__:
        thing = getattr(module, name)
        if callable(thing):
            assert (thing.__doc__ or "").strip(), name
            # and defined where it says, so that it can be found and pickled
            assert hasattr(importlib.import_module(thing.__module__), thing.__name__)


HEAVY = {"numba", "scipy", "pandas", "pyarrow", "sklearn", "opendp", "numpy"}


@pytest.mark.parametrize(
    "line",
    [
        "import privgmm",
        "import privgmm.distances, privgmm.learners, privgmm.methods, privgmm.records",
        "from privgmm.methods import names; names()",
    ],
)
def test_names_are_loaded_when_they_are_asked_for(line: str) -> None:
    """`import privgmm` waits for no library, nor does a list of methods."""
    code = f"{line}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert HEAVY & set(done.stdout.split()) == set()


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
