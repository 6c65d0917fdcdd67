"""The section Guess: predict, guess from which data set a release was made, see the score.

It is played against the code that releases, with its noise or, broken on purpose, without. All
people in it are generated. The best strategy plays the same rounds, and many more on request.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
import streamlit as st

from privgmm.arrays import Array
from privgmm.audit.guessing import Duel, Score, Silence, at_worst_count, duel_between
from privgmm.budget import percent_at_most
from privgmm.dashboard.audit import neighbours
from privgmm.dashboard.shared.format import number_in_words
from privgmm.dashboard.shared.lessons import Writer, scene_line
from privgmm.dashboard.shared.refresh import result_or_notice
from privgmm.errors import PrivGMMError
from privgmm.figures.guessing import evidence_figure, round_figure, score_figure
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.releases import Outcome
from privgmm.results import Release
from privgmm.stages.agreement.lifted_space import Anchored
from privgmm.stages.agreement.stage import AgreementView, AveragedAgreement

__all__ = ["GAME_WRITERS", "PREDICTIONS", "Game", "Match", "choose_game", "duel_of", "play_game"]

_ROUNDS = 100_000
"""Rounds of the best strategy: its 95 % interval then spans at most 0.6 percentage points."""
_DRAWS = 400
"""Draws in each histogram of what might be published."""
_ROW = 5
"""Position of the person who differs, from 0: any person who is in a block would do."""
_DISTANCES = {"ordinary": 1.5, "outlier": 1e6, "worst case": 0.0}
"""How far the person moves, in units of the data; a component's spread is about 1."""
_NOISE = ("on", "off")
PREDICTIONS = ("about 5", "about 7", "all 10")
GAME_WRITERS: dict[str, Writer] = {"noise": str, "person": str}
_ABOUT = {
    "ordinary": "A and B hold the same people except for **one person**: in B they lie a small "
    "step to the side.",
    "outlier": "A and B hold the same people except for **one person**: in A they are like "
    "everybody else, in B they lie **a million away** from all others.",
    "worst case": "A and B differ as much as the proof allows any two neighbours to differ. No "
    "real data needs to look like this.",
}


class Game(NamedTuple):
    """A choice of game: who differs, and whether the release has its noise."""

    person: str
    noise: bool


@dataclasses.dataclass
class Match:
    """The state of play for one choice of ε and of game."""

    prediction: str | None = None
    you: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    rival: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    best: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    from_a: bool = True
    seen: Array | None = None
    deals: int = 0
    said_a: bool | None = None
    report: str = ""


class _Magnified(NamedTuple):
    """The published number in which A and B differ most.

    Parameters
    ----------
    component : int
        From left to right.
    part : int
        Of `_numbers`: the centre in each column, then the width in each.
    of_a, of_b : float
        What each publishes without noise.
    draws_a, draws_b : array (draws,)
        What each might publish with noise; empty if not both can release.
    """

    component: int
    part: int
    of_a: float
    of_b: float
    draws_a: Array
    draws_b: Array

    @property
    def name(self) -> str:
        """Name of the number."""
        what, column = divmod(self.part, neighbours.data().n_features)
        side = ("left", "right")[self.component]
        return f"{('centre', 'width')[what]} of the {side} cluster, x{column + 1}"

    def read(self, mixture: Mixture) -> float:
        """Read the number off a mixture."""
        return float(_numbers(mixture)[self.component, self.part])


@dataclasses.dataclass(frozen=True, eq=False)
class _Table:
    """Both sides of a game: the duel, the mask's inputs, and its outputs without noise."""

    duel: Duel
    item_a: Anchored
    item_b: Anchored
    silent_a: Mixture
    silent_b: Mixture
    magnified: _Magnified

    def differ(self) -> bool:
        """Whether A and B publish different numbers without noise."""
        return self.silent_a != self.silent_b


def _numbers(mixture: Mixture) -> Array:
    """List means and standard deviations (k, 2d) from left to right: releases are shuffled."""
    order = np.argsort(mixture.means[:, 0])
    widths = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    return np.concatenate([mixture.means, widths], axis=1)[order]


