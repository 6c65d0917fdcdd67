"""What the pages share: their layout and links, their sliders, and what a session remembers.

`layout` and `lessons` frame a page, `sliders` are the controls of a promise, `format` has numbers
in words, `jobs` is work beside the pages, `answers` puts questions about plans to it, `chosen` is
the data a session chose, `state` and `accounts` keep what came of a release and what it cost.
"""
