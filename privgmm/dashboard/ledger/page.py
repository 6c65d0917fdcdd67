"""The page Ledger: what has been spent on a data set, what is left, and what proves it.

Everything here is about budgets and plans, none of which depends on the rows. So nothing on the
page is confidential but the verdicts of releases that were not published.
"""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from privgmm.budget import Budget, percent_at_most
from privgmm.dashboard.ledger.class_releases import release_twice
from privgmm.dashboard.shared.accounts import DataAccount, accounts_to_show
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import show_link
from privgmm.dashboard.shared.refresh import refreshing_page
from privgmm.data.spreadsheets import frame_csv
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.figures.ledger import spending_alt_text, spending_figure
from privgmm.ledger.history import Entry, History, LedgerStanding
from privgmm.methods import registry
from privgmm.privacy.composition import added, total
from privgmm.records.bundle import bundle_bytes
from privgmm.records.receipt import receipt_text
from privgmm.teaching.format import escaped, method_title, number_in_words, problem_in_words
from privgmm.teaching.rehearsal import DELTA_STOPS

__all__ = ["page", "show_spent"]

_PROBLEM = "ledger_problem"
_ROUNDING = 1e-9
"""Relative rounding error of sums of delta, by far."""

_REFUSAL = """
A refusal says that the blocks did not agree, or that there were too few rows. A single row can
decide that. If refusals were free, someone could ask again and again, and learn from the answers
*released* and *refused* whether you are in the data. So the answer itself is noisy and has a price,
the same for both answers. It is written down **before** the noise is drawn. A release that was
stopped half-way counts too: someone may have seen its noise.
"""
_TOTAL = """
Each answer reveals a little, and this adds up. The simple rule adds all ε and all δ. But the worst
case of one answer is rarely the worst case of the next: bad luck averages out. Rényi differential
privacy keeps track of all losses *together* and pays for rare bad luck only once, at the end. The
total then grows about like the square root of the number of answers. Both rules are right; the
ledger takes the smaller number.
"""
_CAP = """
With a cap the ledger itself says no: a release that would go over it is not made, no noise is
drawn, and nothing is spent. Set it before the first release. A cap cannot be raised or removed:
that is why people can rely on it.
"""
_ASKED = "ledger_cap_asked"


@refreshing_page
def page() -> None:
    """Render the page."""
    link = frame(
        "What has been spent?",
        "Every answer about a data set costs privacy, and the costs add up. This is the account.",
    )
    release_twice()
    account = _choose()
    if account is None:
        st.info(
            "No data has been chosen in this session, so there is no account to show. Choose "
            "some on Explore.",
            icon=":material/receipt_long:",
        )
        st.page_link("app.py", label="Explore", icon=":material/explore:")
    else:
        try:
            _show(account)
        except PrivGMMError as problem:
            st.error(problem_in_words(problem), icon=":material/error:")
    left, right = st.container(key="sharing").columns(2)
    with left.container(border=True, height="stretch"):
        st.markdown("**Why a refusal costs too**")
        st.markdown(_REFUSAL)
    with right.container(border=True, height="stretch"):
        st.markdown("**Why the total is less than the sum**")
        st.markdown(_TOTAL)
    with link:
        # the account belongs to the session: the address holds none of it
        show_link({})


def _choose() -> DataAccount | None:
    table = accounts_to_show()
    if len(table) < 2:
        return table[0] if table else None
    chosen = st.selectbox(
        "Data set",
        range(len(table)),
        format_func=lambda i: f"{i + 1} · {table[i].name}",
        key="ledger_account",
    )
    return table[chosen]


def _show(account: DataAccount) -> None:
    # Read once: another session may charge the same account meanwhile.
    history = account.ledger().history()
    entries, standing = history.entries, history.standing()
    st.markdown(f"**{escaped(account.name)}**")
    st.caption(
        "Uploaded rows: the account is kept on this machine under a salted fingerprint of the "
        "whole file, and the same file meets it again after a reload, in another session and on "
        "the command line."
        if account.lasting
        else "Generated or bundled data: no one's privacy is at stake. This account ends with the "
        "session."
    )
    if entries:
        _numbers(standing, history)
        st.plotly_chart(
            spending_figure(entries, cap=standing.cap),
            key="spending",
            config={"displayModeBar": False, "scrollZoom": False},
            alt=spending_alt_text(entries, cap=standing.cap),
        )
        st.dataframe(_table(entries), hide_index=True, key="spends")
        for method in dict.fromkeys(entry.method for entry in entries):
            _explain_less(method)
        _exports(account, history.export(), standing)
    else:
        st.info("Nothing has been spent on these rows.", icon=":material/savings:")
    _cap(account, standing)
    _receipts(account, [entry.number for entry in entries])


