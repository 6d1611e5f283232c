"""Published weights do what they were trained for, pickles converted first; packages that are not there are skipped."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import Regex, models, pre_tokenizers

from regard.checkpoints.files import load_tensors
from regard.commands.convert import convert
from regard.commands.load import load
from regard.commands.predict import classify
from regard.decoding.decoder import Ends, prompted
from regard.decoding.sample import sample
from regard.errors import Problem
from regard.models.encoder import begin
from regard.models.folder import load_published
from regard.rows import Tokens
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Reader
from regard.text.tokenizer import ENCODER, FRAMES, framed

pytestmark = pytest.mark.filterwarnings("ignore:.*was left out")

# what is one piece of a reaction: an atom in brackets, one without, a bond, a branch, a ring's number, an arrow
PIECES = r"\[[^\]]+\]|Br|Cl|[BCNOPSFI]|[bcnops]|>>|%[0-9]{2}|[0-9]|[().=#+\-\\/:~@?*$]"
AMIDE = "CC(=O)Cl.Nc1ccccc1.c1ccncc1>>CC(=O)Nc1ccccc1"
SUZUKI = [
    "Brc1ccccc1.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1",
    "COc1ccc(Br)cc1.OB(O)c1ccc(F)cc1>>COc1ccc(-c2ccc(F)cc2)cc1",
]


def packaged(package: str, place: str) -> Path:
    """A folder of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package}, which carries real weights, is not installed")
    return Path(spec.origin).parent / place


