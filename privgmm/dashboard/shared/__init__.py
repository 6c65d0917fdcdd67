"""What the dashboard's pages share.

`layout` is the frame of a page, `sliders` are the settings of a promise, `lessons` are links,
`format` writes numbers in words, `glossary` explains them. `background`, `fair_queue` and `refresh`
keep pages quick: work in threads, slots for heavy work, and reruns when there is more to show.
`answers` asks questions about plans. `chosen_data` is the data of a session, `state` its release,
`accounts` what it has spent.
"""
