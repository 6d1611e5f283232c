"""Rows of a corpus: every token once an epoch, nothing across documents, and pairs that are what their labels say."""

import random
import threading
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch

from regard.data import pretraining
from regard.data.corpus import Corpus
from regard.data.pretraining import CorpusBatches, InTurn, pack
from regard.errors import Problem, UsageProblem
from regard.text.frame import Frame
from regard.text.tokenizer import Tokenizer

FRAME = Frame((1,), (2,), (2,), segments=True)
BARE, DOUBLE = Frame((), (), (), segments=False), Frame((1,), (2, 2), (2,), segments=False)
LONGEST = 24


def stories(count: int = 30, seed: int = 0) -> str:
    """Documents of sentences of words that occur once: Dd_s_w is word w of sentence s of document d."""
    draw, documents = random.Random(seed), []
    for d in range(count):
        lengths = [draw.choice([1, 3, 5, 9, 12, 70]) for _ in range(draw.randint(1, 12))]
        documents.append("\n".join(" ".join(f"D{d}_{s}_{w}" for w in range(n)) + "." for s, n in enumerate(lengths)))
    return "\n\n".join([*documents, "D-1_0_0 is too short."])


def corpus_of(folder, text: str, **options) -> tuple[Corpus, Tokenizer]:
    path = folder / "text.txt"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vocabulary = Tokenizer.train("words", text.split("\n"), 10_000)
    return Corpus.make([path], vocabulary, folder / "corpus", **options), vocabulary


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("corpus"), stories(), shard=100)[0]


def batches(corpus: Corpus, pairs="none", seed=3, longest=LONGEST, frame=FRAME, budget=200) -> CorpusBatches:
    return CorpusBatches(corpus, frame, longest, budget, seed, pairs)


def epoch(series, number: int = 0) -> list[dict]:
    start = next(position for position in range(10**6) if series.epoch_of(position) == (number, 0))
    found = []
    while series.epoch_of(start + len(found))[0] == number:
        found.append(series.at(start + len(found)))
    return found


def equal(one: dict, other: dict) -> bool:
    same = torch.equal(one["tokens"].ids, other["tokens"].ids) and torch.equal(one["types"], other["types"])
    return same and one["tokens"].tolist() == other["tokens"].tolist() and one.keys() == other.keys()


def places(corpus: Corpus) -> dict[int, int]:
    """Where the one token of each id lies."""
    ids = corpus.ids(0, corpus.facts.tokens).tolist()
    assert len(set(ids)) == len(ids)
    return {id: place for place, id in enumerate(ids)}


def document_of(corpus: Corpus, token: int) -> int:
    sentence = np.searchsorted(corpus.sentences, token, "right") - 1
    return int(np.searchsorted(corpus.documents, sentence, "right") - 1)


def pair_parts(row: list[int], places: dict[int, int]) -> tuple[list[int], list[int]]:
    """Where the tokens of [CLS] A [SEP] B [SEP] lie."""
    assert row[0] == 1 and row[-1] == 2
    middle = row.index(2)
    return [places[id] for id in row[1:middle]], [places[id] for id in row[middle + 1 : -1]]


def is_run(found: list[int]) -> bool:
    return found == list(range(found[0], found[0] + len(found)))


@pytest.mark.parametrize("number", [0, 1, 3])
def test_every_token_once_an_epoch(corpus, number):
    series, where = batches(corpus), places(corpus)
    rows = [row for batch in epoch(series, number) for row in batch["tokens"].tolist()]
    assert all(row[0] == 1 and row[-1] == 2 and len(row) <= LONGEST for row in rows)
    runs = [[where[id] for id in row[1:-1]] for row in rows]
    assert all(is_run(run) for run in runs)
    assert all(document_of(corpus, run[0]) == document_of(corpus, run[-1]) for run in runs)
    missing = set(range(corpus.facts.tokens)) - {place for run in runs for place in run}
    assert sum(map(len, runs)) + len(missing) == corpus.facts.tokens
    assert 0 < len(missing) < series.left_out * pretraining.SHORTEST


def greedy(corpus: Corpus, room: int) -> list[tuple[int, int]]:
    """The same rows, sentence by sentence."""
    rows: list[tuple[int, int]] = []
    for first, after in pairwise(corpus.documents.tolist()):
        begin = end = int(corpus.sentences[first])
        for sentence_end in corpus.sentences[first + 1 : after + 1].tolist():
            if sentence_end - begin > room and end > begin:
                rows.append((begin, end))
                begin = end
            while sentence_end - begin > room:
                rows.append((begin, begin + room))
                begin += room
            end = sentence_end
        rows.append((begin, end))
    return rows


