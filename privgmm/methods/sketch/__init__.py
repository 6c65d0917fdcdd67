"""Method `sketch`: a public frame, one noisy sketch of all rows, and everything after it free.

`frames` chooses how the frame is found, by the agreement of small blocks or by histograms, and
what it leaves of the account; `method` divides that between the first sketch and the finish.
"""

from privgmm.methods.sketch.method import SketchMethod

__all__ = ["SketchMethod"]
