import io
import json
import re
import sys
import unicodedata
import warnings

import pytest
from mixed_text import ODD, SPELLED, real_lines, reference

from regard.errors import Problem
from regard.text.published import load_pair, load_tokenizer
from regard.text.spm import CONTROL, SentencePiece

sentencepiece = pytest.importorskip("sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'")

TEXT = [f"in {1900 + i % 100}, a man of {i % 90}, and 1,{i % 10}00 men, rode the bike; number {i}," for i in range(600)]
TEXT += ["Die Frau (lacht) über den Ärger – für £5.", "Le garçon a été là-bas, où \"l'œil\" s'éveille."] * 100
ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
ALBERT["user_defined_symbols"] = ["(", ")", '"', "-", ".", "–", "£", "€"]


def train(lines=TEXT, vocab_size=300, model_type="unigram", **options) -> bytes:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=file,
        vocab_size=vocab_size,
        model_type=model_type,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return file.getvalue()


def saved(folder, model: bytes, **settings):
    (folder / "spiece.model").write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def albert() -> bytes:
    return train([line.lower() for line in TEXT], split_by_number=False, **ALBERT)


@pytest.fixture(scope="module")
def plain() -> bytes:
    return train()


def processor(model: bytes):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def test_the_file_says_what_sentencepiece_reads_from_it(albert, plain):
    for data in (albert, plain):
        model, theirs = SentencePiece.parse(data), processor(data)
        pieces = [(theirs.id_to_piece(id), theirs.get_score(id)) for id in range(theirs.get_piece_size())]
        assert [(piece.text, piece.score) for piece in model.pieces] == pieces
        controls = [theirs.is_control(id) for id in range(theirs.get_piece_size())]
        assert [piece.kind == CONTROL for piece in model.pieces] == controls
        assert model.unknown == theirs.unk_id()
        assert model.usual


def test_a_plain_model_reads_as_sentencepiece_does(plain, tmp_path):
    ours, theirs = load_tokenizer(saved(tmp_path, plain)), processor(plain)
    for text in [*TEXT[-300:], *ODD]:
        if unicodedata.is_normalized("NFC", text):  # `tokenizers` composes some characters otherwise
            assert ours.encode(text) == theirs.encode(text), text
    lines = real_lines()
    assert ours.encode_batch(lines) == theirs.encode(lines)
    assert ours.decode(ours.encode("a man of 5, rode")) == "a man of 5, rode"


def test_control_pieces_are_never_read_from_text(plain, tmp_path):
    ours = load_tokenizer(saved(tmp_path, plain))
    for text in ("<s>", "a</s>b", "<s> man </s>"):
        assert not {ours.begin, ours.end} & set(ours.encode(text))


@pytest.mark.parametrize("settings", [{}, {"do_lower_case": False}, {"keep_accents": True}])
def test_alberts_text_is_cut_as_the_reference_cuts_it(albert, settings, tmp_path):
    ours, theirs = load_tokenizer(saved(tmp_path, albert, **settings)), reference_albert(albert, **settings)
    plain = {"add_special_tokens": False, "split_special_tokens": True, "return_offsets_mapping": True}
    for text in [*ODD, "The man (1984) lacht über £5."]:
        if not has_number_with_comma(text):
            found = theirs(text, **plain)
            assert ours.encode_spans(text) == (found["input_ids"], [tuple(span) for span in found["offset_mapping"]])
    lines = [line for line in real_lines() if not has_number_with_comma(line)]
    assert ours.encode_batch(lines) == theirs(lines, **plain)["input_ids"]


def has_number_with_comma(text: str) -> bool:
    """Which the reference library, unlike the files it published, no longer treats as ALBERT did."""
    return bool(re.search(r"\d,", unicodedata.normalize("NFKC", text)))


def reference_albert(model: bytes, **settings):
    pieces = [(piece.text, piece.score) for piece in SentencePiece.parse(model).pieces]
    charsmap = SentencePiece.parse(model).charsmap
    return reference().AlbertTokenizer(vocab=pieces, _spm_precompiled_charsmap=charsmap, **settings)


def test_alberts_numbers_lose_their_commas_as_at_first(albert, tmp_path):
    ours, theirs = load_tokenizer(saved(tmp_path, albert)), processor(albert)
    texts = [f"in {1900 + number}, a man" for number in range(100)]
    assert any(first_albert(theirs, text) != theirs.encode(text) for text in texts), "there is nothing to tell by"
    for text in [*texts, *TEXT[-2:]]:
        assert ours.encode(text) == first_albert(theirs, text), text


