"""The guessing game on the page: guess, see, and let the best strategy play."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import streamlit as st

from privgmm.arrays import Array
from privgmm.audit.guessing import Duel, Score, at_worst_count, duel_between
from privgmm.audit.privacy_loss import farthest_from, mask_pair, masked_from
from privgmm.budget import percent_at_most
from privgmm.dashboard.audit import neighbours
from privgmm.dashboard.shared.jobs import beside
from privgmm.dashboard.shared.lessons import Writer, controls_panel
from privgmm.figures.guessing import round_figure, score_figure
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.release import Outcome

__all__ = ["WRITERS", "Match", "duel_of", "play_game"]

_ROUNDS = 100_000
_ROW = 5
_DISTANCES = {"ordinary": 1.5, "outlier": 1e6, "worst": 0.0}
_KINDS = {
    "ordinary": "An ordinary row",
    "outlier": "An outlier",
    "worst": "The worst case",
}
WRITERS: dict[str, Writer] = {"neighbours": lambda name: _KINDS[name]}
_ABOUT = {
    "ordinary": "A and B differ in one row, by a step to the side.",
    "outlier": "In B one row lies a million away. Without privacy everybody would see it.",
    "worst": "No data set needs to look like this: what goes into the mask differs by as much as "
    "the proof allows, and the test's count by one, where that tells most. It may refuse.",
}


@dataclasses.dataclass
class Match:
    """The state of play for one choice of ε and of neighbours."""

    you: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    rival: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    best: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    from_a: bool = True
    seen: Array | None = None
    deals: int = 0
    report: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class _Table:
    """Both sides of a game: the duel, and what goes into the mask on either side."""

    duel: Duel
    item_a: Any
    item_b: Any


@functools.lru_cache(maxsize=16)
def _table(epsilon: float, kind: str) -> _Table:
    plan, first = neighbours.plan(epsilon), neighbours.outcome(epsilon)
    item = _masked(first)
    if kind == "worst":
        other = farthest_from(item, plan.gamma)
        pair = mask_pair(plan.space, item, other)
        return _Table(at_worst_count(pair, plan.stages[0].price().chances), item, other)
    second = neighbours.outcome(epsilon, _ROW, _DISTANCES[kind])
    return _Table(duel_between(first, second), item, _masked(second))


def duel_of(epsilon: float, kind: str) -> Duel:
    """What the strongest guesser knows of neighbours of this kind."""
    return _table(epsilon, kind).duel


def _masked(outcome: Outcome) -> Any:
    """What went into the mask."""
    verdict = outcome.curator.verdict
    return outcome.result.plan.space.representative(
        outcome.curator.fits, verdict.weights, verdict.reference
    )


def _match(epsilon: float, kind: str) -> Match:
    table: dict[tuple[float, str], Match] = st.session_state.setdefault("audit_matches", {})
    return table.setdefault((epsilon, kind), Match())


def _deal(match: Match, duel: Duel) -> None:
    """Toss the coin and draw what is seen; kept until it is guessed."""
    rng = np.random.default_rng()
    match.from_a = bool(rng.random() < 0.5)
    passed = rng.random() < (duel.pass_a if match.from_a else duel.pass_b)
    match.seen = None
    match.deals += 1
    if passed and duel.pair is not None:
        match.seen = duel.pair.draw([match.from_a], rng=rng)[0]


def _loss(duel: Duel, seen: Array | None) -> float:
    """``ln P_A - ln P_B`` of what is seen."""
    if seen is None or duel.pair is None:
        return math.log1p(-duel.pass_a) - math.log1p(-duel.pass_b)
    return math.log(duel.pass_a) - math.log(duel.pass_b) + float(duel.pair.loss(seen[None])[0])


def _guess(epsilon: float, kind: str, said_a: bool) -> None:
    match, duel = _match(epsilon, kind), _table(epsilon, kind).duel
    loss = _loss(duel, match.seen)
    right, rival_right = said_a == match.from_a, (loss > 0) == match.from_a
    match.you += Score(int(right), 1)
    match.rival += Score(int(rival_right), 1)
    match.report = (
        f"It was **{'A' if match.from_a else 'B'}**: you were **{'right' if right else 'wrong'}**. "
        f"The best strategy said {'A' if loss > 0 else 'B'}, with odds of only "
        f"{math.exp(abs(loss)):.3f} to 1."
    )
    _deal(match, duel)


def _play(epsilon: float, kind: str) -> None:
    match, duel = _match(epsilon, kind), _table(epsilon, kind).duel
    match.best += duel.play(_ROUNDS, rng=np.random.default_rng())


def play_game(epsilon: float) -> None:
    """Draw the section."""
    with controls_panel("neighbours", border=False):
        kind = st.segmented_control(
            "How A and B differ",
            list(_KINDS),
            default="ordinary",
            required=True,
            format_func=lambda name: _KINDS[name],
            key="neighbours",
            bind="query-params",
        )
    saying = f"Releasing from A and from B at ε = {epsilon:g}…"
    table = beside(("table", epsilon, kind), lambda: _table(epsilon, kind), saying)
    if table is None:
        return
    match, plan = _match(epsilon, kind), neighbours.plan(epsilon)
    if not match.deals:
        _deal(match, table.duel)
    with st.container(key="split"):
        picture, side = st.columns([1.4, 1], gap="medium")
    with picture:
        _show_round(table, match, kind)
    with side:
        st.markdown(
            f"A coin chose data set **A** or **B**, and this was released from it. {_ABOUT[kind]} "
            "**Which one was it?**"
        )
        with st.container(horizontal=True):
            for name, said in (("A", True), ("B", False)):
                st.button(
                    f"It was {name}",
                    key=f"guess_{name}",
                    type="primary",
                    on_click=_guess,
                    args=(epsilon, kind, said),
                )
        if match.report:
            st.info(match.report, icon=":material/casino:")
        st.button(
            f"Let the best strategy play {_ROUNDS:,} rounds",
            key="play_best",
            icon=":material/fast_forward:",
            on_click=_play,
            args=(epsilon, kind),
            help="It knows both data sets, all fits and both chances, and takes the likelier one.",
        )
        _show_limits(table.duel, plan)
    _show_scores(match, plan)


def _show_round(table: _Table, match: Match, kind: str) -> None:
    rows = neighbours.data().rows
    row_a, row_b = rows[_ROW], neighbours.moved(_ROW, _DISTANCES[kind])
    released: Mixture | None = None
    if match.seen is not None:
        released = masked_from(table.item_a, table.item_b, match.seen)
    if released is None:
        st.info("In this round the answer was ⊥: refused.", icon=":material/shield:")
    where = f"A's row lies at ({row_a[0]:.3g}, {row_a[1]:.3g}), B's at ({row_b[0]:.3g}, "
    st.plotly_chart(
        round_figure(released, rows, row_a, row_b, in_doubt=kind != "worst"),
        key="round",
        config={"displaylogo": False, "scrollZoom": False},
        alt="The rows both data sets share and the mixture released in this round. "
        + ("" if kind == "worst" else f"{where}{row_b[1]:.3g})."),
    )
    st.caption(
        ":material/science: Made-up rows. Only the release would be public; you see the rows "
        "because the guesser is assumed to know them."
    )


def _show_limits(duel: Duel, plan: Plan) -> None:
    stated = percent_at_most(plan.spent().guess_ceiling)
    with st.container(horizontal=True):
        st.metric(
            "Proved ceiling",
            percent_at_most(plan.ceiling),
            help="Nobody, whatever they know, is right more often, for any two neighbouring data "
            f"sets: proved from the noise that this plan draws. From ε and δ alone it would be "
            f"{stated}, (exp(ε) + δ) / (1 + exp(ε)).",
            width="content",
        )
        st.metric(
            "Best possible here",
            f"{duel.best_success:.2%}",
            help="For these two data sets, computed exactly: one half plus half the total "
            "variation between what A and B show.",
            width="content",
        )


def _show_scores(match: Match, plan: Plan) -> None:
    ceiling, stated = plan.ceiling, plan.spent().guess_ceiling
    scores = {"You": match.you, "Best, same rounds": match.rival, "Best, many rounds": match.best}
    played = {name: score for name, score in scores.items() if score.rounds}
    if not played:
        st.caption("Guess, or let the best strategy play, and the score appears here.")
        return
    st.plotly_chart(
        score_figure(played, ceiling=ceiling, stated=stated),
        key="scores",
        config={"displaylogo": False, "displayModeBar": False},
        alt="Shares of right guesses. "
        + " ".join(f"{name}: {s.right} of {s.rounds}." for name, s in played.items())
        + f" A coin has 50%, the proved ceiling is {percent_at_most(ceiling)}; ε and δ alone say "
        f"{percent_at_most(stated)}.",
    )
    if match.best.rounds:
        low, high = match.best.interval()
        st.caption(
            f"The best strategy was right in {match.best.right:,} of {match.best.rounds:,} rounds: "
            f"{low:.1%} to {high:.1%} with 95% confidence. "
            + ("Below the ceiling." if high <= ceiling else "The interval reaches the ceiling.")
        )
