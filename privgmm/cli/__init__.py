"""The command `privgmm`: `parser` lists the commands, `main` runs one of them.

The module of a command is imported when that command is used, so that ``privgmm --help`` loads
neither NumPy nor anything else that takes long. `arguments` holds the options that commands share,
`source` the table that a command works on, `files` and `terminal` what is written and shown,
`delivery` makes sure that nothing that was paid for is lost. The next room is `dashboard`.
"""
