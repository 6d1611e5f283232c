"""What went wrong, said so that a person can mend it."""

from __future__ import annotations

import re

NO_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc", "out of memory")  # in messages of torch


class Problem(ValueError):
    """A fault in what regard was given.  The message names the value, the place and the remedy;
    the command line prints it without a traceback and exits with `exit_code`."""

    exit_code = 1


class UsageProblem(Problem):
    """A fault in how a command or function was called: a misspelt option, a bad value."""

    exit_code = 2


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory was asked for and not there: torch raises a RuntimeError of its CPU
    allocator or a torch.OutOfMemoryError, numpy and Python a MemoryError."""
    failed = isinstance(error, RuntimeError) and any(text in str(error) for text in NO_MEMORY)
    return failed or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def memory_asked_for(error: BaseException) -> str:
    """What an allocation that failed was to bring, as far as the message tells."""
    found = re.search(r"allocate (\d+) bytes", str(error))
    first = str(error).partition("\n")[0].rstrip(".") or "the message names no size"
    return f"{int(found[1]):,} bytes more were asked for" if found else first
