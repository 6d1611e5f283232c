"""Text to ids and back, by the `tokenizers` library, kept as tokenizer.json."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import category

import numpy as np
import tokenizers
from tokenizers import decoders, normalizers, processors

from regard.errors import Problem, UsageProblem
from regard.text.files import read_text
from regard.text.frame import Frame
from regard.text.kinds import KINDS, learn, untrained
from regard.text.safety import check_tokenizer
from regard.text.vocabulary import ENDS, ROLES, SENTINEL, SPACE, UNKNOWNS, Vocabulary, printable, whole

SPECIAL = ("<unk>", "<s>", "</s>")  # ids 0, 1, 2 of what is trained here; no padding token, for there is no padding
ENCODER = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # for an encoder, as everyone knows it
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SENTINELS = tuple(SENTINEL.format(number) for number in reversed(range(100)))  # the first has the last id
T5 = ("<pad>", "</s>", "<unk>", *SENTINELS)
GPT = ("<|endoftext|>",)
MAX_VOCAB = 10_000_000  # room for so many is taken before the first is learned; larger requests would abort the process
WORD_END = "</w>"  # with which GPT marks the last piece of a word
FILE, SETTINGS = "tokenizer.json", "tokenizer_config.json"

Spans = list[tuple[int, int]]  # where pieces begin and end in a text, in characters


class Tokenizer(Vocabulary):
    """Cuts text into the pieces of a vocabulary.  Special tokens are never added to text, and never read from it
    unless allowed: a text that spells one is text.  Nothing is cut or padded, whatever a loaded file says of that."""

    def __init__(self, inner: tokenizers.Tokenizer, text: str, settings: dict[str, Any] | None = None):
        self._text = text  # kept because the library does not write every number as it read it
        self._settings = settings  # of a published tokenizer_config.json, for others to read again
        self._inner = _modest(inner)
        self._readers: dict[tuple[str, ...], tokenizers.Tokenizer] = {(): self._inner}
        self.size = max(inner.get_vocab().values(), default=-1) + 1
        self._special = {token.content: id for id, token in inner.get_added_tokens_decoder().items() if token.special}
        self._silent = {id for name, id in self._special.items() if name not in UNKNOWNS}

    @classmethod
    def train(
        cls,
        kind: str,
        lines: Iterable[str],
        vocab: int = 8000,
        *,
        lowercase: bool = False,
        special: Sequence[str] = SPECIAL,
    ) -> Tokenizer:
        """Learn a vocabulary of `vocab` entries, the special ones counted; warns when the text yields fewer.  The
        special ones come first, but for the sentinels, which come last."""
        if kind not in KINDS:
            raise UsageProblem(f"no tokenizer is called {kind!r}; choose one of {', '.join(KINDS)}")
        if vocab <= len(special):
            raise UsageProblem(
                f"a vocabulary of {vocab} has no room beside {len(special)} special tokens; ask for more"
            )
        if vocab > MAX_VOCAB:
            raise UsageProblem(
                f"a vocabulary of {vocab:,} (--vocab) is more than {MAX_VOCAB:,}; 8,000 to 50,000 are usual"
            )
        recipe = KINDS[kind](next((name for name in UNKNOWNS if name in special), UNKNOWNS[0]))
        inner = untrained(recipe, lowercase)
        last = [name for name in special if name in SENTINELS]
        learn(inner, recipe, lines, vocab - len(last), [name for name in special if name not in last])
        inner.add_special_tokens(last)
        if frame := FRAMES.get(tuple(special)):
            inner.post_processor = framed(inner, *frame)
        size = inner.get_vocab_size()
        if size < vocab and recipe.fills:
            warnings.warn(f"asked for {vocab} {kind} pieces, but the text yields only {size}", stacklevel=2)
        return cls.from_json(inner.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        return cls.from_json(read_text(Path(path)), str(path))

    @classmethod
    def from_json(cls, text: str, name: str = "the text", settings: dict[str, Any] | None = None) -> Tokenizer:
        with faults_of(name):
            check_tokenizer(json.loads(text), name)
            return cls(tokenizers.Tokenizer.from_str(text), text, settings)

    def save(self, path: str | Path) -> None:
        from regard.checkpoints.files import write_file

        write_file(Path(path), self.to_json().encode())

    def to_json(self) -> str:
        return self._text

    def files(self) -> dict[str, bytes]:
        """tokenizer.json, and the tokenizer_config.json without which the reference library rebuilds some by guess."""
        roles = {role: name for role, names in ROLES.items() for name in names[::-1] if name in self._special}
        settings = self._settings or {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
        return {FILE: self._text.encode(), SETTINGS: json.dumps(settings, indent=2).encode()}

    def special(self, name: str) -> int | None:
        return self._special.get(name)

    @cached_property
    def specials(self) -> list[int]:
        """The ids of all special tokens."""
        return sorted(self._special.values())

    @cached_property
    def continues(self) -> np.ndarray:  # (V,) bool
        """Which pieces go on with the word of the piece before them.  Punctuation and special tokens stand alone."""
        if isinstance(self._inner.decoder, decoders.WordPiece):
            found = [(self._inner.id_to_token(id) or "").startswith("##") for id in range(self.size)]
        else:
            found = [_continues(self.piece(id)) for id in range(self.size)]
        return np.array(found) & ~np.isin(np.arange(self.size), self.specials)

    @cached_property
    def frame(self) -> Frame:
        """What stands around a text or a pair: the file's own rule, or BERT's where there is none but BERT's tokens."""
        texts = chain(["a"], map(self.piece, range(self.size)))  # a vocabulary of molecules may know no "a"
        text = next((text for text in texts if self.encode(text)), "")
        length, pair = len(self.encode(text)), self._inner.encode(text, text)
        one, two = pair.sequence_ids.index(0), pair.sequence_ids.index(1)
        around = tuple(pair.ids[:one]), tuple(pair.ids[one + length : two]), tuple(pair.ids[two + length :])
        if any(around):
            return Frame(*around, segments=1 in pair.type_ids)
        if "[CLS]" in self._special:
            return Frame((self.begin,), (self.end,), (self.end,), segments=True)
        blank = next((id for name in (*ENDS, *UNKNOWNS) if (id := self.special(name)) is not None), None)
        return Frame((), (), (), segments=False, blank=() if blank is None else (blank,))

    def encode(self, text: str, allow: Sequence[str] = ()) -> list[int]:
        return self.encode_batch([text], allow)[0]

    def encode_batch(self, texts: Sequence[str], allow: Sequence[str] = ()) -> list[list[int]]:
        """The ids of each text; a special token that is allowed is read where a text spells it."""
        reader = self._reader(tuple(allow))
        encodings = reader.encode_batch_fast([whole(text) for text in texts], add_special_tokens=False)
        silent = self._silent - {self._special[name] for name in allow}
        return [self._only_text(encoding.ids, silent) for encoding in encodings]

    def encode_spans(self, text: str) -> tuple[list[int], Spans]:
        return self.encode_spans_batch([text])[0]

    def encode_spans_batch(self, texts: Sequence[str]) -> list[tuple[list[int], Spans]]:
        """The ids of each text, and from where to where in it each piece reaches."""
        encodings = self._inner.encode_batch([whole(text) for text in texts], add_special_tokens=False)
        return [(self._only_text(encoding.ids, self._silent), encoding.offsets) for encoding in encodings]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of a text that is cut into words, and which word each piece is of; a word may have no pieces."""
        words = [whole(word) for word in words]
        if isinstance(self._inner.decoder, decoders.ByteLevel):  # which knows the start of a word by its space
            words = [" " + word.removeprefix(" ") if word else word for word in words]
        encoding = self._inner.encode(words, is_pretokenized=True, add_special_tokens=False)
        return self._only_text(encoding.ids, self._silent), [word for word in encoding.word_ids if word is not None]

    def normalized(self, text: str) -> str:
        """A text as it is before it is cut: with one form for each letter, perhaps in lower case."""
        return self._inner.normalizer.normalize_str(text) if self._inner.normalizer else text

    def framed_by(self, single: str, pair: str) -> Tokenizer:
        """The same vocabulary with other special tokens around a text and a pair, such as `$A </s>`."""
        inner = tokenizers.Tokenizer.from_str(self._text)
        inner.post_processor = framed(inner, single, pair)
        return Tokenizer.from_json(inner.to_str(pretty=True), settings=self._settings)

    @property
    def lower_cases(self) -> bool:
        """Whether making text lower case is a step of its normalizer."""
        return any(isinstance(step, normalizers.Lowercase) for step in normalizer_steps(self._inner))

    def lower_cased(self) -> Tokenizer:
        """The same vocabulary, for text that is made lower case first; itself where its own rules do that."""
        if self.lower_cases:
            return self
        inner = tokenizers.Tokenizer.from_str(self._text)
        inner.normalizer = normalizers.Sequence([normalizers.Lowercase(), *normalizer_steps(inner)])
        return Tokenizer.from_json(inner.to_str(pretty=True), settings=self._settings)

    def decode(self, ids: Sequence[int]) -> str:
        self.check(ids)
        return self._inner.decode([id for id in ids if id not in self._silent], skip_special_tokens=False)

    def piece(self, id: int) -> str:
        self.check([id])
        piece, join = self._inner.id_to_token(id) or "", self._inner.decoder
        if id in self._silent or piece in UNKNOWNS:
            return piece
        if isinstance(join, decoders.ByteLevel):
            piece = join.decode([piece])
        elif isinstance(join, decoders.WordPiece):
            piece = piece[2:] if piece.startswith("##") else SPACE + piece
        elif isinstance(join, decoders.BPEDecoder):
            piece = piece.replace(WORD_END, " ")
        elif join is None:
            piece = SPACE + piece
        return printable(piece.replace(" ", SPACE))

    def _reader(self, allow: tuple[str, ...]) -> tokenizers.Tokenizer:
        """The same tokenizer, but one to which the allowed tokens are not special: those it reads from text."""
        if allow not in self._readers:
            for name in allow:
                if name not in self._special:
                    raise UsageProblem(f"{name!r} cannot be allowed in a text: the tokenizer has no such special token")
            content = json.loads(self._text)
            for token in content["added_tokens"]:
                token["special"] = token["special"] and token["content"] not in allow
            self._readers[allow] = _modest(tokenizers.Tokenizer.from_str(json.dumps(content)))
        return self._readers[allow]

    def _only_text(self, ids: list[int], silent: set[int]) -> list[int]:
        """Where a special token is a word or piece like others, a text can still spell it: then it is unknown."""
        return ids if silent.isdisjoint(ids) else [self.unknown if id in silent else id for id in ids]


def normalizer_steps(inner: tokenizers.Tokenizer) -> list[normalizers.Normalizer]:
    rules = inner.normalizer
    steps: Any = rules if isinstance(rules, normalizers.Sequence) else [rules] if rules else []  # it has no types
    return list(steps)


def _continues(piece: str) -> bool:
    """It begins with a letter, a mark, a digit, or with bytes of one, and so not with ▁ or punctuation."""
    return piece.startswith("\ufffd") or category((piece or SPACE)[0])[0] in "LMN"


FRAMES: dict[tuple[str, ...], tuple[str, str]] = {  # of a text and of a pair, whose second text is BERT's segment 1
    ENCODER: ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    ROBERTA: ("<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    T5: ("$A </s>", "$A </s> $B </s>"),
}


def framed(inner: tokenizers.Tokenizer, single: str, pair: str) -> processors.TemplateProcessing:
    names = {word.split(":")[0] for word in pair.split()} - {"$A", "$B"}
    return processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(name, inner.token_to_id(name)) for name in sorted(names)]
    )


@contextmanager
def faults_of(name: str) -> Iterator[None]:
    """What the library finds wrong, said with the name of the files.  It can also panic, which is no Exception."""
    try:
        yield
    except (Problem, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise Problem(f"{name} makes no tokenizer ({error}). Fetch or train it again.") from error


def _modest(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    inner.no_padding()
    inner.no_truncation()
    inner.encode_special_tokens = True  # that is, as the text they are
    return inner
