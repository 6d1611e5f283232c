"""The command line: the verbs of regard.commands, with their options."""

from regard.cli import training, text_to_text, using, looking, serving, writing, measuring, vectors, folders  # noqa: F401, I001 (each adds its commands, in this order)
from regard.cli.app import app, main

__all__ = ["app", "main"]
