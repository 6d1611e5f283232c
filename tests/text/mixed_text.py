"""Text of many kinds, real vocabularies, and the reference library, each where it can be had."""

import gzip
import itertools
import lzma
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

ODD = [
    "",
    " ",
    "  many   spaces \u00a0 \u3000 and\u2003kinds ",
    "\t\n\r\n line\nends \x0b\x0c",
    "U+2028\u2028x\u2029y\x85z",
    "a\0b\x01c\x7f\ufffd \ufeff bom \u200bzero\u200b\u2060width\u00adsoft",
    "👩‍👩‍👧 family 👍🏽 flags 🇩🇪🇫🇷 ☺️ keycap 1️⃣",
    "e\u0301\u0323 a\u0302\u0301 n\u0303 Z\u0351\u036b\u0343\u036a\u0302\u036b",
    "שלום עולם \u200f مرحبا بالعالم \u202eabc\u202c ltr",
    "日本語の文章です。漢字カタカナ、한국어 텍스트 中文，全形ＡＢＣ１２３",
    "\u1100\u1161\u11a8 jamo ｶﾞ half ﬁﬂ Å ½ ™ № ㎏ ① ²",
    "ǅ İstanbul ıI ß ẞ ſ Σίσυφος ὈΔΥΣΣΕΎΣ",
    "हिन्दी क्षि தமிழ் ภาษาไทยำ Tiếng Việt được tie\u0302\u0301ng",
    "don't can't ``quoted'' ''x'' it's I'LL we've — – … ‚quote‘ »so«",
    "1,000 2,5, 33, in 1999, 3.14 -5 1e-9 $5.00 €7 £8 50% #tag @user http://a.b/c?d=e&f",
    "𝕳𝖊𝖑𝖑𝖔 𝟙𝟚 \U0001f9d1\u200d\U0001f680 \U000e0041 \U00100000 \ue000",
    "x" * 300,
    "Donaudampfschifffahrtsgesellschaft" * 30,
    "ab " * 3000,
    "\u0301" * 50,
    "日" * 200,
    "<unk",
    "▁ literal ▁▁x",
    "snake_case_name CamelCase ALLCAPS {json: [1, 2]} <b>html</b> a\\b/c|d~e^f`g",
]
SPELLED = ["[MASK] here", "a<mask>b </s> <s>", "[CLS] x [SEP]", "<|endoftext|>", "<pad> [PAD] <unk> [UNK]"]

SETS = {
    "multi30k/train.de.gz": 1500,
    "multi30k/train.fr.gz": 1500,
    "tatoeba-eng-fra/fra.txt.xz": 1500,
    "enwik8/enwik8.xz": 3000,
    "davidson-hate-speech/labeled_data.csv.xz": 1500,
    "pretrain-mini/valid.txt.xz": 1000,
}


def real_lines() -> list[str]:
    """Ten thousand, of several sets and languages."""
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    lines: list[str] = []
    for name, count in SETS.items():
        path = Path(os.environ["REGARD_DATA"]) / name
        with (lzma if path.suffix == ".xz" else gzip).open(path, "rt", encoding="utf-8", newline="\n") as file:
            lines += [line.rstrip("\n") for line in itertools.islice(file, count)]
    return lines


def reference():
    """The reference library, which must not go looking for files elsewhere."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("transformers", reason="the reference library is not installed")


def package_file(package: str, path: str) -> Path:
    """A file that a package carries; the package itself is never imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {package} with real vocabularies is not installed")
    return Path(spec.origin).parent / path
