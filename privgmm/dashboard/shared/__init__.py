"""What the dashboard's pages share.

`layout` is the frame of a page, `sliders` are the settings of a promise, `lessons` are links,
`glossary` explains words. `fair_queue` and `refresh` keep pages quick: slots for heavy work, and
reruns when there is more to show; its threads are in `privgmm.teaching.background`.
`answers` asks questions about plans. `chosen_data` is the data of a session, `state` its release,
`accounts` what it has spent.
"""