def reaction_pieces(vocabulary: Path) -> str:
    """A tokenizer.json for these models: their folders have a vocabulary, and the rule is in their code."""
    pieces = {piece: id for id, piece in enumerate(vocabulary.read_text().split())}
    inner = tokenizers.Tokenizer(models.WordLevel(pieces, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")
    inner.add_special_tokens(list(ENCODER))
    inner.post_processor = framed(inner, *FRAMES[ENCODER])
    return inner.to_str()


def converted(source: Path, folder: Path) -> Path:
    """The package's weights, beside a tokenizer.json that cuts reactions as they were cut in training."""
    beside = folder / "beside"
    beside.mkdir()
    shutil.copy(source / "config.json", beside)
    (beside / "tokenizer.json").write_text(reaction_pieces(source / "vocab.txt"))
    return convert(source, folder / "converted", config=beside / "config.json")


def found_again(reader: Reader, reaction: str) -> tuple[int, int]:
    """How many pieces of a reaction are the likeliest when each in turn is hidden, and how many there are."""
    ids, _ = reader.row(reaction)
    places = range(1, len(ids) - 1)
    tokens = Tokens.of([[*ids[:place], reader.tokenizer.mask, *ids[place + 1 :]] for place in places])
    with torch.inference_mode():
        states = reader.model(tokens)[tokens.rows.first + torch.tensor(places)]
        said = reader.model.scores("masked", states, tokens.rows).argmax(-1).tolist()
    return sum(one == ids[place] for one, place in zip(said, places, strict=True)), len(places)


MASKED = [
    ("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k"),
    ("rxnfp", "models/transformers/bert_pretrained"),
]


@pytest.mark.parametrize("package, place", MASKED, ids=[package for package, _ in MASKED])
def test_hidden_pieces_of_a_reaction_are_recovered(package, place, tmp_path):
    reader = Reader.load(converted(packaged(package, place), tmp_path), "cpu")
    found, pieces = found_again(reader, AMIDE)
    assert pieces == 42 and found >= 41
    [words] = reader.fill("CC(=O)Cl.Nc1ccccc1.c1ccncc1>>CC(=O)[MASK]c1ccccc1", best=1)  # the nitrogen, as a person asks
    assert words[0].word == "N" and words[0].probability > 0.9
    torch.manual_seed(0)
    begin(reader.model)
    assert found_again(reader, AMIDE)[0] <= 2, "random weights should find nothing"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    """The folder of a classifier of reactions into fifty kinds."""
    return converted(packaged("rxnfp", "models/transformers/bert_ft_10k_25s"), tmp_path_factory.mktemp("rxnfp"))


def test_reactions_are_classified(classifier):
    model = load(classifier, "cpu")
    assert isinstance(model, Finetuned) and (model.name, len(model.task.labels)) == ("classify", 50)
    first, second, amide = model.predict([*SUZUKI, AMIDE])
    assert first.label == second.label != amide.label
    assert min(judged.probability for judged in (first, second, amide)) > 0.5
    assert sum(amide.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_reactions_are_scored_as_by_the_reference(classifier):
    reference = pytest.importorskip("transformers", reason="the reference library is not installed")
    theirs = reference.BertForSequenceClassification.from_pretrained(classifier, num_labels=50).eval()
    reader = Reader.load(classifier, "cpu")
    ids, types = reader.row(SUZUKI[1])
    with torch.inference_mode():
        wanted = theirs(torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits
    [(_, scores, _)] = reader.scores("classify", reader.framed([(SUZUKI[1],)]))
    assert torch.allclose(scores, wanted, atol=1e-5)


ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
TAXOL = (
    "CC1=C2C(C(=O)C3(C(CC4C(C3C(C(C2(C)C)(CC1OC(=O)C(C(C5=CC=CC=C5)NC(=O)C6=CC=CC=C6)O)O)OC(=O)C7=CC=CC=C7)"
    "(CO4)OC(=O)C)O)C)OC(=O)C"
)


def test_molecules_are_easy_or_hard_to_make(tmp_path):
    source = packaged("deepsa", "model")
    shape = shutil.copytree(source / "hf_text", tmp_path / "shape") / "config.json"
    config = json.loads(shape.read_text())
    shape.write_text(json.dumps(config | {"id2label": {"0": "easy", "1": "hard"}}))  # which only a pickle there says
    folder = convert(source, tmp_path / "converted", strip="model.model.", config=shape)
    with pytest.raises(Problem, match=r"593 tokens .* 30522 rows: .*\"regard_unused_rows\": 29929"):
        load(folder, "cpu")  # it has ELECTRA's table and a tokenizer of molecules, as another model's would be
    shutil.rmtree(folder)
    shape.write_text(json.dumps(json.loads(shape.read_text()) | {"regard_unused_rows": 29929}))
    folder = convert(source, tmp_path / "converted", strip="model.model.", config=shape)
    easy, hard = classify(folder, [ASPIRIN, TAXOL], "cpu")
    assert (easy.label, hard.label) == ("easy", "hard")
    assert min(easy.probability, hard.probability) > 0.9

    load(folder, "cpu").save(tmp_path / "again")
    before, after = (load_tensors(place / "model.safetensors") for place in (folder, tmp_path / "again"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_a_language_model_of_microbes_writes_as_by_the_reference(tmp_path):
    """A GPT-2 over the genera of a sample, the most abundant first: the same logits, and every tensor accounted for."""
    reference = pytest.importorskip("transformers", reason="the reference library is not installed")
    source = packaged("mgm", "resources/general_model")
    folder = convert(source / "pytorch_model.bin", tmp_path / "converted")
    published = load_published(folder)
    assert list(published.model.heads) == ["write"]
    tensors = load_tensors(folder / "model.safetensors")
    again = published.files()
    assert again["model.safetensors"].keys() == tensors.keys()
    assert all(torch.equal(again["model.safetensors"][name], tensors[name]) for name in tensors)
    assert json.loads(again["config.json"]) == json.loads((source / "config.json").read_text())
    theirs = reference.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.randint(5, 9669, (2, 40), generator=torch.Generator().manual_seed(0))
    tokens = Tokens.of(ids.tolist())
    with torch.inference_mode():
        wanted = theirs(ids).logits.flatten(0, 1)
        found = published.model.logits(published.model(tokens))
    torch.testing.assert_close(found, wanted, atol=5e-5, rtol=0)
    assert sum(parameter.numel() for parameter in published.model.parameters()) > 8.5e6
    before, begin = prompted(Tokens.of([[2], [2, *ids[0, :3].tolist()]]))
    written = sample(published.model, before, Ends(begin, 3, 0.0, 13))
    how = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    for prompt, hypothesis in zip(([2], [2, *ids[0, :3].tolist()]), written, strict=True):
        best = theirs.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), **how)[0].tolist()
        assert hypothesis.tokens == [token for token in best[len(prompt) :] if token != 3]
