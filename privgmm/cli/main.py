"""Plan, release, sample, compare, audit, keep accounts, and start the dashboard.

Exit codes: 0 done or released, 1 an audit or a receipt failed, or a release could not be written
where it was asked for and was printed instead, 2 bad input (nothing was spent), 3 the release was
refused, 130 stopped. What went wrong is one line on standard error.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from privgmm.cli.exit_code import ExitCode
from privgmm.cli.parser import build_parser
from privgmm.cli.terminal import print_note, silence
from privgmm.errors import PLAIN, InvalidInput, PrivGMMError

__all__ = ["main"]

_YOUNG = 100_000
"""Objects between two collections of garbage, measured: with Python's 700, a tenth of a command's
time goes into looking at loaded modules again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    wording, usual = PLAIN, gc.get_threshold()
    gc.set_threshold(_YOUNG)
    try:
        # loads the module of the command: Ctrl-C meanwhile is caught below too
        chosen = build_parser(__doc__)[0].parse_args(arguments)
        wording = chosen.wording
        return int(chosen.command(chosen))
    except PrivGMMError as problem:
        words = problem.worded(wording) if isinstance(problem, InvalidInput) else str(problem)
        # an argument may hold bytes that are not text
        print_note(words.encode("utf-8", "backslashreplace").decode())
        return ExitCode.BAD_INPUT
    except BrokenPipeError:
        # the reader of the output has left; nothing may be flushed into the closed pipe
        silence()
        return ExitCode.DONE
    except OSError as problem:
        silence()
        print_note(f"cannot write: {problem}")
        return ExitCode.BAD_INPUT
    except (KeyboardInterrupt, ImportError) as problem:
        # Ctrl-C while a module built with pybind11 is loaded comes as the cause of an ImportError
        if isinstance(problem, ImportError) and not isinstance(
            problem.__cause__, KeyboardInterrupt
        ):
            raise
        print_note("stopped")
        return ExitCode.STOPPED
    finally:
        gc.set_threshold(*usual)
