"""Reading the files of vocabularies, which others have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.checkpoints.files import check_regular_file
from regard.errors import Problem

LARGEST = 64 * 2**20  # bytes of a file; the largest published tokenizer.json has about half of that
AGAIN = "Fetch it again, or give another path."


def read_bytes(path: Path) -> bytes:
    check_regular_file(path)
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise Problem(f"{path} has {size:,} bytes, over the {LARGEST:,} that a file of a tokenizer may have")
        return path.read_bytes()
    except OSError as error:
        raise Problem(f"{path} cannot be read ({error.strerror}). {AGAIN}") from error


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise Problem(f"{path} is not UTF-8 text ({error}). {AGAIN}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        content = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise Problem(f"{path} is not JSON ({error}). {AGAIN}") from error
    if not isinstance(content, dict):
        raise Problem(f"{path} holds no JSON object. {AGAIN}")
    return content


def read_ids(path: Path) -> dict[str, int]:
    """The ids of a vocabulary, by piece."""
    ids = read_object(path)
    for piece, id in ids.items():
        if type(id) is not int or id < 0:
            raise Problem(f"{path}: {piece!r} has the id {id!r}, which is no id. {AGAIN}")
    return ids
