"""Rehearsals: the code of a release on demonstration data, and nothing spent."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.explore import epsilon_curve, other_promises, picture, rehearsal
from privgmm.dashboard.explore.picture import PictureContent
from privgmm.dashboard.explore.rehearsal import CLOUD_SEEDS, PROMISES, prefetched, rehearsal_of
from privgmm.dashboard.shared.answers import PLAN_POOL
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.data.datasets import generate, well_separated
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import SeededRelease
from privgmm.ledger.process import ProcessAccount
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.records.notebook import DEFAULT_LEARNER, FileRows, GeneratedRows, SampleRows
from privgmm.releases import Release, release
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.rehearsal import ALPHA_STOPS, EPSILON_STOPS, RehearsalSetup, load_demo

APP = str(Path(__file__).resolve().parents[2] / "app.py")
ROWS = GeneratedRows("well_separated", 2, 2, 3_000, 1)
SETUP = RehearsalSetup(ROWS, PlanRequest(n_components=2, n_features=2, n_rows=3_000), "em", 7)


def _page(**parameters: str | list[str]) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in ({"kind": "Well separated", "epsilon": "1"} | parameters).items():
        app.query_params[name] = value
    app.run()
    return _settled(app)


def _settled(app: AppTest) -> AppTest:
    for _ in range(2):
        PLAN_POOL.settle()
        rehearsal.ON_SCREEN.settle()
        app.run()
    assert not app.exception
    return app


def _band(app: AppTest) -> str:
    (band,) = [
        part.proto.body for part in app.main.get("html") if "privgmm-band" in part.proto.body
    ]
    return " ".join(re.sub("<[^>]*>", " ", band).split())


def _private(app: AppTest) -> dict[str, str]:
    """The line of the private ellipses in the picture."""
    charts = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    (line,) = [
        trace
        for trace in charts[0]["data"]
        if trace["name"] == "Private release" and trace["mode"] == "lines"
    ]
    return dict(line["x"])


def test_a_rehearsal_is_the_release_itself() -> None:
    """The same plan, rows and seed, through the public function: the same mixture, bit for bit."""
    found = rehearsal_of(SETUP).result(120)
    with pytest.warns(SeededRelease):
        outcome = release(load_demo(ROWS).rows, plan_for(SETUP.request).plan, rng=SETUP.seed)
    assert isinstance(outcome.result, Release)
    assert found.private == outcome.result.mixture
    assert found.nonprivate == outcome.curator.nonprivate()
    truth = load_demo(ROWS).truth
    assert truth is not None
    assert found.error == dist_gmm(outcome.result.mixture, truth)
    assert found.plan == outcome.result.plan


def test_nothing_is_counted_as_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[object] = []
    monkeypatch.setattr(ProcessAccount, "charge", lambda *said: charged.append(said))
    assert rehearsal_of(SETUP.seeded(11)).result(120).released
    assert not charged


@pytest.fixture
def prefetching(nothing_ahead: None, monkeypatch: pytest.MonkeyPatch) -> WorkerPool:
    """Other promises are worked out too, and kept with what is on screen."""
    pool = WorkerPool(waiting=64, behind=[rehearsal.ON_SCREEN], cache=rehearsal.ON_SCREEN)
    monkeypatch.setattr(rehearsal, "PREFETCH", pool)
    return pool


@pytest.mark.usefixtures("prefetching")
def test_equal_rehearsals_are_made_once() -> None:
    setup = SETUP.seeded(12)
    (ahead,) = prefetched([setup])
    first = ahead.result(120)
    assert rehearsal_of(dataclasses.replace(setup)).result(120) is first


@pytest.mark.usefixtures("prefetching")
def test_the_pictures_of_equal_rehearsals_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that opens the same page makes its figures once; no uploaded rows are kept."""
    made: list[str] = []
    for module, name in (
        (picture, "mixtures_figure"),
        (other_promises, "promises_figure"),
    ):
        real = getattr(module, name)

        def counted(*rows: Any, name: str = name, real: Any = real, **said: Any) -> Any:
            made.append(name)
            return real(*rows, **said)

        monkeypatch.setattr(module, name, counted)
    for shared in (
        picture._shared_figure,
        other_promises._shared_promises,
    ):
        shared.cache_clear()
    first = _page(data_seed="5")
    rehearsal.PREFETCH.settle()
    first.run()
    before = len(made)
    assert {"mixtures_figure", "promises_figure"} == set(made)
    second = _page(data_seed="5")
    assert len(made) == before
    assert [chart.proto.spec for chart in second.get("plotly_chart")] == [
        chart.proto.spec for chart in first.get("plotly_chart")
    ]
    kept = picture._shared_figure.cache_info().currsize
    own = PictureContent(generate(well_separated(rng=3), 500, rng=4))
    picture._draw(own, (0, 1))
    assert made[before:] == ["mixtures_figure"]
    assert picture._shared_figure.cache_info().currsize == kept


