"""The page How it works: every step of every film, and code shown that is the code that ran."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm.budget import Budget
from privgmm.dashboard.film import film_data
from privgmm.dashboard.film.film_data import DEMONSTRATIONS, FilmData, StageRun, code_of
from privgmm.dashboard.film.page import SECONDS, is_due
from privgmm.dashboard.film.scene import SCENES, FilmScene
from privgmm.dashboard.film.scenes import steps_of
from privgmm.dashboard.film.stages.agreement import masked_again
from privgmm.dashboard.shared import state
from privgmm.data.datasets import generate, random_mixture, separation_of
from privgmm.distances.parameters import dist_gmm, dist_param
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods import registry
from privgmm.methods.planner import best_plan, calibrate, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import NoiseSource
from privgmm.releases import Release, release
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch import agreement_frame, finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import PreparedHistogramFrame
from privgmm.stages.stage import Bottom, Drawn, Stage, Work
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
    return "\n".join(str(part.value) for part in [*app.markdown, *app.caption, *app.header])


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_shown_code_is_the_code_that_ran(films: Films, name: str) -> None:
    film, ran = films[name]
    for step in steps_of(film):
        functions = step.scene().code
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
    return [step.label for step in steps_of(film)]


def _scene(film: FilmData, number: int) -> FilmScene:
    """The scene of a step, counted from 1, or from the end with negative numbers."""
    return steps_of(film)[number - (number > 0)].scene()


def test_the_demonstrations_end_as_they_say(films: Films) -> None:
    average, pick, sketch, refusal = (films[name][0] for name in DEMONSTRATIONS)
    assert _labels(average)[-3:] == ["Mean", "Mask", "Refinement"]
    assert _labels(pick)[-2:] == ["Pick", "Mask"]
    assert _labels(sketch)[-3:] == ["Tomogram", "Fit", "Refine"]
    assert _labels(refusal)[-1] == "Noisy test"
    assert all(film.outcome.result.seeded for film, _ in films.values())


def test_the_sketch_shows_what_blocks_could_not(films: Films) -> None:
    """The components overlap; counts find where the rows lie, and the fit finds both."""
    sketch = films["A sketch"][0]
    truth, result = sketch.dataset.truth, sketch.outcome.result
    assert truth is not None
    assert separation_of(truth) < 3
    assert "where the rows are" in _scene(sketch, 1).words
    counts, waves, last = sketch.runs
    assert isinstance(waves.before, Frame)
    assert waves.before is counts.after
    assert last.before is waves.after
    assert isinstance(result, Release)
    assert dist_gmm(result.mixture, truth) < 0.05
    assert "**It does**" in _scene(sketch, 5).words
    assert "second sketch" in _scene(sketch, 6).words
    numbers = {label: value for label, value, _ in _scene(sketch, 6).numbers}
    before, after = (float(numbers[f"Means, {when}"][2:]) for when in ("before", "after"))
    assert after < before
    # rows are in sight in two of the scenes, and these say so
    locked = ["curator" in _scene(sketch, step).sharing for step in range(2, 7)]
    assert locked == [True, True, False, False, False]


def _sketched(d: int, n: int, n_blocks: int | None = None) -> FilmData:
    """A sketch of n rows of two components in d columns."""
    data = generate(random_mixture(2, d, rng=1), n, rng=1)
    asked = PlanRequest(n_components=2, n_features=d, n_rows=n, n_blocks=n_blocks)
    plan = plan_for(asked).plan
    return FilmData(data, release(data.rows, plan, rng=1))


@pytest.mark.parametrize(
    ("d", "n", "n_blocks"),
    [(1, 2_000, None), (2, 2_000, None), (3, 3_000, None), (1, 20_000, 500), (3, 40_000, 1_000)],
)
def test_a_sketch_has_a_film_with_blocks_and_without(d: int, n: int, n_blocks: int | None) -> None:
    film = _sketched(d, n, n_blocks)
    assert film.outcome.released
    first = "Histograms" if n_blocks is None else "Blocks"
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
    fit = _scene(film, -2)
    assert "Up to 3 were tried, and 2 explain" in fit.words
    assert fit.numbers[0][1] == "2"
    _every_step_has_a_picture(film)


@pytest.mark.parametrize("part", ["_scales", "_centre"])
def test_histograms_that_show_nothing_end_the_film(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    nothing = Bottom("Column {column} shows nothing.", 1)
    monkeypatch.setattr(PreparedHistogramFrame, part, lambda *_: nothing)
    film = _sketched(2, 2_000)
    assert _labels(film) == ["Histograms"]
    _every_step_has_a_picture(film)
    assert (
        f"Column '{film.dataset.columns[1]}' shows nothing. The answer is **⊥**"
        in _scene(film, 1).words
    )


def test_the_stages_are_those_that_were_run(films: Films) -> None:
    """In the plan's order, each with what was public before the stage and after it."""
    for film, _ in films.values():
        run = tuple(run.stage for run in film.runs)
        assert run == film.plan.stages[: len(film.outcome.curator.drawn)]
        assert [run.refused for run in film.runs][-1] is not film.outcome.released
    average = films["Averaging"][0]
    votes, refinement = average.runs
    assert (votes.before, votes.last, refinement.last) == (None, False, True)
    assert votes.after is refinement.before is average.outcome.curator.view(AgreementView).coarse
    assert isinstance(average.outcome.result, Release)
    assert refinement.after.mixture == average.outcome.result.mixture


