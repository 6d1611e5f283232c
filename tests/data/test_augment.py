"""Changes at random: each does what it says, follows from the seed, and leaves the shape of a batch alone."""

from __future__ import annotations

import pytest
import torch

from regard.data.augment import Augment, Bend, Erase, Flip, Mix, PaddedCrop, Recolour, ResizedCrop, Sometimes, box
from regard.data.one_of_many import OneOfMany, evened, stretched

X = torch.rand(64, 3, 8, 8, generator=torch.Generator().manual_seed(0))
SHARES = torch.eye(4)[torch.arange(64) % 4]
STEPS = [Flip(), PaddedCrop(2), ResizedCrop(8), Bend(), Recolour(), Erase(1.0), OneOfMany()]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_a_change_follows_from_the_seed(step):
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(step(X))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert found[0].shape == X.shape and found[0].min() >= -1e-6 and found[0].max() <= 1 + 1e-6
    assert not torch.equal(found[0], X)


def test_half_of_the_pictures_are_flipped():
    flipped = [torch.equal(one, other.flip(-1)) for one, other in zip(Flip()(X), X, strict=True)]
    kept = [torch.equal(one, other) for one, other in zip(Flip()(X), X, strict=True)]
    assert 10 < sum(flipped) < 54 and 10 < sum(kept) < 54


def test_a_moved_picture_is_a_part_of_the_padded_one():
    padded = torch.nn.functional.pad(X, (2,) * 4)
    for one, whole in zip(PaddedCrop(2)(X), padded, strict=True):
        parts = (whole[:, t : t + 8, l : l + 8] for t in range(5) for l in range(5))
        assert any(torch.equal(one, part) for part in parts)


def test_a_whole_crop_of_the_same_shape_changes_nothing():
    torch.testing.assert_close(ResizedCrop(8, least=1.0, longest=1.0)(X), X)
    assert ResizedCrop(5)(X).shape == (64, 3, 5, 5)


def test_a_picture_that_is_not_bent_or_coloured_stays():
    torch.testing.assert_close(Bend(0, 0, 0)(X), X)
    changed = [not torch.equal(one, other) for one, other in zip(Sometimes(Bend(), 0.5)(X), X, strict=True)]
    assert 0 < sum(changed) < len(X)
    assert torch.equal(Sometimes(Bend(), 0.0)(X), X)
    torch.testing.assert_close(Recolour(0.0)(X), X)


def test_one_change_of_many_changes_most_pictures_and_none_without_strength():
    changed = [not torch.equal(one, other) for one, other in zip(OneOfMany()(X), X, strict=True)]
    assert len(X) / 2 < sum(changed) < len(X)
    pale = OneOfMany(degrees=0, slant=0, move=0, tint=0, bits=0)
    as_they_were = torch.full((len(X), 1, 1, 1), 0.5)
    for kind in range(5):
        torch.testing.assert_close(pale.bent(X, torch.full((len(X), 1, 1, 1), kind), as_they_were), X)
    for kind in range(4):
        torch.testing.assert_close(pale.tinted(X, torch.full((len(X), 1, 1, 1), kind), as_they_were), X)
    whole = (X * 255).round() / 255
    torch.testing.assert_close(pale.shaded(whole + 1e-6, torch.zeros(len(X), 1, 1, 1), as_they_were), whole)


def test_how_far_a_picture_is_bent_is_bounded():
    found = []
    for step in (OneOfMany(reach=0.0), OneOfMany(degrees=0, slant=0, move=0), OneOfMany()):
        torch.manual_seed(0)
        found.append(step(X))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_shades_are_stretched_and_made_equally_frequent():
    grey = torch.full((1, 3, 4, 4), 0.25)
    assert torch.equal(stretched(grey), grey)
    assert stretched(X).amin((2, 3)).max() == 0 and stretched(X).amax((2, 3)).min() == 1
    assert evened(X).flatten(2).sort(-1).values[0, 0].tolist() == [(place + 1) / 64 for place in range(64)]
    moved = OneOfMany(move=0.25).bent(X, torch.full((64, 1, 1, 1), 3), torch.ones(64, 1, 1, 1))
    torch.testing.assert_close(moved[..., :6], X[..., 2:])  # by a quarter of the side


def test_a_box_takes_about_its_share():
    whole = torch.zeros(500, 3, 32, 32)
    found = box(whole, torch.full((500, 1, 1, 1), 0.25)).float().mean((1, 2, 3))
    assert found.mean() == pytest.approx(0.25, abs=0.01) and found.max() < 0.3
    assert Erase(0.0)(X) is not None and torch.equal(Erase(0.0)(X), X)


@pytest.mark.parametrize("mix", [Mix(0.8, 0), Mix(0, 1.0), Mix()])
def test_labels_have_the_shares_of_the_pixels(mix):
    torch.manual_seed(0)
    colours = torch.arange(64.0).view(64, 1, 1, 1).expand(64, 1, 8, 8)  # what is in a picture tells which it is of
    pixels, shares = mix(colours, torch.eye(64))
    torch.testing.assert_close(shares.sum(-1), torch.ones(64))
    torch.testing.assert_close((shares * torch.arange(64.0)).sum(-1), pixels.mean((1, 2, 3)), atol=1e-3, rtol=1e-4)
    assert (shares.max(-1).values < 0.999).sum() > 30


def test_nothing_is_mixed_by_a_chance_of_0():
    pixels, shares = Mix(chance=0.0)(X, SHARES)
    torch.testing.assert_close(pixels, X)
    torch.testing.assert_close(shares, SHARES)


def test_changes_are_composed_in_order():
    pixels, shares = Augment([lambda x: x + 1, lambda x: x * 2])(X, SHARES)
    assert torch.equal(pixels, (X + 1) * 2) and shares is SHARES
    assert Augment()(X, SHARES) == (X, SHARES)
