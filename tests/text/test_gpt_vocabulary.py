"""GPT's vocabulary, from its vocab.json and merges.txt, reads as the reference library's does."""

from __future__ import annotations

import json

import pytest
import tokenizers
from mixed_text import ODD, SPELLED, real_lines, reference
from tokenizers import models, normalizers, pre_tokenizers, trainers

from regard.text.published import load_tokenizer

TEXT = [
    "the lowest of the low",
    "newer and wider, the newest",
    "a lower film; don't look!",
    "wider lows are lower",
] * 20


def make_files(folder, lines, size):
    """A vocabulary as GPT has it, learned from lines, in the two files that its folder holds."""
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    inner.train_from_iterator(lines, trainer)
    learned = json.loads(inner.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(learned["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in learned["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    return folder


def test_a_thousand_lines_are_read_as_by_the_reference(tmp_path):
    transformers = reference()
    lines = real_lines()[::10]
    assert len(lines) >= 1000
    ours = load_tokenizer(make_files(tmp_path, lines, 3000))
    theirs = transformers.OpenAIGPTTokenizer.from_pretrained(tmp_path)
    plain = {"add_special_tokens": False, "split_special_tokens": True}
    assert ours.encode_batch(lines + ODD + SPELLED) == theirs(lines + ODD + SPELLED, **plain)["input_ids"]
    for line in lines[:100]:
        ids = ours.encode(line)
        if ours.unknown not in ids:
            assert ours.decode(ids).strip() == theirs.decode(ids).strip()


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return load_tokenizer(make_files(tmp_path_factory.mktemp("gpt"), TEXT, 80))


def test_words_are_lowered_and_their_ends_marked(vocabulary):
    assert vocabulary.decode(vocabulary.encode("The LOWEST, newer")) == "the lowest , newer"
    assert vocabulary.pieces("the low") == ["the▁", "low▁"]


def test_a_text_has_no_frame_and_what_is_unknown_is_told(vocabulary):
    assert vocabulary.frame.row(vocabulary.encode("the low"))[0] == vocabulary.encode("the low")
    assert vocabulary.unknown in vocabulary.encode("漢")
    words, owners = vocabulary.encode_words(["the", "", "lowest"])
    assert vocabulary.decode(words) == "the lowest" and set(owners) == {0, 2}
