"""Methods: each turns a request into a plan, that is a short list of stages.

`request` is the one shape of a question, `plan` the one shape of an answer, `registry` lists the
methods by name, `planner` holds the one policy, `what_if` answers questions without data. Whatever
else differs between methods (words, looks, forecasts, what the audit attacks) is asked of the
method; nobody compares its name. `paper` and `tight` are a file each, `lifted` and `sketch` are
folders; `auto` chooses among those that forecast their error. A new method registers itself with
`register`. The next room is `ledger`.
"""

from privgmm.methods.auto import AutoMethod
from privgmm.methods.lifted import LiftedMethod
from privgmm.methods.paper import PaperMethod
from privgmm.methods.registry import choices, get, names, register, unregister
from privgmm.methods.sketch import SketchMethod
from privgmm.methods.tight import TightMethod

__all__ = ["METHODS", "choices", "get", "names", "register", "unregister"]

for _method in (PaperMethod(), TightMethod(), LiftedMethod(), SketchMethod()):
    register(_method)
register(AutoMethod(), chooser=True)

METHODS: tuple[str, ...] = names()
"""The methods that come with the package; `names` lists added ones too."""
