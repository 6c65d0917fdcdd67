"""The command `privgmm`: one module per subcommand, `main` puts them together.

`arguments` holds what they share, `source` the table a command works on, `files` what is written
and how, `delivery` makes sure that nothing paid for is lost. The last room is `dashboard`.
"""
