"""Text to ids and back, by the `tokenizers` library, kept as tokenizer.json."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import Problem, UsageProblem

SPECIAL = ("<unk>", "<s>", "</s>")  # ids 0, 1, 2 of what is trained here; no padding token, for there is no padding
UNKNOWNS = ("<unk>", "[UNK]")
BEGINS = ("<s>", "[CLS]", "<bos>", "<|endoftext|>")
ENDS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>")
LARGEST = 64 * 2**20  # bytes of a tokenizer.json; the largest published ones have about half of that
LONGEST = 10_000  # characters learned from at once: learning merges is quadratic in a word's length
SPACE = "▁"


@dataclass(frozen=True)
class Recipe:
    """How a kind cuts text into words, learns their pieces, and joins them again."""

    model: models.Model
    trainer: Callable[..., trainers.Trainer]
    cut: pre_tokenizers.PreTokenizer
    join: decoders.Decoder | None
    normalize: tuple[normalizers.Normalizer, ...] = (normalizers.NFC(),)
    fills: bool = True  # `vocab` is a goal, not only a ceiling


def bpe() -> Recipe:
    """Sennrich et al. 2016.  Spaces are kept as ▁ before words, other white space and punctuation stand alone."""
    white, punctuation = pre_tokenizers.Split(Regex(r"\s"), "isolated"), pre_tokenizers.Punctuation("isolated")
    cut = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), white, punctuation])
    trainer = partial(trainers.BpeTrainer, min_frequency=2)
    return Recipe(models.BPE(unk_token="<unk>"), trainer, cut, decoders.Metaspace())


def byte_bpe() -> Recipe:
    """GPT-2's: pieces of bytes, so that nothing is unknown and decoding gives back every text exactly."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = partial(trainers.BpeTrainer, min_frequency=2, initial_alphabet=alphabet)
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Recipe(models.BPE(), trainer, cut, decoders.ByteLevel(), normalize=())


def wordpiece() -> Recipe:
    """BERT's: ## marks pieces that continue a word; a word of over 100 characters is unknown; spacing is not kept."""
    clean = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    trainer = partial(trainers.WordPieceTrainer, min_frequency=2)
    cut, join = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    return Recipe(models.WordPiece(unk_token="<unk>"), trainer, cut, join, (normalizers.NFC(), clean))


def unigram() -> Recipe:
    """Kudo 2018, with SentencePiece's NFKC."""
    trainer = partial(trainers.UnigramTrainer, unk_token="<unk>")
    return Recipe(
        models.Unigram(), trainer, pre_tokenizers.Metaspace(), decoders.Metaspace(), normalize=(normalizers.NFKC(),)
    )


def words() -> Recipe:
    """The most frequent words between white space."""
    model = models.WordLevel(unk_token="<unk>")
    return Recipe(model, trainers.WordLevelTrainer, pre_tokenizers.WhitespaceSplit(), None, fills=False)


def characters() -> Recipe:
    """The most frequent characters, white space too."""
    model, cut = models.WordLevel(unk_token="<unk>"), pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    return Recipe(model, trainers.WordLevelTrainer, cut, decoders.Fuse(), fills=False)


KINDS = {
    "bpe": bpe,
    "byte-bpe": byte_bpe,
    "wordpiece": wordpiece,
    "unigram": unigram,
    "words": words,
    "characters": characters,
}


