import json
import time
import unicodedata
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_text import reference

from regard.errors import Problem, UsageProblem
from regard.text.frame import Frame
from regard.text.tokenizer import ENCODER, KINDS, SPECIAL, Tokenizer

LECTURE = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
LINES = ["Ein Mann, der (gerade) Fahrrad fährt!", "die Frau  lacht, x ß 日本 <s>", "A man rides a bike."] * 5
SPACED = ["bpe", "byte-bpe", "unigram", "characters"]  # kinds that keep the spacing
HOSTILE = ["\ud800", "a\0b", "\t\u2028\x85\r\n", "👩‍👩‍👧", "e\u0301\u0323", "\u202eabc\u200f", "   ", ""]


def train(kind: str, lines=LINES, vocab=400, **options) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(kind, lines, vocab, **options)


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind) -> Tokenizer:
    return train(kind)


def test_the_lectures_merges():
    merges = json.loads(train("bpe", LECTURE).to_json())["model"]["merges"]
    assert merges[:3] == [["e", "s"], ["es", "t"], ["l", "o"]]


def test_special_tokens_come_first(tokenizer):
    assert (tokenizer.unknown, tokenizer.begin, tokenizer.end) == (0, 1, 2)
    assert [tokenizer.piece(id) for id in range(3)] == list(SPECIAL)


def test_every_id_has_a_piece(tokenizer):
    assert all(tokenizer.piece(id) for id in range(tokenizer.size))


@pytest.mark.parametrize("kind", SPACED)
def test_spacing_survives(kind):
    text = "die Frau  lacht, (gerade)  fährt!"
    tokenizer = train(kind)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert "".join(tokenizer.pieces(text)).removeprefix("▁") == text.replace(" ", "▁")


def test_words_and_wordpieces_show_where_words_begin():
    assert train("words").pieces("Ein Auto") == ["▁Ein", "<unk>"]
    assert "".join(train("wordpiece").pieces("Mann, fährt")) == "▁Mann▁,▁fährt"


@given(st.text())
@settings(deadline=None)
def test_bytes_give_back_every_text(text):
    assert BYTES.decode(BYTES.encode(text)) == text


@given(st.text("abc <>/su\n\tä\u2028\0👩"))
@settings(deadline=None)
def test_characters_give_back_known_text(text):
    assert LETTERS.decode(LETTERS.encode(text)) == unicodedata.normalize("NFC", text)


BYTES = train("byte-bpe")
LETTERS = train("characters", ["abc <>/su\n\tä\u2028\0👩"])


@pytest.mark.parametrize("text", ["</s>", "a </s> <s> b", "a</s>b", "<unk>", "<s>Mann</s>"])
def test_text_that_spells_a_special_token_is_text(tokenizer, text):
    assert not {tokenizer.begin, tokenizer.end} & set(tokenizer.encode(text))


def test_special_tokens_in_the_training_text_do_not_shift_ids(kind):
    tokenizer = train(kind, ["a </s> b <unk> c <s>"] * 3)
    assert (tokenizer.unknown, tokenizer.begin, tokenizer.end) == (0, 1, 2)
    assert "</s>" not in tokenizer.pieces("a </s>")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_passes(tokenizer, text):
    ids = tokenizer.encode(text)
    assert all(piece.isprintable() for piece in tokenizer.pieces(text))
    assert isinstance(tokenizer.decode(ids), str)


def test_a_lone_surrogate_is_replaced():
    assert BYTES.decode(BYTES.encode("a\ud800b")) == "a\ufffdb"


@pytest.mark.parametrize("character", ["x", " ", "日"])
def test_a_million_equal_characters_are_read(tokenizer, character):
    """In quadratic time this would not end before the limit that every test has."""
    assert len(tokenizer.encode(character * 1_000_000)) <= 3_000_000  # bytes at most


def test_training_on_an_endless_line_ends(kind):
    begin = time.process_time()
    train(kind, ["x" * 500_000, "low lower"])
    assert time.process_time() - begin < 20


@pytest.mark.parametrize("id", [-1, 10**6, 2**40])
def test_ids_outside_are_named(tokenizer, id):
    for call in (lambda: tokenizer.decode([3, id]), lambda: tokenizer.piece(id)):
        with pytest.raises(Problem, match=str(id)):
            call()


def test_decoding_leaves_out_beginning_and_end(tokenizer):
    ids = tokenizer.encode("A man")
    assert tokenizer.decode([1, *ids, 2]) == tokenizer.decode_batch([ids])[0] == "A man"


