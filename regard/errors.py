"""What went wrong, said so that a person can mend it."""


class Problem(ValueError):
    """A fault in what regard was given.  The message names the value, the place and the remedy;
    the command line prints it without a traceback and exits with `exit_code`."""

    exit_code = 1


class UsageProblem(Problem):
    """A fault in how a command or function was called: a misspelt option, a bad value."""

    exit_code = 2