class Tokenizer:
    """Cuts text into the pieces of a vocabulary.  Special tokens are never read from text and never added to it:
    a text that spells one is text.  Nothing is cut or padded, whatever a loaded file says about that."""

    def __init__(self, inner: tokenizers.Tokenizer, text: str):
        self._text = text  # kept because the library does not write every number as it read it
        inner.no_padding()
        inner.no_truncation()
        inner.encode_special_tokens = True  # that is, as the text they are
        self._inner = inner
        self.size = max(inner.get_vocab().values(), default=-1) + 1
        special = {id for id, token in inner.get_added_tokens_decoder().items() if token.special}
        self._silent = special - {inner.token_to_id(name) for name in UNKNOWNS}

    @classmethod
    def train(cls, kind: str, lines: Iterable[str], vocab: int = 8000, *, lowercase: bool = False) -> Tokenizer:
        """Learn a vocabulary of `vocab` entries, the three special ones counted; warns when the text yields fewer."""
        if kind not in KINDS:
            raise UsageProblem(f"no tokenizer is called {kind!r}; choose one of {', '.join(KINDS)}")
        if vocab <= len(SPECIAL):
            raise UsageProblem(f"a vocabulary of {vocab} leaves no room beside {' '.join(SPECIAL)}; ask for more")
        recipe = KINDS[kind]()
        inner = tokenizers.Tokenizer(recipe.model)
        inner.pre_tokenizer, inner.decoder = recipe.cut, recipe.join
        inner.normalizer = normalizers.Sequence([*[normalizers.Lowercase()] * lowercase, *recipe.normalize])
        trainer = recipe.trainer(vocab_size=vocab, special_tokens=list(SPECIAL), show_progress=False)
        _learn(inner, trainer, lines, vocab)
        size = inner.get_vocab_size()
        if size < vocab and recipe.fills:
            warnings.warn(f"asked for {vocab} {kind} pieces, but the text yields only {size}", stacklevel=2)
        return cls.from_json(inner.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        path = Path(path)
        try:
            size = path.stat().st_size
            if size > LARGEST:
                raise Problem(f"{path} has {size:,} bytes, over the {LARGEST:,} a tokenizer.json may have")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(f"{path} cannot be read ({error}). Give the path of a tokenizer.json.") from error
        return cls.from_json(text, str(path))

    @classmethod
    def from_json(cls, text: str, name: str = "the text") -> Tokenizer:
        try:
            return cls(tokenizers.Tokenizer.from_str(text), text)
        except Exception as error:  # the library raises nothing narrower
            raise Problem(f"{name} is no tokenizer.json ({error}). Fetch or train it again.") from error

    def save(self, path: str | Path) -> None:
        from regard.checkpoints.files import write_file

        write_file(Path(path), self.to_json().encode())

    def to_json(self) -> str:
        return self._text

    @cached_property
    def begin(self) -> int:
        return self._special(BEGINS, "beginning")

    @cached_property
    def end(self) -> int:
        return self._special(ENDS, "end")

    @cached_property
    def unknown(self) -> int:
        return self._special(UNKNOWNS, "unknown pieces")

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; half a surrogate pair, which is no character, is read as U+FFFD."""
        encodings = self._inner.encode_batch_fast([_whole(text) for text in texts], add_special_tokens=False)
        return [self._plain(encoding.ids) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without beginnings and ends; what was unknown is shown as such."""
        self._check(ids)
        return self._inner.decode([id for id in ids if id not in self._silent], skip_special_tokens=False)

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.decode(row) for row in rows]

    def piece(self, id: int) -> str:
        """The piece as it can be printed.  Whatever the kind, ▁ stands for a space before it, and a control
        character is escaped; bytes that are only part of a character are �."""
        self._check([id])
        piece, join = self._inner.id_to_token(id) or "", self._inner.decoder
        if id in self._silent or piece in UNKNOWNS:
            return piece
        if isinstance(join, decoders.ByteLevel):
            piece = join.decode([piece])
        elif isinstance(join, decoders.WordPiece):
            piece = piece[2:] if piece.startswith("##") else SPACE + piece
        elif join is None:
            piece = SPACE + piece
        return _printable(piece.replace(" ", SPACE))

    def pieces(self, text: str) -> list[str]:
        return [self.piece(id) for id in self.encode(text)]

    def _special(self, names: Sequence[str], what: str) -> int:
        for name in names:
            if (id := self._inner.token_to_id(name)) is not None:
                return id
        raise Problem(f"the tokenizer has no token for {what}: none of {' '.join(names)} is in its vocabulary")

    def _plain(self, ids: list[int]) -> list[int]:
        """Where a special token is a word or piece like others, a text can still spell it: then it is unknown."""
        return ids if self._silent.isdisjoint(ids) else [self.unknown if id in self._silent else id for id in ids]

    def _check(self, ids: Iterable[int]) -> None:
        for id in ids:
            if not 0 <= id < self.size:
                raise Problem(f"id {id} is not in the vocabulary, whose ids are 0 to {self.size - 1}")


def _learn(inner: tokenizers.Tokenizer, trainer: trainers.Trainer, lines: Iterable[str], vocab: int) -> None:
    texts = _teachable(lines)
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


def _teachable(lines: Iterable[str]) -> Iterator[str]:
    """Lines without what looks like special tokens, in parts of bearable length."""
    special = re.compile("|".join(SPECIAL))
    for line in lines:
        text = special.sub(" ", _whole(line))
        yield from (text[start : start + LONGEST] for start in range(0, len(text), LONGEST))


def _whole(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
