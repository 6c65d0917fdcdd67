"""What a wheel holds besides the package: the dashboard's pages, its look, and the sample data.

They live beside the package in a clone, where Streamlit, readers and tests look for them, and
inside it in a wheel. An editable install points at the clone, so it takes nothing along: copies
would only go stale.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The pages get a folder of their own: Streamlit puts the folder of its first page on the import
# path, where the package's modules (tables, notebook, schema…) would hide others of those names.
_INSIDE = {
    "app.py": "privgmm/_app/app.py",
    "pages": "privgmm/_app/pages",
    ".streamlit/config.toml": "privgmm/_app/.streamlit/config.toml",
    "sample_data": "privgmm/_sample_data",
}


class Belongings(BuildHookInterface[Any]):
    """Takes the files along into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; hatchling calls this before it builds."""
        if version != "editable":
            build_data["force_include"].update(_INSIDE)
