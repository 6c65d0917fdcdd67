"""The page Audit: guess, flip, measure, attack; noise drawn once and only when asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import privgmm
from privgmm import audit
from privgmm.audit import Finding, Report
from privgmm.audit.broken import SilentMask
from privgmm.audit.endtoend import changed_fits
from privgmm.audit.guessing import Score, duel_between
from privgmm.budget import percent_at_most
from privgmm.dashboard.audit.adversaries import findings_table
from privgmm.dashboard.audit.curve import attacks
from privgmm.dashboard.audit.losses import measurement
from privgmm.dashboard.shared.refresh import PAGE_POOL
from privgmm.distances.parameters import dist_gmm
from privgmm.methods.planner import calibrate
from privgmm.mixture import MixtureBatch
from privgmm.results import Release
from privgmm.stages.agreement.stage import Agreement
from privgmm.teaching import neighbours
from privgmm.teaching.game import PREDICTIONS, duel_of, game_table
from privgmm.teaching.neighbours import AUDIT_EPSILONS, outcome, plan

APP = str(Path(__file__).resolve().parents[2] / "app.py")


def _open(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.switch_page("pages/Audit.py")
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    return _settled(app)


def _settled(app: AppTest) -> AppTest:
    """Wait for all background work and rerun; in a browser a fragment does that."""
    PAGE_POOL.settle()
    app.run()
    assert not app.exception
    assert not app.error
    return app


def _words(app: AppTest) -> str:
    parts = [*app.markdown, *app.caption, *app.info, *app.success, *app.error]
    return "\n".join(str(part.value) for part in parts)


def _charts(app: AppTest) -> int:
    charts = app.get("plotly_chart")
    assert all(chart.proto.alt for chart in charts), "every picture has words"
    return len(charts)


PERSONS = ("ordinary", "outlier", "worst case")


def _predicted(app: AppTest, number: int = 1) -> AppTest:
    """Predict, which every guess needs."""
    app.button(key=f"predict_{number}").click().run()
    assert not app.exception
    return app


@pytest.mark.parametrize("noise", ["on", "off"])
@pytest.mark.parametrize("person", PERSONS)
def test_a_guess_is_predicted_revealed_and_scored(person: str, noise: str) -> None:
    app = _open(person=person, noise=noise)
    assert _charts(app) == 2
    assert not [button for button in app.button if str(button.key).startswith("guess")]
    assert len(app.warning) == (noise == "off"), "what is broken on purpose says so"
    _predicted(app, 2)
    (match,) = app.session_state["audit_matches"].values()
    seen, from_a = match.seen, match.from_a
    app.run()
    assert match.deals == 1
    assert match.seen is seen, "a rerun draws nothing"
    app.button(key="guess_A").click().run()
    assert match.you.rounds == match.rival.rounds == 1
    assert match.you.right == int(from_a)
    assert (match.deals, match.from_a) == (1, from_a), "the round stays, revealed"
    shown = [*app.success, *app.error]
    assert f"It was **{'A' if from_a else 'B'}**" in shown[0].value
    words = _words(app)
    assert PREDICTIONS[1] in words
    low, high = match.you.interval()
    assert f"between {low:.0%} and {high:.0%}" in words
    assert _charts(app) == 3
    assert all(metric.help for metric in app.metric)
    app.button(key="next_round").click().run()
    assert match.deals == 2
    assert app.button(key="guess_B")


def test_the_best_strategy_plays_once_a_click() -> None:
    app = _predicted(_open(person="worst case", audit_epsilon="8"))
    app.button(key="play_best").click().run()
    (match,) = app.session_state["audit_matches"].values()
    score = match.best
    assert score.rounds == 100_000
    app.run()
    assert match.best == score
    low, high = score.interval()
    assert f"{low:.1%} to {high:.1%}" in _words(app)
    # at this epsilon the worst case is well above chance level, and below the ceiling
    assert 0.6 < low < plan(8.0).ceiling < plan(8.0).spent().guess_ceiling


@pytest.mark.parametrize("person", PERSONS)
def test_without_noise_one_person_is_found_every_time(person: str) -> None:
    """Naming the data set whose number was published is never wrong; with noise it is."""
    app = _predicted(_open(person=person, noise="off"), 3)
    (match,) = app.session_state["audit_matches"].values()
    table = game_table(1.0, person)
    near = table.magnified
    assert near.of_a != near.of_b
    for _ in range(5):
        released = match.released(table, noise=False)
        assert released is not None
        said_a = near.read(released) == near.of_a
        app.button(key=f"guess_{'A' if said_a else 'B'}").click().run()
        app.button(key="next_round").click().run()
    assert match.you == match.rival == Score(5, 5)
    app.button(key="play_best").click().run()
    assert match.best == Score(100_000, 100_000)
    assert "Without noise no ceiling holds" in _words(app)
    # the same rule against the same numbers, with noise: no better than the ceiling
    middle = (near.of_a + near.of_b) / 2
    nearer_a = (near.draws_a < middle) == (near.of_a < middle)
    nearer_b = (near.draws_b > middle) == (near.of_b > middle)
    assert (nearer_a.mean() + nearer_b.mean()) / 2 < plan(1.0).ceiling + 0.05


def test_without_noise_the_same_code_runs_on_generated_rows_only() -> None:
    """The release differs from the sound one in its mask alone, and nothing else can ask for it."""
    sound, broken = outcome(1.0), outcome(1.0, noise=False)
    assert (sound.curator.votes == broken.curator.votes).all()
    assert changed_fits(sound.curator.fits, broken.curator.fits) == []
    assert isinstance(broken.result.plan.stage(Agreement).space, SilentMask)
    assert isinstance(broken.result, Release)
    before = duel_between(sound, sound)
    assert before.pair is not None
    assert dist_gmm(broken.result.mixture, sound.curator.nonprivate()) < 0.05
    package = Path(privgmm.__file__).parent
    naming = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "SilentMask" in path.read_text(encoding="utf-8")
    }
    assert naming == {"audit/broken.py", "teaching/neighbours.py"}


@pytest.mark.parametrize("epsilon", AUDIT_EPSILONS)
def test_every_budget_can_be_played(epsilon: float) -> None:
    for distance in (1.5, 1e6):
        duel = duel_between(outcome(epsilon), outcome(epsilon, 5, distance))
        assert 0.5 <= duel.best_success <= plan(epsilon).ceiling
    assert duel_of(epsilon, "worst case").best_success <= plan(epsilon).ceiling
    app = _open(audit_epsilon=f"{epsilon:g}", person="worst case")
    assert _charts(app) == 2


def test_the_game_shows_what_is_proved_and_what_is_only_stated() -> None:
    app = _predicted(_open(person="worst case"))
    values = {metric.label: metric for metric in app.metric}
    assert values["Proved ceiling"].value == percent_at_most(plan(1.0).ceiling)
    assert percent_at_most(plan(1.0).spent().guess_ceiling) in values["Proved ceiling"].help
    assert float(values["Best possible here"].value.rstrip("%")) < float(
        values["Proved ceiling"].value.rstrip("%")
    )


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_no_attack_lies_below_the_whole_curve(epsilon: float) -> None:
    app = _open(audit="Trade-off", audit_epsilon=f"{epsilon:g}")
    assert _charts(app) == 1
    values = {metric.label: metric.value for metric in app.metric}
    assert values["Right at most"] == percent_at_most(plan(epsilon).ceiling)
    assert all(metric.help for metric in app.metric)
    proved = plan(epsilon).tradeoff()
    tried = attacks(epsilon)
    assert len(tried) == 3
    for attack in (attack for group in tried.values() for attack in group):
        # 42 bounds, each wrong once in a million
        alarms, missed = attack.highest(1e-6)
        assert missed >= proved.missed(alarms)
    best = max(attack.success for group in tried.values() for attack in group)
    assert 0.5 < best <= proved.ceiling


@pytest.mark.parametrize("far", ["stay", "1", "1,000,000"])
def test_one_row_changes_one_block(far: str) -> None:
    app = _open(audit="Flip one row", far=far)
    assert _charts(app) == 2
    values = {metric.label: metric.value for metric in app.metric}
    t = plan(1.0).stage(Agreement).n_blocks
    assert values["Blocks changed"] == ("0" if far == "stay" else "1") + f" of {t}"
    assert float(values["Release moved"]) < 0.01
    before, after = (int(part) for part in values["h"].split(" → "))
    assert abs(before - after) <= 1
    assert all(metric.help for metric in app.metric)
    assert ":material/lock:" in _words(app)


def test_a_row_can_be_flipped_under_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the paper's test the statistic is Q, its change is stated, and ⊥ is not an error."""
    paper = calibrate(
        "paper",
        epsilon=1.0,
        delta=1e-6,
        alpha=1.0,
        n_components=2,
        n_features=2,
        n_blocks=400,
    )
    outcome.cache_clear()
    monkeypatch.setattr(neighbours, "plan", lambda _: paper)
    try:
        app = _open(audit="Flip one row", row="7")
    finally:
        outcome.cache_clear()
    (q,) = (metric for metric in app.metric if metric.label == "Q")
    before, after = (float(part) for part in q.value.split(" → "))
    assert abs(before - after) < 2 / 400
    assert "less than 2/t" in q.help
    assert _charts(app) == 2
    assert "the test refused both times" in _words(app)


