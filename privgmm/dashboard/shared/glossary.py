"""Explain the words and letters of the pages, each in a sentence or two."""

from __future__ import annotations

import streamlit as st

__all__ = ["GLOSSARY", "show_glossary"]

GLOSSARY: dict[str, str] = {
    "ε (epsilon), privacy budget": "How much one person's row can change what is published: every "
    "outcome becomes at most e^ε times as likely. Around 1 is strong, 10 is weak.",
    "δ (delta), failure chance": "How much of the promise may fail. Keep it far below one divided "
    "by the number of rows.",
    "α (alpha), accuracy": "How far the released mixture may be from the truth: 0 is perfect, 1 is "
    "wrong. A release is called useful if nine in ten are within α. A smaller α needs more rows or "
    "a larger ε.",
    "Useful, not as accurate, refused": "The three verdicts. Green is for useful alone; amber says "
    "that there is an answer, and how far it may be off; grey-red says that nothing is published.",
    "t, blocks": "Rows are dealt into t groups at random, and each group is fitted on its own. One "
    "person is in one block only, so one person can change one fit only. More blocks hide a person "
    "better, but each block has fewer rows and its fit is less exact.",
    "τ (tau), radius of agreement": "Two block fits count as friends if they lie within τ of each "
    "other. If most blocks are friends, their common answer hides any one of them.",
    "Refusal": "If the blocks do not agree, nothing about the mixture is published. Even “no” may "
    "depend on one person, so it is given with noise and costs the same.",
    "Frame": "A public box around the data, found with noise: where the rows lie and how far they "
    "spread. No bounds have to be known before.",
    "Sketch": "Averages of waves over all rows inside the frame, with noise. It is published once; "
    "mixtures, pictures and synthetic rows are then computed from it for free.",
    "Refinement": "A second, noisy look at all rows through the mixture found so far, which makes "
    "it sharper. It is part of the same budget.",
    "Error (dist_GMM)": "The largest difference between matching components: in weight, or in "
    "total variation. 0 is perfect, 1 is as wrong as can be.",
    "Rehearsal": "The same computation on generated people, with noise from a seed. It costs "
    "nothing because no real person is in the data.",
    "Attacker's best guess": "Someone knows every other row and sees what was published. This "
    "is how often, at most, they guess right whether your row is in it. Chance level is 50%.",
}
"""Explanations by word, as plain text."""


def show_glossary() -> None:
    """Show a panel with all of them."""
    with st.expander("Glossary", icon=":material/dictionary:"):
        for word, meaning in GLOSSARY.items():
            st.markdown(f"**{word}** · {meaning}".replace("_", "\\_"))
