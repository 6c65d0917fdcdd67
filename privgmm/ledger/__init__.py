"""What was spent: told before noise is drawn, and told the verdict after.

`memory` keeps an account as long as the process lives, `sqlite` in a file that many processes
share. Both follow one protocol, so that front doors need not know which it is. The next room is
the package's root: `release` tells the story of one release.
"""