@pytest.mark.parametrize("block", [1, 10, 2**20])
@pytest.mark.parametrize("room", [1, 2, 8, 22, 69, 70, 71, 1000])
def test_rows_take_in_what_fits(corpus, monkeypatch, room, block):
    monkeypatch.setattr(pretraining, "BLOCK", block)
    assert [tuple(row) for row in pack(corpus, room).tolist()] == greedy(corpus, room)


def test_shards_give_the_same_batches(corpus, tmp_path):
    one, _ = corpus_of(tmp_path, stories())
    for pairs in ("none", "next", "order"):
        few, many = batches(one, pairs), batches(corpus, pairs)
        assert all(equal(few.at(position), many.at(position)) for position in range(0, 60, 7))


@pytest.mark.parametrize("pairs", ["none", "next", "order"])
def test_a_batch_depends_on_its_position_only(corpus, pairs):
    series, found = batches(corpus, pairs), {}
    positions = list(range(90))
    random.Random(1).shuffle(positions)
    asking = threading.Thread(target=lambda: [series.epoch_of(position) for position in range(90)])
    making = threading.Thread(target=lambda: found.update({position: series.at(position) for position in positions}))
    for thread in (asking, making):
        thread.start()
    for thread in (asking, making):
        thread.join()
    again = batches(corpus, pairs)
    assert all(equal(found[position], again.at(position)) for position in range(0, 90, 9))


def test_epochs_seeds_and_pairs_differ(corpus):
    orders = [
        *(epoch(batches(corpus, "next"), number) for number in (0, 1)),
        epoch(batches(corpus, "next", seed=4)),
        epoch(batches(corpus, "order")),
        epoch(batches(corpus)),
    ]
    ids = [torch.cat([batch["tokens"].ids for batch in order]).tolist() for order in orders]
    assert all(one != other for number, one in enumerate(ids) for other in ids[:number])


def test_the_budget_holds(corpus):
    for pairs in ("none", "next", "order"):
        totals = [batch["tokens"].rows.total for batch in epoch(batches(corpus, pairs))]
        assert max(totals) <= 200 and np.mean(totals) > 120
    alone = epoch(batches(corpus, budget=1))
    assert all(len(batch["tokens"]) == 1 for batch in alone)


@pytest.mark.parametrize("number", [0, 2])
def test_true_followers_and_strangers(corpus, number):
    where, labels = places(corpus), []
    for batch in epoch(batches(corpus, "next"), number):
        assert batch["second"].dtype == torch.int64 and len(batch["second"]) == len(batch["tokens"])
        for row, label in zip(batch["tokens"].tolist(), batch["second"].tolist(), strict=True):
            a, b = pair_parts(row, where)
            own, other = document_of(corpus, a[0]), {document_of(corpus, token) for token in b}
            assert is_run(a) and is_run(b) and len(other) == 1 and document_of(corpus, a[-1]) == own
            assert (other != {own}) if label else (b[0] == a[-1] + 1 and other == {own})
            labels.append(label)
    assert 0.35 < np.mean(labels) < 0.65 and len(labels) > 100


def test_strangers_are_as_long_as_followers(tmp_path):
    draw = random.Random(0)
    text = "\n\n".join("".join(f"X{' x' * draw.randint(2, 30)}. " for _ in range(20)) for _ in range(200))
    series = batches(corpus_of(tmp_path, text)[0], "next", longest=128, budget=4096)
    found = epoch(series)
    lengths = torch.cat([batch["tokens"].rows.lengths for batch in found])
    strange = torch.cat([batch["second"] for batch in found]).bool()
    assert abs(lengths[strange].float().mean() - lengths[~strange].float().mean()) < 6
    assert abs(strange.float().mean() - 0.5) < 0.05


def test_a_stranger_is_drawn_from_all_other_documents(corpus, tmp_path):
    where, seen = places(corpus), set()
    series = batches(corpus, "next")
    for position in range(600):
        batch = series.at(position)
        for row, label in zip(batch["tokens"].tolist(), batch["second"].tolist(), strict=True):
            if label:
                seen.add(document_of(corpus, pair_parts(row, where)[1][0]))
    assert seen == set(range(corpus.facts.documents))
    lines = [" ".join(f"{name}{n}" for n in range(size)) + "." for name, size in (("big", 3000), ("small", 9))]
    two, vocabulary = corpus_of(tmp_path, "\n\n".join(lines))
    rows = [
        (row, label)
        for batch in epoch(batches(two, "next"))
        for row, label in zip(batch["tokens"].tolist(), batch["second"].tolist(), strict=True)
    ]
    assert all(
        ("small" in vocabulary.decode(row) and "big" in vocabulary.decode(row)) == bool(label) for row, label in rows
    )


