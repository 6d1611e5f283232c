"""A language model's pretraining: text encoded whole, read on and on, and measured as every language model is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.box import boxes
from regard.commands.pretraining_run import A_DAY, EVALUATED, OWN, SAMPLE, PretrainingRun, judged
from regard.commands.run_folder import INITIAL, MODEL
from regard.config import did_you_mean
from regard.data.corpus import Corpus
from regard.data.stream import Shuffled, Streams
from regard.data.whole import whole_texts
from regard.errors import UsageProblem
from regard.models import ENCODERS, family_of
from regard.models.folder import CONFIG, read_json
from regard.objectives.around import Around, Before
from regard.objectives.language import Both, Next, Penalties
from regard.objectives.objective import Asked, Objective
from regard.tasks.measuring import Measuring, measured, told_after
from regard.tasks.reader import Reader
from regard.text.tokenizer import GPT, SPECIAL, Tokenizer
from regard.training.loop import Evaluate
from regard.training.parallel import is_first, rank_count
from regard.training.resume import wait_for

OBJECTIVES: dict[str, type[Objective]] = {"next": Next, "before": Before, "both": Both, "around": Around}


class LanguageRun(PretrainingRun):
    best = "lowest loss"

    def parts(self, family: str, teacher: object) -> list[str]:
        asked = self.settings.objective or OWN[family][0]
        if asked not in OBJECTIVES:
            raise UsageProblem(f"a language model cannot be asked {asked!r}; {did_you_mean(asked, OBJECTIVES)}")
        if teacher:
            raise UsageProblem(f"{asked} has no use for a teacher; leave out {teacher}")
        return [asked]

    def special(self, kind: str) -> tuple[str, ...]:
        return GPT if kind == "byte-bpe" else SPECIAL

    def sample(self) -> Iterator[str]:
        s, most = self.settings, SAMPLE
        for text in whole_texts(s.texts, s.encoding, s.column):
            yield from text.lines
            most -= sum(map(len, text.lines))
            if most < 0:
                return

    def objective(self, parts: list[str], reader: Reader, teacher: object) -> Objective:
        s = self.settings
        if not (s.activation or s.temporal):
            return OBJECTIVES[parts[0]]()
        if parts != ["next"] or not hasattr(reader.model.encoder, "read_raw"):
            raise UsageProblem("activation and temporal penalties are for recurrent models that tell what comes next")
        return Next(Penalties(s.activation, s.temporal))

    def batches(self, corpus: Corpus, reader: Reader, parts: list[str]) -> Shuffled | Streams:
        """Streams where a model can carry what it has read from one batch to the next, as recurrent ones can."""
        s = self.settings
        if parts == ["next"] and hasattr(reader.model.encoder, "state_of"):
            return Streams(corpus, s.longest, s.budget, s.accumulate * rank_count())
        return Shuffled(corpus, s.longest, s.budget, s.seed)

    def evaluation(self, asked: Asked, reader: Reader, parts: list[str]) -> Evaluate:
        s, dev = self.settings, self.held_out(reader.tokenizer)
        if parts != ["next"]:
            rows = Shuffled(dev, s.longest, s.budget, 0)
            return lambda: judged(asked, rows)
        first, how = told_after(reader.tokenizer), Measuring(s.longest, s.longest, max(s.budget // s.longest, 1))

        def evaluate() -> dict[str, float]:
            found = measured(asked.model, dev, first, how, most=EVALUATED * s.budget)
            bits = {} if found.bits_a_byte is None else {"bits_a_byte": found.bits_a_byte}
            return {"loss": found.loss, **bits, "perplexity_a_word": found.perplexity_a_word}

        return evaluate

    def made(self, paths: Sequence[str], folder: Path, tokenizer: Tokenizer) -> Corpus:
        s = self.settings
        if is_first():
            return Corpus.make(paths, tokenizer, folder, encoding=s.encoding, column=s.column, whole=True)
        wait_for(folder, A_DAY)
        return Corpus.load(folder)


def is_language(model: str, objective: str) -> bool:
    """Whether a run is a language model's: what is asked says so, or the family whose own objective it is."""
    family = family_of(model) if model in ENCODERS else family_in(model)
    return (objective or OWN.get(family, ("",))[0]) in OBJECTIVES


def family_in(model: str) -> str:
    """What the config.json of a folder says, its own or that of the model in it, which a run has come to or began as;
    or of a model in the box."""
    model = str(boxes().get(model, model))
    places = [path for path in (Path(model) / place / CONFIG for place in ("", MODEL, INITIAL)) if path.is_file()]
    return read_json(places[0])[0] if places else ""
