"""The site builds without a warning, leads where it says, and fetches nothing from elsewhere."""

from __future__ import annotations

import html
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

import privgmm
from docs import site_pages
from privgmm import baselines
from privgmm.methods.what_if import rows_for
from privgmm.records.receipt import receipt_schema
from tests.docs.names import ROOT

_RESOURCES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class _Page(HTMLParser):
    """The links, names and resources of one built page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.resources: list[str] = []
        self.words: list[str] = []
        # a mark where a name may break does not end a word
        self.feed(text.replace("<wbr>", ""))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if _RESOURCES.get(tag) in given:
            self.resources.append(given[_RESOURCES[tag]])

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def _target(page: Path, link: str) -> tuple[Path, str]:
    """The file and the name in it that a link of a page leads to."""
    parts = urlsplit(link)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return (path / "index.html" if path.is_dir() else path), unquote(parts.fragment)


def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path, pages: dict[Path, _Page]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            target, name = _target(path, link)
            known = pages.get(target)
            if not target.is_file() or (name and known is not None and name not in known.names):
                broken.append((path.relative_to(site).as_posix(), link))
    assert broken == []
    assert sum(len(page.links) for page in pages.values()) > 500


def test_no_page_fetches_anything_from_another_host(site: Path, pages: dict[Path, _Page]) -> None:
    """Scripts, styles, fonts and pictures; a script that could fetch one is not asked to."""
    for path, page in pages.items():
        outside = [one for one in page.resources if urlsplit(one).netloc]
        assert outside == [], path
        # the theme's script fetches a library for such blocks from another host
        assert 'class="mermaid"' not in path.read_text("utf-8"), path
    for path in site.rglob("*.css"):
        fetched = re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", path.read_text("utf-8")
        )
        assert fetched == [], path


def test_a_check_of_hosts_would_notice_one() -> None:
    page = _Page('<script src="https://cdn.example/x.js"></script><img src="a.png">')
    assert [urlsplit(one).netloc for one in page.resources] == ["cdn.example", ""]


def _within(start: Path, clicks: int, pages: dict[Path, _Page]) -> set[Path]:
    """Find the pages that are at most this many clicks away from `start`."""
    reached = seen = {start}
    for _ in range(clicks):
        found = {
            _target(path, link)[0]
            for path in seen
            for link in pages[path].links
            if not urlsplit(link).scheme
        }
        seen = {path for path in found if path in pages} - reached
        reached = reached | seen
    return reached


@pytest.mark.parametrize(
    ("question", "answered"),
    [
        ("How many rows do I need?", "610"),
        ("It refused, what now?", "Five ways on"),
        ("Is this safe to publish?", "Check before you publish"),
    ],
)
def test_a_newcomer_finds_an_answer_within_two_clicks(
    site: Path, pages: dict[Path, _Page], question: str, answered: str
) -> None:
    near = _within(site / "index.html", 2, pages)
    about = [
        path for path in near if re.search(rf"<h1[^>]*>{re.escape(question)}", path.read_text())
    ]
    assert len(about) == 1
    assert answered in pages[about[0]].text
    assert question in pages[site / "index.html"].text


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, _Page]) -> None:
    written = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).with_suffix(".md") for path in pages if path.name != "404.html"}
    assert written == built
    assert _within(site / "index.html", 2, pages) >= {
        path for path in pages if path.name != "404.html"
    }


_SEARCH = """
import json, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=sys.argv[1], args=["--no-sandbox", "--disable-dev-shm-usage"]
    )
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(sys.argv[2])
    page.locator(".md-search__input").click()
    page.get_by_text("Type to start searching").wait_for(timeout=60_000)
    page.keyboard.type("refused", delay=50)
    page.locator(".md-search-result__item").first.wait_for(timeout=60_000)
    found = page.locator(".md-search-result__item h1").all_inner_texts()
    print(json.dumps({"found": found, "asked": asked}))
    browser.close()