def _numbers(standing: LedgerStanding, history: History) -> None:
    """Show all totals at one delta: the cap's, or without a cap the sum of all deltas."""
    parts = added(history.spends)
    at = parts.delta if standing.cap is None else standing.cap.delta
    together = total(history.spends, at)
    boxes = st.container(horizontal=True, key="totals")
    same = f"at δ = {number_in_words(at, 3)}"
    boxes.metric(
        "Together",
        f"ε = {number_in_words(together.epsilon)}",
        same,
        delta_color="off",
        delta_arrow="off",
        help="What all answers reveal together: the joint Rényi account, or the sum if that "
        "is less. It holds if all were planned before the first result was seen",
    )
    fits = parts.delta <= at * (1 + _ROUNDING)
    boxes.metric(
        "Sum of the parts",
        f"ε = {number_in_words(parts.epsilon)}" if fits else "none",
        same,
        delta_color="off",
        delta_arrow="off",
        help=f"All ε and all δ added up (δ: {number_in_words(parts.delta, 3)}): this holds also if "
        "some were planned after a look at others"
        + ("" if fits else ". Their δ is more than the δ of the cap, so it says nothing there"),
    )
    if (ceiling := standing.ceiling) is not None:
        boxes.metric(
            "Guessed right",
            f"≤ {percent_at_most(ceiling)}",
            "chance level: 50%",
            delta_color="off",
            delta_arrow="off",
            help=f"From all answers together {standing.attacker}: proved from what each draws",
        )
    boxes.metric("Answers", f"{standing.spends}", help="Released, refused and unfinished ones")
    if standing.cap is not None:
        left = standing.remaining
        boxes.metric(
            "Left under the cap",
            "nothing" if left is None else f"ε = {number_in_words(left.epsilon)}",
            None if left is None else f"with δ = {number_in_words(left.delta, 3)}",
            delta_color="off",
            delta_arrow="off",
            help="One more release with this ε and δ certainly fits, however it is made. Many "
            "releases cost less together than their ε added up, so more may fit.",
        )
        boxes.metric(
            "More like the last", f"{standing.more or 0:,}", help="This many certainly fit"
        )


def _when(text: str) -> str:
    return datetime.datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def _table(entries: Sequence[Entry]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            # The file's own numbers would count the spends of other data sets.
            "Nr": range(1, len(entries) + 1),
            "Answer": [entry.verdict.capitalize() for entry in entries],
            "ε": [float(f"{entry.budget.epsilon:.4g}") for entry in entries],
            "δ": [number_in_words(entry.budget.delta, 2) for entry in entries],
            "Method": [method_title(entry.method) for entry in entries],
            "Noise": ["from a seed: no protection" if e.seeded else "fresh" for e in entries],
            "When": [_when(entry.intended) for entry in entries],
        }
    )


def _explain_less(name: str) -> None:
    """Explain why a method may be charged less than it was given."""
    if name in registry.names() and (why := registry.get(name).spends_less):
        st.caption(f":material/info: **{method_title(name)}.** {why}")


def _exports(account: DataAccount, rows: list[dict[str, Any]], standing: LedgerStanding) -> None:
    """Offer the ledger: without a fingerprint, and without numbers of other data sets."""
    plain = [
        {"number": i} | {k: v for k, v in row.items() if k not in ("number", "account")}
        for i, row in enumerate(rows, 1)
    ]
    whole = {
        "data": account.name,
        "standing": {k: v for k, v in standing.to_dict().items() if k != "account"},
        "spends": plain,
    }
    line = st.container(horizontal=True)
    _download(line, "Ledger (CSV)", "privgmm-ledger.csv", lambda: frame_csv(pd.DataFrame(plain)))
    _download(line, "Ledger (JSON)", "privgmm-ledger.json", lambda: json.dumps(whole, indent=1))


def _cap(account: DataAccount, standing: LedgerStanding) -> None:
    with st.container(border=True, key="cap"):
        if problem := st.session_state.pop(_PROBLEM, None):
            st.error(problem_in_words(problem), icon=":material/error:")
        if standing.cap is not None:
            st.markdown(
                f"**Cap: {_budget(standing.cap)}.** A release that would go over it is not made: "
                "nothing is drawn then, and nothing spent."
            )
            return
        asked = st.session_state.get(_ASKED)
        if asked is not None and asked[0] is account:
            _confirm(account, asked[1])
            return
        st.markdown("**No cap**")
        st.markdown(_CAP)
        with st.form("cap_form", border=False):
            inputs = st.container(horizontal=True, vertical_alignment="bottom")
            inputs.number_input(
                "Most ε in total", 0.01, 1000.0, 4.0, 0.5, key="cap_epsilon", width=160
            )
            inputs.selectbox(
                "Most δ in total",
                DELTA_STOPS,
                DELTA_STOPS.index(1e-5),
                format_func=number_in_words,
                key="cap_delta",
                width=160,
            )
            inputs.form_submit_button(
                "Set this cap…", icon=":material/lock:", on_click=_ask_for_cap, args=(account,)
            )


def _budget(budget: Budget) -> str:
    return f"ε = {number_in_words(budget.epsilon)}, δ = {number_in_words(budget.delta)}"


