"""A translator of Marian's shape that has learned nothing, and copies its source by and large: so it writes sentences
of ordinary lengths, and is as sure of them as one that was trained.  What all contenders load, in files."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.checkpoints.files import Content
from regard.config import update
from regard.models.folder import save_files
from regard.models.marian import SILENT, Marian, new
from regard.models.transformer import TransformerConfig

VOCAB = 58101  # of opus-mt from English to German
PIECES = 8000  # of these are learned; the others are there to be counted with
TOLD = 110  # pairs of numbers in which a position differs from the next ones; words are told in the others
LAYERS, WIDTH, HEADS, INNER = 6, 512, 8, 2048  # of opus-mt
WORDS = 5000  # distinct ones, of sentences that mean nothing

# Words of the 29,000 English captions that Multi30k has for training (Elliott et al., 2016): such a share has no more
LENGTHS = {
    0.00: 3, 0.05: 7, 0.10: 8, 0.20: 9, 0.30: 10, 0.40: 10, 0.50: 11, 0.60: 12, 0.70: 13, 0.80: 15, 0.90: 17, 0.95: 19,
    0.99: 23, 1.00: 37,
}  # fmt: skip


def captions(count: int, seed: int = 0) -> list[str]:
    """Sentences that mean nothing, as long as those of Multi30k."""
    random = np.random.default_rng(seed)
    sizes = np.interp(random.random(count), list(LENGTHS), list(LENGTHS.values())).round().astype(int)
    return [" ".join(f"w{word}" for word in random.integers(WORDS, size=size)) for size in sizes]


def lay_out(folder: Path, texts: Sequence[str], kind: str, seed: int = 0, vocab: int = VOCAB, **shape: int) -> None:
    """Write the folder: `kind` is how SentencePiece learns its pieces from the texts."""
    torch.manual_seed(seed)
    model = Marian(configured(vocab, **shape)).eval()
    copies(model)
    end, padding = {"eos_token_id": 0}, {"pad_token_id": vocab - 1, "decoder_start_token_id": vocab - 1}
    theirs = {"is_encoder_decoder": True, "decoder_vocab_size": vocab, "static_position_embeddings": True}
    theirs |= {"forced_eos_token_id": 0, **end, **padding}
    how = {"max_length": 512, "bad_words_ids": [[vocab - 1]], "forced_eos_token_id": 0, "renormalize_logits": True}
    save_files(folder, {**new(model, theirs, how | end | padding).files(), **vocabulary(texts, kind, vocab)})


def configured(vocab: int, layers=LAYERS, width=WIDTH, heads=HEADS, inner=INNER) -> TransformerConfig:
    block = {"width": width, "inner": inner, "activation": "swish", "attention": {"heads": heads}}
    stack = {"layers": layers, "block": block}
    embedding = {"vocab": vocab, "width": width, "longest": 512, "scaled": True}
    return update(SILENT, {"embedding": embedding, "encoder": stack, "decoder": stack})


@torch.no_grad()
def copies(model: Marian) -> None:
    """Layers change little; but the last one looks, from the place that is written, at the same place of the source, by
    the fast waves of both, and says what word is there."""
    table, half = model.embed.tokens.weight, model.embed.config.width // 2
    told = min(TOLD, half // 2)
    for name, weight in model.named_parameters():
        if "blocks" in name and weight.ndim == 2:
            weight.mul_(0.3)
    table.view(-1, 2, half)[:, :, :told] = 0.0
    table[-1] = 0.0
    cross: Any = model.decoder.blocks[-1].cross
    size = 2 * half // cross.heads
    waves = torch.cat([torch.arange(size // 2), half + torch.arange(size // 2)])  # sines, and their cosines
    words = torch.cat([torch.arange(told, half), half + torch.arange(told, half)])
    for line in (cross.q, cross.k):
        line.weight.copy_(5 * torch.eye(2 * half)[waves].repeat(cross.heads, 1))
    cross.v.weight.zero_()[: len(words)] = torch.eye(2 * half)[words]
    cross.out.weight.copy_(4 * cross.v.weight.T)


def vocabulary(texts: Sequence[str], kind: str, vocab: int) -> dict[str, Content]:
    import sentencepiece

    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=file, vocab_size=min(PIECES, vocab - 1), model_type=kind,
        hard_vocab_limit=False, use_all_vocab=kind == "word", minloglevel=2,
    )  # fmt: skip
    learned = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    names = ["</s>", "<unk>", *(learned.id_to_piece(id) for id in range(3, learned.get_piece_size()))]
    names += [f"<{number}>" for number in range(vocab - 1 - len(names))] + ["<pad>"]
    numbers = json.dumps({name: id for id, name in enumerate(names)})
    about = json.dumps({"separate_vocabs": False, "source_lang": "eng", "target_lang": "eng"})
    texts_of = {"vocab.json": numbers, "tokenizer_config.json": about}
    pieces = {"source.spm": file.getvalue(), "target.spm": file.getvalue()}
    return {**pieces, **{name: text.encode() for name, text in texts_of.items()}}
