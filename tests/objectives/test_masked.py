"""What is hidden, how often and behind what; and that only hidden places are scored."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_encoder import HIDING, MASK, SPECIAL, VOCAB, encoder, learn, mean, pairs

from regard.errors import UsageProblem
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked
from regard.rows import Rows, Tokens
from regard.training.step import seed_of

PIECES = 200_000


def many(pieces=PIECES, vocab=VOCAB, length=100) -> dict:
    """Random ids, special ones among them; the mask does not occur."""
    torch.manual_seed(0)
    ids = torch.randint(vocab - 1, (pieces,))
    return {"tokens": Tokens(ids + (ids >= MASK), Rows.even(pieces // length, length))}


def near(found: float, share: float, of: int) -> bool:
    """Within five standard deviations."""
    return abs(found - share) < 5 * (share * (1 - share) / of) ** 0.5


def asked_at(position: int, batch: dict, hiding=HIDING, seed=1) -> dict:
    torch.manual_seed(seed_of(seed, position))
    return Masked(hiding).prepare(batch)


# What is hidden


def test_the_share_of_hidden_pieces():
    batch = many()
    hidden = asked_at(0, batch)
    plain = int(HIDING.plain[batch["tokens"].ids].sum())
    assert near(len(hidden["places"]) / plain, 0.15, plain)


def test_a_hidden_piece_is_masked_random_or_as_it_was():
    batch, vocab = many(), 1000
    batch["tokens"] = Tokens(batch["tokens"].ids * 40 + 3, batch["tokens"].rows)  # a random word is seldom the true one
    hidden = asked_at(0, batch, replace(HIDING, vocab=vocab))
    shown, words = hidden["tokens"].ids[hidden["places"]], hidden["words"]
    masked, kept, others = shown == MASK, shown == words, (shown != MASK) & (shown != words)
    count, chance = len(words), 0.1 / (vocab - len(SPECIAL) - 1)  # that a random word is the true one
    assert near(masked.sum() / count, 0.8, count)
    assert near(kept.sum() / count, 0.1 + chance, count)
    assert near(others.sum() / count, 0.1 - chance, count)
    assert len(shown[others].unique()) > 0.9 * vocab  # from all over the vocabulary
    assert not torch.isin(shown[others], torch.tensor([*SPECIAL, MASK])).any()


def test_special_pieces_are_neither_hidden_nor_drawn():
    batch = many()
    hidden = asked_at(0, batch)
    before, after = batch["tokens"].ids, hidden["tokens"].ids
    special = torch.tensor(SPECIAL)
    assert not torch.isin(hidden["words"], special).any()
    assert torch.equal(torch.isin(after, special), torch.isin(before, special))


def test_the_truth_is_kept_and_nothing_else_is_changed():
    batch = pairs()
    before = batch["tokens"].ids.clone()
    hidden = asked_at(0, batch)
    assert torch.equal(batch["tokens"].ids, before) and "places" not in batch
    assert torch.equal(hidden["tokens"].ids.index_copy(0, hidden["places"], hidden["words"]), before)
    assert torch.equal(hidden["places"], hidden["places"].unique())
    assert hidden["types"] is batch["types"] and hidden["tokens"].rows is batch["tokens"].rows


def test_masks_follow_from_seed_and_position():
    batch = pairs()
    first, again, other, seeded = (
        asked_at(position, batch, seed=seed)["tokens"].ids for position, seed in ((3, 1), (3, 1), (4, 1), (3, 2))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other) and not torch.equal(first, seeded)


def test_a_batch_is_never_without_a_question():
    batch = {"tokens": Tokens.of([[0, 5, 6, 1]])}
    for position in range(30):
        hidden = asked_at(position, batch, replace(HIDING, share=1e-4))
        assert len(hidden["places"]) == 1 and 0 < hidden["places"][0] < 3


def test_a_batch_of_special_pieces_alone_counts_for_nothing():
    hidden = asked_at(0, {"tokens": Tokens.of([[0, 1], [0, 1, 1]])})
    assert len(hidden["places"]) == 0
    result = Masked(HIDING).judge(encoder("masked"), hidden)
    result.loss.backward()
    assert result.loss == 0 and result.count == 0


# Whole words

CONTINUES = torch.arange(VOCAB) % 3 == 0  # of random pieces a third go on: words of 1, 2, 3 ... pieces
CONTINUES[[*SPECIAL, MASK]] = False
WHOLE = replace(HIDING, continues=CONTINUES, whole_words=True)


def words_in(batch: dict) -> list[list[int]]:
    """The places of each word, found the slow way."""
    words: list[list[int]] = []
    place, may_join = 0, False
    for row in batch["tokens"].tolist():
        may_join = False
        for id in row:
            if may_join and bool(CONTINUES[id]):
                words[-1].append(place)
            else:
                words.append([place])
            may_join = id not in (*SPECIAL, MASK)
            place += 1
    return words


def test_whole_words_are_not_split():
    batch = many(20_000, length=10)
    chosen = set(asked_at(0, batch, WHOLE)["places"].tolist())
    words = words_in(batch)
    assert max(map(len, words)) > 3
    assert all(len(chosen.intersection(word)) in (0, len(word)) for word in words)
    assert any(len(word) > 2 and word[0] in chosen for word in words)


def test_whole_words_hide_the_same_share():
    batch = many()
    hidden = asked_at(0, batch, WHOLE)
    plain = int(WHOLE.plain[batch["tokens"].ids].sum())
    assert near(len(hidden["places"]) / plain, 0.15, plain // 4)  # pieces of a word are not drawn apart


def test_words_end_at_special_pieces_and_at_the_end_of_a_row():
    tokens = Tokens.of([[0, 3, 6, 1, 6, 6, 1], [6, 4, 3]])  # 3 and 6 continue; 0 and 1 are special
    assert WHOLE.word_of(tokens).tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 6, 6]


@pytest.mark.parametrize(
    "wrong, told",
    [
        ({"share": 0.0}, "share=0.0"),
        ({"share": 1.0}, "share=1.0"),
        ({"masked": 0.8, "random": 0.3}, r"masked=0\.8 and random=0\.3"),
        ({"whole_words": True}, "which of the 24 pieces"),
        ({"whole_words": True, "continues": torch.zeros(5)}, "which of the 24 pieces"),
    ],
)
def test_a_hiding_that_cannot_be(wrong, told):
    with pytest.raises(UsageProblem, match=told):
        Hiding(MASK, VOCAB, SPECIAL, **wrong)


# What is asked


def test_only_hidden_places_are_scored():
    model, batch = encoder("masked"), asked_at(0, pairs())
    seen = []
    model.heads["masked"].register_forward_hook(lambda head, given, logits: seen.append(logits.shape))
    result = Masked(HIDING).judge(model, batch)
    count = len(batch["places"])
    assert seen == [(count, VOCAB)] and result.count == count < len(batch["tokens"].ids) / 4


def test_the_loss_is_that_of_the_true_words():
    model, batch = encoder("masked"), asked_at(0, pairs())
    result = Masked(HIDING).judge(model, batch)
    states = model(batch["tokens"], batch["types"])
    chances = model.scores("masked", states, batch["tokens"].rows).log_softmax(-1)  # of every place
    wanted = torch.full((len(states),), -100)
    wanted[batch["places"]] = batch["words"]
    torch.testing.assert_close(result.loss, torch.nn.functional.nll_loss(chances, wanted, reduction="sum"))
    assert result.parts["right"] == (chances.argmax(-1) == wanted).sum()


def test_two_half_batches_are_one():
    model, whole = encoder("masked"), asked_at(0, pairs(16))
    cut = int(whole["tokens"].rows.offsets[8])
    halves = []
    for part, start, inside in ((slice(0, 8), 0, whole["places"] < cut), (slice(8, 16), cut, whole["places"] >= cut)):
        rows = Rows.of(whole["tokens"].rows.lengths[part])
        pieces = slice(start, start + rows.total)
        half = {"tokens": Tokens(whole["tokens"].ids[pieces], rows), "types": whole["types"][pieces]}
        half |= {"places": whole["places"][inside] - start, "words": whole["words"][inside]}
        halves.append(Masked(HIDING).judge(model, half))
    one = Masked(HIDING).judge(model, whole)
    torch.testing.assert_close(one.loss, halves[0].loss + halves[1].loss)
    assert one.count == halves[0].count + halves[1].count


def test_a_model_without_the_head_is_refused():
    with pytest.raises(UsageProblem, match="Masked needs a model with the head 'masked', and this one has only next"):
        Masked(HIDING).judge(encoder("next"), asked_at(0, pairs()))
    with pytest.raises(UsageProblem, match="this one has none"):
        Masked(HIDING).judge(encoder(), asked_at(0, pairs()))


def test_hidden_words_are_learned():
    losses = learn(Asked(encoder("masked"), Masked(HIDING)), 200)
    assert mean(losses[:5]) > 2.5 and mean(losses[-10:]) < 1
