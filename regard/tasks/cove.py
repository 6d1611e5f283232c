"""A translator's encoder as a Reader (CoVe, McCann et al. 2017)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.checkpoints.weights import set_weights, weights_of
from regard.errors import UsageProblem
from regard.models.cove import CoveConfig
from regard.models.heads import new_encoder
from regard.models.seq2seq import Seq2Seq
from regard.tasks.reader import Reader, tell_others
from regard.tasks.translate import Translator
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import ENDS


def cove(translator: Translator) -> Reader:
    """What embeds, probes and fine-tunes with a recurrent translator's reading of its source."""
    model, source = translator.model, translator.source
    if not isinstance(model, Seq2Seq) or not isinstance(source, Tokenizer):
        raise UsageProblem(f"a {type(model).__name__} has no recurrent encoder; give a translator such as rnn-additive")
    config: Any = CoveConfig(model.config.embedding, model.config.encoder, model.config.dropout)
    published = new_encoder("cove", config, ())
    parts = {"embed": weights_of(model.embed), "encoder": weights_of(model.encoder)}
    named = {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}
    set_weights(published.model.encoder, named, Path("the translator"))
    end = next(name for name in ENDS if source.special(name) is not None)
    reader = Reader(published, source.framed_by(f"$A {end}", f"$A {end} $B {end}"))
    tell_others(reader)
    return reader
