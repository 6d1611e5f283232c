"""The kinds of vocabulary that can be trained here: how each cuts text into words, learns their pieces, joins them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import Problem
from regard.text.vocabulary import whole

LONGEST = 10_000  # characters learned from at once: learning merges is quadratic in a word's length
ENDING = r"(?i:['’](?:[smd]|ll|re|ve)\b)"
TREEBANK = "|".join([
    r"(?:\p{Lu}\.)+(?!\p{L}{2})",  # U.S.
    r"\p{L}+(?=n['’]t\b)", r"n['’]t\b", ENDING,  # did n't, it 's
    r"\p{L}[\p{L}\p{M}\p{N}]*(?:(?!" + ENDING + r")[-&'’][\p{L}\p{M}\p{N}]+)*",  # words; O'Brien, AT&T
    r"\p{N}+(?:[-.,:/]\p{N}+)*(?:-?\p{L}+)*",  # 1,000 and 10-year-old
    r"\.{2,}", r"-{2,}", r"\S",
])  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How a kind cuts text into words, learns their pieces, and joins them again."""

    model: models.Model
    trainer: Callable[..., trainers.Trainer]
    cut: pre_tokenizers.PreTokenizer
    join: decoders.Decoder | None
    normalize: tuple[normalizers.Normalizer, ...] = (normalizers.NFC(),)
    fills: bool = True  # `vocab` is a goal, not only a ceiling


def bpe(unknown: str) -> Recipe:
    """Sennrich et al. 2016.  Spaces are kept as ▁ before words, other white space and punctuation stand alone."""
    white, punctuation = pre_tokenizers.Split(Regex(r"\s"), "isolated"), pre_tokenizers.Punctuation("isolated")
    cut = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), white, punctuation])
    trainer = partial(trainers.BpeTrainer, min_frequency=2)
    return Recipe(models.BPE(unk_token=unknown), trainer, cut, decoders.Metaspace())


def byte_bpe(unknown: str) -> Recipe:
    """GPT-2's: pieces of bytes, so that nothing is unknown and decoding gives back every text exactly."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = partial(trainers.BpeTrainer, min_frequency=2, initial_alphabet=alphabet)
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Recipe(models.BPE(), trainer, cut, decoders.ByteLevel(), normalize=())


def wordpiece(unknown: str) -> Recipe:
    """BERT's: ## marks pieces that continue a word; a word of over 100 characters is unknown; spacing is not kept."""
    clean = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    trainer = partial(trainers.WordPieceTrainer, min_frequency=2)
    cut, join = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    return Recipe(models.WordPiece(unk_token=unknown), trainer, cut, join, (normalizers.NFC(), clean))


def unigram(unknown: str) -> Recipe:
    """Kudo 2018, with SentencePiece's NFKC."""
    trainer = partial(trainers.UnigramTrainer, unk_token=unknown)
    return Recipe(
        models.Unigram(), trainer, pre_tokenizers.Metaspace(), decoders.Metaspace(), normalize=(normalizers.NFKC(),)
    )


def words(unknown: str) -> Recipe:
    """The most frequent words between white space."""
    model = models.WordLevel(unk_token=unknown)
    return Recipe(model, trainers.WordLevelTrainer, pre_tokenizers.WhitespaceSplit(), None, fills=False)


def treebank(unknown: str) -> Recipe:
    """The most frequent words as corpora that are annotated have them: punctuation stands alone, and so do 's and n't;
    numbers, abbreviations of letters and words with a hyphen stay whole."""
    model, cut = models.WordLevel(unk_token=unknown), pre_tokenizers.Split(Regex(TREEBANK), "removed", invert=True)
    return Recipe(model, trainers.WordLevelTrainer, cut, None, fills=False)


def characters(unknown: str) -> Recipe:
    """The most frequent characters, white space too."""
    model, cut = models.WordLevel(unk_token=unknown), pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    return Recipe(model, trainers.WordLevelTrainer, cut, decoders.Fuse(), fills=False)


KINDS = {
    "bpe": bpe,
    "byte-bpe": byte_bpe,
    "wordpiece": wordpiece,
    "unigram": unigram,
    "words": words,
    "treebank": treebank,
    "characters": characters,
}


def untrained(recipe: Recipe, lowercase: bool) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(recipe.model)
    inner.pre_tokenizer, inner.decoder = recipe.cut, recipe.join
    inner.normalizer = normalizers.Sequence([*[normalizers.Lowercase()] * lowercase, *recipe.normalize])
    return inner


def learn(
    inner: tokenizers.Tokenizer, recipe: Recipe, lines: Iterable[str], vocab: int, special: Sequence[str]
) -> None:
    """Learn at most `vocab` pieces, the special ones first."""
    trainer = recipe.trainer(vocab_size=vocab, special_tokens=list(special), show_progress=False)
    texts = _teachable(lines, special)
    first = next((text for text in texts if not text.isspace()), None)
    if first is None:
        raise Problem("there is no text to train a tokenizer on: all lines are blank")
    remedy = "Ask for a larger one, or for byte-bpe, which knows every character by its bytes."
    try:
        inner.train_from_iterator(chain([first], texts), trainer)
    except Problem:
        raise
    except Exception as error:  # the library raises nothing narrower
        raise Problem(f"a vocabulary of {vocab} cannot be learned ({error}). {remedy}") from error
    if (size := inner.get_vocab_size()) > vocab:
        raise Problem(f"a vocabulary of {vocab} cannot hold the text's characters, which need {size}. {remedy}")


def _teachable(lines: Iterable[str], special: Sequence[str]) -> Iterator[str]:
    """Lines without what looks like special tokens, in parts of bearable length."""
    names = re.compile("|".join(map(re.escape, special)))
    for line in lines:
        text = names.sub(" ", whole(line))
        yield from (text[start : start + LONGEST] for start in range(0, len(text), LONGEST))
