"""Turn requests into plans: each method gives a plan, that is a short list of stages.

`request` holds the question, `plan` the answer. `registry` lists the methods by name, `planner`
holds the one policy, `what_if` answers questions without data. What else differs between methods
(words, looks, forecasts, what the audit attacks) is asked of the method; no code compares its name.
`paper` and `tight` are a file each, `lifted` and `sketch` are folders. `cores` finds the tests of
agreement that `lifted` and `sketch` use. A new method registers itself with `register`. The next
room is `ledger`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
