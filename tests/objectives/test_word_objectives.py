"""Skip-gram, the bag of words and GloVe: losses and gradients beside the papers' formulas written as loops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.errors import UsageProblem
from regard.models.words import WordTables
from regard.objectives.objective import Asked
from regard.objectives.words import Bag, GloVe, SkipGram, Windows

VOCAB, WIDTH, EDGE, BLOCK = 12, 6, 3, 5


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = WordTables(VOCAB, WIDTH, biases=True).double()
    for table in model.parameters():
        table.data = torch.randn_like(table)
    return model


@pytest.fixture
def windows():
    return Windows(torch.arange(1, VOCAB + 1, dtype=torch.double) / VOCAB, window=EDGE, negatives=5, drawn=7)


@pytest.fixture
def batch():
    """Three blocks with their edges; lines end within them, and the text ends within the last."""
    torch.manual_seed(1)
    rows = torch.arange(3 * (BLOCK + 2 * EDGE)).div(4, rounding_mode="floor").reshape(3, -1)
    rows[2, 6:] = -1
    rows[1, 5] = 99  # alone on its line
    return {"ids": torch.randint(VOCAB, rows.shape), "rows": rows}


def same_as(formula, objective, model, question) -> None:
    """The loss, and its gradient with respect to every table."""
    result = objective.judge(model, question)
    result.loss.backward()
    found = [table.grad.to_dense() for table in model.parameters() if table.grad is not None]
    model.zero_grad()
    dense = {name: table.detach().clone().requires_grad_() for name, table in model.named_parameters()}
    loss, count = formula(dense, question)
    loss.backward()
    assert result.loss.item() == pytest.approx(loss.item(), rel=1e-6) and result.count.item() == count
    wanted = [table.grad for table in dense.values() if table.grad is not None]
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def pairs_of(question):
    """For each word of each block: the block, its id, and those of the words in its window."""
    for block, rows in enumerate(question["ids"].tolist()):
        for place in range(BLOCK):
            near = question["near"][block, place].nonzero().squeeze(1).tolist()
            yield block, rows[place + EDGE], [rows[other] for other in near]


def test_skip_gram_is_its_formula(model, windows, batch):
    def formula(tables, question):
        loss, count = torch.zeros((), dtype=torch.double), 0
        for block, word, near in pairs_of(question):
            vector = tables["words.weight"][word]
            for other in near:
                count += 1
                loss = loss - F.logsigmoid(vector @ tables["contexts.weight"][other])
                for noise in question["noise"][block].tolist():
                    loss = loss - 5 / 7 * F.logsigmoid(-vector @ tables["contexts.weight"][noise])
        return loss, count

    same_as(formula, SkipGram(windows), model, windows.ask(batch))


def test_the_bag_of_words_is_its_formula(model, windows, batch):
    def formula(tables, question):
        loss, count = torch.zeros((), dtype=torch.double), 0
        for block, word, near in pairs_of(question):
            if near:
                count += 1
                bag = sum(tables["words.weight"][other] for other in near) / len(near)
                loss = loss - F.logsigmoid(bag @ tables["contexts.weight"][word])
                for noise in question["noise"][block].tolist():
                    loss = loss - 5 / 7 * F.logsigmoid(-bag @ tables["contexts.weight"][noise])
        return loss, count

    same_as(formula, Bag(windows), model, windows.ask(batch))


def test_glove_is_its_formula(model):
    def formula(tables, question):
        loss = torch.zeros((), dtype=torch.double)
        both = [*zip(*(question[name].tolist() for name in ("first", "second", "counts")), strict=True)]
        both += [(second, first, count) for first, second, count in both]
        for one, other, count in both:
            score = tables["words.weight"][one] @ tables["contexts.weight"][other]
            biases = tables["word_biases.weight"][one] + tables["context_biases.weight"][other]
            weight = min((count / 10) ** 0.75, 1)
            loss = loss + weight * (score + biases.sum() - torch.tensor(count).double().log()) ** 2
        return loss, len(both)

    pairs = {"first": torch.tensor([0, 1, 2, 2]), "second": torch.tensor([3, 1, 4, 0])}
    same_as(formula, GloVe(10.0), model, {**pairs, "counts": torch.tensor([0.5, 3.0, 10.0, 250.0])})


def test_a_window_ends_with_the_line_and_reaches_as_far_as_was_drawn(windows, batch):
    torch.manual_seed(0)
    rows, reached = batch["rows"], set()
    for _ in range(50):
        near = windows.ask(batch)["near"]
        for block in range(3):
            for place in range(BLOCK):
                middle = place + EDGE
                found = near[block, place].nonzero().squeeze(1).tolist()
                reach = max((abs(other - middle) for other in found), default=0)
                wanted = [other for other in range(len(rows[0])) if 0 < abs(other - middle) <= reach]
                wanted = [other for other in wanted if rows[block, other] == rows[block, middle] >= 0]
                assert found == wanted
                reached.add(reach)
    assert reached == {0, 1, 2, 3}


def test_nearer_words_count_more():
    """Each reach from 1 to 4 is drawn as often: a word at distance d is within it in 1 - (d - 1) / 4 of the cases."""
    torch.manual_seed(0)
    rows = torch.zeros(4000, 9, dtype=torch.long)
    near = Windows(torch.ones(1), window=4).ask({"rows": rows})["near"].double().mean(0)[0]
    assert near.tolist() == pytest.approx([0.25, 0.5, 0.75, 1, 0, 1, 0.75, 0.5, 0.25], abs=0.03)


def test_noise_is_drawn_by_how_often_words_occur_to_the_power_of_three_quarters():
    torch.manual_seed(0)
    counts = torch.tensor([1000, 100, 10, 1])
    windows = Windows.of(counts, window=2)
    drawn = windows.ask({"rows": torch.zeros(5000, 9, dtype=torch.long)})["noise"].flatten().bincount(minlength=4)
    wanted = counts.double() ** 0.75
    torch.testing.assert_close(drawn / drawn.sum().double(), wanted / wanted.sum(), rtol=0.1, atol=1e-3)


def test_the_same_seed_asks_the_same(windows, batch):
    asked = Asked(WordTables(VOCAB, WIDTH), SkipGram(windows))
    losses = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        losses.append(asked(asked.prepare(batch)).loss.item())
    assert losses[0] == losses[1] != losses[2]


def test_what_cannot_be_asked_is_told():
    with pytest.raises(UsageProblem, match="window=0"):
        Windows(torch.ones(3), window=0)
    with pytest.raises(UsageProblem, match="common=0"):
        GloVe(0)
