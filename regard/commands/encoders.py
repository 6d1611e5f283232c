"""The encoder that a command is to train: a preset that has learned nothing, a folder, or a name on the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import change, did_you_mean, settings_of
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.models.encoder import EncoderConfig
    from regard.tasks.reader import Reader
    from regard.text.tokenizer import Tokenizer

ATTENTION_DROPOUT = "stack.block.attention.dropout"
FROM_VOCABULARY = ("embedding.vocab", "target_vocab")  # fields that a run takes from its vocabulary


def encoder_of(
    model: str | Path, tokenizer: str | Path | None, settings: Sequence[str] = (), seed: int = 0
) -> tuple[Reader, EncoderConfig]:
    """An encoder with its tokenizer, and the config it is to be trained with."""
    from regard.commands.load import load_reader
    from regard.models import ENCODERS

    if str(model) not in ENCODERS:
        if tokenizer:
            raise UsageProblem(f"{model} has a tokenizer of its own; leave out {tokenizer}")
        for path, _ in map(settings_of, settings):
            if not path.endswith(("dropout", "mixed", "pool")):
                raise UsageProblem(
                    f"--set {path}: {model} has learned as it is; only dropout can be changed, and of some families "
                    "what their heads read (pool, mixed)"
                )
        try:
            reader = load_reader(model)
        except Problem as problem:
            if Path(model).exists():
                raise
            raise Problem(f"{problem} Of presets, {did_you_mean(str(model), ENCODERS)}") from None
        return reader, changed(reader.published.model.encoder.config, settings)
    if not tokenizer:
        raise UsageProblem(f"{model} is a preset, which has learned nothing: name a tokenizer too, a file or a folder")
    reader = new_reader(str(model), read_tokenizer(tokenizer), settings, seed)
    return reader, reader.published.model.encoder.config


def read_tokenizer(place: str | Path) -> Tokenizer:
    from regard.text.published import load_tokenizer
    from regard.text.tokenizer import Tokenizer

    return load_tokenizer(Path(place)) if Path(place).is_dir() else Tokenizer.load(place)


def new_reader(preset: str, tokenizer: Tokenizer, settings: Sequence[str] = (), seed: int = 0) -> Reader:
    """A preset's encoder, as large as the vocabulary asks, that has learned nothing."""
    import torch

    from regard.models import ENCODERS, PUBLISHED, family_of
    from regard.models.heads import new_encoder
    from regard.tasks.reader import Reader, tell_others

    family = family_of(preset)
    bare = next(iter(PUBLISHED[family].heads.values()))
    config = changed(ENCODERS[preset], settings)
    config = replace(config, embedding=replace(config.embedding, vocab=tokenizer.size))
    tokenizer = between_ends(tokenizer) if hasattr(config, "recurrent") else tokenizer
    torch.manual_seed(seed)
    reader = Reader(new_encoder(family, config, {head.role for head in bare}), tokenizer)
    tell_others(reader)
    return reader


def between_ends(tokenizer: Tokenizer) -> Tokenizer:
    """For language models, whose texts followed one another: all that stood before one was the end of another."""
    from regard.text.vocabulary import ENDS

    end = next((name for name in ENDS if tokenizer.special(name) is not None), None)
    if end is None or tokenizer.frame.around():  # it says itself what stands around a text
        return tokenizer
    return tokenizer.framed_by(f"{end} $A {end}", f"{end} $A {end} $B {end}")


def changed(config: EncoderConfig, settings: Sequence[str]) -> EncoderConfig:
    """A config with `path=value` changes.  Unless these ask for it there is no dropout of attention weights, whatever
    a published config says, for the fast kernel has none."""
    check_vocabulary(settings)
    config = change(config, ATTENTION_DROPOUT, 0.0) if hasattr(config, "stack") else config
    for setting in settings:
        config = change(config, *settings_of(setting))
    return config


def check_vocabulary(settings: Sequence[str]) -> None:
    """Refuse `path=value` changes that a run would overwrite with the size of its vocabulary."""
    for path, _ in map(settings_of, settings):
        if path in FROM_VOCABULARY:
            raise UsageProblem(f"--set {path}: its vocabulary decides that; leave it out, and give --vocab instead")
