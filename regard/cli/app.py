"""The command line itself: one application, and how it ends.  torch is imported only when a command needs it."""

from __future__ import annotations

import signal
import sys
import warnings
from functools import partial
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer
from typer import Option

from regard import __version__
from regard.cli.memory import keep_freed_memory
from regard.errors import Problem, is_out_of_memory, memory_asked_for

LESS = "Give it less at a time (shorter texts, a smaller batch), take a smaller model, or a machine with more memory."
# plain text: in the tables of rich_markup_mode there is no room for words on 80 columns
plain = partial(typer.Typer, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app = plain(help="Attention models: train, use, look inside.")


def main() -> NoReturn:
    """Run a command; what a person can mend is told in a line, without a traceback."""
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as what is read, whatever the terminal's language
    keep_freed_memory()
    try:
        app()
    except Problem as problem:
        print(f"regard: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"regard: there is not enough memory ({memory_asked_for(error)}). {LESS}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # standard output on a full disk
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def default_sigpipe() -> None:
    """`regard translate | head` ends without a word.  Windows has no such signal: there click ends it."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def tell_version(asked: bool) -> None:
    if asked:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, Option("--version", callback=tell_version, is_eager=True, help="Tell it.")] = False,
) -> None:
    pass
