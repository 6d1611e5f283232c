"""A tokenizer is the model's own, or it is refused: real folders pass, those of other models do not."""

from __future__ import annotations

import json

import pytest

from regard.checkpoints.files import load_tensors, write_folder
from regard.commands.load import load
from regard.errors import Problem
from regard.tasks.reader import Reader
from regard.tasks.vocabulary_size import UNUSED_ROWS, check_vocabulary_size
from regard.text.tokenizer import ENCODER, Tokenizer

REAL = [  # tokens and rows of published models: BERT, T5, mT5, DeBERTa-v3, GPT-2 rounded up to 64, to 128 times 8
    (30522, 30522), (32100, 32128), (250100, 250112), (128001, 128100), (50257, 50304), (50257, 51200),
]  # fmt: skip
WRONG = [  # BERT cased for uncased, German for English, ALBERT's for BERT, RoBERTa's for XLM-R, a toy's for all
    (28996, 30522), (30000, 30522), (21128, 30522), (50265, 250002), (37, 30522), (40, 100), (30523, 30522),
]  # fmt: skip


@pytest.mark.parametrize("tokens, rows", REAL)
def test_published_sizes_pass(tokens, rows):
    check_vocabulary_size("folder", tokens, rows)


@pytest.mark.parametrize("tokens, rows", WRONG)
def test_sizes_of_another_model_are_refused_with_both_numbers(tokens, rows):
    with pytest.raises(Problem, match=rf"folder: .* {tokens} tokens .* {rows} rows: it belongs to another model"):
        check_vocabulary_size("folder", tokens, rows)


@pytest.fixture
def with_tokenizer(small_bert, tmp_path):
    """The small BERT with a tokenizer of its own making, of so many tokens."""

    def write(words: list[str], **settings):
        tokenizer = Tokenizer.train("words", words, 1000, special=ENCODER)
        config = json.loads((small_bert / "config.json").read_text()) | settings
        weights = load_tensors(small_bert / "model.safetensors")
        files = {"config.json": json.dumps(config).encode(), "model.safetensors": weights}
        write_folder(tmp_path / "bert", {**files, **tokenizer.files()})
        return tmp_path / "bert", tokenizer.size

    return write


@pytest.mark.filterwarnings("ignore:asked for")
def test_a_folder_with_too_few_tokens_is_refused(with_tokenizer):
    folder, size = with_tokenizer(["a cat"])
    with pytest.raises(Problem, match=rf"{size} tokens .* 37 rows.*{UNUSED_ROWS}\": {37 - size}"):
        load(folder, "cpu")


@pytest.mark.filterwarnings("ignore:asked for")
def test_a_folder_may_say_that_rows_are_unused(with_tokenizer, tmp_path):
    folder, size = with_tokenizer(["a cat"], **{UNUSED_ROWS: 37 - 7})
    assert size == 7
    found = load(folder, "cpu")
    assert isinstance(found, Reader)
    found.save(tmp_path / "again")
    assert load(tmp_path / "again", "cpu").embed(["a cat"]).shape == (1, 16)


@pytest.mark.filterwarnings("ignore:asked for")
def test_a_folder_with_too_many_tokens_is_refused(with_tokenizer):
    folder, size = with_tokenizer([" ".join(f"word{number}" for number in range(60))])
    with pytest.raises(Problem, match=rf"{size} tokens .* 37 rows: it belongs to another model"):
        load(folder, "cpu")