def test_parts_change_places(corpus):
    where, labels = places(corpus), []
    for batch in epoch(batches(corpus, "order")):
        for row, label in zip(batch["tokens"].tolist(), batch["second"].tolist(), strict=True):
            a, b = pair_parts(row, where)
            assert is_run(b + a if label else a + b)
            labels.append(label)
    assert 0.35 < np.mean(labels) < 0.65


def test_rows_are_split_between_sentences(corpus):
    begins, where, inside = set(corpus.sentences.tolist()), places(corpus), 0
    for batch in epoch(batches(corpus, "order")):
        for row in batch["tokens"].tolist():
            a, b = sorted(pair_parts(row, where))
            alone = not begins & set(range(a[0] + 1, b[-1] + 1))
            assert (b[0] in begins) != alone and (not alone or abs(len(a) - len(b)) <= 1)
            inside += alone
    assert inside


def test_rows_are_split_anywhere_between_sentences(corpus):
    series, where = batches(corpus, "order"), places(corpus)
    seen: dict[int, set[int]] = {}
    for position in range(1000):
        for row in series.at(position)["tokens"].tolist():
            a, b = sorted(pair_parts(row, where))
            seen.setdefault(a[0], set()).add(b[0])
    for first, after in series.stretches.tolist():
        inside = {begin for begin in corpus.sentences.tolist() if first < begin < after}
        assert seen[first] == (inside or {(first + after) // 2})


@pytest.mark.parametrize("frame", [FRAME, DOUBLE, BARE])
@pytest.mark.parametrize("pairs", ["none", "next", "order"])
def test_rows_are_framed_as_single_texts_are(corpus, frame, pairs):
    series = batches(corpus, pairs, frame=frame)
    batch = series.at(5)
    assert max(map(len, batch["tokens"].tolist())) <= LONGEST
    for row, types in zip(batch["tokens"].tolist(), batch["tokens"].rows.split(batch["types"]), strict=True):
        text = row[len(frame.first) : len(row) - len(frame.last)]
        if pairs == "none":
            assert (row, types.tolist()) == frame.row(text)
        elif frame.between:
            middle = text.index(2)
            a, b = text[:middle], text[middle + len(frame.between) :]
            assert (row, types.tolist()) == frame.row(a, b)
        else:
            assert not types.any()


def test_short_rows_then_long_ones(corpus):
    short, long = batches(corpus), batches(corpus, longest=64)
    turn = 2 * short.per_epoch + 1
    both = InTurn(short, long, turn)
    assert equal(both.at(turn - 1), short.at(turn - 1)) and equal(both.at(turn), long.at(0))
    assert equal(both.at(turn + 7), long.at(7))
    epochs = [both.epoch_of(position) for position in range(turn + 2 * long.per_epoch + 2)]
    assert epochs[turn] == (epochs[turn - 1][0] + 1, 0)
    assert all(after in {(before[0], before[1] + 1), (before[0] + 1, 0)} for before, after in pairwise(epochs))
    assert equal(InTurn(short, long, 0).at(3), long.at(3)) and InTurn(short, long, 0).epoch_of(0) == (0, 0)


def test_impossible_settings(corpus, tmp_path):
    for wrong, name in (({"pairs": "nxt"}, "nxt"), ({"longest": 9}, "10 tokens"), ({"seed": -1}, "seed")):
        with pytest.raises(UsageProblem, match=name):
            batches(corpus, **wrong)
    with pytest.raises(UsageProblem, match="11 tokens"):
        batches(corpus, "next", longest=10)
    with pytest.raises(UsageProblem, match="-1"):
        InTurn(batches(corpus), batches(corpus), -1)
    single, _ = corpus_of(tmp_path, "A b c d e f g h i j. " * 9)
    assert len(batches(single)) > 1
    with pytest.raises(Problem, match="two documents"):
        batches(single, "next")
    (tmp_path / "b").mkdir()
    with pytest.raises(Problem, match="8 pieces"):
        batches(corpus_of(tmp_path / "b", "a b c\n\nd e f")[0])


def test_what_it_tells(corpus):
    series = batches(corpus)
    assert series.lines() == [
        f"{len(series)} rows of at most 24 tokens, {np.diff(series.stretches).mean() + 2:.0f} on average; "
        f"left out: {series.left_out} of under 8 pieces"
    ]
