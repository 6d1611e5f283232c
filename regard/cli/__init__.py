"""The command line: the verbs of regard.commands, with their options."""

from regard.cli import (  # noqa: I001 (each adds its commands, in this order)
    training, aligning, text_to_text, images, using, sound, looking, serving, writing, measuring, vectors, folders,  # noqa: F401
)  # fmt: skip
from regard.cli.app import app, main

__all__ = ["app", "main"]
