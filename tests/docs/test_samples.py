"""Every Python sample in the pages runs, page by page, as a reader would type it."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from privgmm import errors
from tests.docs.names import ROOT

SAMPLE = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "docs").rglob("*.md")
    if SAMPLE.search(path.read_text("utf-8"))
)


def samples(page: str) -> list[str]:
    """List the samples of a page, in order; those in solutions too, which are indented."""
    text = (ROOT / page).read_text("utf-8")
    return [textwrap.dedent(code) for _, code in SAMPLE.findall(text)]


def run(page: str) -> tuple[dict[str, Any], str]:
    """Run the samples of a page; return the names they define and what they print."""
    names: dict[str, Any] = {"__name__": "page"}
    said = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(said):
        # readers are warned where a lesson spends twice, which is intended
        warnings.simplefilter("ignore", errors.PrivacyWarning)
        for number, code in enumerate(samples(page), start=1):
            exec(compile(code, f"{page}, sample {number}", "exec"), names)
    return names, said.getvalue()


def test_no_sample_is_overlooked() -> None:
    assert len(PAGES) > 10
    for page in PAGES:
        assert len(samples(page)) == (ROOT / page).read_text("utf-8").count("```python\n")


@pytest.mark.parametrize("page", PAGES)
def test_the_samples_of_a_page_run(page: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        names, said = run(page)
    check = CHECKS.get(page)
    if check is not None:
        check(names, said)


def _first_release(names: dict[str, Any], said: str) -> None:
    """The lesson's points hold for its own numbers."""
    assert names["result"].released
    # as the page says: two seasons that are not two Gaussians, and a sketch for other fits
    winter, summer = sorted(names["result"].mixture.means[:, 0])
    assert winter < 50 < 60 < summer
    assert names["result"].misfit > max(5, names["fit"].misfit)
    assert names["plan"] == names["outcome"].plan
    assert names["private_error"] < 0.05
    assert names["stopped"] is not None
    assert not names["refused"].released
    assert "genuine: True  forged: False" in said
    assert names["dist_gmm"](names["back"], names["data"].truth) < 0.05


def _look_again(names: dict[str, Any], said: str) -> None:
    found = names["found"]
    assert found.mixture.n_components == 2
    assert names["six"].criterion > found.sketch.fit(2).criterion
    scores = found.mixture.outlier_scores(names["rows"])
    assert scores.argmax() == 2
    assert "explains the rows to within the noise" in said


def _flights(names: dict[str, Any], said: str) -> None:
    assert names["found"].released
    assert names["found"].misfit > 5
    assert names["private_gain"] > 0
    assert "intact: True  valid: False" in said
    assert 100 < names["minutes"] < 200


def _after_a_refusal(names: dict[str, Any], said: str) -> None:
    assert not names["result"].released
    assert not names["model"].released_
    assert names["model"].budget_ is None
    assert "no plan is expected" in said


def _publish(names: dict[str, Any], said: str) -> None:
    assert names["check"].intact
    assert "ok: True" in said


def _choose_k(names: dict[str, Any], said: str) -> None:
    assert names["model"].n_components_ == 2
    assert names["three"].n_components == 3


def _grid_search(names: dict[str, Any], said: str) -> None:
    assert names["best"].n_components == 2
    assert len(names["tried"]) == 3


def _persons(names: dict[str, Any], said: str) -> None:
    assert names["result"].unit == "person"
    assert names["model"].outcome_.result.unit == "person"


def _rows_needed(names: dict[str, Any], said: str) -> None:
    assert "(610 for any answer)" in said


def _keeping_account(names: dict[str, Any], said: str) -> None:
    assert names["model"].released_
    assert names["chosen"].n_components_ == 2
    assert names["tied"].covariance_type == "tied"
    assert len(names["ledger"].entries) == 2
    assert "1 spend" in said


def _learners(names: dict[str, Any], said: str) -> None:
    assert names["moments"].curator.fits.ok.all()


def _baselines(names: dict[str, Any], said: str) -> None:
    """Wrong bounds do harm, and cost no less."""
    right, wide = re.findall(r"error ([\d.]+) at (.*)", said)
    assert float(right[0]) < 0.1 < float(wide[0])
    assert right[1] == wide[1]


CHECKS = {
    "docs/reference/baselines.md": _baselines,
    "docs/reference/learners.md": _learners,
    "docs/tutorial/first-release.md": _first_release,
    "docs/tutorial/look-again.md": _look_again,
    "docs/tutorial/flights.md": _flights,
    "docs/how-to/after-a-refusal.md": _after_a_refusal,
    "docs/how-to/publish.md": _publish,
    "docs/how-to/choose-k.md": _choose_k,
    "docs/how-to/grid-search.md": _grid_search,
    "docs/how-to/persons.md": _persons,
    "docs/how-to/rows-needed.md": _rows_needed,
    "docs/keeping-account.md": _keeping_account,
}


def test_every_check_belongs_to_a_page() -> None:
    assert CHECKS.keys() <= set(PAGES)


def test_every_warning_is_explained() -> None:
    text = (ROOT / "docs" / "keeping-account.md").read_text("utf-8")
    for name in ("RepeatedSpend", "ScaledRows", "SeededRelease", "WeakBudget", "PrivacyWarning"):
        assert hasattr(errors, name)
        assert f"`{name}`" in text
