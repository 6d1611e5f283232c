"""An encoder with its tokenizer: text to states, and what can be had of them without training."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import sorted_batches
from regard.data.framed import Framed, Row
from regard.data.parallel import TOGETHER
from regard.errors import Problem, UsageProblem
from regard.layers.longest import longest_row
from regard.layers.packed import packed
from regard.models.encoder import Role
from regard.models.folder import load_published, save_files
from regard.models.published import Published
from regard.rows import Rows, Tokens
from regard.tasks.device import moved
from regard.tasks.mix import LEARNED, NAME, Mix, stacked
from regard.tasks.pooling import MEAN, Choice, Pooling
from regard.tasks.sentence_folder import encoder_folder, load_pooling, pooling_files, tell_lower_case
from regard.tasks.sentence_stream import SentenceStream
from regard.tasks.vocabulary_size import check_vocabulary_size
from regard.text.published import load_tokenizer
from regard.text.spelled import Spelled
from regard.text.tokenizer import SETTINGS, Tokenizer
from regard.text.vocabulary import unknown_ids

BUDGET = 16_384  # tokens of a batch
# likewise on a CPU, whose caches are to hold them from one layer to the next; with twice as many, memory is also asked
# of the system anew at every layer, which takes a seventh of the time in float32 and a quarter in int8
CACHED = 1024
PORTION = 2048  # texts that are cut into pieces while a GPU reads those before them
SAMPLE = 1000  # inputs whose unknown tokens are counted
LONGEST = "model_max_length"  # what everyone's tokenizer_config.json calls the most pieces that are read
CHOICES: dict[str, Choice] = {
    "first": lambda layers: layers[0],
    "last": lambda layers: layers[-1],
    "second to last": lambda layers: layers[-2],
    "sum of all": lambda layers: stacked(layers[1:]).sum(0),
    "sum of last 4": lambda layers: stacked(layers[-4:]).sum(0),
    "concat last 4": lambda layers: torch.cat(layers[-4:], -1),
}


def chosen(layers: str | Choice) -> Choice:
    """What is made of the layers: a choice by its name, a mix by its weights, or a function as it is."""
    if not isinstance(layers, str):
        return layers
    if layers in CHOICES:
        return CHOICES[layers]
    if layers.split()[:1] == [NAME]:
        return Mix.of(layers)
    if layers == LEARNED:
        raise UsageProblem("a mix of layers is learned with a task: let regard probe learn it, and give what it prints")
    there = f"{', '.join(CHOICES)}, or a mix with a weight for each layer, such as {NAME} 0.2 0.3 0.5"
    raise UsageProblem(f"no layers are called {layers!r}; there are: {there}")


@dataclass(frozen=True)
class Filled:
    """A word that fits where one was hidden."""

    word: str
    probability: float


class Reader:
    def __init__(self, published: Published, tokenizer: Tokenizer, pooling: Pooling = MEAN):
        self.published, self.tokenizer, self.pooling = published, tokenizer, pooling
        self.model: Any = published.model
        self.reading = reading_of(self.model.encoder, tokenizer)  # what text is read by: it may know more words
        self.longest = min(longest_row(self.model), pooling.longest)

    @classmethod
    def load(
        cls, folder: str | Path, device: torch.device | str | None = None, ignore: Sequence[str] = ()
    ) -> Reader:
        folder = Path(folder)
        pooling, encoder = load_pooling(folder), encoder_folder(folder)
        published = load_published(encoder, ignore)
        tokenizer = load_tokenizer(encoder)
        tokenizer = tokenizer.lower_cased() if pooling.lowercase else tokenizer
        rows = published.model.encoder.config.embedding.vocab
        check_vocabulary_size(folder, tokenizer.size, rows, published.theirs)
        moved(published.model, device)
        return cls(published, tokenizer, pooling)

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the folder that we and others read; a card is its README."""
        modules = self.pooling.files
        if modules and self.tokenizer.lower_cases:
            modules = tell_lower_case(modules)
        files = {**self.published.files(), **self.tokenizer.files(), **modules}
        save_files(Path(folder), files | ({"README.md": card.encode()} if card else {}))

    def with_pooling(self, how: str, normalize: bool = False) -> Reader:
        """The same model with a pooling by name, such as mean or mean+max; saved, it is a folder that
        sentence-transformers opens."""
        width, pooling = self.model.encoder.config.width, Pooling(how, normalize, self.longest)
        return type(self)(
            self.published, self.tokenizer, replace(pooling, files=pooling_files(pooling, width, self.longest))
        )

    @property
    def tells(self) -> bool:
        """Whether it is a language model, which tells what comes next."""
        return "write" in self.published.layout.roles

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def embed(
        self,
        texts: Sequence[str],
        *,
        layers: str | Choice | None = None,
        pooling: Pooling | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:  # (texts, W)
        """One vector a text, in the order of the texts; by default from the layers, with the pooling and behind the
        prompt that the model's folder declares."""
        before = self.pooling.prompts.choose(prompt, prompt_name)
        texts = [before + text for text in texts] if before else texts
        layers = layers or (pooling or self.pooling).layers or "last"
        pooling = pooling or self.pooling
        skipped = self.prompt_length(before) if before and pooling.excludes_prompt else None
        order: list[int] = []
        parts = [torch.zeros(0, pooling.output_width(self.model.encoder.config.width))] * (not texts)
        on_gpu = self.device.type == "cuda"
        portion = PORTION if on_gpu else max(len(texts), 1)
        for first in range(0, len(texts), portion):
            framed = Framed.alone(self.rows_alone(texts[first : first + portion]))
            for numbers, states, rows in self.states(framed, layers):
                order += [first + number for number in numbers]
                prompts = None if skipped is None else torch.full((len(rows),), skipped, device=states.device)  # (B,)
                parts.append(
                    pooling(states, rows, prompts).float().to("cpu", non_blocking=True)
                )  # it is not waited for
        if on_gpu:
            torch.cuda.synchronize(self.device)
        return torch.cat(parts).numpy()[np.argsort(order)]

    def prompt_length(self, prompt: str) -> int:
        """How many tokens at the beginning of a row are of the prompt, the special ones before it counted."""
        ids, _ = self.row(prompt)
        return len(ids) - (ids[-1:] != [] and ids[-1] in self.tokenizer.specials)

    def embed_words(self, sentences: Sequence[Sequence[str]], *, layers: str | Choice = "last") -> list[np.ndarray]:
        """Of sentences cut into words, a vector for each word: that of its first piece; zeros for a word without
        pieces, or beyond the places of the model."""
        framed = [self.words(words) for words in sentences]
        found = [np.zeros(0)] * len(sentences)
        for numbers, states, rows in self.states(Framed.of(row for row, _ in framed), layers):
            for number, vectors in zip(numbers, rows.split(states.float().cpu()), strict=True):
                places = torch.tensor(framed[number][1])
                found[number] = torch.where(places[:, None] < 0, 0.0, vectors[places]).numpy()
        return found

    def sentence_stream(self) -> SentenceStream:
        """For sentences of one text, whose vectors are to follow from those before too: a recurrent model's state is
        kept from each to the next.  `embed` and `embed_words` read every text from its own beginning."""
        return SentenceStream(self)

    def words(self, words: Sequence[str]) -> tuple[Row, list[int]]:
        """A sentence as the model reads it, and where in it the first piece of each word lies (-1: nowhere)."""
        pieces, owners = self.reading.encode_words(words)
        row = self.tokenizer.frame.row(pieces, longest=self.longest)
        offset, kept = len(self.tokenizer.frame.first), len(row[0]) - len(self.tokenizer.frame.last)
        places = [-1] * len(words)
        for place, owner in reversed(list(enumerate(owners, offset))):
            places[owner] = place if place < kept else -1
        return row, places

    def embed_tokens(
        self, texts: Sequence[str], *, layers: str | Choice = "last"
    ) -> list[tuple[list[str], np.ndarray]]:
        """The pieces of each text, special ones too, and a vector for each of them."""
        framed = [self.row(text) for text in texts]
        found: list[tuple[list[str], np.ndarray]] = [([], np.zeros(0))] * len(texts)
        for numbers, states, rows in self.states(Framed.of(framed), layers):
            for number, vectors in zip(numbers, rows.split(states.float().cpu()), strict=True):
                found[number] = [self.reading.piece(i) for i in framed[number][0]], vectors.numpy()
        return found

    @torch.inference_mode()
    def states(self, framed: Framed, layers: str | Choice = "last") -> Iterator[tuple[list[int], Tensor, Rows]]:
        """Batches of rows, the longest first: their numbers, the states of all their tokens, and where each begins."""
        choice = chosen(layers)
        for numbers, tokens, types in self.batches(framed):
            with packed(self.device):
                states = choice(list(self.model.encoder.layers(tokens, types)))
            yield numbers, states, tokens.rows

    @torch.inference_mode()
    def scores(self, role: Role, framed: Framed) -> Iterator[tuple[list[int], Tensor, Rows]]:
        """Likewise, what a head makes of them: a row of scores for each token, or for each row."""
        for numbers, tokens, types in self.batches(framed):
            with packed(self.device):
                scores = self.model.scores(role, self.model(tokens, types), tokens.rows)
            yield numbers, scores, tokens.rows

    def batches(self, framed: Framed) -> Iterator[tuple[list[int], Tokens, Tensor]]:
        budget = CACHED if self.device.type == "cpu" else BUDGET
        for numbers in sorted_batches(framed.lengths, budget):
            tokens, types = framed.batch(numbers)
            yield numbers, tokens.to(self.device), types.to(self.device)

    def framed(self, texts: Sequence[tuple[str, ...]]) -> Framed:
        """Texts, or pairs of them, as the model reads them; what is too long for it loses its end."""
        whole = array("q")
        framed = Framed.of(self.rows(texts, whole))
        return replace(framed, whole=np.frombuffer(whole, np.int64) if len(whole) else None)

    def rows(self, texts: Sequence[tuple[str, ...]], whole: array[int] | None = None) -> Iterator[Row]:
        """The row of each; `whole` is told how long it would be without truncation."""
        frame = self.tokenizer.frame
        for start in range(0, len(texts), TOGETHER):
            some = texts[start : start + TOGETHER]
            pieces = iter(self.reading.encode_batch([text for pair in some for text in pair]))
            for pair in some:
                first, second = next(pieces), next(pieces) if len(pair) == 2 else None
                if whole is not None:
                    whole.append(frame.around(len(pair)) + len(first) + len(second or ()))
                yield frame.row(first, second, self.longest)

    def rows_alone(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        """Likewise of texts by themselves, many at once, which takes less time for each."""
        for start in range(0, len(texts), TOGETHER):
            pieces = self.reading.encode_batch(list(texts[start : start + TOGETHER]))
            yield self.tokenizer.frame.rows(pieces, self.longest)

    def row(self, text: str, allow: Sequence[str] = ()) -> Row:
        """A text as the model reads it: framed, and cut where the model's places end; and its segments."""
        return self.tokenizer.frame.row(self.reading.encode(text, allow), longest=self.longest)

    @torch.inference_mode()
    def fill(self, text: str, best: int = 5) -> list[list[Filled]]:
        """For each hidden word of a text ([MASK], or <mask>), the words that fit best."""
        if "masked" not in self.model.heads:
            raise Problem("this model carries no head for hidden words; give one that was trained to fill them")
        hidden = self.tokenizer.piece(self.tokenizer.mask)
        ids, types = self.row(text, allow=(hidden,))
        places = [place for place, id in enumerate(ids) if id == self.tokenizer.mask]
        if not places:
            raise UsageProblem(f"nothing is hidden in {text!r}: write {hidden} where a word is to be found")
        tokens = Tokens.of([ids], self.device)
        states = self.model(tokens, torch.tensor(types, device=self.device))[places]
        ranked = self.model.scores("masked", states, tokens.rows).float().softmax(-1).topk(best)
        rows = zip(ranked.indices.tolist(), ranked.values.tolist(), strict=True)
        return [[Filled(self.tokenizer.decode([i]).strip(), p) for i, p in zip(*row, strict=True)] for row in rows]


def reading_of(encoder: Any, tokenizer: Tokenizer) -> Tokenizer | Spelled:
    """An encoder that reads words by their characters reads those too that the vocabulary lacks."""
    if not hasattr(getattr(encoder, "embed", None), "spell"):
        return tokenizer
    spelled = Spelled(tokenizer, encoder.config.embedding.longest)
    encoder.embed.spell(spelled)
    return spelled


def tell_others(reader: Reader) -> None:
    """Put into its tokenizer_config.json what others need to read texts as the model does: at most how many pieces,
    and whether it tells segments apart."""
    segments = ["token_type_ids"] * (reader.model.encoder.config.embedding.types > 1)
    inputs = {"model_input_names": ["input_ids", *segments, "attention_mask"]}
    settings = inputs | tokenizer_settings(reader.tokenizer) | {LONGEST: reader.longest}
    reader.tokenizer = Tokenizer.from_json(reader.tokenizer.to_json(), settings=settings)


def tokenizer_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    return json.loads(tokenizer.files()[SETTINGS])


def unknown_share(reader: Reader, inputs: Sequence[Any]) -> float:
    """How many of the tokens of inputs (a text each, or texts that belong together) are unknown; of a sample."""
    unknown = set(unknown_ids(reader.tokenizer))
    if not unknown:
        return 0.0
    sample = inputs[:: len(inputs) // SAMPLE + 1]
    rows = reader.reading.encode_batch([one if isinstance(one, str) else " ".join(one) for one in sample])
    return sum(id in unknown for row in rows for id in row) / max(sum(map(len, rows)), 1)
