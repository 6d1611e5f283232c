"""Scores are sacreBLEU's own, and what sacreBLEU would quietly mis-score is refused."""

import gzip
import os
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import Problem, UsageProblem
from regard.tasks.metrics import bleu, bleu_by_length, chrf, exact_match

REFERENCES = ["The cat sat on the mat .", "a man rides a bicycle along the river", "Two dogs play in the snow ."]
HYPOTHESES = ["the cat sat on a mat .", "a man rides a bike along the river", "Two dogs are playing in snow ."]
sentences = st.lists(st.sampled_from(["der", "hund", "läuft", "straße", ".", ","]), max_size=8).map(" ".join)


def test_bleu_and_chrf_equal_sacrebleu():
    for lowercase in (False, True):
        theirs = sacrebleu.metrics.BLEU(lowercase=lowercase)
        ours = bleu(HYPOTHESES, REFERENCES, lowercase=lowercase)
        assert ours.value == theirs.corpus_score(HYPOTHESES, [REFERENCES]).score
        assert ours.signature == str(theirs.get_signature())
    assert "case:lc" in ours.signature and "tok:13a" in ours.signature
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert str(ours).startswith("BLEU ") and ours.detail.startswith("BLEU = ")


@given(st.lists(st.tuples(sentences, sentences, sentences), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_several_references_are_a_list_a_sentence(rows):
    hypotheses, first, second = (list(column) for column in zip(*rows, strict=True))
    ours = bleu(hypotheses, [list(pair) for pair in zip(first, second, strict=True)])
    assert ours.value == sacrebleu.corpus_bleu(hypotheses, [first, second]).score
    assert "nrefs:2" in ours.signature


def test_sentences_may_differ_in_how_many_references_they_have():
    ours = bleu(HYPOTHESES, [[REFERENCES[0], HYPOTHESES[0]], [REFERENCES[1]], [REFERENCES[2]]])
    theirs = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES, [HYPOTHESES[0], None, None]])
    assert ours.value == theirs.score
    assert "nrefs:var" in ours.signature


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
@pytest.mark.parametrize(
    ("hypotheses", "references", "says"),
    [
        (["a b c d", "e"], ["a b c d"], "2 hypotheses but 1 references"),
        (["a b c d"], ["a b c d", "e"], "1 hypotheses but 2 references"),
        (["a", "b"], [["a", "b"]], "2 hypotheses but 1 references"),  # sacreBLEU's own form
        ("a b c d", ["a b c d"], "hypotheses is the single text 'a b c d'"),
        (["a b c d"], "a b c d", "references is the single text 'a b c d'"),
        ([], [], "nothing to score"),
        (["a", "b"], [["a"], []], "sentence 2 has no reference"),
        (["a", None], ["a", "b"], "sentence 2 has None"),
        (["a", "b"], ["a", ["b", 3]], "sentence 2 has 3"),
    ],
)
def test_what_cannot_be_scored_is_refused(metric, hypotheses, references, says):
    with pytest.raises(Problem, match=says):
        metric(hypotheses, references)


def test_bands_are_bleu_of_their_sentences_and_cover_all():
    sources = ["w " * length for length in (0, 2, 3, 4, 4, 9)]
    references = [REFERENCES[i % 3] for i in range(6)]
    hypotheses = [HYPOTHESES[i % 3] for i in range(6)]
    bands = bleu_by_length(sources, hypotheses, references, edges=(2, 4, 6))
    assert [(band.low, band.high, band.count) for band in bands] == [(0, 2, 2), (3, 4, 3), (7, None, 1)]
    for band, where in zip(bands, (slice(0, 2), slice(2, 5), slice(5, 6)), strict=True):
        assert band.value == sacrebleu.corpus_bleu(hypotheses[where], [references[where]]).score
    assert str(bands[0]).startswith("0-2 words") and str(bands[-1]).startswith("7+ words")


def test_bands_refuse_missing_sources_and_unordered_edges():
    with pytest.raises(Problem, match="1 sources"):
        bleu_by_length(["a"], HYPOTHESES, REFERENCES)
    for edges in ((), (5, 3), (5, 5)):
        with pytest.raises(UsageProblem, match="edges"):
            bleu_by_length(REFERENCES, HYPOTHESES, REFERENCES, edges=edges)


def test_exact_match_counts_whole_sentences():
    score = exact_match(["1998-05-03", "1998-05-04", "x "], [["1998-05-03"], ["other", "1998-05-04"], ["x"]])
    assert score.value == pytest.approx(200 / 3)
    assert score.detail == "2 of 3"


def test_real_sentences_against_sacrebleu():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    folder = Path(os.environ["REGARD_DATA"]) / "multi30k"
    source, target = (
        gzip.decompress((folder / f"test_2016_flickr.{language}.gz").read_bytes()).decode().split("\n")[:-1]
        for language in ("en", "de")
    )
    shortened = [" ".join(sentence.split()[:-2]) for sentence in target]
    theirs = sacrebleu.corpus_bleu(shortened, [target], lowercase=True)
    assert bleu(shortened, target, lowercase=True).value == theirs.score
    bands = bleu_by_length(source, shortened, target)
    assert sum(band.count for band in bands) == len(source) == 1000
    assert bands[0].value < bands[-1].value  # two words lost hurt the short more