def test_what_was_masked_is_what_is_shown(films: Films) -> None:
    """A pick is one of the fits; a mean has the fits around it; masks scatter around both."""
    pick = films["Picking one"][0]
    fit = pick.outcome.curator.fits[pick.outcome.curator.view(AgreementView).verdict.reference]
    # but for the public grid, which is finer than 1e-11 of a component's width
    assert dist_param(masked_again(pick.runs[0])[0], fit) < 1e-9
    average = films["Averaging"][0]
    fits = average.outcome.curator.fits
    mean, *draws = masked_again(average.runs[0])
    assert mean is masked_again(average.runs[0])[0], "computed once per release"
    centres = np.sort(mean.means[:, 0])
    assert centres == pytest.approx(np.sort(fits.means[:, :, 0], axis=1).mean(axis=0), abs=0.1)
    assert len({draw.means.tobytes() for draw in draws}) == len(draws)


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
    for step in steps_of(film):
        now = step.scene()
        assert now.figure is not None
        assert now.figure().data
        assert now.alt
        assert now.sharing
        assert now.words
        assert all(meaning for _, _, meaning in now.numbers)


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
    assert "a later step" not in _scene(film, -1).words


def test_known_stages_may_be_put_together_in_other_ways() -> None:
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
    )
    plan = plan.but(*plan.stages, Refinement((20.0,), (4.0,)), budget=Budget(9.0, 1e-4))
    film = FilmData(data, release(data.rows, plan, rng=6))
    assert _labels(film)[-3:] == ["Pick", "Mask", "Refinement"]
    _every_step_has_a_picture(film)


@dataclasses.dataclass(frozen=True)
class _Toy(Stage):
    """A stage that no file shows: it publishes what it was given, or refuses."""

    refuses: bool

    kind: ClassVar[str] = "toy stage"

    def price(self) -> Price:
        return Price((gaussian_curve(1e3),))

    def prepare(self, work: Work, public: Any) -> _PreparedToy:
        return _PreparedToy(public, self.refuses)

    def sentences(self) -> list[str]:
        return ["It waits.", "It costs little."]

    def to_dict(self) -> dict[str, Any]:
        return {}


@dataclasses.dataclass(frozen=True)
class _PreparedToy:
    public: Any
    refuses: bool

    def draw(self, source: NoiseSource) -> Drawn:
        return Drawn(Bottom("Column {column} is odd.", 0) if self.refuses else self.public)


def _with_toy(film: FilmData, *, refuses: bool = False, first: bool = False) -> FilmData:
    """A release of the same rows with a stage of a new kind, after the first stage or alone."""
    before = () if first else film.plan.stages[:1]
    plan = film.plan.but(*before, _Toy(refuses), budget=Budget(4.0, 1e-6))
    return FilmData(film.dataset, release(film.dataset.rows, plan, rng=3))


def _shown(film: FilmData) -> SimpleNamespace:
    """What Explore would have on display."""
    settings = SimpleNamespace(data_name="rows")
    chosen = SimpleNamespace(dataset=film.dataset)
    return SimpleNamespace(settings=settings, chosen=chosen, outcome=film.outcome)


