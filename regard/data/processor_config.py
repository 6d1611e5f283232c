"""The settings of a processor: preprocessor_config.json, or a part of processor_config.json, where Hugging Face
transformers 5 puts those of a processor that has several parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import Problem

FILE, NESTED = "preprocessor_config.json", "processor_config.json"
IMAGE_PARTS, AUDIO_PARTS = ("image_processor",), ("feature_extractor", "audio_processor")


@dataclass(frozen=True)
class ProcessorConfig:
    path: Path  # the file that holds the settings
    settings: Any  # as JSON has them, whatever that is
    files: Mapping[str, bytes]  # all files of processors in the folder, to be saved as they are

    @classmethod
    def load(cls, folder: Path, parts: Sequence[str]) -> ProcessorConfig | None:
        """The settings of a folder for one of these parts, if it has any; a nested part comes first, as in
        transformers."""
        files = {name: read_file(folder / name) for name in (FILE, NESTED) if (folder / name).exists()}
        nested = parse_object(folder / NESTED, files[NESTED]) if NESTED in files else {}
        for part in parts:
            if isinstance(nested, dict) and nested.get(part) is not None:
                return cls(folder / NESTED, nested[part], files)
        return cls(folder / FILE, parse_object(folder / FILE, files[FILE]), files) if FILE in files else None


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Problem(f"{path} cannot be used ({error}). Fetch it again.") from error


def parse_object(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path} cannot be used ({error}). Fetch it again.") from error
