"""What recipes/objectives.py compares: what is asked of which model, at which budgets, and on which tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recipes import encoders
from recipes.encoders import THEN
from regard.commands.glue import GLUE
from regard.text.tokenizer import ENCODER, SPECIAL, T5
from regard.training.settings import Launch

WIDTH, LAYERS = 256, 6
STACK = (
    f"embedding.width={WIDTH}", f"stack.layers={LAYERS}", f"stack.block.width={WIDTH}",
    f"stack.block.inner={4 * WIDTH}", "stack.block.attention.heads=4",
)  # fmt: skip
SIDES = tuple(
    f"{side}.{one}" for side in ("encoder", "decoder")
    for one in (f"layers={LAYERS // 2}", f"block.width={WIDTH}", f"block.inner={4 * WIDTH}", "block.attention.heads=4")
)  # fmt: skip
TWO_WAYS = (
    f"embedding.width={WIDTH}", f"recurrent.width={2 * WIDTH}", f"recurrent.last={WIDTH}", "embedding.dropout=0.1",
    "recurrent.dropout=0.1", "dropout=0.1",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A line of the table: what is asked, of which preset in this shape, and at which rate."""

    objective: str
    preset: str
    set: tuple[str, ...] = STACK
    rate: float = 7e-4
    text: str = "encoder"  # how the text is encoded
    launch: Launch = "graphs"

    @property
    def stages(self) -> list[str]:
        return self.objective.split(THEN)


ROWS = {
    "next": Row("next", "gpt2-mini", text="whole"),
    "both": Row("both", "bilstm", TWO_WAYS, 2e-3, "whole"),  # two ways that never meet: recurrent ones are there
    "masked": Row("masked", "bert-mini"),
    "next-sentence": Row("masked+next-sentence", "bert-mini"),
    "order": Row("masked+order", "bert-mini"),
    # At once and from nothing its discriminator does not learn at this size (recipes/encoders.py)
    "replaced": Row(f"masked{THEN}replaced", "electra-small"),
    # T5's distances are no part of a graph
    "spans": Row("spans", "t5-tiny", (f"embedding.width={WIDTH}", *SIDES), 1e-3, "spans", "compiled"),
}
NOTHING = Row("nothing", "bert-mini")  # what comes of fine-tuning alone
SPECIALS = {"encoder": ENCODER, "whole": SPECIAL, "spans": T5}
# Many small steps: the first thousand or so teach hidden words their frequency, and little else
SETTINGS: dict[str, Any] = {
    "longest": 128, "budget": 4096, "warmup": 0.05, "generator": 0.5,
    "relative": False,  # T5 learns as all others do
}  # fmt: skip
# All parts of all models learn from the first step on
TUNING: dict[str, Any] = {"longest": 128, "epochs": 3.0, "ulmfit": False}
BUDGETS, SEEDS, VOCABULARY = (1e14, 3.2e14, 1e15), 3, 16_000
FILES = {"SST-2": ("sst2/sentence-level/train.tsv", "sst2/sentence-level/dev.tsv")}  # train and dev of each task
FILES |= {task: encoders.FILES[task] for task in ("CoLA", "MRPC", "RTE", "STS-B")}
METRICS = {task: GLUE[task].scores[0] for task in FILES}