def test_a_failed_fit_counts_as_changed() -> None:
    fits = outcome(1.0).curator.fits
    ok = np.array(fits.ok)
    ok[4] = False
    failed = MixtureBatch.from_cholesky(fits.weights, fits.means, fits.cholesky, ok)
    assert changed_fits(fits, failed) == [4]
    assert changed_fits(failed, failed) == []


@pytest.mark.parametrize("part", ["The mask", "The whole release"])
def test_measured_losses_stay_below_the_curve(part: str) -> None:
    app = _open(audit="Measure", part=part, draws="10,000")
    assert _charts(app) == 1
    values = {metric.label: metric.value for metric in app.metric}
    assert values["Points above the curve"].startswith("0 of ")
    assert ":material/public:" in _words(app)


def test_the_exact_delta_lies_within_the_bars() -> None:
    measured, promised, exact = measurement(2.0, "mask", 100_000)
    assert exact is not None
    assert np.all((measured.low <= exact) & (exact <= measured.high))
    assert np.all(exact <= promised)


@pytest.mark.parametrize(
    ("section", "slider", "value", "noted"),
    [
        ("Guess", "audit_epsilon", 4.0, "Releasing from A and from B at ε = 4"),
        ("Trade-off", "audit_epsilon", 2.0, "Playing the strongest tests at ε = 2"),
        ("Flip one row", "far", 1e3, "with row 6 moved"),
        ("Measure", "draws", 1_000, "Drawing 1,000 losses"),
    ],
)
def test_the_page_does_not_wait_for_what_is_new(
    section: str, slider: str, value: float, noted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work is held up: the page answers at once and shows nothing of other settings."""
    app = _open(audit=section)
    charts = _charts(app)
    go = threading.Event()
    for name in ("outcome", "plan"):
        real = getattr(neighbours, name)
        monkeypatch.setattr(
            neighbours,
            name,
            lambda *given, real=real, **named: go.wait(60) and real(*given, **named),
        )
    PAGE_POOL.settle()
    try:
        app.select_slider(key=slider).set_value(value).run()
        assert noted in _words(app)
        assert _charts(app) == 0
    finally:
        go.set()
    assert _charts(_settled(app)) == charts
    assert noted not in _words(app)


HELD = Finding("mask", "delta <= promised", 0.5, 1.0, True, "tried hard")
CAUGHT = Finding("broken: half the noise", "must be caught", 8.0, 1.0, True)
FAILED = Finding("count", "moves by one", 2.0, 1.0, False)


def _audit_that_finds(*findings: Finding) -> Callable[..., Report]:
    def run(*, rng: int, progress: Callable[[int, int], None]) -> Report:
        progress(1, 1)
        return Report(findings)

    return run


def test_the_adversaries_run_on_demand_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "run_audit", _audit_that_finds(HELD, CAUGHT))
    app = _open(audit="Adversaries")
    assert not app.dataframe
    app.button(key="attack").click().run()
    assert not app.exception
    assert "All 1 claims held" in _words(app)
    assert len(app.dataframe) == 2
    report = app.session_state["audit_report"]
    app.run()
    assert app.session_state["audit_report"] is report
    assert len(app.dataframe) == 2


def test_a_broken_promise_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "run_audit", _audit_that_finds(HELD, FAILED))
    app = _open(audit="Adversaries")
    app.button(key="attack").click().run()
    assert "1 of 2 checks failed" in _words(app)


def test_findings_are_distinguished() -> None:
    missed = Finding("broken: blind", "must be caught", 0.1, 1.0, False)
    table = findings_table((HELD, CAUGHT, FAILED, missed))
    assert table[""].tolist() == ["✓ held", "✓ caught", "✗ broken", "✗ missed"]
    assert table["Attacked"].tolist() == ["mask", "half the noise", "count", "blind"]


@pytest.mark.parametrize(
    "query",
    [{"audit": "x"}, {"audit_epsilon": "7"}, {"row": "0", "far": "?"}, {"noise": "-1"}],
)
def test_any_address_opens(query: dict[str, str]) -> None:
    app = _open(**query)
    assert _charts(app) == 2
    assert not app.warning, "only a valid address takes the noise away"