@functools.lru_cache(maxsize=16)
def _table(epsilon: float, person: str) -> _Table:
    stage, first = neighbours.plan(epsilon).stage(AveragedAgreement), neighbours.outcome(epsilon)
    item = _masked(first)
    silent_a = _published(neighbours.outcome(epsilon, noise=False))
    if person == "worst case":
        other = item.farther(stage.gamma)
        duel = at_worst_count(stage.space.gaussian_pair(item, other), stage.price().chances)
        # no rows lead to this representative, so it is masked directly, without noise
        silent_b = stage.space.mask(other, rng=Silence())
    else:
        second = neighbours.outcome(epsilon, _ROW, _DISTANCES[person])
        duel, other = duel_between(first, second), _masked(second)
        silent_b = _published(neighbours.outcome(epsilon, _ROW, _DISTANCES[person], noise=False))
    return _Table(
        duel, item, other, silent_a, silent_b, _magnify(duel, item, other, silent_a, silent_b)
    )


def _magnify(
    duel: Duel, item_a: Anchored, item_b: Anchored, silent_a: Mixture, silent_b: Mixture
) -> _Magnified:
    of_a, of_b = _numbers(silent_a), _numbers(silent_b)
    component, part = divmod(int(np.argmax(np.abs(of_a - of_b))), of_a.shape[1])
    values = float(of_a[component, part]), float(of_b[component, part])
    found = _Magnified(component, part, *values, np.empty(0), np.empty(0))
    if duel.pair is None:
        return found
    # the same noise on both sides: what differs in the picture is due to the one person
    drawn = [
        np.array(
            [
                found.read(item_a.published(item_b, seen))
                for seen in duel.pair.draw(np.full(_DRAWS, side), rng=np.random.default_rng(23))
            ]
        )
        for side in (True, False)
    ]
    return found._replace(draws_a=drawn[0], draws_b=drawn[1])


def duel_of(epsilon: float, person: str) -> Duel:
    """Make the duel over neighbours of this kind."""
    return _table(epsilon, person).duel


def _masked(outcome: Outcome) -> Anchored:
    """Return what went into the mask. CONFIDENTIAL."""
    space = outcome.result.plan.stage(AveragedAgreement).space
    view = outcome.curator.view(AgreementView)
    return space.representative(view.fits, view.verdict.weights, view.verdict.reference)


def _published(outcome: Outcome) -> Mixture:
    if not isinstance(outcome.result, Release):
        raise PrivGMMError("the generated rows were refused: there is nothing to guess from")
    return outcome.result.mixture


def _match(epsilon: float, game: Game) -> Match:
    table: dict[tuple[float, Game], Match] = st.session_state.setdefault("audit_matches", {})
    return table.setdefault((epsilon, game), Match())


def _deal(match: Match, duel: Duel, noise: bool) -> None:
    """Toss the coin and draw what is seen; it stays until the guess."""
    rng = np.random.default_rng()
    match.from_a = bool(rng.random() < 0.5)
    match.seen, match.said_a = None, None
    match.deals += 1
    passed = rng.random() < (duel.pass_a if match.from_a else duel.pass_b)
    if noise and passed and duel.pair is not None:
        match.seen = duel.pair.draw([match.from_a], rng=rng)[0]


def _released(table: _Table, match: Match, noise: bool) -> Mixture | None:
    """Return what is published in this round; None for ⊥."""
    if not noise:
        return table.silent_a if match.from_a else table.silent_b
    return None if match.seen is None else table.item_a.published(table.item_b, match.seen)


def _loss(duel: Duel, seen: Array | None) -> float:
    """Compute ``ln P_A - ln P_B`` of what is seen."""
    if seen is None or duel.pair is None:
        return math.log1p(-duel.pass_a) - math.log1p(-duel.pass_b)
    return math.log(duel.pass_a) - math.log(duel.pass_b) + float(duel.pair.loss(seen[None])[0])


def _predict(epsilon: float, game: Game, prediction: str) -> None:
    _match(epsilon, game).prediction = prediction


def _guess(epsilon: float, game: Game, said_a: bool) -> None:
    match, table = _match(epsilon, game), _table(epsilon, game.person)
    if match.said_a is not None:
        return  # a second press of the key, before the rerun
    match.said_a = said_a
    was, right = "A" if match.from_a else "B", said_a == match.from_a
    start = f"It was **{was}**: you were **{'right' if right else 'wrong'}**. "
    match.you += Score(int(right), 1)
    if game.noise:
        loss = _loss(table.duel, match.seen)
        match.rival += Score(int((loss > 0) == match.from_a), 1)
        match.report = start + (
            f"The best strategy said {'A' if loss > 0 else 'B'}, with odds of "
            f"{math.exp(abs(loss)):.3f} to 1."
        )
    else:
        seen = _released(table, match, noise=False)
        match.rival += Score(int((seen == table.silent_a) == match.from_a), 1)
        match.report = start + f"What was published is exactly what {was} gives, to the last digit."


