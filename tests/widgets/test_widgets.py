"""The pieces of a notebook, moved without a browser: what they show follows the controls."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import privgmm
from privgmm import widgets
from privgmm.errors import InvalidInput
from privgmm.ledger.memory import MemoryLedger
from privgmm.records import make_receipt
from privgmm.teaching import neighbours
from privgmm.teaching.background import WorkerPool
from privgmm.widgets import explorer, guesser, looker, pair_mover, spending, uploader
from privgmm.widgets.live import words_html


@pytest.fixture(autouse=True)
def nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other stops are asked for, and never come."""
    for module in (explorer, looker):
        monkeypatch.setattr(module, "_AHEAD", WorkerPool(workers=0, waiting=100))


def line_of(figure: Any, name: str) -> Any:
    """Return the first line of that name."""
    return next(trace for trace in figure.shown.data if trace.name == name)


def explored() -> Any:
    return explorer._Explorer(explorer._rows_of("well_separated", 2, 2, 3_000, 1), 1.0, "sketch", 1)


def test_epsilon_moves_the_release_and_nothing_else_and_spends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spends: list[object] = []
    intend = MemoryLedger.intend

    def noting(self: MemoryLedger, *args: Any, **more: Any) -> Any:
        spends.append(self)
        return intend(self, *args, **more)

    monkeypatch.setattr(MemoryLedger, "intend", noting)
    piece = explored()
    figure = piece._figure
    before = line_of(figure, "Private release").x.copy()
    plain = line_of(figure, "Non-private fit").x.copy()
    window = figure.shown.layout.xaxis.range
    band = piece._band.value
    assert "Useful" in band
    assert "Attacker" in band
    piece.epsilon.value = 0.5
    after = line_of(figure, "Private release").x
    assert np.nanmax(np.abs(after - before)) > 1e-3
    np.testing.assert_array_equal(line_of(figure, "Non-private fit").x, plain)
    assert figure.shown.layout.xaxis.range == window, "an axis that follows hides the motion"
    assert piece._band.value != band
    piece.epsilon.value = 1.0
    np.testing.assert_array_equal(line_of(figure, "Private release").x, before)
    # each rehearsal has a ledger of its own, and no ledger has two
    assert len(spends) == len({id(one) for one in spends}) == 2


def test_a_release_that_is_not_expected_says_so_and_shows_no_ellipse() -> None:
    piece = explored()
    piece.epsilon.value = 0.1
    assert "No plan is expected to release" in piece._note.value
    assert "Private release" not in {trace.name for trace in piece._figure.shown.data}
    piece.epsilon.value = 1.0
    assert "Private release" in {trace.name for trace in piece._figure.shown.data}


def test_a_setting_that_contradicts_another_is_named_as_the_slider_is() -> None:
    piece = explored()
    piece.t.value = 50
    assert "t = 50 is too few" in piece._note.value
    assert "n_blocks" not in piece._note.value


def test_explore_takes_samples_and_names_what_it_takes() -> None:
    piece = explorer._Explorer(explorer._rows_of("old_faithful", 2, 2, 9, 1), 8.0, "sketch", 1)
    assert piece.n.disabled
    assert "272 rows" in {trace.name for trace in piece._figure.shown.data}
    with pytest.raises(InvalidInput, match=r"must be one of well_separated.*old_faithful"):
        widgets.explore("geysers")


def released(epsilon: float = 8) -> privgmm.Release:
    found = privgmm.release(
        privgmm.load_sample("old_faithful").rows, epsilon=epsilon, n_components=2, rng=1
    ).result
    assert isinstance(found, privgmm.Release)
    return found


def test_looks_at_a_release_are_the_librarys_fits(tmp_path: Path) -> None:
    found = released()
    piece = looker._Looker(found)
    assert "As it was released" in piece._say.value
    assert piece._shown.mixture == found.mixture
    before = line_of(piece._figure, "mixture").x.copy()
    piece.k.value = 1
    assert found.sketch is not None
    fit = found.sketch.fit(1)
    assert piece._shown.mixture == fit.mixture
    assert fit.verdict in piece._say.value
    after = line_of(piece._figure, "mixture").x
    assert after.shape != before.shape or np.nanmax(np.abs(after - before)) > 0
    piece.k.value, piece.kind.value = 2, "tied"
    assert piece._shown.mixture == found.sketch.fit(2, "tied").mixture
    path = found.save(tmp_path / "receipt.json")
    assert isinstance(widgets.look_again(path), type(piece.board))


def test_a_known_value_shows_the_conditional_mixture() -> None:
    piece = looker._Looker(released())
    piece.known.value = 0
    value = piece.value.value
    then = piece._shown.mixture.condition({0: value})
    for weight in then.weights:
        assert f"{weight:.0%}" in piece._then.value
    piece.value.index = 2
    assert piece._shown.mixture.condition({0: piece.value.value}) != then
    piece.known.value = looker._NONE
    assert piece._then.value == ""
    assert not piece._place.children


