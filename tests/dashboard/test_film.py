"""The page How it works: every step of every film, and code shown that is the code that ran."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.film import scenes
from privgmm.dashboard.film.film_data import DEMONSTRATIONS, FilmData, code_of
from privgmm.dashboard.film.page import SECONDS, is_due
from privgmm.dashboard.film.scenes import scene_view
from privgmm.dashboard.shared import state
from privgmm.data.datasets import generate, random_mixture, separation_of
from privgmm.distances.parameters import dist_gmm, dist_param
from privgmm.errors import PrivGMMError
from privgmm.methods import registry
from privgmm.methods.planner import best_plan, calibrate
from privgmm.release import Outcome, Release, release
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import PreparedHistogramFrame
from privgmm.stages.stage import Scene, Stage
from tests.methods.toy import ToyMethod

APP = str(Path(__file__).resolve().parents[2] / "app.py")
Films = dict[str, tuple[FilmData, set[CodeType]]]


@pytest.fixture(scope="module")
def films() -> Films:
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
            film = make()
        finally:
            sys.setprofile(before)
        made[name] = film, ran
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
def test_shown_code_is_the_code_that_ran(films: Films, name: str) -> None:
    film, ran = films[name]
    for step in range(1, len(film.steps) + 1):
        functions = scene_view(film, step).code
        assert functions
        for function in functions:
            assert inspect.unwrap(function).__code__ in ran, function
            place, source = code_of(function)
            assert place.startswith("privgmm.")
            # the text is that of the file, line by line, but for its indentation
            code = function.__code__
            lines = Path(code.co_filename).read_text(encoding="utf-8").splitlines()
            written = lines[code.co_firstlineno - 1 :][: len(source.splitlines())]
            assert [line.strip() for line in source.splitlines()] == [x.strip() for x in written]


def _labels(film: FilmData) -> list[str]:
    return [step.scene.label for step in film.steps]


def test_the_demonstrations_end_as_they_say(films: Films) -> None:
    average, pick, sketch, refusal = (films[name][0] for name in DEMONSTRATIONS)
    assert _labels(average)[-3:] == ["Mean", "Mask", "Refinement"]
    assert _labels(pick)[-2:] == ["Pick", "Mask"]
    assert _labels(sketch)[-3:] == ["Tomogram", "Fit", "Refine"]
    assert _labels(refusal)[-1] == "Noisy test"
    assert all(film.outcome.result.seeded for film, _ in films.values())


def test_the_sketch_shows_what_the_blocks_could_not(films: Films) -> None:
    """The components overlap; each block is asked for one Gaussian, and the fit finds both."""
    sketch = films["sketch"][0]
    truth, result = sketch.dataset.truth, sketch.outcome.result
    assert truth is not None
    assert separation_of(truth) < 3
    assert sketch.outcome.curator.fits.n_components == 1
    assert "where the rows lie" in scene_view(sketch, 2).words
    assert "about where the rows lie" in scene_view(sketch, 7).words
    frame_rows, projections, waves, fit, finish = sketch.steps[-5:]
    assert projections.after is waves.after
    assert finish.before is fit.before
    assert isinstance(frame_rows.before, Frame)
    assert waves.before is frame_rows.before
    assert fit.before is waves.after
    assert isinstance(result, Release)
    assert dist_gmm(result.mixture, truth) < 0.05
    assert "**It does**" in scene_view(sketch, 11).words
    assert "second sketch" in scene_view(sketch, 12).words
    numbers = {number.label: number.value for number in scene_view(sketch, 12).numbers}
    before, after = (float(numbers[f"Means, {when}"][2:]) for when in ("before", "after"))
    assert after < before
    # rows are in sight in two of the scenes, and these say so
    locked = ["curator" in scene_view(sketch, step).sharing for step in range(8, 13)]
    assert locked == [True, True, False, False, False]


@pytest.mark.parametrize(("d", "n"), [(1, 2_000), (2, 2_000), (3, 3_000), (1, 20_000), (3, 40_000)])
def test_a_sketch_has_a_film_with_blocks_and_without(d: int, n: int) -> None:
    data = generate(random_mixture(2, d, rng=1), n, rng=1)
    plan = best_plan(n, method="sketch", epsilon=1.0, delta=1e-6, n_components=2, n_features=d)
    film = FilmData(data, release(data.rows, plan, rng=1))
    assert film.outcome.released
    first = "Blocks" if plan.votes else "Histograms"
    assert (_labels(film)[0], _labels(film)[-3:]) == (
        first,
        ["Tomogram", "Fit", "Refine"],
    )
    _every_step_has_a_picture(film)


def test_a_number_of_components_that_was_chosen_is_filmed() -> None:
    data = generate(random_mixture(2, 1, rng=1), 3_000, rng=1)
    plan = best_plan(
        3_000, epsilon=1.0, delta=1e-6, n_components="auto", max_components=3, n_features=1
    )
    film = FilmData(data, release(data.rows, plan, rng=1))
    fit = scene_view(film, len(film.steps) - 1)
    assert "Up to 3 were tried, and 2 explain" in fit.words
    assert fit.numbers[0].value == "2"
    _every_step_has_a_picture(film)


@pytest.mark.parametrize("part", ["_scales", "_centre"])
def test_histograms_that_show_nothing_end_the_film(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(PreparedHistogramFrame, part, lambda *_: None)
    data = generate(random_mixture(2, 2, rng=1), 2_000, rng=1)
    plan = best_plan(2_000, method="sketch", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    film = FilmData(data, release(data.rows, plan, rng=1))
    assert _labels(film) == ["Histograms"]
    _every_step_has_a_picture(film)
    assert "⊥" in scene_view(film, 1).words


def test_scenes_ask_for_their_own_stage(films: Films) -> None:
    """A scene that a stage of another kind names says so instead of drawing nonsense."""
    mask = films["average"][0].steps[-2]
    for key in ("histograms", "frame_rows", "projections", "tomogram", "sketch_fit", "finish"):
        with pytest.raises(PrivGMMError, match="stage of kind 'agreement'"):
            scenes.SCENES[key](films["average"][0], mask)


def test_the_steps_are_those_of_the_stages(films: Films) -> None:
    """In the plan's order, each with what was public before the stage and after it."""
    for film, _ in films.values():
        passed = film.outcome.released
        named = [scene for stage in film.plan.stages for scene in stage.scenes(passed=passed)]
        assert [step.scene for step in film.steps] == named
    average = films["average"][0]
    *_, mask, refinement = average.steps
    assert (mask.before, mask.last, refinement.last) == (None, False, True)
    assert mask.after is refinement.before is average.outcome.curator.coarse
    assert isinstance(average.outcome.result, Release)
    assert refinement.after.mixture is average.outcome.result.mixture


