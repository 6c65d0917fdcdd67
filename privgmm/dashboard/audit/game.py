"""The section Guess: predict, guess from which data set a release was made, see the score.

The game itself is in `privgmm.teaching.game`; its best strategy plays many more rounds on request.
"""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from privgmm.audit.guessing import Score
from privgmm.budget import percent_at_most
from privgmm.dashboard.shared.lessons import Writer, class_prediction, scene_line
from privgmm.dashboard.shared.refresh import result_or_notice
from privgmm.figures.guessing import evidence_figure, round_figure, score_figure
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.teaching import neighbours
from privgmm.teaching.format import number_in_words
from privgmm.teaching.game import (
    ABOUT,
    DISTANCES,
    PREDICTIONS,
    ROW,
    Game,
    GameTable,
    Match,
    game_table,
)

__all__ = ["GAME_WRITERS", "choose_game", "play_game"]

_ROUNDS = 100_000
"""Rounds of the best strategy: its 95 % interval then spans at most 0.6 percentage points."""
_NOISE = ("on", "off")
GAME_WRITERS: dict[str, Writer] = {"noise": str, "person": str}


def _match(epsilon: float, game: Game) -> Match:
    table: dict[tuple[float, Game], Match] = st.session_state.setdefault("audit_matches", {})
    return table.setdefault((epsilon, game), Match())


def _predict(epsilon: float, game: Game, prediction: str) -> None:
    _match(epsilon, game).prediction = prediction


def _guess(epsilon: float, game: Game, said_a: bool) -> None:
    _match(epsilon, game).guess(game_table(epsilon, game.person), game.noise, said_a)


def _next(epsilon: float, game: Game) -> None:
    _match(epsilon, game).deal(game_table(epsilon, game.person).duel, game.noise)


def _play(epsilon: float, game: Game) -> None:
    match, table = _match(epsilon, game), game_table(epsilon, game.person)
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
        list(DISTANCES),
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
        ("table", epsilon, game.person), lambda: game_table(epsilon, game.person), saying
    )
    if table is None:
        return
    match, plan = _match(epsilon, game), neighbours.plan(epsilon)
    said = class_prediction()
    if match.prediction is None and said is not None and not game.noise:
        # the class has asked the same question above
        match.prediction = PREDICTIONS[said]
    if not match.deals:
        match.deal(table.duel, game.noise)
    released = match.released(table, game.noise)
    with st.container(key="split"):
        side, picture = st.columns([1, 1.3], gap="medium")
    with side:
        if not game.noise:
            st.warning(
                "**No noise: broken on purpose.** It runs on these generated people only. Nothing "
                "that you upload can be released like this.",
                icon=":material/heart_broken:",
            )
        st.markdown(f"{ABOUT[game.person]} A coin chose A or B, and one release was made from it.")
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


def _show_evidence(table: GameTable, match: Match, released: Mixture | None, noise: bool) -> None:
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
    row_a, row_b = rows[ROW], neighbours.moved_row(ROW, DISTANCES[person])
    if released is None:
        st.info("In this round the answer was ⊥: refused.", icon=":material/shield:")
    alone = person == "worst case"
    st.plotly_chart(
        round_figure(released, rows, row_a, row_b, in_doubt=not alone),
        key="round",
        config={"displaylogo": False, "scrollZoom": False},
        alt="The people that both data sets share, and the mixture released in this round."
        + ("" if alone else f" The person who differs lies {DISTANCES[person]:,.1f} away in B."),
    )
    st.caption(
        ":material/science: All people are generated. Only the release would be public. You see "
        "the people because the attacker is assumed to know them."
    )


def _show_limits(table: GameTable, plan: Plan, noise: bool) -> None:
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
