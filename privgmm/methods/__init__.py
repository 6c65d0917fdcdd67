"""Methods: each turns a request into a plan, that is a short list of stages.

`request` is the one shape of a question, `plan` the one shape of an answer, `registry` lists the
methods by name, `what_if` answers questions without data. Whatever else differs between methods
(words, looks, forecasts, what the audit attacks) is asked of the method; nobody compares its name.
The next room is `ledger`.
"""