def test_what_has_no_sketch_cannot_be_looked_at_again() -> None:
    rows = np.random.default_rng(0).standard_cauchy((700, 1)) ** 5
    refused = privgmm.release(rows, epsilon=0.9, n_components=1, rng=3).result
    assert isinstance(refused, privgmm.Refusal)
    with pytest.raises(InvalidInput, match="receipt of a refusal"):
        widgets.look_again(make_receipt(refused))
    with pytest.raises(InvalidInput, match="no sketch"):
        widgets.look_again(dataclasses.replace(released(), sketch=None))


def test_theorem_states_the_exact_distance_of_the_pair_on_the_sliders() -> None:
    piece = pair_mover._Theorem()
    piece.numbers[1]["x"].value = 1.4
    pair = piece._pair()
    known = privgmm.theorem_1_8(*pair)
    star = line_of(piece._band, "your pair")
    assert star.x[0] == float(known.delta)
    assert star.y[0] == float(known.tv)
    assert float(known.lower) <= star.y[0] <= float(known.upper)
    piece.preset.value = "Least TV"
    assert "0.2251" in piece._about.value
    assert piece.numbers[0]["along"].value == 1.0


def test_the_game_asks_for_a_prediction_before_a_guess() -> None:
    piece = guesser._Guesser(1.0, "outlier")
    assert [one.description for one in piece._buttons.children] == ["About 5", "About 7", "All 10"]
    piece._predict("about 5")
    assert [one.description for one in piece._buttons.children][:2] == ["It was A", "It was B"]
    piece._guess(said_a=True)
    assert "right so far: " in piece._say.value
    assert piece._match.you.rounds == 1
    piece._play_best()
    assert piece._match.best.rounds == 100_000
    low, _ = piece._match.best.interval()
    assert low < neighbours.plan(1.0).ceiling


def test_an_account_grows_with_its_ledger() -> None:
    ledger = MemoryLedger(cap=privgmm.Budget(20, 1e-5))
    shown = widgets.account(ledger)
    assert "nothing was spent" in shown._say.value
    privgmm.release(
        privgmm.load_sample("old_faithful").rows, epsilon=8, n_components=2, rng=1, ledger=ledger
    )
    shown.refresh()
    assert "1 spend" in shown._say.value
    assert list(line_of(shown._figure, "Together").x) == [1]


def test_ones_own_table_is_released_once_per_press(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["age,income,town", *(f"{30 + i % 40},{20 + (7 * i) % 31},x" for i in range(3_000))]
    ledger = MemoryLedger()
    piece = uploader._Table(ledger)
    assert piece.go.disabled
    piece._data = "\n".join(lines).encode()
    piece.columns.options = ("age", "income")
    piece.columns.value = ("age", "income")
    piece.k.value = 1
    assert not piece.go.disabled
    assert not ledger.entries
    piece._release()
    assert len(ledger.entries) == 1
    assert not ledger.entries[0].seeded
    assert len(piece._found.children) == 1
    piece.columns.value = ()
    piece.file.value = ()
    assert len(ledger.entries) == 1


def test_every_piece_leaves_something_where_no_kernel_runs() -> None:
    for piece in (widgets.explore(), widgets.look_again(released()), widgets.theorem()):
        bundle = piece._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in bundle
        assert "<svg" in bundle["text/html"]


def test_only_bold_is_marked_in_words() -> None:
    assert words_html(r"**a** <b> \*c\* d_e") == "<b>a</b> &lt;b&gt; *c* d_e"


def test_what_is_missing_is_named_with_the_extra() -> None:
    code = (
        "import sys; sys.modules['ipywidgets'] = None\n"
        "import privgmm\n"
        "privgmm.release\n"
        "try:\n    privgmm.widgets\n"
        "except ImportError as problem:\n    print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'privgmm[notebook]'" in done.stdout


def test_a_closed_account_hears_of_no_more_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    shell: Any = cast(Any, InteractiveShell)()
    monkeypatch.setattr(spending, "_shell", lambda: shell)
    ledger = MemoryLedger()
    shown = widgets.account(ledger)
    heard = shell.events.callbacks["post_run_cell"]
    before = len(heard)
    table = privgmm.load_sample("old_faithful").rows
    privgmm.release(table, epsilon=8, n_components=2, rng=1, ledger=ledger)
    shell.run_cell("1")
    assert "1 spend" in shown._say.value
    shown.close()
    assert len(heard) == before - 1
    privgmm.release(table, epsilon=8, n_components=2, rng=2, ledger=ledger)
    shell.run_cell("1")
    assert "1 spend" in shown._say.value
