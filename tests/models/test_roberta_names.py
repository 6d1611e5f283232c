"""XLM-R and CamemBERT are RoBERTa's network under names of their own: used, fine-tuned and saved under them."""

import io
import json

import pytest
import torch

from regard.commands.load import load
from regard.errors import Problem
from regard.models.folder import load_published, save_files
from regard.models.heads import new_encoder
from regard.models.roberta import roberta
from regard.text.published import load_tokenizer

sentencepiece = pytest.importorskip("sentencepiece", reason="SentencePiece is not installed: pip install 'regard[spm]'")

LINES = ["the cat sat on the mat", "le chat était là", "die Katze lacht über den Hund", "a dog sat too"] * 20
CLASSES = {"xlm-roberta": "XLMRoberta", "camembert": "Camembert"}


@pytest.fixture(params=CLASSES)
def family(request) -> str:
    return request.param


@pytest.fixture
def folder(family, tmp_path):
    """A masked LM as its authors published it, whose vocabulary is sentencepiece.bpe.model alone."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=file, vocab_size=80, hard_vocab_limit=False, minloglevel=2
    )
    pieces = {"sentencepiece.bpe.model": file.getvalue()}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    (tmp_path / "sentencepiece.bpe.model").write_bytes(file.getvalue())
    torch.manual_seed(0)
    published = new_encoder(family, roberta(2, 16, 2, load_tokenizer(tmp_path).size), {"masked"})
    save_files(tmp_path / "published", {**published.files(), **pieces})
    return tmp_path / "published"


def config_of(folder) -> dict:
    return json.loads((folder / "config.json").read_text())


def test_it_reads_fills_and_is_saved_under_its_own_name(folder, family, tmp_path):
    reader = load(folder, "cpu")
    [words] = reader.fill("the <mask> sat", best=3)
    assert len(words) == 3
    reader.save(tmp_path / "again")
    config = config_of(tmp_path / "again")
    assert (config["model_type"], config["architectures"]) == (family, [f"{CLASSES[family]}ForMaskedLM"])
    again = load(tmp_path / "again", "cpu")  # whose vocabulary is a tokenizer.json now
    assert again.fill("the <mask> sat", best=3) == [words]
    pair = [("über den Hund", "le chat")]
    assert list(again.rows(pair)) == list(reader.rows(pair))


def test_it_is_finetuned_under_its_own_name(folder, family, tmp_path, call):
    rows = [("the cat sat", "yes"), ("le chat était là", "no")] * 8
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    files = ["--train", tmp_path / "train.tsv", "--dev", tmp_path / "train.tsv"]
    done = call("finetune", folder, "classify", *files, "--epochs", 1, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    config = config_of(tmp_path / "run" / "model")
    assert config["model_type"] == family
    assert config["architectures"] == [f"{CLASSES[family]}ForSequenceClassification"]
    assert call("classify", "--model", tmp_path / "run" / "model", "the cat").code == 0


@pytest.mark.parametrize("name, meant", [("flaubert", ""), ("bart", ""), ("beit", ""), ("robertta", "'roberta'")])
def test_a_family_that_is_not_there_is_named_with_those_that_are(folder, name, meant):
    (folder / "manifest.json").unlink()
    (folder / "config.json").write_text(json.dumps(config_of(folder) | {"model_type": name}))
    with pytest.raises(Problem, match=rf"'{name}', which is not among the families there are: .*, albert,") as found:
        load_published(folder)
    assert ("did you mean" in str(found.value)) == bool(meant) and meant in str(found.value)