def test_what_was_masked_is_what_is_shown(films: Films) -> None:
    """A pick is one of the fits; a mean has the fits around it; masks scatter around both."""
    pick = films["pick"][0]
    fit = pick.outcome.curator.fits[pick.outcome.curator.verdict.reference]
    # but for the public grid, which is finer than 1e-11 of a component's width
    assert dist_param(pick.representative, fit) < 1e-9
    average = films["average"][0]
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
    film = FilmData(data, release(data.rows, plan, rng=1))
    assert film.outcome.released
    _every_step_has_a_picture(film)


def _every_step_has_a_picture(film: FilmData) -> None:
    for step in range(1, len(film.steps) + 1):
        now = scene_view(film, step)
        assert now.figure().data
        assert now.alt
        assert now.sharing
        assert now.words
        assert all(number.meaning for number in now.numbers)


@pytest.fixture
def toy() -> Iterator[ToyMethod]:
    method = ToyMethod()
    registry.register(method)
    yield method
    registry.unregister(method.name)


def test_a_later_method_has_a_film(toy: ToyMethod) -> None:
    data = generate(random_mixture(2, 2, separation=8.0, rng=1), 60_000, rng=1)
    plan = best_plan(
        data.n_rows, method=toy.name, epsilon=2.0, delta=1e-6, n_components=2, n_features=2
    )
    film = FilmData(data, release(data.rows, plan, rng=1))
    assert film.outcome.released
    assert _labels(film)[-2:] == ["Mean", "Mask"]
    _every_step_has_a_picture(film)
    assert "a later step" not in scene_view(film, len(film.steps)).words


