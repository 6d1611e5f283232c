"""The vocabulary of a published model, from whatever files its folder has, as the reference library reads them.
Nothing in a folder is run, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.errors import Problem
from regard.text.files import AGAIN, read_ids, read_object, read_text
from regard.text.marian import Marian
from regard.text.spm import NORMAL, USER_DEFINED, Piece, SentencePiece
from regard.text.tokenizer import (
    ENCODER,
    FILE,
    FRAMES,
    ROBERTA,
    SENTINELS,
    SETTINGS,
    T5,
    WORD_END,
    Tokenizer,
    faults_of,
    framed,
)
from regard.text.vocabulary import SENTINEL, Vocabulary

Settings = dict[str, Any]  # of a tokenizer_config.json
Merges = list[tuple[str, str]]  # two pieces that are joined, the first pair first
WORDS, IDS, MERGES, PIECES = "vocab.txt", "vocab.json", "merges.txt", "spiece.model"
FAIRSEQ_PIECES = "sentencepiece.bpe.model"  # XLM-R's and CamemBERT's: of unigrams, whatever the name says
SOURCE, TARGET, TARGET_IDS = "source.spm", "target.spm", "target_vocab.json"
ADDED, NAMES = "added_tokens.json", "special_tokens_map.json"
CONFIG = "config.json"
FAIRSEQ = {  # tokens that come before the pieces of the file, and how many of the file's first are left out for them
    "xlmroberta": (("<s>", "<pad>", "</s>", "<unk>"), 3),
    "camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1),
}
MOST = 1000  # sentinels
RELUCTANCE = 100.0  # taken from the score of a piece that is to be used only where nothing else fits


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer of a model's folder.  A tokenizer.json says all; older files need a rule for each kind."""
    folder = Path(folder)
    settings = read_settings(folder)
    if (folder / FILE).exists():
        return Tokenizer.from_json(read_text(folder / FILE), str(folder / FILE), settings)
    with faults_of(str(folder)):
        inner = builder(folder)(folder, settings)
        add_tokens(inner, folder, settings)
        return Tokenizer.from_json(inner.to_str(), str(folder), settings)


def load_pair(folder: str | Path) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of a translator's two sides, which may be one."""
    folder = Path(folder)
    if not any((folder / name).exists() for name in (SOURCE, TARGET)):
        tokenizer = load_tokenizer(folder)
        return tokenizer, tokenizer
    target_ids = TARGET_IDS if (folder / TARGET_IDS).exists() else IDS
    return Marian(folder / SOURCE, folder / IDS), Marian(folder / TARGET, folder / target_ids)


def read_settings(folder: Path) -> Settings:
    """What the folder says beside the vocabulary; not what code of its own it would like to be run."""
    settings: Settings = {}
    for name in (NAMES, SETTINGS):
        if (folder / name).exists():
            settings |= read_object(folder / name)
    settings.pop("auto_map", None)
    return settings


def builder(folder: Path) -> Callable[[Path, Settings], tokenizers.Tokenizer]:
    if (folder / WORDS).exists():
        return wordpiece
    if (folder / PIECES).exists():
        return sentencepiece
    if (folder / FAIRSEQ_PIECES).exists():
        return fairseq_sentencepiece
    if (folder / SOURCE).exists():
        raise Problem(f"{folder} holds a translator, with a vocabulary for each side. Use it to translate.")
    if (folder / IDS).exists() or (folder / MERGES).exists():
        return bpe
    wanted = f"{FILE}, {WORDS}, {IDS} with {MERGES}, {PIECES} or {FAIRSEQ_PIECES}"
    raise Problem(f"{folder} holds no vocabulary: there is none of {wanted}. {AGAIN}")


def wordpiece(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """BERT's: a piece a line, whose number is its id."""
    lines = read_text(folder / WORDS).removesuffix("\n").split("\n")
    vocab = {line.removesuffix("\r"): id for id, line in enumerate(lines)}
    for name in ("[UNK]", "[CLS]", "[SEP]"):
        if name not in vocab:
            raise Problem(f"{folder / WORDS} has no line {name}, so it is not BERT's. {AGAIN}")
    inner = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),  # by default if it makes lower case
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    make_special(inner, ENCODER)
    inner.post_processor = framed(inner, *FRAMES[ENCODER])
    return inner