@pytest.mark.parametrize("lines", [[], ["", "  ", "\t"], ["</s> <s>"]])
def test_nothing_to_learn_from(kind, lines):
    with pytest.raises(Problem, match="no text"):
        Tokenizer.train(kind, lines)


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "unigram"])
def test_a_vocabulary_smaller_than_the_alphabet(kind):
    with pytest.raises(Problem, match="vocabulary of 10 "):
        Tokenizer.train(kind, LINES, 10)
    with pytest.warns(UserWarning, match=r"asked for 5000 .* only \d+"):
        Tokenizer.train(kind, LINES, 5000)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_words_and_characters_keep_the_most_frequent(kind):
    assert train(kind, ["b b b a a c"], 5).size == 5


def test_what_reading_finds_wrong_is_told_as_it_is():
    def lines():
        yield "fine"
        raise Problem("line 2 is bad")

    with pytest.raises(Problem, match=r"^line 2 is bad$"):
        Tokenizer.train("bpe", lines())


def test_wrong_usage():
    with pytest.raises(UsageProblem, match="byte-bpe"):
        Tokenizer.train("bqe", LINES)
    with pytest.raises(UsageProblem, match="3"):
        Tokenizer.train("words", LINES, 3)


def test_lowercase(kind):
    tokenizer = train(kind, lowercase=True)
    assert tokenizer.encode("EIN MANN, FÄHRT") == tokenizer.encode("ein mann, fährt")


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.to_json() == tokenizer.to_json()
    for text in [*LINES, *HOSTILE, "</s>"]:
        assert again.encode(text) == tokenizer.encode(text)


def test_files_that_are_no_tokenizers(tmp_path, monkeypatch):
    broken = tmp_path / "tokenizer.json"
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}  # over which the library panics
    for content in (b"", b"{", b"{}", b"[]", b"\xff\xfe", b"[" * 100_000, json.dumps({"model": model}).encode()):
        broken.write_bytes(content)
        with pytest.raises(Problem, match=r"tokenizer\.json"):
            Tokenizer.load(broken)
    monkeypatch.setattr("regard.text.files.LARGEST", 100)
    broken.write_bytes(b" " * 101)
    with pytest.raises(Problem, match="101 bytes"):
        Tokenizer.load(broken)
    for missing in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(Problem, match=missing.name):
            Tokenizer.load(missing)


def test_names_of_special_tokens_elsewhere():
    theirs = json.loads(train("words").to_json())
    names = {"<unk>": "[UNK]", "<s>": "[CLS]", "</s>": "[SEP]"}
    theirs["model"]["vocab"] = {names.get(word, word): id for word, id in theirs["model"]["vocab"].items()}
    theirs["model"]["unk_token"] = "[UNK]"
    for token in theirs["added_tokens"]:
        token["content"] = names[token["content"]]
    loaded = Tokenizer.from_json(json.dumps(theirs))
    assert (loaded.unknown, loaded.begin, loaded.end) == (0, 1, 2)
    assert loaded.encode("[SEP] Mann") == [0, 0]


def test_a_tokenizer_without_special_tokens_says_so():
    bare = json.loads(train("words").to_json())
    bare["added_tokens"], bare["model"]["vocab"] = [], {"a": 0}
    with pytest.raises(Problem, match="</s>"):
        Tokenizer.from_json(json.dumps(bare)).end  # noqa: B018


def test_a_vocabulary_for_an_encoder(kind, tmp_path):
    tokenizer = train(kind, special=ENCODER)
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.begin, tokenizer.end, tokenizer.mask) == (0, 1, 2, 3, 4)
    assert tokenizer.frame == Frame((2,), (3,), (3,), segments=True)
    ids = tokenizer.encode("A [MASK] man", allow=("[MASK]",))
    assert ids.count(4) == 1
    assert not {2, 3, 4} & set(tokenizer.encode("[CLS] A [MASK] [SEP]"))
    for name, content in tokenizer.files().items():
        (tmp_path / name).write_bytes(content)
    theirs = reference().AutoTokenizer.from_pretrained(tmp_path)
    row, segments = tokenizer.frame.row(ids, tokenizer.encode("rides"))
    found = theirs("A [MASK] man", "rides", return_token_type_ids=True)
    assert (found["input_ids"], found["token_type_ids"], theirs.mask_token_id) == (row, segments, 4)
