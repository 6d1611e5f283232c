"""The models that are served, by name, and what each of them can do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from regard.errors import Problem
from regard.server.errors import Refused, late
from regard.server.limits import Limits
from regard.server.metrics import Metrics
from regard.server.queue import Desk, Kind, Work
from regard.tasks.finetuned import Finetuned
from regard.tasks.image import PictureReader
from regard.tasks.reader import Reader, reading_of
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.text.spelled import Spelled

T = TypeVar("T")
Model = Reader | Finetuned | Translator
CLASSIFIERS = ("classify", "pair", "similar", "multi-label", "regress", "reward")
ON_CPU, ON_GPU = 4096, 16_384  # tokens computed together: a processor's caches hold few, a GPU is idle with few
RENEWED = 2**20  # tokens after which a vocabulary that grows is made anew


@dataclass(frozen=True)
class Named:
    """A model to be served; of a translator perhaps from which language into which."""

    name: str
    model: Model
    languages: tuple[str, str] | None = None


class Served:
    """A model on the shelf, with the desk at which it works.

    A vocabulary that gives ids to every new word (ELMo's) would grow for ever.  It is made anew once enough was read
    and nobody uses it; if that does not come by itself, those who ask are told to wait a moment.
    """

    def __init__(self, named: Named, limits: Limits, metrics: Metrics):
        self.name, self.languages = named.name, named.languages
        self.model: Any = named.model
        if isinstance(self.reader, PictureReader):  # a client's text would be the path of a file here
            raise Problem(f"{self.name} reads pictures, and is not served; use it by: regard look, regard classify")
        self.model.model.eval()
        self.tasks = tasks_of(self.model)
        self.desk = Desk(self.name, limits, metrics)
        on_cpu = next(self.model.model.parameters()).device.type == "cpu"
        self.budget = limits.batch or (ON_CPU if on_cpu else ON_GPU)
        self.users = 0  # requests that hold ids of the vocabulary
        self.read = 0  # tokens since it was made

    @cached_property
    def reader(self) -> Any:
        """What reads text: the model itself, or the encoder of one that was fine-tuned."""
        return self.model.reader if isinstance(self.model, Finetuned) else self.model

    @contextmanager
    def used(self) -> Iterator[None]:
        """While a request is answered."""
        if self.read > 2 * RENEWED and self.users:
            raise Refused(503, f"the words of {self.name} are sorted anew", headers={"Retry-After": "1"})
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            if self.read > RENEWED and not self.users:
                self.reader.reading, self.read = reading_of(self.reader.model.encoder, self.reader.tokenizer), 0

    def count(self, tokens: int) -> None:
        """So many were read, of which each may have been a new word."""
        if self.grows:
            self.read += tokens

    @cached_property
    def grows(self) -> bool:
        return isinstance(getattr(self.reader, "reading", None), Spelled)

    def asks(self, work: Work, name: Hashable) -> Kind:
        """Something that is asked of the model, which reads whole rows at once."""
        return Kind(work, name, self.budget)

    @property
    def kind(self) -> str:
        """What it is made of, as far as the page needs to know what it reads."""
        if isinstance(self.model, Translator):
            return "encoder-decoder"
        return "decoder" if isinstance(self.model, Writer) else "encoder"


def tasks_of(model: Model) -> tuple[str, ...]:
    if isinstance(model, Translator):
        return ("translate", "look")
    if isinstance(model, Finetuned):
        task = "classify" if model.name in CLASSIFIERS else model.name
        return ("embed", "look") if task == "choose" else (task, "embed", "look")
    if isinstance(model, Writer):
        return ("complete", "embed", "look")
    return ("fill", "embed", "look") if "masked" in model.model.heads else ("embed", "look")


class Shelf:
    """Nothing is put on it once it is served: a client can choose among these models, and no others."""

    def __init__(self, models: Iterable[Named] = (), limits: Limits | None = None, metrics: Metrics | None = None):
        self.limits, self.metrics = limits or Limits(), metrics or Metrics()
        self.models = {named.name: Served(named, self.limits, self.metrics) for named in models}
        self.reading = ThreadPoolExecutor(1, "reading")  # one at a time: some vocabularies learn words as they read

    def find(self, task: str, name: str | None = None) -> Served:
        """The model of a name, or the first that can do this."""
        if name is None:
            able = [one for one in self.models.values() if task in one.tasks]
            if not able:
                raise Refused(404, f"no model here can {task}", "model")
            return able[0]
        if name not in self.models:
            raise Refused(404, f"there is no model {name[:100]!r}; there are: {', '.join(self.models)}", "model")
        if task not in self.models[name].tasks:
            raise Refused(400, f"{name} cannot {task}; it can {', '.join(self.models[name].tasks)}", "model")
        return self.models[name]

    @property
    def stuck(self) -> list[str]:
        return [name for name, one in self.models.items() if one.desk.stuck]

    async def aside(self, call: Callable[..., T], *given: Any) -> T:
        """Let a vocabulary do its work in another thread, so that others are answered meanwhile."""
        working = asyncio.get_running_loop().run_in_executor(self.reading, call, *given)
        try:
            return await asyncio.wait_for(working, self.limits.deadline)
        except TimeoutError:
            raise late(self.limits.deadline) from None

    def close(self) -> None:
        for one in self.models.values():
            one.desk.close()
        self.reading.shutdown(wait=False, cancel_futures=True)


def check_count(count: int, limits: Limits, param: str) -> None:
    if count < 1:
        raise Refused(400, f"{param} is empty; give a text", param)
    if count > limits.inputs:
        raise Refused(413, f"{param} has {count:,} texts, and {limits.inputs:,} are allowed; send fewer", param)


def as_list(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
