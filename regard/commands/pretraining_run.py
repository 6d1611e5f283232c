"""A pretraining run from text to an encoder: learn a vocabulary, encode the text once, train, save."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from regard import __version__
from regard.checkpoints.files import check_digest, write_with_digest
from regard.commands.encoders import changed, encoder_of, new_reader, read_tokenizer
from regard.commands.load import load_reader
from regard.commands.run_folder import claim, save_initial, save_result
from regard.commands.settings import PretrainingSettings
from regard.config import did_you_mean, to_dict
from regard.data.corpus import Corpus, unknown_warnings
from regard.data.documents import read_documents
from regard.data.pretraining import CorpusBatches, InTurn, Pairs
from regard.data.stream import Shuffled, Streams
from regard.errors import Problem, UsageProblem
from regard.layers.longest import longest_row
from regard.models import ENCODERS, family_of
from regard.models.encoder import EncoderConfig, HeadedEncoder, Role
from regard.models.heads import new_encoder, with_heads
from regard.models.published import Published
from regard.objectives.distilled import Distilled, layers_from_teacher
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked, Objective, to_device
from regard.objectives.pairs import SecondText
from regard.objectives.replaced import Replaced, generator_of
from regard.objectives.together import Together
from regard.tasks.reader import Reader
from regard.text.tokenizer import ENCODER, ROBERTA, Tokenizer
from regard.training.ahead import Batches
from regard.training.loop import Evaluate, Outcome, train
from regard.training.parallel import here, is_first, rank_count
from regard.training.resume import wait_for
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.training.step import seed_of

A_DAY = 24 * 3600.0  # for the first rank to encode the text; should it fail, torchrun ends those that wait
SAMPLE = 200_000_000  # characters that a vocabulary is learned from
EVALUATED = 64  # batches of held-out text

OWN = {  # what the papers ask, and how their vocabularies are made
    "bert": ("masked+next-sentence", "wordpiece"),
    "roberta": ("masked", "byte-bpe"),
    "xlm-roberta": ("masked", "unigram"),
    "camembert": ("masked", "unigram"),
    "data2vec-text": ("masked", "byte-bpe"),
    "distilbert": ("distilled", "wordpiece"),
    "albert": ("masked+order", "unigram"),
    "electra": ("replaced", "wordpiece"),
    "longformer": ("masked", "byte-bpe"),
    "linformer": ("masked", "byte-bpe"),
    "reformer": ("next", "byte-bpe"),
    "bigram": ("next", "words"),
    "openai-gpt": ("next", "byte-bpe"),
    "gpt2": ("next", "byte-bpe"),
    "transformer-xl": ("next", "words"),
    "lstm": ("next", "words"),
    "elmo": ("both", "treebank"),
    "context2vec": ("around", "words"),
}
HEADS: dict[str, Role] = {
    "masked": "masked", "next-sentence": "next", "order": "next", "replaced": "replaced", "distilled": "masked",
    "next": "write", "before": "write", "both": "write", "around": "masked",
}  # fmt: skip
ABSOLUTE, RELATIVE = (1e-4, 0.01), (1e-2, 0.0)  # rate and decay of weights: BERT's, and T5's
ALONE = ("replaced", "distilled", "next", "before", "both", "around")
PAIRS: dict[str, Pairs] = {"next-sentence": "next", "order": "order"}


class PretrainingRun:
    best = (
        "last loss"  # one that is asked more as it goes (longer rows, a better generator) has a higher loss at the end
    )
    relative = False  # whether rates are, where nothing is said

    def __init__(self, settings: PretrainingSettings, model: str, folder: Path, corpus: Path):
        self.settings, self.model, self.folder, self.corpus = settings, model, folder, corpus

    def reader(
        self, tokenizer: str | Path | None, teacher: str | Path | None, set: tuple[str, ...]
    ) -> tuple[Reader, EncoderConfig]:
        """The encoder to train, before it has heads, and the config it is to be trained with."""
        if self.model not in ENCODERS:
            reader, config = encoder_of(self.model, tokenizer, set)
            self.claim(str(reader.published.theirs["model_type"]), config, teacher)
            return reader, config
        self.claim(family_of(self.model), changed(ENCODERS[self.model], set), teacher)
        if tokenizer:
            pieces = read_tokenizer(tokenizer)
        else:
            pieces = load_reader(teacher, "cpu").tokenizer if teacher else self.learned()
        reader = new_reader(self.model, pieces, set, self.settings.seed)
        return reader, reader.published.model.encoder.config

    def claim(self, family: str, config: EncoderConfig, teacher: str | Path | None) -> None:
        """Take the folder, once it is known that the run can be."""
        for path in (*self.settings.texts, *self.settings.dev):
            if not Path(path).is_file():
                raise Problem(f"{path}: there is no such file. Check the path.")
        with torch.device("meta"):  # one that cannot be made or saved is refused before the folder is taken
            heads = {HEADS[part] for part in self.parts(family, teacher)}
            places = longest_row(new_encoder(family, config, heads).model)
        longest = max(self.settings.longest, self.settings.later_longest)
        if longest > places:
            raise UsageProblem(f"rows of {longest} tokens are asked for, and the model has places for {places}")
        self.training(here())
        if is_first():
            begun = {"name": self.model, **to_dict(config)} | ({"teacher": str(teacher)} if teacher else {})
            claim(self.folder, {"settings": to_dict(self.settings), "model": begun})

    def learned(self) -> Tokenizer:
        """The vocabulary that lies beside the encoded text, where runs that share the text find it, or one learned from
        the text.  The first rank learns, the others wait."""
        s, kind = self.settings, self.pieces()
        place = self.corpus.with_name(f"{self.corpus.name}-{kind}-{s.vocab}{'-lowercase' * s.lowercase}.json")
        if is_first() and not place.exists():
            special = self.special(kind)
            learned = Tokenizer.train(kind, self.sample(), s.vocab, lowercase=s.lowercase, special=special)
            write_with_digest(place, learned.to_json().encode())
        wait_for(place, A_DAY)
        check_digest(place)
        return Tokenizer.load(place)

    def pieces(self) -> str:
        """The kind of vocabulary that is learned: what was asked for, or the paper's."""
        return self.settings.pieces or OWN[family_of(self.model)][1]

    def special(self, kind: str) -> tuple[str, ...]:
        return ROBERTA if family_of(self.model) in ("roberta", "longformer") else ENCODER

    def sample(self) -> Iterator[str]:
        """Text to learn a vocabulary from."""
        s = self.settings
        return some(read_documents(s.texts, s.encoding, s.column), SAMPLE)

    def go(
        self, reader: Reader, config: EncoderConfig, teacher: str | Path | None, allow_changed_data: bool = False
    ) -> Reader:
        settings, device = self.settings, here()
        torch.manual_seed(settings.seed)
        parts = self.parts(str(reader.published.theirs["model_type"]), teacher)
        reader, asked, fresh = self.asked(reader, config, parts, teacher)
        asked.to(device)
        corpus = self.made(settings.texts, self.corpus, reader.tokenizer)
        batches = self.batches(corpus, reader, parts)
        if is_first():
            told = [*corpus.lines(), *batches.lines(), *self.facts(asked, parts, fresh)]
            print(*told, sep="\n", file=sys.stderr, flush=True)
        evaluate = self.evaluation(asked, reader, parts) if settings.dev else None
        save_initial(self.folder, reader)
        outcome = self.learn(asked, batches, corpus, evaluate, allow_changed_data)
        reader.model.eval()
        if is_first():
            save_result(self.folder, reader, self.card(parts, outcome))
            if isinstance(asked.objective, Replaced) and not asked.objective.learned:
                self.save_generator(asked.objective, reader)
        return reader

    def learn(
        self, asked: Asked, batches: Batches, corpus: Corpus, evaluate: Evaluate | None, allow_changed_data: bool
    ) -> Outcome:
        """Train to the end; a signal ends the process, and the same command goes on from there."""
        outcome = train(
            asked, batches, self.training(here()), self.folder, evaluate=evaluate,
            fingerprint=corpus.facts.fingerprint, allow_changed_data=allow_changed_data,
        )  # fmt: skip
        if outcome.signal:
            sys.exit(outcome.exit_code)
        return outcome

    def parts(self, family: str, teacher: object) -> list[str]:
        """What is asked, one thing or two."""
        own = OWN[family][0]
        if not self.settings.objective and own == "distilled" and not teacher:
            own = "masked"
        parts = (self.settings.objective or own).split("+")
        for part in parts:
            if part not in HEADS:
                raise UsageProblem(f"no objective is called {part!r}; {did_you_mean(part, HEADS)}")
        if len(parts) > 1 and (set(parts) & {*ALONE} or len(set(parts) & {*PAIRS}) > 1 or len(set(parts)) < len(parts)):
            raise UsageProblem(f"{'+'.join(parts)} cannot be asked together; masked goes with next-sentence or order")
        if ("distilled" in parts) != bool(teacher):
            raise UsageProblem(
                "a student needs a teacher and a teacher a student: --objective distilled --teacher FOLDER"
            )
        return parts

    def asked(
        self, reader: Reader, config: EncoderConfig, parts: list[str], teacher: str | Path | None = None
    ) -> tuple[Reader, Asked, list[str]]:
        """The encoder with the heads that are asked, what it is asked, and the names of tensors that are new."""
        published, fresh = with_heads(reader.published, {HEADS[part] for part in parts}, config=config)
        reader = Reader(published, reader.tokenizer)
        return reader, Asked(reader.model, self.objective(parts, reader, teacher)), fresh

    def objective(self, parts: list[str], reader: Reader, teacher: str | Path | None) -> Objective:
        s, tokenizer = self.settings, reader.tokenizer
        hiding = Hiding(
            tokenizer.mask, tokenizer.size, tuple(tokenizer.specials), torch.from_numpy(tokenizer.continues),
            s.share, s.whole_words,
        )  # fmt: skip
        if parts == ["replaced"]:
            if s.filled_by:
                return Replaced(hiding, self.filling(reader), learned=True)
            return Replaced(hiding, generator_of(reader.model, s.generator))
        if parts == ["distilled"]:
            taught = can_fill(load_reader(str(teacher), "cpu"), teacher).model
            distilled = Distilled(hiding, taught)
            distilled.teacher_of(reader.model)  # do they fit?  Before the text is encoded, not after
            if self.model in ENCODERS:
                layers_from_teacher(reader.model, taught)
            return distilled
        objectives = [Masked(hiding) if part == "masked" else SecondText() for part in sorted(parts)]
        return objectives[0] if len(objectives) == 1 else Together(*objectives)

    def filling(self, reader: Reader) -> HeadedEncoder:
        """The model that fills places for this one to judge; they must mean the same by a number."""
        found = can_fill(load_reader(self.settings.filled_by, "cpu"), self.settings.filled_by)
        if found.tokenizer.to_json() != reader.tokenizer.to_json():
            raise Problem(
                f"{self.settings.filled_by} has another vocabulary than {self.model}; give one that has the same"
            )
        return found.model

    def batches(self, corpus: Corpus, reader: Reader, parts: list[str]) -> CorpusBatches | InTurn | Shuffled | Streams:
        """The text as rows; where that is asked for, short ones first and long ones at the end."""
        s, first = self.settings, self.rows(corpus, reader, self.settings.longest, parts)
        if not s.later_longest:
            return first
        switch = round(s.steps * (1 - s.later)) * s.accumulate * rank_count()
        return InTurn(first, self.rows(corpus, reader, s.later_longest, parts), switch)

    def rows(self, corpus: Corpus, reader: Reader, longest: int, parts: list[str]) -> CorpusBatches:
        pairs: Pairs = next((PAIRS[part] for part in parts if part in PAIRS), "none")
        return CorpusBatches(corpus, reader.tokenizer.frame, longest, self.settings.budget, self.settings.seed, pairs)

    def evaluation(self, asked: Asked, reader: Reader, parts: list[str]) -> Evaluate:
        """How held-out text is judged."""
        dev = self.rows(self.held_out(reader.tokenizer), reader, self.settings.longest, parts)
        return lambda: judged(asked, dev)

    def held_out(self, tokenizer: Tokenizer) -> Corpus:
        dev = self.made(self.settings.dev, self.corpus.with_name(f"{self.corpus.name}-dev"), tokenizer)
        if is_first():
            for warning in unknown_warnings(dev.facts.unknown / dev.facts.tokens, "the held-out text"):
                print(warning, file=sys.stderr, flush=True)
        return dev

    def made(self, paths: Sequence[str], folder: Path, tokenizer: Tokenizer) -> Corpus:
        """The encoded text; the first rank encodes, the others wait."""
        if is_first():
            return Corpus.make(paths, tokenizer, folder, encoding=self.settings.encoding, column=self.settings.column)
        wait_for(folder, A_DAY)
        return Corpus.load(folder)

    def training(self, device: torch.device) -> TrainingConfig:
        s = self.settings
        return TrainingConfig(
            steps=s.steps, accumulate=s.accumulate, seed=s.seed, launch=s.launch,
            precision=s.precision or ("bf16" if device.type == "cuda" else "float32"),
            report_every=s.report_every, evaluate_every=s.evaluate_every, save_every=s.save_every, best=self.best,
            optimizer=self.optimizer(),
        )  # fmt: skip

    def optimizer(self) -> OptimizerConfig:
        s = self.settings
        relative = self.relative if s.relative is None else s.relative
        rate, decay = RELATIVE if relative else ABSOLUTE
        return OptimizerConfig(
            s.rate or rate, s.schedule, int(s.warmup * s.steps), decay if s.weight_decay is None else s.weight_decay,
            s.betas, epsilon=1e-6, clip=s.clip, discriminative=s.discriminative, relative=relative,
        )  # fmt: skip

    def facts(self, asked: Asked, parts: list[str], fresh: list[str]) -> Iterator[str]:
        count = sum(p.numel() for p in asked.parameters())
        yield f"asked: {'+'.join(parts)}; {count:,} parameters, what only the asking needs among them"
        if self.model not in ENCODERS:
            yield f"goes on from {self.model}; new: {', '.join(fresh) or 'nothing'}"

    def save_generator(self, objective: Replaced, reader: Reader) -> None:
        """What filled the places is a model too: it can fill."""
        family, generator = reader.published.family, objective.generator
        layout, _ = with_heads(reader.published, {"masked"})
        made = Published(family, layout.layout, reader.published.theirs, generator, {}, {}, torch.float32)
        Reader(made, reader.tokenizer).save(self.folder / "generator")

    def card(self, parts: list[str], outcome: Outcome) -> str:
        """The README of the model: what it is, what it learned from."""
        s = self.settings
        return "\n".join([
            f"# An encoder pretrained by regard: {'+'.join(parts)}",
            "",
            f"- begun from: {Path(self.model).name}",
            f"- text: {' '.join(Path(path).name for path in s.texts)}",
            f"- steps: {outcome.step} of {s.budget * s.accumulate:,} tokens a process; weights: the {outcome.chosen}",
            f"- loss on held-out text: {outcome.best}",
            f"- rate: {self.optimizer().rate:g}; seed: {s.seed}; regard {__version__}",
            "",
        ])  # fmt: skip


def can_fill(reader: Reader, name: object) -> Reader:
    if "masked" not in reader.model.heads:
        raise Problem(f"{name} cannot fill hidden words; give one that was trained to: --objective masked")
    return reader


def judged(asked: Asked, dev: CorpusBatches | Shuffled) -> dict[str, float]:
    """Mean losses on held-out text, hidden in the same places each time."""
    sums: dict[str, float] = {}
    for position in range(min(dev.per_epoch, EVALUATED)):
        torch.manual_seed(seed_of(0, position))
        result = asked(to_device(asked.prepare(dev.at(position)), next(asked.parameters()).device))
        for name, value in {"loss": result.loss, "count": result.count, **result.parts}.items():
            sums[name] = sums.get(name, 0.0) + value.item()
    count = sums.pop("count")
    return {name: value / count for name, value in sums.items()}


def some(documents: Iterator[Iterator[str]], most: int) -> Iterator[str]:
    """Paragraphs, until there are so many characters."""
    for document in documents:
        for paragraph in document:
            yield paragraph
            most -= len(paragraph)
        if most < 0:
            return
