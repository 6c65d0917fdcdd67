"""What pages and notebooks show alike: demonstrations on rows that are no one's, and their words.

`rehearsal` tries a release on generated or bundled rows, `verdict` says how it went, `pairs` holds
the two Gaussians of Theorem 1.8, and `game` is played on two tables that differ in one person
(`neighbours`). `background` computes what would take too long, in threads. Nothing here knows
Streamlit or Jupyter. The next rooms are the doors.
"""