def test_only_demonstration_data_is_rehearsed() -> None:
    sample, data = SampleRows("old_faithful"), load_demo(ROWS)
    assert ChosenData(data, ROWS).demo is ROWS
    assert ChosenData(sample.load(), sample).demo is sample
    assert ChosenData(data, FileRows("people.csv", ("a",)), "digest").demo is None


def test_where_there_is_no_plan_the_fit_without_privacy_is_left() -> None:
    few = dataclasses.replace(ROWS, n_rows=1_000)
    request = SETUP.request.but(method="lifted", n_rows=1_000)
    found = rehearsal_of(RehearsalSetup(few, request, "em", 0)).result(120)
    assert not found.released
    assert "No plan is expected to release" in found.problem
    assert found.nonprivate is not None
    assert found.plan is None


def test_the_first_screen_shows_three_mixtures_and_has_spent_nothing() -> None:
    app = _page()
    names = {trace["name"] for trace in json.loads(app.get("plotly_chart")[0].proto.spec)["data"]}
    assert {"True mixture", "Non-private fit", "Private release"} <= names
    assert _band(app).startswith("Useful Rehearsal: nothing spent")
    assert "explore_shown" not in app.session_state


@pytest.mark.parametrize(("widget", "value"), [("epsilon", 0.5), ("n", 5_000), ("delta", 1e-4)])
def test_a_slider_moves_the_private_ellipses_and_spends_nothing(widget: str, value: float) -> None:
    app = _page()
    before = _private(app)
    app.select_slider(key=widget).set_value(value).run()
    assert _private(_settled(app)) != before
    assert all(not account.entries for account in app.session_state["explore_ledgers"].values())


def test_blocks_move_them_too() -> None:
    app = _page(
        kind="Choose the separation…",
        separation="12",
        n="30,000",
        method="Lifted",
        epsilon="8",
        t="200",
    )
    before = _private(app)
    app.number_input(key="t").set_value(300).run()
    assert _private(_settled(app)) != before


def test_alpha_moves_the_verdict_and_not_the_release() -> None:
    app = _page()
    before = _private(app)
    assert _band(app).startswith("Useful Rehearsal")
    app.select_slider(key="alpha").set_value(min(ALPHA_STOPS)).run()
    assert _private(_settled(app)) == before
    assert "not as accurate as asked" in _band(app)


def _layer(app: AppTest, starts: str) -> dict[str, Any]:
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    (line,) = [trace for trace in figure["data"] if trace["name"].startswith(starts)]
    return dict(line)


def test_more_blocks_spread_more_widely() -> None:
    """The fits of blocks, on the picture: their centres scatter as their rows grow fewer."""

    def spread(t: int) -> float:
        setup = RehearsalSetup(
            dataclasses.replace(ROWS, n_rows=30_000),
            SETUP.request.but(
                method="lifted", n_rows=30_000, epsilon=8.0, mask_accuracy=0.75, n_blocks=t
            ),
            "em",
            0,
        )
        blocks = rehearsal_of(setup).result(120).blocks
        lefts = [float(min(block.means[:, 1])) for block in blocks]
        mean = sum(lefts) / len(lefts)
        return sum((left - mean) ** 2 for left in lefts) / len(lefts)

    assert spread(600) > 1.5 * spread(150)