def _next(epsilon: float, game: Game) -> None:
    _deal(_match(epsilon, game), _table(epsilon, game.person).duel, game.noise)


def _play(epsilon: float, game: Game) -> None:
    match, table = _match(epsilon, game), _table(epsilon, game.person)
    rng = np.random.default_rng()
    if game.noise:
        match.best += table.duel.play(_ROUNDS, rng=rng)
        return
    from_a = rng.random(_ROUNDS) < 0.5
    # it compares what is published with what A gives, or tosses a coin if B gives the same
    said_a = from_a if table.differ() else rng.random(_ROUNDS) < 0.5
    match.best += Score(int((said_a == from_a).sum()), _ROUNDS)


def choose_game() -> Game:
    """Draw the switch for the noise, and the choice of who differs."""
    row = st.container(horizontal=True, gap="medium")
    noise = row.segmented_control(
        "Noise",
        _NOISE,
        default="on",
        required=True,
        key="noise",
        bind="query-params",
        help="Off: the same release, broken on purpose. Its mask adds no noise. Only for the "
        "generated people on this page.",
    )
    person = row.segmented_control(
        "The person who differs",
        list(_DISTANCES),
        default="outlier",
        required=True,
        key="person",
        bind="query-params",
        help="Between A and B exactly one person is replaced.",
    )
    return Game(person, noise == "on")


def play_game(epsilon: float, game: Game) -> None:
    """Draw the section Guess."""
    scene_line(f"Noise: {'on' if game.noise else 'off'}. The person who differs: {game.person}.")
    saying = f"Releasing from A and from B at ε = {epsilon:g}…"
    table = result_or_notice(
        ("table", epsilon, game.person), lambda: _table(epsilon, game.person), saying
    )
    if table is None:
        return
    match, plan = _match(epsilon, game), neighbours.plan(epsilon)
    if not match.deals:
        _deal(match, table.duel, game.noise)
    released = _released(table, match, game.noise)
    with st.container(key="split"):
        side, picture = st.columns([1, 1.3], gap="medium")
    with side:
        if not game.noise:
            st.warning(
                "**No noise: broken on purpose.** It runs on these generated people only. Nothing "
                "that you upload can be released like this.",
                icon=":material/heart_broken:",
            )
        st.markdown(f"{_ABOUT[game.person]} A coin chose A or B, and one release was made from it.")
        if match.prediction is None:
            _ask_for_prediction(epsilon, game)
        else:
            _play_round(epsilon, game, match)
    with picture:
        _show_evidence(table, match, released, game.noise)
        _show_round(released, game.person)
    if match.prediction is None:
        return
    _show_scores(match, plan, game.noise)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Let the best strategy play {_ROUNDS:,} rounds",
            key="play_best",
            icon=":material/fast_forward:",
            on_click=_play,
            args=(epsilon, game),
            help="It knows both data sets, all fits and all probabilities, and names the likelier "
            "data set.",
        )
        _show_limits(table, plan, game.noise)


def _ask_for_prediction(epsilon: float, game: Game) -> None:
    st.markdown("**Predict first.** You will guess A or B. Of 10 guesses, how many will be right?")
    with st.container(horizontal=True):
        for number, words in enumerate(PREDICTIONS, 1):
            st.button(
                words.capitalize(),
                key=f"predict_{number}",
                type="primary",
                shortcut=str(number),
                on_click=_predict,
                args=(epsilon, game, words),
            )
    st.caption("Keys 1, 2, 3 work too.")


def _play_round(epsilon: float, game: Game, match: Match) -> None:
    if match.said_a is None:
        st.markdown("**Which one was it?**")
        with st.container(horizontal=True):
            for name, said in (("A", True), ("B", False)):
                st.button(
                    f"It was {name}",
                    key=f"guess_{name}",
                    type="primary",
                    shortcut=name,
                    on_click=_guess,
                    args=(epsilon, game, said),
                )
    else:
        right = match.said_a == match.from_a
        (st.success if right else st.error)(
            match.report, icon=":material/check:" if right else ":material/close:"
        )
        st.button(
            "Next round",
            key="next_round",
            type="primary",
            icon=":material/casino:",
            shortcut="N",
            on_click=_next,
            args=(epsilon, game),
        )
    if match.you.rounds:
        low, high = match.you.interval()
        st.markdown(
            f"You predicted **{match.prediction}** of 10. So far, **{match.you.right} of "
            f"{match.you.rounds}** were right. With so few rounds, your true share lies between "
            f"{low:.0%} and {high:.0%} (95% confidence)."
        )


