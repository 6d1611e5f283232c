"""Linformer: at full rank with identities it is attention of all with all; who shares maps; its folder; it learns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.attention.route import Route
from regard.checkpoints.files import write_folder
from regard.errors import Problem, UsageProblem
from regard.models.folder import load_published
from regard.models.heads import new_encoder, with_heads
from regard.models.linformer import linformer
from regard.objectives.masked import Hiding, Masked
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

ROWS = [list(range(3, 20)), [5, 6], [7, 8, 9, 10, 11, 12, 13, 14]]
TOKENS = Tokens.of(ROWS)


def small(rank=5, sharing="heads", longest=20):
    return replace(linformer(2, 16, 2, 40, longest=longest, rank=rank), sharing=sharing)


@torch.no_grad()
@pytest.mark.parametrize("sharing", ["none", "heads", "values", "layers"])
def test_at_full_rank_with_identities_it_is_attention_of_all_with_all(sharing):
    model = new_encoder("linformer", small(20, sharing), {"masked"}).model
    for block in model.encoder.stack.blocks:
        for maps in block.attention.route.parameters():
            maps.copy_(torch.eye(20).expand_as(maps))
    found = model(TOKENS)
    for block in model.encoder.stack.blocks:
        block.attention.route = Route()
    torch.testing.assert_close(found, model(TOKENS), atol=1e-5, rtol=0)


@pytest.mark.parametrize("sharing, count", [("none", 8), ("heads", 4), ("values", 2), ("layers", 1)])
def test_maps_are_shared_and_stand_in_a_file_once(tmp_path, sharing, count):
    published = new_encoder("linformer", small(sharing=sharing), {"masked"})
    tensors = published.files()["model.safetensors"]
    maps = [tensor for name, tensor in tensors.items() if ".route." in name]
    assert sum(len(tensor) for tensor in maps) == count
    write_folder(tmp_path / "model", published.files())
    again = load_published(tmp_path / "model")
    assert again.model.encoder.config == published.model.encoder.config
    assert torch.equal(again.model(TOKENS), published.model(TOKENS))
    assert again.files()["model.safetensors"].keys() == tensors.keys()


@torch.no_grad()
def test_a_row_alone_is_the_row_in_a_batch():
    model = new_encoder("linformer", small(), {"masked"}).model
    for row, states in zip(ROWS, TOKENS.rows.split(model(TOKENS)), strict=True):
        torch.testing.assert_close(model(Tokens.of([row])), states, atol=1e-5, rtol=0)


def test_it_learns_what_is_hidden():
    model = new_encoder("linformer", small(), {"masked"}).model.train()
    objective = Masked(Hiding(39, 40, (0,), share=0.3))
    torch.manual_seed(0)
    batch = objective.prepare({"tokens": TOKENS})
    adam = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(60):
        adam.zero_grad()
        loss = objective.judge(model, batch).loss
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


SHAPES = {"classify": (3, 3), "tag": (27, 3), "answer": (27, 2), "choose": (3, 1)}


@pytest.mark.parametrize("role, shape", SHAPES.items())
def test_it_takes_every_task(role, shape):
    found, fresh = with_heads(new_encoder("linformer", small(), {"masked"}), {role}, 3)
    assert fresh and found.model.scores(role, found.model(TOKENS), TOKENS.rows).shape == shape


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageProblem, match="rank=30"):
        small(30)
    with pytest.raises(UsageProblem, match="causal"):
        replace(small(), stack=replace(small().stack, causal=True))
    with pytest.raises(Problem, match="21"):
        new_encoder("linformer", small(), {"masked"}).model(Tokens.of([[3] * 21]))
