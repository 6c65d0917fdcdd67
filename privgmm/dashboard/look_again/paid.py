"""The release that is looked at again: the session's last one, one in a receipt, or an example."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json

import streamlit as st

from privgmm.budget import Budget
from privgmm.dashboard.explore.release_job import collect, running, show_running
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.dashboard.shared.refresh import result_or_notice
from privgmm.data.datasets import Dataset, generate
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.records.receipt import sketch_of, verify_receipt
from privgmm.releases import Release, release
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.standard_errors import StandardErrors
from privgmm.teaching.format import escaped, number_in_words, problem_in_words

__all__ = [
    "EXAMPLE",
    "LAST",
    "RECEIPT",
    "Paid",
    "choose_source",
    "find_paid",
    "paid_example",
    "paid_from_receipt",
    "paid_from_release",
    "show_paid",
]

LAST, RECEIPT, EXAMPLE = "Last release", "Receipt", "Example"
_KEPT = "look_receipt"
_UPLOAD_MB = 20
"""By convention: a receipt takes less than a megabyte."""
_EXAMPLE_ROWS, _EXAMPLE_SEED = 30_000, 5
"""With this many rows and this seed the example is released and explained by three groups."""


@dataclasses.dataclass(frozen=True, eq=False)
class Paid:
    """A release that was paid for, and what is known about it. Public but for `dataset`.

    Parameters
    ----------
    title : str
        Its name on the page.
    mixture : Mixture
        What was released.
    errors : StandardErrors or None
        Of that mixture.
    sketch : PrivateSketch or None
        Free looks start from it; None for methods that publish none.
    misfit : float or None
    floored : bool
        Whether a component of the released mixture was widened.
    covariance_type : str
        Of the released mixture.
    columns : tuple of str
    budget : Budget
    seeded : bool
    method : str
    dataset : Dataset or None
        The rows, if the session holds them. CONFIDENTIAL: for the curator alone.
    """

    title: str
    mixture: Mixture
    errors: StandardErrors | None
    sketch: PrivateSketch | None
    misfit: float | None
    floored: bool
    covariance_type: str
    columns: tuple[str, ...]
    budget: Budget
    seeded: bool
    method: str
    dataset: Dataset | None = None

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.mixture.n_features


def paid_from_release(result: Release, dataset: Dataset, title: str) -> Paid:
    """Describe a release of this session, with the rows it was made from."""
    sketch = result.sketch
    return Paid(
        title,
        result.mixture,
        result.standard_errors,
        None if sketch is None else sketch.with_columns(dataset.columns),
        result.misfit,
        result.floored,
        result.covariance_type,
        dataset.columns,
        result.budget,
        result.seeded,
        result.plan.method,
        dataset,
    )


def paid_from_receipt(content: bytes, name: str) -> Paid:
    """Describe the release of a receipt; no data is needed.

    Raises
    ------
    InvalidInput
        If it is not an intact receipt, or one of a refusal.
    """
    found = verify_receipt(content)
    if not found.intact:
        raise InvalidInput(f"{name} is not a receipt as it was written: {found.problems[0]}")
    receipt = json.loads(content)
    if not receipt["released"]:
        raise InvalidInput(
            f"{name} is the receipt of a refusal: nothing was published, so there is nothing to "
            "look at"
        )
    sketch, mixture = sketch_of(receipt), Mixture.from_dict(receipt["mixture"])
    errors, names = receipt.get("standard_errors"), receipt.get("columns")
    if names is None:
        names = [f"x{j + 1}" for j in range(mixture.n_features)]
    return Paid(
        f"receipt {name}",
        mixture,
        None if errors is None else StandardErrors.from_dict(errors),
        None if sketch is None else sketch.with_columns(names),
        receipt.get("misfit"),
        bool(receipt.get("floored")),
        receipt["plan"]["request"]["covariance_type"],
        tuple(names),
        Budget(receipt["guarantee"]["epsilon"], receipt["guarantee"]["delta"]),
        receipt["seeded"],
        receipt["plan"]["method"],
    )


@functools.cache
def paid_example() -> Paid:
    """Release from generated rows with a seed: three groups, two of them close together."""
    truth = Mixture(
        [0.3, 0.3, 0.4],
        [[168.0, 62.0], [180.0, 82.0], [158.0, 88.0]],
        [[[36.0, 20.0], [20.0, 40.0]], [[30.0, 24.0], [24.0, 60.0]], [[25.0, -8.0], [-8.0, 30.0]]],
    )
    drawn = generate(truth, _EXAMPLE_ROWS, rng=_EXAMPLE_SEED)
    dataset = Dataset(
        drawn.rows, truth, ("height", "weight"), "example", "generated heights and weights"
    )
    plan = best_plan(
        dataset.n_rows, method="sketch", epsilon=1.0, delta=1e-6, n_components=3, n_features=2
    )
    result = release(dataset.rows, plan, rng=_EXAMPLE_SEED).result
    if not isinstance(result, Release):
        raise PrivGMMError("the example was refused: choose another seed for it")
    return paid_from_release(result, dataset, "generated heights and weights")


# ------------------------------------------------------------------------------------ on the page


def choose_source() -> str:
    """Let the visitor choose what to look at, and upload a receipt."""
    collect()
    begun = state.shown() is not None or running() is not None
    source = st.segmented_control(
        "What to look at",
        (LAST, RECEIPT, EXAMPLE),
        default=LAST if begun else EXAMPLE,
        required=True,
        key="look_from",
        label_visibility="collapsed",
        **LINKED,
        width="stretch",
    )
    if source == RECEIPT:
        _choose_receipt()
    return str(source)


def _choose_receipt() -> None:
    file = st.file_uploader(
        "A receipt",
        type=["json"],
        key="look_file",
        max_upload_size=_UPLOAD_MB,
        on_change=_forget,
        help="The JSON file that Ledger, a bundle or `privgmm release --out` wrote. It stays in "
        "this session, on this machine.",
    )
    if file is not None:
        # Streamlit drops an upload when another page is shown; the session need not.
        st.session_state[_KEPT] = file.name, file.getvalue()
        return
    if _KEPT in st.session_state:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"In use: {escaped(st.session_state[_KEPT][0])}", width="stretch")
            st.button("Forget it", key="look_forget", on_click=_forget, type="tertiary")
    else:
        st.caption("A receipt alone is enough: no data is needed.")


def _forget() -> None:
    st.session_state.pop(_KEPT, None)


def find_paid(source: str) -> Paid | None:
    """Return what was chosen; if there is nothing to look at, say what to do."""
    if source == EXAMPLE:
        return result_or_notice(
            "look again example", paid_example, "Releasing from generated rows…"
        )
    if source == RECEIPT:
        return _received()
    return _last()


def _received() -> Paid | None:
    kept = st.session_state.get(_KEPT)
    if kept is None:
        st.info(
            "Upload the receipt of a release (JSON). Everything on this page is computed from it "
            "alone. After a release you find its receipt on Ledger.",
            icon=":material/upload_file:",
        )
        st.page_link("pages/Ledger.py", label="Ledger", icon=":material/receipt_long:")
        return None
    name, content = kept
    key = "receipt", name, hashlib.sha256(content).hexdigest()
    try:
        return result_or_notice(
            key, lambda: paid_from_receipt(content, name), "Checking the receipt…"
        )
    except PrivGMMError as problem:
        st.error(problem_in_words(problem), icon=":material/error:")
        return None


def _last() -> Paid | None:
    if running() is not None:
        show_running()
        return None
    last = state.shown()
    if last is None:
        st.info(
            "Nothing has been released in this session. Release something on Explore with the "
            "method **Sketch**, upload a receipt, or look at the example.",
            icon=":material/touch_app:",
        )
        st.page_link("app.py", label="Explore", icon=":material/explore:")
        return None
    result = last.outcome.result
    if not isinstance(result, Release):
        st.info(
            "Your last release was refused: nothing was published, so there is nothing to look at "
            "again. On Explore you see what would pass.",
            icon=":material/shield:",
        )
        st.page_link("app.py", label="Explore", icon=":material/explore:")
        return None
    name = last.chosen.dataset.name.replace("_", " ")
    return paid_from_release(result, last.chosen.dataset, f"your last release ({name})")


def show_paid(paid: Paid) -> None:
    """Say what was paid, and for what, in two lines."""
    size = "" if paid.sketch is None else f"{paid.sketch.n_rows:,} rows, "
    words = (
        f"**{escaped(paid.title[0].upper() + paid.title[1:])}**: {size}{paid.n_features} "
        f"column{'s' * (paid.n_features > 1)}. Paid once: "
        f"ε = {number_in_words(paid.budget.epsilon, 3)}, δ = {number_in_words(paid.budget.delta)}."
    )
    if paid.seeded:
        words += " :material/warning: The noise came from a seed: for teaching only."
    st.caption(words)
