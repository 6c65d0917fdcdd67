"""The section Adversaries: run the attacks of `privgmm.audit` on demand, show what they find."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from privgmm import audit
from privgmm.audit import Finding, Report

__all__ = ["findings_table", "show_adversaries"]

_REPORT = "audit_report"
_BROKEN = "broken: "


def findings_table(findings: tuple[Finding, ...]) -> pd.DataFrame:
    """Make a table of findings: verdict, what was attacked, the claim, measured value and limit."""
    return pd.DataFrame(
        {
            "": [_verdict(finding) for finding in findings],
            "Attacked": [finding.name.removeprefix(_BROKEN) for finding in findings],
            "Claim": [finding.claim for finding in findings],
            "Measured": [f"{finding.measured:.4g}" for finding in findings],
            "Limit": [f"{finding.limit:.4g}" for finding in findings],
            "How": [finding.detail for finding in findings],
        }
    )


def _verdict(finding: Finding) -> str:
    if finding.name.startswith(_BROKEN):
        return "✓ caught" if finding.passed else "✗ missed"
    return "✓ held" if finding.passed else "✗ broken"


def show_adversaries() -> None:
    """Draw the section Adversaries."""
    st.markdown(
        "The package attacks itself. It searches for the neighbouring data sets for which each "
        "bound is tightest, draws from every mask, and runs whole releases on neighbours. To show "
        "that it can fail, it also runs **deliberately broken variants that must be caught**."
    )
    if st.button(
        "Attack now",
        type="primary",
        icon=":material/bug_report:",
        key="attack",
        help="Takes up to a minute. `python -m privgmm.audit` does it more thoroughly.",
    ):
        st.session_state[_REPORT] = _attack()
    report = st.session_state.get(_REPORT)
    if isinstance(report, Report):
        _show(report)


def _attack() -> Report:
    with st.status("Attacking…", expanded=True) as status:
        bar = st.progress(0.0)

        def progress(done: int, total: int) -> None:
            bar.progress(done / total, text=f"{done} of {total} attacks")

        report = audit.run_audit(rng=0, progress=progress)
        status.update(label="Done", state="complete", expanded=False)
    return report


def _show(report: Report) -> None:
    broken = tuple(f for f in report.findings if f.name.startswith(_BROKEN))
    claims = tuple(f for f in report.findings if not f.name.startswith(_BROKEN))
    if report.passed:
        st.success(
            f"**All {len(claims)} claims held**, and all {len(broken)} broken variants were "
            "caught.",
            icon=":material/verified_user:",
        )
    else:
        st.error(
            f"**{len(report.failures)} of {len(report.findings)} checks failed.** Please report "
            "this: a promise may not hold.",
            icon=":material/error:",
        )
    with st.container(horizontal=True):
        st.metric(
            "Claims held",
            f"{sum(f.passed for f in claims)} of {len(claims)}",
            help="The worst case found stayed within what the proof allows",
            width="content",
        )
        st.metric(
            "Broken variants caught",
            f"{sum(f.passed for f in broken)} of {len(broken)}",
            help="Variants broken on purpose, for example without noise, that a check noticed",
            width="content",
        )
    for title, findings in (("Claims", claims), ("Broken on purpose", broken)):
        if findings:
            st.markdown(f"**{title}**")
            st.dataframe(findings_table(findings), hide_index=True)
    st.caption(
        ":material/public: No one's rows were used: the attacks run on generated rows and on the "
        "plan's numbers."
    )
