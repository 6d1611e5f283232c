"""The recipe of the box goes through, from data to folders in half precision, each with its card."""

from __future__ import annotations

import sys

import pytest
import torch

import regard
from regard.box import boxes
from regard.checkpoints.files import check_folder, load_tensors

NAMES = {"encoder", "entities", "language-model", "sentiment", "translate-de-en", "translate-en-de"}


def test_every_model_is_there_in_half_precision_with_a_card(small_box, made):
    assert {path.name for path in small_box.iterdir()} == set(boxes()) == NAMES
    for folder in small_box.iterdir():
        check_folder(folder)
        half, full = (load_tensors(place / "model.safetensors") for place in (folder, made / folder.name / "model"))
        assert {tensor.dtype for tensor in half.values()} == {torch.float16}
        assert all(torch.equal(half[name], full[name].half()) for name in full) and half.keys() == full.keys()
        card = (folder / "README.md").read_text()
        for said in (f"# {folder.name}\n", "- data: ", "- use: `regard ", "recipes.box --part", "Limits:", "| --- |"):
            assert said in card, folder.name


def test_what_is_loaded_computes_in_float32(small_box):
    for folder in small_box.iterdir():
        model = regard.load(folder, "cpu").model
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_the_text_is_encoded_once(made, monkeypatch):
    """What a part of its own has encoded, the training takes as it is."""
    from recipes import box

    before = {path: path.stat().st_mtime_ns for path in made.glob("*-text*/*")}
    assert len({path.parent for path in before}) == 4
    monkeypatch.setenv("REGARD_DATA", str(made.parent / "data"))
    for part in ("encoder", "encoder-text", "language-model", "language-model-text"):
        monkeypatch.setattr(sys, "argv", ["box", "--small", "--part", part, "--out", str(made)])
        box.main()
    assert {path: path.stat().st_mtime_ns for path in made.glob("*-text*/*")} == before


def test_a_part_given_again_goes_on_from_where_it_was(made, monkeypatch, capsys):
    from recipes import box

    monkeypatch.setenv("REGARD_DATA", str(made.parent / "data"))
    monkeypatch.setattr(sys, "argv", ["box", "--small", "--part", "sentiment", "--out", str(made)])
    box.main()
    assert "is finished" in capsys.readouterr().err


def test_they_are_put_where_the_package_has_them(made, tmp_path, monkeypatch, capsys):
    from recipes import box

    for _ in range(2):  # what was there is replaced
        monkeypatch.setattr(sys, "argv", ["box", "--part", "install", "--out", str(made), "--models", str(tmp_path)])
        box.main()
    assert {path.name for path in tmp_path.iterdir()} == NAMES
    assert "translate-en-de" in capsys.readouterr().out
    monkeypatch.setattr(box, "MOST", 1000)
    with pytest.raises(regard.Problem, match="more than 1,000 bytes"):
        box.main()


def test_the_parts_that_are_finished_are_enough(made, tmp_path, capsys):
    from recipes import box

    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "encoder").symlink_to(made / "models" / "encoder")
    box.install(tmp_path / "made", tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["encoder"]
    assert "not finished" in capsys.readouterr().err


@pytest.mark.parametrize(
    "phrase, wanted",
    [("it 's a charming and often affecting journey . ", "It's a charming and often affecting journey."),
     ("i do n't like it ( at all ) , really", "I don't like it (at all), really"),
     ("`` the film '' is n't", '"the film" isn\'t'), ("unflinchingly bleak", "Unflinchingly bleak")],
)  # fmt: skip
def test_phrases_become_what_people_write(phrase, wanted):
    from recipes.box_data import natural

    assert natural(phrase) == wanted