def test_a_new_kind_of_stage_is_shown_by_its_sentences_until_it_has_a_file(
    films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = _with_toy(films["Averaging"][0])
    assert film.outcome.released
    assert _labels(film)[-2:] == ["Mask", "Toy stage"]
    toy = _scene(film, -1)
    assert (toy.words, toy.figure) == ("It waits. It costs little.", None)
    assert toy.code == (_Toy.prepare,)
    mask = _scene(film, -2)

    def toy_scenes(run: StageRun) -> dict[str, Callable[[StageRun], FilmScene]]:
        assert run.after is run.before
        return {"First": lambda _: mask, "Second": lambda _: mask}

    monkeypatch.setitem(SCENES, _Toy.kind, toy_scenes)
    assert _labels(film)[-3:] == ["Mask", "First", "Second"]
    assert _scene(film, -1) is mask


def test_a_refusal_of_any_stage_says_why(films: Films) -> None:
    film = _with_toy(films["Averaging"][0], refuses=True)
    assert not film.outcome.released
    name = film.dataset.columns[0]
    assert f"Column '{name}' is odd. The answer is **⊥**" in _scene(film, -1).words


def test_a_frame_that_is_too_flat_ends_the_film_after_its_mask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The blocks agreed, so all of their scenes are shown; the last one says why it ends."""

    def flat(*_: Any) -> Frame:
        raise InvalidInput("no inverse")

    monkeypatch.setattr(agreement_frame, "Frame", flat)
    film = _sketched(1, 20_000, 500)
    assert _labels(film)[-2:] == ["Mean", "Mask"]
    assert "too flat to measure in. The answer is **⊥**" in _scene(film, -1).words
    _every_step_has_a_picture(film)


def test_a_finish_that_refuses_is_shown_by_its_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "frame_holds", lambda *_: False)
    film = _sketched(2, 2_000)
    assert _labels(film)[-2:] == ["Tomogram", "Finish"]
    assert "far outside the frame" in _scene(film, -1).words
    assert "The answer is **⊥**" in _scene(film, -1).words


def test_a_stage_without_a_picture_and_without_the_paper_has_a_page(
    films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _shown(_with_toy(films["Averaging"][0]))
    monkeypatch.setattr(state, "shown", lambda: shown)
    app = _open(step="8")
    assert app.header[0].value == "8 · Toy stage"
    assert "It waits. It costs little." in _words(app)
    assert "The paper" not in _words(app)
    assert "def prepare" in app.code[-1].value
    assert not app.get("plotly_chart")
    assert not app.error


def test_a_scene_that_cannot_be_drawn_does_not_stop_the_film(
    films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: StageRun) -> FilmScene:
        raise PrivGMMError("too flat")

    shown = _shown(films["Averaging"][0])
    monkeypatch.setattr(state, "shown", lambda: shown)
    monkeypatch.setitem(SCENES, "refinement", lambda _: {"Broken": broken})
    app = _open(step="8")
    assert "too flat" in app.error[0].value
    app.slider(key="step").set_value(7).run()
    assert not app.exception
    assert not app.error


def test_a_film_may_have_a_single_step(films: Films, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _shown(_with_toy(films["Averaging"][0], refuses=True, first=True))
    monkeypatch.setattr(state, "shown", lambda: shown)
    app = _open()
    assert not app.slider
    assert app.button(key="film_back").disabled
    assert app.button(key="film_next").disabled
    assert app.header[0].value == "1 · Toy stage"


@pytest.mark.parametrize("film", DEMONSTRATIONS)
def test_every_step_of_every_film(film: str) -> None:
    app = _open(film=film)
    assert "Demonstration" in _words(app)
    last = int(app.slider(key="step").max)
    for step in range(1, last + 1):
        app.slider(key="step").set_value(step).run()
        assert not app.exception
        words = _words(app)
        assert app.header[0].value.startswith(f"{step} · ")
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
    shown = _shown(FilmData(data, outcome))
    monkeypatch.setattr(state, "shown", lambda: shown)
    with monkeypatch.context() as patched:
        patched.setattr(film_data, "release", pytest.fail)
        app = _open()
        assert not app.exception
        assert app.segmented_control(key="film").value == "Your release"
        assert "spends nothing" in _words(app)
        app.slider(key="step").set_value(7).run()
        assert not app.exception
    moved = dist_gmm(masked_again(FilmData(data, outcome).runs[0])[0], outcome.result.mixture)
    assert [metric.value for metric in app.metric if metric.label == "Moved"] == [f"{moved:.3f}"]
    app.segmented_control(key="film").set_value("A refusal").run()
    assert app.slider(key="step").value == 1
    assert app.slider(key="step").max == 5
    monkeypatch.setattr(state, "shown", lambda: None)
    app.segmented_control(key="film").set_value("Your release").run()
    assert not app.exception
    assert app.segmented_control(key="film").value == "Averaging"
