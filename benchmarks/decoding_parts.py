"""How fast decoding is on a GPU, by how its kernels are launched, and without one or the other of what makes it fast: a
table, and which kernels take the time.

Random weights in bf16; every row is written to its full length.  Speeds are of the whole: reading what stands before,
all steps, tokens on the host.  Peers are not asked: that is `regard bench generate` and `regard bench translate`.

    python -m benchmarks.decoding_parts --out parts                         # about a minute on one H200
    python -m benchmarks.decoding_parts --variants compiled --out parts     # another: compiling
    python -m benchmarks.decoding_parts --variants plain --out parts        # kernel by kernel
    python -m benchmarks.decoding_parts --models translation --variants graphs graphs-without-reading --out parts
    python -m benchmarks.decoding_parts --small --device cpu --out parts    # a dry run
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.reporting import worth
from regard.attention import fixed, step
from regard.decoding import best, copies, fused, stage
from regard.decoding.beam import Beam, beam_search
from regard.decoding.decoder import Ends, prompted
from regard.decoding.generate import Limits, Writing, drafts_of, generate
from regard.decoding.sample import sample
from regard.decoding.scribe import Scribe
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens

PROMPT, NEW = 32, 128  # tokens of GPT-2's
SOURCE, TARGET, VOCAB = 16, 32, 10_000  # of a translator's
NOBODY = 1  # a token that ends a row; the head is told never to write it
KERNELS = 30  # in the table of a profile

Load = tuple[str, int, Callable[[Scribe], Any]]  # its name, what is written (tokens, sentences), and how
LACKS: dict[str, list[tuple[Any, str, Any]]] = {  # what a variant does without, and what stands in its place
    "attention": [(fixed, "one_query_can", lambda grid: False), (step, "one_query_can", lambda grid: False)],
    "choice": [(best, "kernels_run", lambda logits: False)],
    "norms": [(fused, "kernels_run", lambda states: False)],
    "tables": [(copies, "STEP", 1)],
    "reading": [(stage, "AT_ONCE", 0)],
}
VARIANTS = "graphs", *(f"graphs-without-{part}" for part in LACKS)


def options() -> Namespace:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    known = f"plain, graphs, compiled or unrecorded, or one of these with -without-{'|'.join(LACKS)}"
    parser.add_argument("--variants", nargs="+", default=VARIANTS, metavar="VARIANT", help=known)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="tiny models")
    parser.add_argument("--fewest", type=int, help="places that a step looks at, at least; as many graphs fewer")
    parser.add_argument("--out", type=Path, default=Path("runs/parts"), help="a folder for numbers and profiles")
    parser.add_argument("--results", type=Path, help="a folder of results, to add the medians to")
    return parser.parse_args()


def rows(count: int, length: int, vocab: int) -> list[list[int]]:
    return torch.randint(2, vocab, (count, length), generator=torch.Generator().manual_seed(0)).tolist()


def language(small: bool, device: str) -> tuple[torch.nn.Module, list[Load]]:
    torch.manual_seed(0)
    config = gpt2(2, 64, 2, 500) if small else gpt2()
    model = new_encoder("gpt2", config, {"write"}).model.to(device).eval()
    vocab = config.embedding.vocab

    def wrote(count: int) -> Callable[[Scribe], Any]:
        before, begin = prompted(Tokens.of(rows(count, PROMPT, vocab)))
        ends = Ends(begin, NOBODY, 0.0, NEW + 1, never=(NOBODY,))
        return lambda scribe: sample(scribe, before, ends)

    loads: list[Load] = [(f"GPT-2, {count} prompts", count * NEW, wrote(count)) for count in (1, 32)]
    return model, [*loads, ("GPT-2, 32 prompts, texts and all", 32 * NEW, texts(vocab))]


def texts(vocab: int) -> Callable[[Scribe], Any]:
    """With what is done for every token on the host."""
    from benchmarks.layout import filled
    from benchmarks.texts import sentences
    from regard.text.tokenizer import GPT, Tokenizer

    some = sentences(300)
    tokenizer = filled(Tokenizer.train("byte-bpe", some, 400, special=GPT), vocab)
    how, limits = Writing(most=NEW, temperature=0), Limits(None, 1024, min(vocab, tokenizer.size))

    def write(scribe: Scribe) -> None:
        prompts = [(text, ids) for text, ids in zip(some, tokenizer.encode_batch(some), strict=True)][:32]
        for _ in generate(scribe, drafts_of(prompts, tokenizer, how), limits, how):
            pass

    return write


def translation(small: bool, device: str) -> tuple[torch.nn.Module, list[Load]]:
    torch.manual_seed(0)
    config = transformer(2, 64, 2, 128, vocab=500) if small else transformer(vocab=VOCAB)
    model = Transformer(config).to(device).eval()
    count = 8 if small else 128
    source = Tokens.of(rows(count, SOURCE, config.embedding.vocab))
    ends = Ends(0, NOBODY, 0.0, TARGET + 1, never=(NOBODY,))
    return model, [
        ("Transformer-base greedy, 128 sentences", count, lambda scribe: sample(scribe, source, ends)),
        ("Transformer-base beam 5, 128 sentences", count, lambda scribe: beam_search(scribe, source, ends, Beam(5))),
    ]


MODELS = {"language": language, "translation": translation}


def timed(run: Callable[[], Any], repetitions: int, wait: Callable[[], None]) -> dict[str, Any]:
    seconds = []
    for _ in range(repetitions + 1):
        wait()
        start = time.perf_counter()
        run()
        wait()
        seconds.append(time.perf_counter() - start)
    return {"first": seconds[0], "median": statistics.median(seconds[1:]), "all": seconds[1:]}


def profiled(run: Callable[[], Any], on_gpu: bool) -> str:
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * on_gpu]
    with profile(activities=kinds) as found:
        run()
    order = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    return found.key_averages().table(sort_by=order, row_limit=KERNELS, max_name_column_width=90)


def measured(asked: Namespace) -> Iterator[dict[str, Any]]:
    on_gpu = asked.device != "cpu"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for kind in asked.models:
        model, loads = MODELS[kind](asked.small, asked.device)
        for variant in asked.variants:
            launch, _, lacking = variant.partition("-without-")
            scribe = Scribe(model, "bf16" if on_gpu else "float32", launch)
            with without(lacking):
                for name, amount, run in loads:
                    found = timed(partial(run, scribe), asked.repetitions, wait)
                    row = {"load": name, "variant": variant, "speed": amount / found["median"], **found}
                    print(f"{name:42} {variant:26} {row['speed']:10,.0f}/s  first {found['first']:6.2f} s", flush=True)
                    if variant in ("graphs", "compiled", "unrecorded"):
                        with (asked.out / "profiles.txt").open("a") as file:
                            file.write(f"{name}, {variant}\n{profiled(partial(run, scribe), on_gpu)}\n\n")
                    yield row


@contextmanager
def without(lacking: str) -> Iterator[None]:
    with ExitStack() as stack:
        for place, name, value in LACKS[lacking] if lacking else ():
            stack.enter_context(patch.object(place, name, value))
        yield


def main() -> None:
    asked = options()
    if asked.device != "cpu" and not torch.cuda.is_available():
        sys.exit("decoding_parts: no GPU here; try --small --device cpu")
    if asked.fewest:
        stage.FEWEST = asked.fewest
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "profiles.txt").unlink(missing_ok=True)
    numbers: dict[str, Any] = {"torch": torch.__version__, "rows": list(measured(asked))}
    (asked.out / "parts.json").write_text(json.dumps(numbers, indent=1) + "\n")
    for load in dict.fromkeys(row["load"] for row in numbers["rows"]) if asked.results else ():
        some = {row["variant"]: row for row in numbers["rows"] if row["load"] == load}
        rows = {
            name: {"ms": [1e3 * of(row["all"]) for of in (statistics.median, min, max)]} for name, row in some.items()
        }
        worth(load, rows, "benchmarks.decoding_parts", asked.results)


if __name__ == "__main__":
    main()
