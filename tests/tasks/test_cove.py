"""CoVe: a translator's encoder, from its folder, embeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.commands.load import load
from regard.errors import UsageProblem
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens
from regard.tasks.cove import cove
from regard.tasks.translate import Translator
from regard.text.tokenizer import Tokenizer

TEXTS = ["ein mann fährt fahrrad", "ein hund", ""]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("words", TEXTS, 20)


@pytest.fixture(scope="module", params=[1, 2], ids=["one layer", "two layers"])
def translator(request, tokenizer) -> Translator:
    torch.manual_seed(0)
    model = Seq2Seq(seq2seq("additive", width=8, layers=request.param, vocab=tokenizer.size)).eval()
    return Translator(model, tokenizer, tokenizer)


@torch.no_grad()
def test_a_word_is_its_vector_and_its_state_as_the_translator_has_them(translator, tmp_path):
    cove(translator).save(tmp_path / "cove")
    reader = load(tmp_path / "cove", "cpu")
    model = translator.model
    for text, (pieces, vectors) in zip(TEXTS, reader.embed_tokens(TEXTS), strict=True):
        source = Tokens.of([translator.row(translator.source.encode(text))])
        words = model.embed.read(source)
        wanted = torch.cat([words, model.encoder(words, source.rows)[0]], -1)
        assert pieces[-1] == "</s>" and np.allclose(vectors, wanted, atol=1e-6)
    assert reader.embed(TEXTS).shape == (3, 16) and reader.embed(TEXTS, layers="first").shape == (3, 16)


def test_only_recurrent_translators_have_such_an_encoder(tokenizer):
    translator = Translator(Transformer(transformer(1, 8, 2, 16, vocab=tokenizer.size)), tokenizer, tokenizer)
    with pytest.raises(UsageProblem, match="rnn-additive"):
        cove(translator)
