"""The page How it works: every step of every film, and code shown that is the code that ran."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.film.film_data import DEMONSTRATIONS, Reel, code_of
from privgmm.dashboard.film.page import SECONDS, is_due
from privgmm.dashboard.film.scenes import scene
from privgmm.dashboard.shared import state
from privgmm.data.datasets import generate, random_mixture
from privgmm.methods.planner import calibrate
from privgmm.release import Release, release

APP = str(Path(__file__).resolve().parents[2] / "app.py")


@pytest.fixture(scope="module")
def reels() -> dict[str, tuple[Reel, set[CodeType]]]:
    """Every demonstration, with all code of this package that ran while it was made."""
    made = {}
    for name, make in DEMONSTRATIONS.items():
        ran: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: Any, ran: set[CodeType] = ran) -> None:
            if event == "call":
                ran.add(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            reel = make()
        finally:
            sys.setprofile(before)
        made[name] = reel, ran
    return made


def _open(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.switch_page("pages/How_it_works.py")
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def _words(app: AppTest) -> str:
    return "\n".join(str(part.value) for part in [*app.markdown, *app.caption, *app.subheader])


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_shown_code_is_the_code_that_ran(
    reels: dict[str, tuple[Reel, set[CodeType]]], name: str
) -> None:
    reel, ran = reels[name]
    assert len(reel.code) == len(reel.steps)
    for functions in reel.code:
        for function in functions:
            assert inspect.unwrap(function).__code__ in ran, function
            place, source = code_of(function)
            assert place.startswith("privgmm.")
            # the text is that of the file, line by line, but for its indentation
            code = function.__code__
            lines = Path(code.co_filename).read_text(encoding="utf-8").splitlines()
            written = lines[code.co_firstlineno - 1 :][: len(source.splitlines())]
            assert [line.strip() for line in source.splitlines()] == [x.strip() for x in written]


def test_the_demonstrations_end_as_they_say(
    reels: dict[str, tuple[Reel, set[CodeType]]],
) -> None:
    average, pick, refusal = (reels[name][0] for name in ("average", "pick", "refusal"))
    assert average.steps[-3:] == ("Mean", "Mask", "Refinement")
    assert pick.steps[-2:] == ("Pick", "Mask")
    assert refusal.steps[-1] == "Noisy test"
    assert all(reel.made_up and reel.outcome.result.seeded for reel in (average, pick, refusal))


def test_what_was_masked_is_what_is_shown(reels: dict[str, tuple[Reel, set[CodeType]]]) -> None:
    """A pick is one of the fits; a mean has the fits around it; masks scatter around both."""
    pick = reels["pick"][0]
    fit = pick.outcome.curator.fits[pick.outcome.curator.verdict.reference]
    assert pick.representative == fit
    average = reels["average"][0]
    fits = average.outcome.curator.fits
    centres = np.sort(average.representative.means[:, 0])
    assert centres == pytest.approx(np.sort(fits.means[:, :, 0], axis=1).mean(axis=0), abs=0.1)
    assert len({draw.means.tobytes() for draw in average.other_draws}) == len(average.other_draws)


@pytest.mark.parametrize("d", [1, 3])
def test_other_dimensions_have_a_film_too(d: int) -> None:
    data = generate(random_mixture(1, d, rng=1), 20_000, rng=1)
    plan = calibrate(
        "lifted", epsilon=4.0, delta=1e-4, alpha=1.0, n_components=1, n_features=d, n_blocks=60
    )
    reel = Reel(data, release(data.rows, plan, rng=1), made_up=True)
    assert reel.released is not None
    for step in range(1, len(reel.steps) + 1):
        now = scene(reel, step)
        assert now.figure().data
        assert now.alt
        assert now.sharing


@pytest.mark.parametrize("film", ["Averaging", "Picking one", "A refusal"])
def test_every_step_of_every_film(film: str) -> None:
    app = _open(film=film)
    assert "Demonstration" in _words(app)
    last = int(app.slider(key="step").max)
    for step in range(1, last + 1):
        app.slider(key="step").set_value(step).run()
        assert not app.exception
        words = _words(app)
        assert app.subheader[0].value.startswith(f"{step} · ")
        assert "Line" in words or "Not in the paper" in words
        assert words.count(":material/lock:") + words.count(":material/public:") == 1
        assert len(app.get("plotly_chart")) == 1
        assert app.get("plotly_chart")[0].proto.alt
        assert all(metric.help for metric in app.metric)
        assert "def " in app.code[-1].value
    assert app.button(key="film_next").disabled


def test_buttons_step_and_play() -> None:
    app = _open()
    assert app.button(key="film_back").disabled
    app.button(key="film_next").click().run()
    assert app.slider(key="step").value == 2
    app.button(key="film_back").click().run()
    assert app.slider(key="step").value == 1
    app.button(key="film_play").click().run()
    assert app.button(key="film_play").label == "Pause"
    # the timer leaves a note, and the next run turns the page
    app.session_state["film_turn"] = 2
    app.run()
    assert app.slider(key="step").value == 2
    app.button(key="film_play").click().run()
    assert app.button(key="film_play").label == "Play"
    app.slider(key="step").set_value(8).run()
    app.button(key="film_play").click().run()
    assert app.slider(key="step").value == 1, "play at the end begins again"
    assert not app.exception


def test_a_scene_stays_for_its_time() -> None:
    assert not is_due(10.0, 10.0)
    assert is_due(10.0, 10.0 + SECONDS)


@pytest.mark.parametrize("step", ["99", "0", "x", "3"])
def test_any_address_opens(step: str) -> None:
    app = _open(step=step, film="nothing")
    assert app.slider(key="step").value == (3 if step == "3" else 1)


def test_a_release_from_explore_is_filmed_and_not_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = generate(random_mixture(1, 2, rng=1), 20_000, rng=1)
    plan = calibrate(
        "lifted", epsilon=4.0, delta=1e-4, alpha=1.0, n_components=1, n_features=2, n_blocks=60
    )
    outcome = release(data.rows, plan, rng=1)
    assert isinstance(outcome.result, Release)
    shown = SimpleNamespace(
        settings=SimpleNamespace(learner="em", data_name=data.name), dataset=data, outcome=outcome
    )
    monkeypatch.setattr(state, "shown", lambda: shown)
    app = _open()
    assert not app.exception
    assert app.segmented_control(key="film").value == "yours"
    assert "spends nothing" in _words(app)
    kept = app.session_state["film_reel"]
    app.slider(key="step").set_value(7).run()
    assert not app.exception
    assert app.session_state["film_reel"] is kept
    assert kept.outcome is outcome
    app.segmented_control(key="film").set_value("refusal").run()
    assert app.slider(key="step").value == 1
    assert app.slider(key="step").max == 5