def test_known_stages_may_be_put_together_anew() -> None:
    """One block is picked and then refined, which no demonstration does."""
    data = generate(random_mixture(1, 2, condition=4.0, rng=4), 300_000, rng=5)
    plan = calibrate(
        "tight",
        epsilon=8.0,
        delta=1e-4,
        alpha=1.0,
        n_components=1,
        n_features=2,
        n_blocks=100,
        refine=Refinement((20.0,), (4.0,)),
    )
    film = FilmData(data, release(data.rows, plan, rng=6))
    assert _labels(film)[-3:] == ["Pick", "Mask", "Refinement"]
    _every_step_has_a_picture(film)


class _Longer(AveragedAgreement):
    """A stage with a scene more than the film knows."""

    def scenes(self, *, passed: bool) -> tuple[Scene, ...]:
        return (*super().scenes(passed=passed), Scene("encore", "Encore"))


class _Short(AveragedAgreement):
    """A stage with one scene."""

    def scenes(self, *, passed: bool) -> tuple[Scene, ...]:
        return super().scenes(passed=passed)[:1]


def _as_if(film: FilmData, kind: type[AveragedAgreement], *more: Stage) -> FilmData:
    """The same release, as if its first stage were of this kind and these stages followed."""
    plan, result = film.plan, film.outcome.result
    given = {
        field.name: getattr(plan.agreement, field.name)
        for field in dataclasses.fields(plan.agreement)
        if field.init
    }
    other = plan.but(kind(**given), *more)
    outcome = Outcome(dataclasses.replace(result, plan=other), film.outcome.curator)
    return FilmData(film.dataset, outcome)


def _with_encore(film: FilmData) -> FilmData:
    return _as_if(film, _Longer, *film.plan.stages[1:])


def _shown(film: FilmData) -> SimpleNamespace:
    """What Explore would have on display."""
    settings = SimpleNamespace(learner="em", data_name="rows")
    return SimpleNamespace(settings=settings, dataset=film.dataset, outcome=film.outcome)


def test_a_stage_may_bring_its_own_scenes(films: Films, monkeypatch: pytest.MonkeyPatch) -> None:
    film = _with_encore(films["average"][0])
    assert _labels(film)[-3:] == ["Mask", "Encore", "Refinement"]
    with pytest.raises(PrivGMMError, match="no picture is known for the scene 'encore'"):
        scene_view(film, len(film.steps) - 1)
    monkeypatch.setitem(scenes.SCENES, "encore", scenes.SCENES["mask"])
    _every_step_has_a_picture(film)


def test_a_scene_that_is_not_known_does_not_stop_the_film(
    films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _shown(_with_encore(films["average"][0]))
    monkeypatch.setattr(state, "shown", lambda: shown)
    app = _open(step="8")
    assert "no picture is known" in app.error[0].value
    app.slider(key="step").set_value(9).run()
    assert not app.exception
    assert not app.error


def test_a_film_may_have_a_single_step(films: Films, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _shown(_as_if(films["average"][0], _Short))
    monkeypatch.setattr(state, "shown", lambda: shown)
    app = _open()
    assert not app.slider
    assert app.button(key="film_back").disabled
    assert app.button(key="film_next").disabled
    assert len(app.get("plotly_chart")) == 1


@pytest.mark.parametrize("film", ["Averaging", "Picking one", "A sketch", "A refusal"])
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
    kept = app.session_state["film_data"]
    app.slider(key="step").set_value(7).run()
    assert not app.exception
    assert app.session_state["film_data"] is kept
    assert kept.outcome is outcome
    app.segmented_control(key="film").set_value("refusal").run()
    assert app.slider(key="step").value == 1
    assert app.slider(key="step").max == 5