"""


@pytest.mark.browser
def test_search_works_in_pages_opened_from_a_disk(chromium: str, site: Path) -> None:
    """As the README says to open them; in a process of its own, next to other browser tests."""
    done = subprocess.run(
        [sys.executable, "-c", _SEARCH, chromium, (site / "index.html").as_uri()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "It refused, what now?" in seen["found"]
    assert {urlsplit(url).scheme for url in seen["asked"]} <= {"file", "data", "blob", "about"}


def test_names_in_tables_break_between_words_only() -> None:
    cell = "<td><code>tests/paper/test_x.py</code> a.b</td><p><code>x.y</code></p>"
    assert site_pages.on_page_content(cell) == (
        "<td><code>tests/<wbr>paper/<wbr>test_<wbr>x.<wbr>py</code> a.b</td><p><code>x.y</code></p>"
    )


# ------------------------------------------------------------------------------- reference


ROOMS = (
    "privgmm",
    "privgmm.baselines",
    "privgmm.data",
    "privgmm.distances",
    "privgmm.errors",
    "privgmm.learners",
    "privgmm.ledger",
    "privgmm.methods",
    "privgmm.privacy",
    "privgmm.records",
    "privgmm.stages",
    "privgmm.widgets",
)
"""Where users import from."""


def _places(room: str, name: str) -> set[str]:
    """List the names under which an entry of the reference may explain a name."""
    found = getattr(importlib.import_module(room), name)
    if isinstance(found, ModuleType):
        return {found.__name__}
    home = f"{getattr(found, '__module__', room)}.{name}"
    # a function is called as its module, whose entry would be another one
    is_module = importlib.util.find_spec(f"privgmm.{name}") is not None
    return {home} if is_module else {home, f"{room}.{name}", f"privgmm.{name}"}


def test_every_public_name_is_in_the_reference(pages: dict[Path, _Page]) -> None:
    named = {
        name
        for path, page in pages.items()
        if path.parent.name == "reference"
        for name in page.names
    }
    missing = [
        f"{room}.{name}"
        for room in ROOMS
        for name in getattr(importlib.import_module(room), "__all__", ())
        if not _places(room, name) & named
    ]
    assert missing == []
    # a module would bring everything in it, once more
    assert "privgmm.releases.Refusal" not in named


def test_names_of_a_room_are_listed_but_for_those_that_a_page_names() -> None:
    listed = site_pages.entries("privgmm.distances").splitlines()
    assert "::: privgmm.distances.dist_comp" in listed
    assert "::: privgmm.distances.dist_gmm" not in listed
    # on the page about sketches
    assert "::: privgmm.stages.SketchFit" not in site_pages.entries("privgmm.stages").splitlines()


def test_the_table_of_baselines_has_their_own_sentences() -> None:
    text = (ROOT / "docs" / "reference" / "baselines.md").read_text("utf-8")
    for one in baselines.all_baselines():
        assert f"| `{one.name}` | {one.sentence} | {one.needs.words} |" in text


def test_types_in_docstrings_are_shown_as_they_stand(pages: dict[Path, _Page]) -> None:
    """Words and shapes, not the Python expressions that they happen to be."""
    text = " ".join(page.text for path, page in pages.items() if path.parent.name == "reference")
    assert "array - like" not in text
    assert "array\u2011like (k, d, d)" in text.replace("\u00a0", " ")


def test_the_command_line_is_what_the_commands_print(site: Path, pages: dict[Path, _Page]) -> None:
    names = site_pages.commands()
    assert {"release", "plan", "verify", "ledger", "completion"} <= set(names)
    text = html.unescape(
        re.sub(r"<[^>]+>", "", (site / "reference" / "cli.html").read_text("utf-8"))
    )
    for name in names:
        assert f"privgmm-{name}" in pages[site / "reference" / "cli.html"].names
        assert site_pages.help_of(name) in text


def test_every_field_of_a_receipt_is_explained(pages: dict[Path, _Page], site: Path) -> None:
    rows = list(site_pages.schema_rows())
    explained = {path for path, _, _ in rows}
    assert set(receipt_schema()["required"]) <= explained
    assert {"guarantee.epsilon", "plan.method", "reading.rows"} <= explained
    text = pages[site / "reference" / "receipt.html"].text
    assert all(path in text for path in explained)
    kinds = {path: kind for path, kind, _ in rows}
    assert kinds["neighbours.unit"] == "`row` or `person`"
    assert kinds["schema"] == "`privgmm/receipt-3`"


def test_a_drawing_has_a_box_for_each_room_below_all_that_point_to_it() -> None:
    lines = ["flowchart TD", 'a["one"]', 'b["two"]', 'c["three"]', "a --> b", "b --> c", "a --> c"]
    chart = "\n    ".join(lines) + "\n"
    heights = dict(_heights(site_pages.drawn(chart)))
    assert heights["one"] < heights["two"] < heights["three"]


def _heights(picture: str) -> Iterator[tuple[str, float]]:
    for y, label in re.findall(r'<text x="[\d.]+" y="([\d.]+)">(\w+)</text>', picture):
        yield label, float(y)


# -------------------------------------------------------------------------- stated numbers


def test_the_stated_rows_are_those_of_the_planner() -> None:
    """The table of rows for a release, and the sentence below it."""
    text = (ROOT / "docs" / "how-to" / "rows-needed.md").read_text("utf-8")
    columns, rows = (
        re.search(rf"^\| {name} \| (.*) \|$", text, re.MULTILINE) for name in ("columns", "rows")
    )
    assert columns is not None
    assert rows is not None
    for d, n in zip(columns.group(1).split(" | "), rows.group(1).split(" | "), strict=True):
        asked = privgmm.PlanRequest(n_components=3, n_features=int(d), method="sketch")
        assert rows_for(asked) == int(n.replace(",", ""))
    for n, epsilon in re.findall(r"([\d,]+) at ε = ([\d.]+)[,.]", text):
        asked = privgmm.PlanRequest(
            n_components=2, n_features=2, epsilon=float(epsilon), method="sketch"
        )
        assert rows_for(asked) == int(n.replace(",", ""))
