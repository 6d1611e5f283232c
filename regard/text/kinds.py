"""The kinds of vocabulary that can be trained here: how each cuts text into words, learns their pieces, joins them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import Problem
from regard.text.unigram import learn_unigram
from regard.text.vocabulary import whole

LONGEST = 10_000  # characters learned from at once: learning merges is quadratic in a word's length
CONTINUATION = "##"  # before a piece that continues a word, as BERT has it
BATCH_CHARACTERS = 1 << 16  # of words that are handed to a trainer at once
ENDING = r"(?i:['’](?:[smd]|ll|re|ve)\b)"
TREEBANK = "|".join([
    r"(?:\p{Lu}\.)+(?!\p{L}{2})",  # U.S.
    r"\p{L}+(?=n['’]t\b)", r"n['’]t\b", ENDING,  # did n't, it 's
    r"\p{L}[\p{L}\p{M}\p{N}]*(?:(?!" + ENDING + r")[-&'’][\p{L}\p{M}\p{N}]+)*",  # words; O'Brien, AT&T
    r"\p{N}+(?:[-.,:/]\p{N}+)*(?:-?\p{L}+)*",  # 1,000 and 10-year-old
    r"\.{2,}", r"-{2,}", r"\S",
])  # fmt: skip


Learn = Callable[[Mapping[str, int], int, Sequence[str]], models.Model]


@dataclass(frozen=True)
class Recipe:
    """How a kind cuts text into words, learns their pieces, and joins them again.  A trainer of the library learns
    them where the same text gives the same vocabulary, else `learn`, from counted words."""

    model: models.Model
    trainer: Callable[..., trainers.Trainer] | None
    cut: pre_tokenizers.PreTokenizer
    join: decoders.Decoder | None
    normalize: tuple[normalizers.Normalizer, ...] = (normalizers.NFC(),)
    fills: bool = True  # `vocab` is a goal, not only a ceiling
    learn: Learn | None = None  # the model, from counted words, a size and special tokens


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
    cut, join = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(CONTINUATION)
    model, learn = models.WordPiece(unk_token=unknown), partial(_learn_wordpiece, unknown)
    return Recipe(model, None, cut, join, (normalizers.NFC(), clean), learn=learn)


def unigram(unknown: str) -> Recipe:
    """Kudo 2018, with SentencePiece's NFKC."""
    cut, join, learn = pre_tokenizers.Metaspace(), decoders.Metaspace(), partial(_learn_unigram, unknown)
    return Recipe(models.Unigram(), None, cut, join, normalize=(normalizers.NFKC(),), learn=learn)


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
    """Learn at most `vocab` pieces, the special ones first: the same ones from the same text, in whatever process and
    with however many threads."""
    texts = _teachable(lines, special)
    first = next((text for text in texts if not text.isspace()), None)
    if first is None:
        raise Problem("there is no text to train a tokenizer on: all lines are blank")
    remedy = "Ask for a larger one, or for byte-bpe, which knows every character by its bytes."
    try:
        _train(inner, recipe, chain([first], texts), vocab, special)
    except Problem:
        raise
    except Exception as error:  # the library raises nothing narrower
        raise Problem(f"a vocabulary of {vocab} cannot be learned ({error}). {remedy}") from error
    if (size := inner.get_vocab_size()) > vocab:
        raise Problem(f"a vocabulary of {vocab} cannot hold the text's characters, which need {size}. {remedy}")


def _train(
    inner: tokenizers.Tokenizer, recipe: Recipe, texts: Iterable[str], vocab: int, special: Sequence[str]
) -> None:
    if recipe.trainer is not None:
        trainer = recipe.trainer(vocab_size=vocab, special_tokens=list(special), show_progress=False)
        inner.train_from_iterator(texts, trainer)
    elif recipe.learn is not None:
        inner.model = recipe.learn(_count_words(inner, texts), vocab, special)
        inner.add_special_tokens(list(special))


def _count_words(inner: tokenizers.Tokenizer, texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        cut = inner.pre_tokenizer.pre_tokenize_str(inner.normalizer.normalize_str(text))
        counts.update(word for word, _ in cut)
    return counts


def _learn_wordpiece(unknown: str, counts: Mapping[str, int], vocab: int, special: Sequence[str]) -> models.WordPiece:
    """The library's trainer numbers continuing characters as a hash map has them, and breaks ties by these numbers.
    Characters that are named to it beforehand, as special tokens, have one order."""
    alphabet = sorted({character for word in counts for character in word})
    continuing = sorted({character for word in counts for character in word[1:]})
    beforehand = [*special, *alphabet, *(CONTINUATION + character for character in continuing)]
    scratch = tokenizers.Tokenizer(models.BPE(continuing_subword_prefix=CONTINUATION))
    scratch.pre_tokenizer = pre_tokenizers.Split("\n", "removed")  # which no word has within it
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=beforehand, min_frequency=2, show_progress=False,
        continuing_subword_prefix=CONTINUATION,
    )  # fmt: skip
    scratch.train_from_iterator(_repeated(counts), trainer)
    return models.WordPiece(scratch.get_vocab(with_added_tokens=False), unk_token=unknown)


def _repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """Each word as often as it was counted, with a line of its own, in texts of bearable length."""
    for word, count in counts.items():
        most = BATCH_CHARACTERS // (len(word) + 1) + 1
        yield from ((word + "\n") * min(most, count - done) for done in range(0, count, most))


def _learn_unigram(unknown: str, counts: Mapping[str, int], vocab: int, special: Sequence[str]) -> models.Unigram:
    first = list(special) if unknown in special else [unknown, *special]
    pieces = [(piece, score) for piece, score in learn_unigram(counts, vocab - len(first)) if piece not in first]
    return models.Unigram([*((name, 0.0) for name in first), *pieces], first.index(unknown), False)


def _teachable(lines: Iterable[str], special: Sequence[str]) -> Iterator[str]:
    """Lines without what looks like special tokens, in parts of bearable length."""
    names = re.compile("|".join(map(re.escape, special)))
    for line in lines:
        text = names.sub(" ", whole(line))
        yield from (text[start : start + LONGEST] for start in range(0, len(text), LONGEST))
