"""The dashboard: the only room that imports Streamlit.

`shared` holds what pages have in common; every page has a folder of its own with a module `page`
that `app.py` or a file in `pages/` calls. `launch` starts the server.
"""