def first_albert(theirs, text: str) -> list[int]:
    """The rule that ALBERT was published with: a piece that ends in a digit and a comma is cut again, without it."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    pieces: list[str] = []
    for piece in theirs.encode(text, out_type=str):
        if not re.search(r"\d,$", piece):
            pieces.append(piece)
            continue
        again = theirs.encode(piece[:-1].replace("▁", ""), out_type=str)
        if not piece.startswith("▁"):
            again = [again[0].removeprefix("▁"), *again[1:]]
        pieces += [*filter(None, again), ","]
    return [theirs.piece_to_id(piece) for piece in pieces]


def test_alberts_special_tokens_and_frame(albert, tmp_path):
    ours = load_tokenizer(saved(tmp_path, albert))
    mask = reference().AddedToken("[MASK]", lstrip=True, normalized=False)
    theirs = reference_albert(albert, mask_token=mask)
    assert (ours.pad, ours.unknown, ours.begin, ours.end, ours.mask) == (0, 1, 2, 3, 4)
    for text in ("the [MASK] rode", "[MASK]", "a[MASK]b"):
        assert ours.encode(text, allow=("[MASK]",)) == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.mask not in ours.encode(text)
    pair = theirs("a man rode", "the bike rode a man", truncation=True, max_length=12, return_token_type_ids=True)
    row = ours.frame.row(ours.encode("a man rode"), ours.encode("the bike rode a man"), 12)
    assert row == (pair["input_ids"], pair["token_type_ids"])
    assert ours.encode_words(["a", "man's", "", "bike"])[1] == sorted(ours.encode_words(["a", "man's", "", "bike"])[1])


@pytest.mark.parametrize("options", [{"model_type": "bpe"}, {"byte_fallback": True}, {"add_dummy_prefix": False}])
def test_models_of_other_kinds_are_refused(options, tmp_path):
    with pytest.raises(Problem, match=r"spiece\.model is not of .* usual kind"):
        load_tokenizer(saved(tmp_path, train(TEXT[:200], vocab_size=400, **options)))


def test_damaged_models_are_named(plain, tmp_path):
    for content in (
        b"",
        b"junk",
        plain[: len(plain) // 2],
        b"\xff" * 100,
        b"\x0a\xff\xff\xff\xff\x7fx",
        plain + b"\x0a",
    ):
        with pytest.raises(Problem, match=r"spiece\.model"):
            load_tokenizer(saved(tmp_path, content))


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    """A folder as opus-mt has them, some pieces of whose models are not in its vocabulary, and one of it in neither."""
    folder = tmp_path_factory.mktemp("opus")
    models = {"source.spm": train(TEXT[:600]), "target.spm": train(TEXT[600:], vocab_size=120)}
    for name, model in models.items():
        (folder / name).write_bytes(model)
    pieces = sorted({piece.text for model in models.values() for piece in SentencePiece.parse(model).pieces[3:]})
    kept = [piece for number, piece in enumerate(pieces) if number % 17]
    vocabulary = {piece: id for id, piece in enumerate(["</s>", "<unk>", *kept, "€", ">>deu<<", "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return folder


def reference_marian(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it would not use here
        return reference().MarianTokenizer.from_pretrained(folder)


def test_marian_reads_and_writes_as_the_reference_does(opus):
    (source, target), theirs = load_pair(opus), reference_marian(opus)
    assert (source.end, source.unknown, source.pad) == (theirs.eos_token_id, theirs.unk_token_id, theirs.pad_token_id)
    assert (source.begin, source.size) == (source.pad, theirs.vocab_size)
    for text in [*TEXT[::7], *ODD, ">>deu<< a man", ">>xyz<< a man", ">>deu<<", "a >>deu<< man", "a €"]:
        assert [*source.encode(text), source.end] == theirs(text)["input_ids"], text
        ids = target.encode(text)
        assert [*ids, target.end] == theirs(text_target=text)["input_ids"], text
        known = [id for id in ids if id != target.unknown]
        assert target.decode([target.begin, *known, target.end]) == theirs.decode(known, skip_special_tokens=True)
    assert source.decode(source.encode("a €")) == "a €"
    lines = real_lines()[:3000]
    assert [[*ids, source.end] for ids in source.encode_batch(lines)] == theirs(lines)["input_ids"]


def test_marian_takes_special_tokens_for_text(opus):
    source, _ = load_pair(opus)
    for text in SPELLED:
        assert not {source.end, source.pad} & set(source.encode(text))
    assert source.encode("a\ud800") == source.encode("a\ufffd")
    assert all(piece.isprintable() for piece in source.pieces(" ".join(ODD)))


def test_marian_is_saved_as_it_was_read(opus, tmp_path):
    source, target = load_pair(opus)
    for name, content in (source.files() | target.files()).items():
        (tmp_path / name).write_bytes(content)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        file.name: file.read_bytes() for file in opus.iterdir()
    }


def test_a_target_vocabulary_of_its_own(opus, tmp_path):
    for file in opus.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "target_vocab.json").write_text(json.dumps({"</s>": 0, "<unk>": 1, "<pad>": 2, "▁": 3}))
    source, target = load_pair(tmp_path)
    assert (source.size, target.size) == (load_pair(opus)[0].size, 4)
    assert target.encode("日") == [3, 1]


def test_marian_without_parts(opus, tmp_path):
    for absent in ("target.spm", "vocab.json"):
        for file in opus.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / absent).unlink()
        with pytest.raises(Problem, match=absent):
            load_pair(tmp_path)
    for name, content in (("source.spm", b""), ("target.spm", b"junk"), ("vocab.json", b"[]")):
        for file in opus.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Problem, match=name):
            load_pair(tmp_path)


def test_a_translators_folder_has_not_one_tokenizer_but_two(opus):
    with pytest.raises(Problem, match="translator"):
        load_tokenizer(opus)


def test_a_translator_without_sentencepiece_says_how_to_get_it(opus, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(Problem, match=r"source\.spm.*regard\[spm\]"):
        load_pair(opus)
