"""The dashboard: the only part of the package that imports Streamlit."""
