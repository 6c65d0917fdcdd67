"""Figures in Plotly, without Streamlit: mixtures, votes, the film, the ledger, what-if curves.

Looks that read alike in light and dark and without colour vision are in `mixtures`. The next room
is `records`.
"""
