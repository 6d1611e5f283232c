"""regard: attention models, to read, train, load, use and look inside.

The names below are fetched when first used, so that `import regard` and `regard --help` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

PUBLIC = {  # name -> where it lives
    "load": "regard.commands.load",
    "train": "regard.commands.train",
    "pretrain": "regard.commands.pretrain",
    "finetune": "regard.commands.finetune",
    "align": "regard.commands.align",
    "glue": "regard.commands.glue",
    "transcribe": "regard.commands.transcribe",
    "translate": "regard.commands.translate",
    "classify": "regard.commands.predict",
    "choose": "regard.commands.predict",
    "tag": "regard.commands.predict",
    "answer": "regard.commands.predict",
    "evaluate": "regard.commands.evaluate",
    "embed": "regard.commands.embed",
    "fill": "regard.commands.fill",
    "generate": "regard.commands.generate",
    "prompt": "regard.commands.prompt",
    "senses": "regard.commands.senses",
    "vectors": "regard.commands.vectors",
    "train_vectors": "regard.commands.vectors",
    "probe": "regard.commands.probe",
    "convert": "regard.commands.convert",
    "verify": "regard.commands.verify",
    "bench": "regard.commands.bench",
    "tokenizer": "regard.commands.tokenizer",
    "show": "regard.commands.show",
    "look": "regard.commands.look",
    "serve": "regard.commands.serve",
    "watch": "regard.attention.watch",
    "Tokenizer": "regard.text.tokenizer",
    "Translator": "regard.tasks.translate",
    "Reader": "regard.tasks.reader",
    "Writer": "regard.tasks.writer",
    "Vectors": "regard.text.vectors",
    "Finetuned": "regard.tasks.finetuned",
    "Beam": "regard.decoding.beam",
    "Sampling": "regard.decoding.sample",
    "Writing": "regard.decoding.generate",
    "Problem": "regard.errors",
}
__all__ = [*PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"regard has no {name!r}; it has {', '.join(PUBLIC)}")
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