def bpe(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """GPT's, which marks the ends of words; or one of bytes."""
    vocab = read_ids(folder / IDS)
    merges = read_merges(folder / MERGES, vocab)
    marked = any(piece.endswith(WORD_END) for piece in vocab)
    return word_bpe(vocab, merges) if marked else byte_bpe(vocab, merges, settings)


def word_bpe(vocab: dict[str, int], merges: Merges) -> tokenizers.Tokenizer:
    """GPT's: BERT's words, in lower case; it frames no text."""
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", end_of_word_suffix=WORD_END))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.BPEDecoder(WORD_END)
    make_special(inner, ("<unk>",))
    return inner


def byte_bpe(vocab: dict[str, int], merges: Merges, settings: Settings) -> tokenizers.Tokenizer:
    """RoBERTa's; and GPT-2's, which frames no text."""
    prefix = settings.get("add_prefix_space", False)
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    inner.decoder = decoders.ByteLevel()
    make_special(inner, ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"), greedy="<mask>")
    if {"<s>", "</s>"} <= vocab.keys():
        end, begin = ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"])
        inner.post_processor = processors.RobertaProcessing(end, begin, add_prefix_space=prefix)
    else:
        inner.post_processor = processors.ByteLevel(trim_offsets=False)
    return inner


def sentencepiece(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """ALBERT's, T5's, or a plain one, by the special tokens it has.  T5's sentinels are not in its file."""
    model = usual_pieces(folder / PIECES)
    albert = any(piece.text == "[CLS]" for piece in model.pieces)
    t5 = [piece.text for piece in model.pieces[:3]] == [*T5[:3]]
    scores = [(piece.text, piece.score - RELUCTANCE * is_avoided(piece, albert)) for piece in model.pieces]
    extra = sentinels(settings) if t5 else []
    scores += [(name, -RELUCTANCE) for name in extra]
    inner = tokenizers.Tokenizer(models.Unigram(scores, model.unknown))
    steps = albert_steps(settings) if albert else []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    inner.normalizer = normalizers.Sequence(steps)
    spaces = pre_tokenizers.WhitespaceSplit() if albert or t5 else pre_tokenizers.Split(" ", "removed")
    inner.pre_tokenizer = pre_tokenizers.Sequence([spaces, pre_tokenizers.Metaspace()])
    inner.decoder = decoders.Metaspace()
    make_special(inner, [*(piece.text for piece in model.pieces if is_special(piece)), *extra], greedy="[MASK]")
    if albert or t5:
        inner.post_processor = framed(inner, *FRAMES[ENCODER if albert else T5])
    return inner


def usual_pieces(path: Path) -> SentencePiece:
    model = SentencePiece.load(path)
    if not model.usual:
        raise Problem(f"{path} is not of SentencePiece's usual kind (unigram, spaces, no bytes). {AGAIN}")
    return model


def fairseq_sentencepiece(folder: Path, settings: Settings) -> tokenizers.Tokenizer:
    """XLM-R's and CamemBERT's: fairseq has special tokens of its own before SentencePiece's pieces, and <mask> last."""
    model = usual_pieces(folder / FAIRSEQ_PIECES)
    first, skipped = FAIRSEQ[fairseq_kind(folder, settings)]
    pieces = model.pieces[skipped:]
    scores = [*((name, -RELUCTANCE) for name in first)]
    scores += [(piece.text, piece.score - RELUCTANCE * is_special(piece)) for piece in pieces]
    inner = tokenizers.Tokenizer(models.Unigram([*scores, ("<mask>", -RELUCTANCE)], first.index("<unk>")))
    inner.normalizer = normalizers.Precompiled(model.charsmap) if model.charsmap else None
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    inner.decoder = decoders.Metaspace()
    make_special(inner, [*first, *(piece.text for piece in pieces if is_special(piece)), "<mask>"], greedy="<mask>")
    inner.post_processor = framed(inner, *FRAMES[ROBERTA])
    return inner


def fairseq_kind(folder: Path, settings: Settings) -> str:
    """Whose ids these are.  The file does not say; the class of its tokenizer does, or the model beside it."""
    config = read_object(folder / CONFIG) if (folder / CONFIG).exists() else {}
    said = [str(settings.get("tokenizer_class") or ""), str(config.get("model_type") or "")]
    for name in said:
        kind = name.lower().replace("-", "").removesuffix("fast").removesuffix("tokenizer")
        if kind in FAIRSEQ:
            return kind
    raise Problem(
        f"{folder / FAIRSEQ_PIECES}: whose ids its pieces have is not known, XLM-R's or CamemBERT's. "
        f"Name a tokenizer_class in {SETTINGS}: XLMRobertaTokenizer or CamembertTokenizer."
    )


def sentinels(settings: Settings) -> list[str]:
    """T5's, the last first."""
    asked = settings.get("extra_ids", len(SENTINELS))
    if type(asked) is not int or not 0 <= asked <= MOST:
        raise Problem(f"extra_ids is {asked!r} in {SETTINGS}; it must be a whole number up to {MOST}. {AGAIN}")
    return [SENTINEL.format(number) for number in reversed(range(asked))]


def is_special(piece: Piece) -> bool:
    return piece.kind not in (NORMAL, USER_DEFINED)


def is_avoided(piece: Piece, albert: bool) -> bool:
    """SentencePiece never reads special pieces from text; ALBERT cuts the comma off a number."""
    return is_special(piece) or (albert and piece.text[-1:] == "," and piece.text[-2:-1].isdigit())


def albert_steps(settings: Settings) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    return steps


def read_merges(path: Path, vocab: dict[str, int]) -> Merges:
    """Two pieces a line, after a line with the version."""
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or line.startswith("#version"):
            continue
        first, _, second = line.removesuffix("\r").partition(" ")
        if not {first, second, first + second} <= vocab.keys():
            raise Problem(f"{path}, line {number}: {line!r} does not join two pieces to one of {IDS}. {AGAIN}")
        merges.append((first, second))
    return merges


def content(token: str | Settings) -> str:
    return token["content"] if isinstance(token, dict) else token


def make_special(inner: tokenizers.Tokenizer, names: Iterable[str], greedy: str = "") -> None:
    """Those of the pieces that are there; a greedy one takes the space before it as its own."""
    there = [name for name in dict.fromkeys(names) if inner.token_to_id(name) is not None]
    inner.add_special_tokens([AddedToken(name, lstrip=name == greedy, special=True) for name in there])


def add_tokens(inner: tokenizers.Tokenizer, folder: Path, settings: Settings) -> None:
    """What was added to the vocabulary after training."""
    special = [content(token) for token in settings.get("additional_special_tokens") or []]
    added = read_ids(folder / ADDED) if (folder / ADDED).exists() else {}
    for name, id in sorted(added.items(), key=lambda item: item[1]):
        inner.add_tokens([AddedToken(name, special=name in special, normalized=name not in special)])
        if inner.token_to_id(name) != id:
            raise Problem(f"{folder / ADDED}: {name!r} has the id {id}, which is not the next one. {AGAIN}")
    make_special(inner, special)
