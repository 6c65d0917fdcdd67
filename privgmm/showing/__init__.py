"""How values show themselves: as text, in a notebook, as a table, a picture or a receipt.

`text` is what `print` and the command line say, `html` what a notebook shows,
`progress` how far a piece of work is. `shortcuts` lets a
value offer what rooms above build on it. The next room is the values themselves, `mixture` first.
"""