def _show_evidence(table: _Table, match: Match, released: Mixture | None, noise: bool) -> None:
    """Draw one published number, magnified, with what A and B give."""
    near = table.magnified
    shown = None if released is None else near.read(released)
    guessed = match.said_a is not None
    apart = abs(near.of_a - near.of_b)
    st.plotly_chart(
        evidence_figure(
            near.of_a,
            near.of_b,
            shown,
            name=near.name,
            draws=(near.draws_a, near.draws_b) if noise else None,
        ),
        key="evidence",
        config={"displaylogo": False, "displayModeBar": False, "scrollZoom": False},
        alt=f"One published number, {near.name}: "
        + ("refused" if shown is None else number_in_words(shown))
        + f". Without noise A gives {near.of_a:.6f} and B {near.of_b:.6f}."
        + (f" It was {'A' if match.from_a else 'B'}." if guessed else ""),
    )
    if not noise:
        st.caption(
            f"One published number under the magnifying glass: {near.name}. A and B give numbers "
            f"that differ by {number_in_words(apart, 2)}, and the published one is one of them."
            if apart
            else f"One published number: {near.name}. A and B agree in it, and differ in others."
        )
        return
    spread = float(np.std(near.draws_a)) if near.draws_a.size else 0.0
    ratio = spread / apart if apart else math.inf
    st.caption(
        f"One published number: {near.name}. The bars show what A and what B might publish. "
        + (
            f"The noise is {number_in_words(ratio, 2)} times as wide as the difference of A and B."
            if math.isfinite(ratio)
            else "A and B agree in it, except for the noise."
        )
    )


def _show_round(released: Mixture | None, person: str) -> None:
    rows = neighbours.data().rows
    row_a, row_b = rows[_ROW], neighbours.moved_row(_ROW, _DISTANCES[person])
    if released is None:
        st.info("In this round the answer was ⊥: refused.", icon=":material/shield:")
    alone = person == "worst case"
    st.plotly_chart(
        round_figure(released, rows, row_a, row_b, in_doubt=not alone),
        key="round",
        config={"displaylogo": False, "scrollZoom": False},
        alt="The people that both data sets share, and the mixture released in this round."
        + ("" if alone else f" The person who differs lies {_DISTANCES[person]:,.1f} away in B."),
    )
    st.caption(
        ":material/science: All people are generated. Only the release would be public. You see "
        "the people because the attacker is assumed to know them."
    )


def _show_limits(table: _Table, plan: Plan, noise: bool) -> None:
    stated = percent_at_most(plan.spent().guess_ceiling)
    st.metric(
        "Proved ceiling",
        percent_at_most(plan.ceiling) if noise else "broken",
        help="With noise, no attacker is right more often, whatever they know, for any two data "
        f"sets that differ in one person. From ε and δ alone it would be {stated}, "
        "(exp(ε) + δ) / (1 + exp(ε)). Without noise there is no such limit.",
        width="content",
    )
    best = table.duel.best_success if noise else 1.0 if table.differ() else 0.5
    st.metric(
        "Best possible here",
        f"{best:.2%}" if noise else f"{best:.0%}",
        help="Computed exactly for these two data sets: one half plus half the total variation "
        "between what A and B publish.",
        width="content",
    )


def _show_scores(match: Match, plan: Plan, noise: bool) -> None:
    ceiling, stated = plan.ceiling, plan.spent().guess_ceiling
    scores = {"You": match.you, "Best, same rounds": match.rival, "Best, many rounds": match.best}
    played = {name: score for name, score in scores.items() if score.rounds}
    if not played:
        st.caption("Guess, or let the best strategy play: the score appears here.")
        return
    st.plotly_chart(
        score_figure(played, ceiling=ceiling, stated=stated, noise=noise),
        key="scores",
        config={"displaylogo": False, "displayModeBar": False},
        alt="Shares of right guesses. "
        + " ".join(f"{name}: {s.right} of {s.rounds}." for name, s in played.items())
        + f" Chance level is 50%, the proved ceiling{'' if noise else ' with noise'} is "
        f"{percent_at_most(ceiling)}; ε and δ alone say {percent_at_most(stated)}.",
    )
    if match.best.rounds:
        low, high = match.best.interval()
        if not noise:
            verdict = ". **Without noise no ceiling holds.**"
        else:
            where = "That is below" if high <= ceiling else "The interval reaches"
            verdict = f": {low:.1%} to {high:.1%} with 95% confidence. {where} the ceiling."
        st.caption(
            f"The best strategy was right in {match.best.right:,} of {match.best.rounds:,} "
            f"rounds{verdict}"
        )
