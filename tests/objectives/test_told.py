"""Words that are read and not told."""

import torch
import torch.nn.functional as F

from regard.config import change
from regard.models import ENCODERS
from regard.models.heads import new_encoder
from regard.objectives.language import Both, told
from regard.rows import Rows, Tokens


def test_the_last_word_that_is_told_stands_for_all_rarer_ones():
    logits = torch.randn(4, 3)
    found = told(logits, torch.tensor([0, 7, 2, 3]))
    assert torch.equal(found.loss, F.cross_entropy(logits, torch.tensor([0, 2, 2, 2]), reduction="sum"))
    assert found.count == 4


def test_an_elmo_tells_fewer_words_than_it_reads():
    torch.manual_seed(0)
    config = change(change(ENCODERS["elmo-tiny"], "embedding.vocab", 20), "told", 5)
    model = new_encoder("elmo", config, {"write"}).model
    model.encoder.embed.spell(Spelling())
    ids = torch.arange(20)
    batch = Both().prepare({"tokens": Tokens(ids[:-1], Rows.of([19])), "wanted": ids[1:]})
    result = Both().judge(model, batch)
    assert model.heads["write"].out.out_features == 5
    assert torch.isfinite(result.loss) and result.count == 19 + 18


class Spelling:
    def table(self):
        from regard.layers.characters import spelled_words

        return spelled_words([f"word{number}" for number in range(20)], 50)
