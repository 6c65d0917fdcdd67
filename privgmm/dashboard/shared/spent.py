"""What was spent on the table in use, in the header of every page: a bar and two numbers."""

from __future__ import annotations

import html
from typing import NamedTuple

import streamlit as st

from privgmm.dashboard.shared.accounts import DataAccount, accounts_to_show
from privgmm.errors import PrivGMMError
from privgmm.ledger.history import LedgerStanding
from privgmm.teaching.format import number_in_words
from privgmm.teaching.rehearsal import EPSILON_STOPS

__all__ = ["Spent", "show_budget", "spent_on"]

_GUESSES = "header_guesses"
_LEAST = 0.02
"""Share of the bar that any spend fills at least: it must be seen that there was one."""


class Spent(NamedTuple):
    """What the header says.

    Parameters
    ----------
    words : str
    note : str
        The same for those who do not see the bar, and on hover.
    share : float
        How much of the bar is filled, between 0 and 1.
    """

    words: str
    note: str
    share: float


def spent_on(account: DataAccount | None) -> Spent:
    """Say what was spent on a table; None where no table was chosen."""
    if account is None:
        return Spent("ε used: 0", "No table is in use, so nothing has been spent.", 0.0)
    standing = account.ledger().standing()
    if standing.total is None:
        return Spent("ε used: 0", f"Nothing has been spent on {account.name}.", 0.0)
    epsilon, guess = standing.total.epsilon, _ceiling(account, standing)
    whole = EPSILON_STOPS[-1] if standing.cap is None else standing.cap.epsilon
    limit = f"the largest ε offered, {whole:g}" if standing.cap is None else f"the cap, {whole:g}"
    words = f"ε used: {number_in_words(epsilon, 3)}"
    if guess is not None:
        words += f" · attacker right: {guess:.0%}"
    count = standing.spends
    note = (
        f"{count} release{'s' * (count != 1)} and refusals of {account.name}, added up as the "
        f"ledger does; the bar ends at {limit}. Someone who knows all other rows and sees "
        "every answer guesses right at most this often; chance level is 50%."
    )
    return Spent(words, note, min(1.0, max(_LEAST, epsilon / whole)))


def _ceiling(account: DataAccount, standing: LedgerStanding) -> float | None:
    """Compute the attacker's chance once for each spend: it takes longer than a rerun may."""
    kept: dict[tuple[str, int], float | None] = st.session_state.setdefault(_GUESSES, {})
    key = account.fingerprint, standing.spends
    if key not in kept:
        kept[key] = standing.ceiling
    return kept[key]


def show_budget() -> None:
    """Show the bar for the table in use."""
    try:
        spent = spent_on(next(iter(accounts_to_show()), None))
    except PrivGMMError as problem:
        spent = Spent("ε used: not known", f"The ledger cannot be read: {problem}", 0.0)
    st.html(
        f'<div class="privgmm-budget" role="status" title="{html.escape(spent.note)}" '
        f'aria-label="{html.escape(f"{spent.words}. {spent.note}")}">'
        f"<div>{html.escape(spent.words)}</div>"
        f'<div class="rail"><div class="fill" style="width: {100 * spent.share:.0f}%"></div></div>'
        "</div>"
    )
