"""Looking at what reads a text, and at what goes on with one.

Letters: B rows, N tokens, V vocabulary, W width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.generate import Writing
from regard.errors import Problem
from regard.layers.pooling import last
from regard.rows import Tokens
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Reader
from regard.tasks.task import is_multi_label, label_names
from regard.tasks.transformation import is_causal
from regard.tasks.writer import Writer
from regard.text.vocabulary import MASKS
from regard.viewer.explain import Question
from regard.viewer.look import Attending, Look
from regard.viewer.seen import (
    LONGEST,
    TOGETHER,
    Seen,
    best,
    blank_of,
    chances,
    check_pieces,
    explainer,
    side_of,
    specials_of,
    told_of_length,
    watching,
    words_of,
)


@dataclass(frozen=True, eq=False)
class Read:
    """A row of tokens, and what the model is asked of them: a role of its heads, or nothing."""

    reader: Reader
    ids: list[int]
    types: list[int]
    role: str | None = None

    @property
    def at(self) -> int | None:
        """The token whose state a classifier reads; None: each token is asked for itself."""
        if self.role != "classify":
            return None
        return len(self.ids) - 1 if getattr(self.reader.model.heads["classify"], "pool", None) is last else 0

    @property
    def multi_label(self) -> bool:
        """Whether each label has a probability of its own."""
        return self.role == "classify" and is_multi_label(self.reader.published)

    def states(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tokens]:
        """The states of such rows, (N, W)."""
        tokens = Tokens.of(rows, self.reader.device)
        types = torch.tensor(self.types[: len(rows[0])] * len(rows), device=self.reader.device)
        return self.reader.model(tokens, types), tokens

    def scores(self, states: Tensor, tokens: Tokens, query: int) -> Tensor:  # (N, W) -> (B, V), or (B, W) of a state
        model, asked = self.reader.model, states[tokens.rows.first + query]
        if self.role == "classify" and query == self.at:
            return model.scores("classify", states, tokens.rows)
        if self.role in ("tag", "masked", "write"):
            return model.scores(self.role, asked, tokens.rows)
        return asked

    def question(self, query: int) -> Question:
        """The output at a token, as a function of the tokens that it may have seen."""
        ids = self.ids if not is_causal(self.reader.model) else self.ids[: query + 1]
        with torch.inference_mode():
            scores = self.scores(*self.states([ids]), query)
        follows = self.role == "write" and query + 1 < len(self.ids)
        wanted = self.ids[query + 1] if follows else int(scores[0].argmax())
        is_state = self.role is None or (self.role == "classify" and query != self.at)

        def answer(rows: list[list[int]]) -> Tensor:
            found = self.scores(*self.states(rows), query)
            return found if is_state else chances(found, wanted, multi_label=self.multi_label)

        return Question(self.reader.model, ids, answer, lambda name: True, blank_of(self.reader.tokenizer))


EXPLAINED = {None: ["state"], "classify": ["label", "state"], "tag": ["label"], "masked": ["token"], "write": ["token"]}


def look_at_reading(model: Reader | Finetuned, text: str, second: str | None, name: str) -> Look:
    """An encoder, with its task if it has one; or what reads in both directions."""
    reader = model.reader if isinstance(model, Finetuned) else model
    role = asked_of(model, reader)
    pieces, ids, types = framed(reader, text, second)
    read = Read(reader, ids, types, role)
    with watching(reader.model) as seen:
        states, tokens = read.states([ids])
        seen.part()
        predictions = predicted(read, states, tokens)
    notes = told_of_length(pieces, len(ids)) + projected(seen)
    if second is not None and isinstance(model, Finetuned) and getattr(model.task, "symmetric", False):
        notes.append("The task asks both orders of a pair and takes the mean: this is the first of them.")
    return made(read, seen, name, notes, predictions)


def asked_of(model: Reader | Finetuned, reader: Reader) -> str | None:
    if isinstance(model, Finetuned):
        return model.task.role if model.task.role in ("classify", "tag") else None
    return "masked" if "masked" in reader.model.heads else None


def framed(reader: Reader, text: str, second: str | None) -> tuple[int, list[int], list[int]]:
    """How many pieces a text has, and as many of them as are read, with their segments.  What hides a word is read."""
    fills = "masked" in reader.model.heads
    hidden = [name for name in MASKS if fills and reader.tokenizer.special(name) is not None]
    texts = [text] if second is None else [text, second]
    rows = [reader.reading.encode(one, [name for name in hidden if name in one]) for one in texts]
    for row, one in zip(rows, texts, strict=True):
        check_pieces(row, one)
    frame = reader.tokenizer.frame
    ids, types = frame.row(rows[0], rows[1] if second else None, min(reader.longest, LONGEST))
    return sum(map(len, rows)) + frame.around(len(rows)), ids, types


def predicted(read: Read, states: Tensor, tokens: Tokens) -> list[dict[str, Any]]:
    """What fills each hidden word; the labels of a text, or of each token."""
    reader, at = read.reader, read.at
    if read.role == "masked":
        hidden = {reader.tokenizer.special(name) for name in MASKS}
        places = [place for place, id in enumerate(read.ids) if id in hidden]
        scores = reader.model.scores("masked", states[places], tokens.rows)
        return listed(places, words_of([scores], reader.tokenizer))
    if read.role not in ("classify", "tag"):
        return []
    names = label_names(reader.published, read.role)  # type: ignore[arg-type]
    if len(names) == 1 and not read.multi_label:  # a number, which has no probability
        return []
    specials = specials_of(reader.tokenizer)
    places = [at] if at is not None else [place for place, id in enumerate(read.ids) if id not in specials]
    scores = reader.model.scores(read.role, states if at is not None else states[places], tokens.rows)
    return listed(places, best(scores, lambda label: names[label], multi_label=read.multi_label))


def listed(places: Sequence[int], tops: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"at": place, "top": top} for place, top in zip(places, tops, strict=True)]


def reads_on(writer: Writer) -> bool:
    """Whether it tells what comes next; some language models read backwards, or both ways."""
    return getattr(writer.model.encoder.config, "way", "forward") == "forward"


def look_at_writing(writer: Writer, text: str, write: int, name: str) -> Look:
    """A language model, which goes on with the text first if it is asked to."""
    ids, notes = writer.begun([text])[0], list[str]()
    check_pieces(ids, text)
    places = min(writer.limits.places, LONGEST)
    if len(ids) + write > places:
        raise Problem(
            f"the text has {len(ids):,} tokens, {write:,} are to be written, and {places:,} can be read; shorten it"
        )
    added = writer.generate([text], Writing(most=write, temperature=0.0))[0].tokens if write else []
    if len(added) < write:
        notes.append(f"The text ended after {len(added)} of the {write} tokens that it was to go on with.")
    read = Read(writer, [*ids, *added], [0] * (len(ids) + len(added)), "write")
    with watching(writer.model) as seen:
        told = words_of(replayed(writer, ids, added, seen), writer.tokenizer)[:-1]
    notes += told_of_length(len(read.ids), len(read.ids)) + projected(seen)
    return made(read, seen, name, notes, listed(range(1, len(read.ids)), told))


def replayed(writer: Writer, ids: list[int], added: list[int], seen: Seen) -> Iterator[Tensor]:  # (N, V) each
    """The text is read, and then a token after the other as it was written; the logits of what comes next."""
    model = writer.model
    states, state = model.read(Tokens.of([ids], writer.device))
    seen.part()
    yield from (model.logits(some) for some in states.split(TOGETHER))
    for token in added:
        logits, state = model.step(torch.tensor([token], device=writer.device), state)
        seen.part()
        yield logits


def projected(seen: Seen) -> list[str]:
    sizes = {(ran.width, ran.projected) for ran in seen.runs if ran.projected}
    return [
        f"States are projected from {width} numbers to {fewer}: those beyond are shown as 0." for width, fewer in sizes
    ]


def made(read: Read, seen: Seen, name: str, notes: list[str], predictions: list[dict[str, Any]]) -> Look:
    reader, model = read.reader, read.reader.model
    layers, states = seen.layers(slice(None), lambda name: True), seen.states(slice(None), "text")
    causal = is_causal(model)
    kind = "recurrent" if not layers else "decoder" if causal else "encoder"
    attentions = []
    if layers:
        explain = explainer(model, kind, read.question)
        told = EXPLAINED[read.role]
        attentions = [Attending(kind, kind.capitalize(), "text", "text", layers, causal, told, explain)]
    family = str(reader.published.theirs["model_type"])
    side = side_of(read.ids, reader.reading, specials_of(reader.tokenizer))
    output = {"side": "text", "predictions": predictions}
    return Look(name or family, family, kind, {"text": side}, attentions, states, notes, output)  # type: ignore[arg-type]
