"""sentencepiece.bpe.model, without a tokenizer.json: the ids of XLM-R and CamemBERT, which are not SentencePiece's."""

import io
import json
from importlib import import_module

import pytest
from mixed_text import ODD, SPELLED, real_lines, reference

from regard.errors import Problem
from regard.text.published import load_tokenizer
from regard.text.spm import SentencePiece

sentencepiece = pytest.importorskip("sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'")

TEXT = ["The woman laughs at 5 o'clock; the man, who is 1,000 km away, not.", "Die Frau lacht über den Ärger."] * 60
TEXT += ["Le garçon a été là-bas, où l'œil s'éveille.", "日本語の文章です。", "Привет, мир! Это текст."] * 60
CLASSES = {"xlm-roberta": "XLMRoberta", "camembert": "Camembert"}
IDS = {  # begin, padding, end, unknown; and how far ids are from SentencePiece's
    "xlm-roberta": ((0, 1, 2, 3), 1),
    "camembert": ((5, 1, 6, 3), 4),
}


@pytest.fixture(scope="module")
def model() -> bytes:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=file, vocab_size=250, hard_vocab_limit=False, minloglevel=2
    )
    return file.getvalue()


@pytest.fixture(params=CLASSES)
def family(request) -> str:
    return request.param


@pytest.fixture
def folder(model, family, tmp_path):
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    return tmp_path


def test_ids_are_fairseqs(folder, model, family):
    ours, theirs = load_tokenizer(folder), sentencepiece.SentencePieceProcessor(model_proto=model)
    special, offset = IDS[family]
    assert (ours.begin, ours.pad, ours.end, ours.unknown) == special
    assert ours.size == theirs.get_piece_size() + offset + 1 and ours.mask == ours.size - 1
    for text in TEXT[-180:]:
        assert ours.encode(text) == [id + offset if id else ours.unknown for id in theirs.encode(text)], text
    assert ours.decode(ours.encode("Die Frau lacht.")) == "Die Frau lacht."


def of_the_reference(model: bytes, family: str):
    pytest.importorskip("transformers", reason="the reference library is not installed")
    converters = import_module("transformers.convert_slow_tokenizer")
    parsed, kind = SentencePiece.parse(model), CLASSES[family]
    pieces = [(piece.text, piece.score) for piece in parsed.pieces]
    how = getattr(converters, f"{kind}Converter").convert_from_spm(vocab=pieces)
    return getattr(reference(), f"{kind}Tokenizer")(**how, _spm_precompiled_charsmap=parsed.charsmap)


def test_mixed_text_has_the_ids_of_the_reference(folder, model, family):
    ours, theirs = load_tokenizer(folder), of_the_reference(model, family)
    assert ours.size == len(theirs)
    plain = {"add_special_tokens": False, "split_special_tokens": True, "return_offsets_mapping": True}
    for text in [*TEXT[::7], *ODD]:
        found = theirs(text, **plain)
        assert ours.encode_spans(text) == (found["input_ids"], [tuple(span) for span in found["offset_mapping"]]), text
    lines = real_lines()[:2000]
    assert ours.encode_batch(lines) == theirs(lines, **plain)["input_ids"]


def test_pairs_and_hidden_words_stand_as_in_the_reference(folder, model, family):
    ours, theirs = load_tokenizer(folder), of_the_reference(model, family)
    pair = theirs("The woman", "the man laughs")["input_ids"]
    assert ours.frame.row(ours.encode("The woman"), ours.encode("the man laughs"))[0] == pair
    assert ours.frame.row(ours.encode("The woman"))[0] == theirs("The woman")["input_ids"]
    hidden = "The <mask> laughs"
    assert ours.frame.row(ours.encode(hidden, allow=("<mask>",)))[0].count(ours.mask) == 1
    assert theirs(hidden)["input_ids"].count(ours.mask) == 1


def test_special_tokens_are_text_in_a_text(folder):
    ours = load_tokenizer(folder)
    for text in [*SPELLED, "<s>NOTUSED", "a</s>NOTUSED b"]:
        assert not set(ours.specials) - {ours.unknown} & set(ours.encode(text)), text


def test_the_class_of_the_tokenizer_says_whose_ids_they_are(folder, family):
    """Multilingual models of other families have XLM-R's vocabulary."""
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(Problem, match=r"sentencepiece\.bpe\.model: whose ids .* is not known"):
        load_tokenizer(folder)
    for ending in ("Tokenizer", "TokenizerFast"):
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": CLASSES[family] + ending}))
        assert load_tokenizer(folder).unknown == 3
        assert load_tokenizer(folder).end == IDS[family][0][2]
