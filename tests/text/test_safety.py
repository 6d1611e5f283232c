"""A tokenizer.json from elsewhere cannot ask for work without end; those that people publish are read."""

import base64
import json

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers

from regard.errors import Problem
from regard.text.safety import backtracks, check_tokenizer
from regard.text.tokenizer import Tokenizer

PUBLISHED = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    "gpt-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s*[\r\n]+|\s+(?!\S)|\s+",
    "spaces": r" {2,}",
    "clip": r"<\|startoftext\|>|'s|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "lines": r"(?:\r?\n)+",
}
EXPLODING = [
    r"(a+)+$", r"(a*)*b", r"(?:a|aa)+$", r"((a+)b?)*c", r"([a-z]+)*\d", r"(x+x+)+y", r"(a{2,}){3,}", r"(\w+\s?)*!",
]  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_expressions_that_are_published_are_read(name):
    assert not backtracks(PUBLISHED[name])


@pytest.mark.parametrize("pattern", EXPLODING)
def test_an_expression_that_backtracks_without_end_is_refused(pattern):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    for part in (split, {"type": "Sequence", "pretokenizers": [split]}):
        with pytest.raises(Problem, match="regular expression"):
            check_tokenizer({"pre_tokenizer": part}, "tokenizer.json")


def made(**parts) -> str:
    inner = Library(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return json.dumps(json.loads(inner.to_str()) | parts)


def test_normalizers_that_multiply_a_text_are_refused():
    longer = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 8}
    deep = {"type": "Sequence", "normalizers": [longer, {"type": "Sequence", "normalizers": [longer] * 9}]}
    with pytest.raises(Problem, match=r"normalizer may make 1,073,741,824 characters of one"):
        Tokenizer.from_json(made(normalizer=deep), "tokenizer.json")
    anywhere = {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "a" * 5000}
    with pytest.raises(Problem, match="may make 5,001 characters"):
        Tokenizer.from_json(made(normalizer=anywhere), "tokenizer.json")
    assert Tokenizer.from_json(made(normalizer=longer)).encode("a") == [1]


def test_a_table_of_characters_with_a_long_replacement_is_refused():
    table = base64.b64encode((4).to_bytes(4, "little") + bytes(4) + b"x" * 4096 + b"\0").decode()
    with pytest.raises(Problem, match="may make 4,096 characters"):
        check_tokenizer({"normalizer": {"type": "Precompiled", "precompiled_charsmap": table}}, "tokenizer.json")


def test_long_words_and_long_frames_are_refused():
    with pytest.raises(Problem, match="max_input_chars_per_word is 1,000,000,000"):
        check_tokenizer({"model": {"type": "WordPiece", "max_input_chars_per_word": 10**9}}, "tokenizer.json")
    frame = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 1000}
    with pytest.raises(Problem, match="more than 256 tokens around a text"):
        check_tokenizer({"post_processor": frame}, "tokenizer.json")
