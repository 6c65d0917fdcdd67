"""The page Look again: everything that is free after one release by method `sketch`.

`paid` is the release: the session's last one, that of an uploaded receipt, or an example. `looks`
asks questions about it in the background; `fit`, `densities`, `known_values` and `synthetic_rows`
show the answers. `page` puts them together. Nothing in this folder spends, and only what is marked
confidential reads rows.
"""