def _confirm(account: DataAccount, cap: Budget) -> None:
    """Ask for confirmation: Enter in a field is pressed easily, and a cap cannot be removed."""
    st.warning(
        f"**Set the cap {_budget(cap)} for good?** It holds for everyone who uses these rows, and "
        "no one can raise or remove it.",
        icon=":material/lock:",
    )
    spent = account.ledger().total(cap.delta)
    if spent is not None and not cap.covers(spent):
        st.markdown(
            f"The answers so far cost {_budget(spent)} together, more than this cap: no further "
            "release will be possible."
        )
    buttons = st.container(horizontal=True)
    buttons.button(
        "Set it for good",
        key="cap_set",
        type="primary",
        icon=":material/lock:",
        on_click=_set_cap,
        args=(account, cap),
    )
    buttons.button("Not now", key="cap_not", on_click=_forget_cap)


def _ask_for_cap(account: DataAccount) -> None:
    state = st.session_state
    cap = Budget(float(state["cap_epsilon"]), float(state["cap_delta"]))
    state[_ASKED] = account, cap


def _forget_cap() -> None:
    st.session_state.pop(_ASKED, None)


def _set_cap(account: DataAccount, cap: Budget) -> None:
    _forget_cap()
    try:
        account.ledger(cap=cap)
    except InvalidInput as problem:
        # Another session set another one first.
        st.session_state[_PROBLEM] = problem.problem


def _receipts(account: DataAccount, numbers: list[int]) -> None:
    """Offer the receipts of this session; other sessions have their own."""
    if not account.receipts:
        return
    with st.container(border=True, key="receipts"):
        st.markdown("**Receipts of this session**")
        st.markdown(
            "A receipt may be shared: it holds the release or the refusal, the plan and the "
            "promise, and `privgmm verify` checks it without the data."
        )
        named = {numbers.index(entry) + 1: kept for entry, kept in account.receipts.items()}
        line = st.container(horizontal=True, vertical_alignment="bottom")
        nr = line.selectbox("Answer", sorted(named, reverse=True), key="receipt_of", width=110)
        receipt, columns = named[nr]
        _download(
            line, "Receipt (JSON)", f"privgmm-receipt-{nr}.json", lambda: receipt_text(receipt)
        )
        if receipt["released"]:
            _download(
                line,
                "Bundle (ZIP)",
                f"privgmm-release-{nr}.zip",
                lambda: bundle_bytes(receipt, columns=columns),
            )
        texts = {n: receipt_text(one) for n, (one, _) in named.items()}
        _download(line, "All receipts (ZIP)", "privgmm-receipts.zip", lambda: _zipped(texts))
        if receipt["released"]:
            st.caption(
                "A bundle holds the receipt, synthetic rows, a figure and a notebook, all made "
                "from the release alone."
            )


def _download(place: Any, label: str, name: str, write: Callable[[], str | bytes]) -> None:
    kinds = {".json": "application/json", ".csv": "text/csv", ".zip": "application/zip"}
    place.download_button(
        label,
        data=write,
        file_name=name,
        mime=kinds[name[name.rindex(".") :]],
        icon=":material/folder_zip:" if name.endswith(".zip") else ":material/download:",
        on_click="ignore",
        key=f"download {label}",
    )


def _zipped(texts: dict[int, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for nr, text in texts.items():
            archive.writestr(f"privgmm-receipt-{nr}.json", text)
    return buffer.getvalue()


def show_spent(account: DataAccount) -> None:
    """Say in a line what was spent on these rows, and what is left."""
    standing = account.ledger().standing()
    where = "" if account.lasting else " in this session"
    if standing.total is None:
        words = (
            "Release draws the noise, once, and spends the budget. Nothing has been spent on "
            f"these rows{where}."
        )
    else:
        count = standing.spends
        words = (
            f"**{count} release{'s' * (count != 1)} so far; ε used: "
            f"{number_in_words(standing.total.epsilon, 3)}**, "
            f"δ used: {number_in_words(standing.total.delta)}{where}. Refusals count too."
        )
        last = account.entries[-1].method
        if last in registry.names() and (why := registry.get(last).spends_less):
            words += f" {method_title(last)}: {why[0].lower()}{why[1:]}"
    if standing.cap is not None:
        left = standing.remaining
        words += " The cap leaves " + (
            "nothing"
            if left is None
            else f"ε = {number_in_words(left.epsilon, 3)}, δ = {number_in_words(left.delta, 2)}"
        )
        words += "." if standing.more is None else f", or {standing.more:,} more like the last one."
    for found in account.look_alikes():
        st.warning(
            escaped(
                f"These rows have {found.likeness} as others of this session, which have their own "
                f"account ({found.history.standing().total_in_words}). If both are about the same "
                "people, what is spent on both adds up for them."
            ),
            icon=":material/group:",
        )
    line = st.container(horizontal=True, vertical_alignment="center")
    line.caption(words, width="stretch")
    line.page_link("pages/Ledger.py", label="Ledger", icon=":material/receipt_long:")