@pytest.mark.usefixtures("prefetching")
def test_layers_lie_over_the_picture() -> None:
    app = _page(
        n="30,000", method="Lifted", epsilon="8", layers=["Block fits", "Possible releases"]
    )
    rehearsal.PREFETCH.settle()
    app.run()
    assert _layer(app, "Fits of 40 blocks")
    assert _layer(app, f"{len(CLOUD_SEEDS)} possible releases")


@pytest.mark.usefixtures("prefetching")
def test_other_promises_are_filled_in() -> None:
    app = _page()
    rehearsal.PREFETCH.settle()
    app.run()
    promises = json.loads(app.get("plotly_chart")[1].proto.spec)
    titles = [note["text"] for note in promises["layout"]["annotations"]]
    assert [re.sub("</?b>", "", title) for title in titles][: len(PROMISES)] == [
        f"ε = {epsilon:g}" for epsilon in PROMISES
    ]
    assert len([trace for trace in promises["data"] if trace.get("name") == "Private release"]) == 4


@pytest.mark.usefixtures("prefetching")
def test_every_stop_is_in_the_browser_before_the_hand_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the curve draws at each stop is the rehearsal of that stop, ellipses and all."""
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(epsilon_curve, "_COMPONENT", lambda **said: sent.append(said["data"]))
    _page()
    rehearsal.PREFETCH.settle()
    app = _page()
    stops = sent[-1]["stops"]
    assert [stop["epsilon"] for stop in stops] == list(EPSILON_STOPS)
    assert all(stop["known"] for stop in stops)
    assert stops[sent[-1]["here"]]["epsilon"] == 1.0
    other = next(stop for stop in stops if stop["epsilon"] == 0.5)
    found = rehearsal_of(
        RehearsalSetup(ROWS, SETUP.request.but(epsilon=0.5), DEFAULT_LEARNER, 0)
    ).result(120)
    assert found.private is not None
    assert other["error"] == found.error
    assert np.allclose(np.array(other["shapes"])[:, :2], found.private.means, rtol=1e-4)
    factor = found.private.cholesky
    assert np.allclose(np.array(other["shapes"])[:, 2:], factor[:, [0, 1, 1], [0, 0, 1]], rtol=1e-3)
    assert f"{stops[sent[-1]['here']]['error']:.3f}" in _band(app)


def test_a_release_takes_the_place_of_its_rehearsal_until_a_slider_moves() -> None:
    app = _page(seeded="true", noise_seed="7")
    rehearsed = _private(app)
    app.button(key="release").click().run()
    app.session_state["explore_running"].job.problem(timeout=120)
    app.run()
    # the same seed: the rehearsal foretold it
    assert _private(app) == rehearsed
    assert _band(app).startswith("Useful Seeded noise, ε = 1 spent")
    app.select_slider(key="epsilon").set_value(3.0).run()
    assert _band(_settled(app)).startswith("Useful Rehearsal")
    app.segmented_control(key="on_screen").set_value("Your last release").run()
    assert _band(app).startswith("Useful Seeded noise, ε = 1 spent")


def test_a_measured_sample_is_compared_with_the_fit_without_privacy() -> None:
    app = _page(source="Sample", sample="Old faithful", epsilon="8")
    assert "Distance to the fit without privacy" in _band(app)
    assert "Error" not in _band(app)


def _chips(app: AppTest) -> Any:
    return next(group for group in app.get("button_group") if group.key == "chip")


def test_a_chip_sets_the_details_and_is_marked_by_them() -> None:
    app = _page(kind="Overlapping")
    chips = _chips(app)
    assert chips.value == "Overlapping"
    chips.set_value("Three groups").run()
    assert not app.exception
    assert (app.selectbox(key="kind").value, app.number_input(key="true_k").value) == (
        "well_separated",
        3,
    )
    assert app.number_input(key="k").value == 3
    _chips(app).set_value("Upload").run()
    assert app.segmented_control(key="rail").value == "Data"
    assert app.segmented_control(key="source").value == "Upload"


def test_the_next_stops_of_the_slider_are_its_neighbours() -> None:
    assert rehearsal.neighbours(1.0) == [1.2, 0.8]
    assert rehearsal.neighbours(EPSILON_STOPS[0]) == [EPSILON_STOPS[1]]
    assert rehearsal.neighbours(0.123) == []
