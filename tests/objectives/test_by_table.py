"""Cross-entropy with a table's words, some targets at a time, against the scores of all."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.models.bert import bert
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.marian import Marian
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.t5 import T5, t5
from regard.models.transformer import Transformer, transformer
from regard.objectives import by_table as module
from regard.objectives import reading, translate
from regard.objectives.by_table import by_table, judged, judged_wide
from regard.objectives.cross_entropy import by_torch
from regard.objectives.language import Next
from regard.objectives.masked import Hiding, Masked
from regard.objectives.translate import Translate
from regard.rows import Rows, Tokens

TARGETS, WIDTH, WORDS = 700, 6, 67  # more than 64, and not twice as many


def question(dtype=torch.double):
    torch.manual_seed(0)
    drawn = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((TARGETS, WIDTH), (WORDS, WIDTH)))
    return *drawn, torch.randn(WORDS, dtype=dtype, requires_grad=True), torch.randint(WORDS, (TARGETS,))


def judge(sums, inputs, change=-2.5):
    loss, right = sums
    return [loss, right, *torch.autograd.grad(change * loss, inputs)]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("part", [judged, judged_wide], ids=["plain", "compiled"])
@pytest.mark.parametrize("at_once", [1, 2**20], ids=["portions", "all"])
def test_it_is_what_the_scores_of_all_would_give(monkeypatch, at_once, part, smoothing):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    monkeypatch.setattr(module, "judged", part)
    states, table, bias, wanted = question()
    found = judge(by_table(states, table, bias, wanted, smoothing), (states, table, bias))
    exact = judge(by_torch(F.linear(states, table, bias), wanted, smoothing), (states, table, bias))
    torch.testing.assert_close(found, exact)


@pytest.mark.parametrize("part", [judged, judged_wide], ids=["plain", "compiled"])
def test_of_words_that_score_the_same_the_first_comes_first(part):
    scores = torch.zeros(3, 64)
    scores[:, 1] = scores[:, 3] = 2.0
    assert part(scores.clone(), torch.tensor([1, 3, 0]), 5, 0.0)[1] == 1


@pytest.mark.parametrize("part", [judged, judged_wide], ids=["plain", "compiled"])
def test_what_fills_the_table_up_is_never_asked_for(part):
    scores = F.pad(-9.0 * torch.ones(3, 5), (0, 59))  # though its scores are the highest
    loss, right = part(scores, torch.tensor([0, 4, 0]), 5, 0.1)
    torch.testing.assert_close(loss, 3 * torch.tensor(5.0).log())
    assert right == 2 and not scores[:, 5:].any() and scores[:, :5].sum(-1).abs().max() < 1e-6


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_in_half_precision_the_loss_is_a_sum_in_float32(smoothing):
    states, table, bias, wanted = question(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        logits = F.linear(states, table, bias)
        loss, right, *gradients = judge(by_table(states, table, bias, wanted, smoothing), (states, table, bias))
    exact = judge(by_torch(logits.double(), wanted, smoothing), (states, table, bias))
    assert loss.dtype == torch.float32 and right == exact[1]
    assert [one.dtype for one in gradients] == [torch.float32] * 3
    torch.testing.assert_close(loss.double(), exact[0], rtol=1e-6, atol=0)
    for one, other in zip(gradients, exact[2:], strict=True):
        assert (one - other).norm() < 8e-3 * other.norm()


def test_what_does_not_learn_has_no_gradient():
    states, table, _, wanted = question()
    table.requires_grad_(False)
    loss, _ = by_table(states, table, None, wanted)
    loss.backward()
    assert table.grad is None and states.grad is not None
    with torch.no_grad():
        assert by_table(states, table, None, wanted)[0] == loss


def test_nothing_is_asked():
    states, table, bias, wanted = question()
    loss, right = by_table(states[:0], table, bias, wanted[:0])
    loss.backward()
    assert loss == 0 and right == 0 and not table.grad.any()


def next_words():
    model = new_encoder("gpt2", gpt2(2, 16, 2, WORDS, dropout=0.0), {"write"}).model
    return model, Next()


def hidden_words():
    model = new_encoder("bert", bert(2, 16, 2, WORDS, dropout=0.0), {"masked"}).model
    return model, Masked(Hiding(4, WORDS, (0, 1, 2, 3)))


def check_either_way(monkeypatch, place, model, objective, batch):
    """By scores and by the table: the same sums and gradients."""
    told = []
    for pays in (False, True):
        monkeypatch.setattr(place, "pays", lambda states, pays=pays: pays)
        model.zero_grad()
        result = objective.judge(model, batch)
        result.loss.backward()
        told.append([result.loss, result.count, result.parts["right"], *(p.grad for p in model.parameters())])
    for one, other in zip(*told, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("made", [next_words, hidden_words])
def test_objectives_answer_the_same_either_way(monkeypatch, made):
    torch.manual_seed(0)
    model, objective = made()
    ids = torch.randint(5, WORDS, (31,))
    batch = objective.prepare({"tokens": Tokens(ids[:-1], Rows.of([10, 20])), "wanted": ids[1:]})
    check_either_way(monkeypatch, reading, model, objective, batch)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (Seq2Seq, seq2seq("dot", width=16, vocab=WORDS, dropout=0.0)),
        (Transformer, transformer(1, 16, 2, 32, vocab=WORDS, dropout=0.0)),
        (Marian, transformer(1, 16, 2, 32, vocab=WORDS, dropout=0.0)),
        (T5, t5(1, 16, 2, 32, vocab=WORDS, dropout=0.0)),
    ],
)
def test_translations_are_judged_the_same_either_way(monkeypatch, kind, config):
    torch.manual_seed(0)
    model, objective = kind(config), Translate(0.1)
    if kind is Marian:
        torch.nn.init.normal_(model.bias)
    source, target = (Tokens(torch.randint(5, WORDS, (sum(sizes),)), Rows.of(sizes)) for sizes in ([4, 9], [7, 5]))
    batch = {"source": source, "target_in": target, "target_out": target.ids.flip(0)}
    check_either_way(monkeypatch, translate, model, objective, batch)
