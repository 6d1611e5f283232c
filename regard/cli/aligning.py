"""The command that teaches a language model what is preferred."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.app import app
from regard.cli.options import ChangedData, Encoding, Header, Precision, SkipBad, reading
from regard.commands.align_settings import ALIGNING, Way


@app.command()
def align(
    model: Annotated[str, Argument(help="A language model: a folder, or a name on the hub.")],
    reward: Annotated[Path | None, Option(help="PPO: a reward model, from: regard finetune MODEL reward.")] = None,
    prompts: Annotated[Path | None, Option(help="PPO: texts to write on from, one a line; or a table.")] = None,
    objective: Annotated[
        Way, Option(help="clipped: PPO, from a reward model; direct: from pairs of texts.")
    ] = ALIGNING.objective,
    train: Annotated[Path | None, Option(help="direct: JSON lines with chosen, rejected, perhaps prompt.")] = None,
    dev: Annotated[Path | None, Option(help="The same, held out: prompts, or pairs.")] = None,
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    most: Annotated[int, Option(help="PPO: tokens to write.")] = ALIGNING.most,
    texts: Annotated[int, Option(help="PPO: texts that are written before steps learn from them.")] = ALIGNING.texts,
    passes: Annotated[int, Option(help="PPO: times they are learned from.")] = ALIGNING.passes,
    steps: Annotated[int, Option(help="PPO: steps of the optimizer.")] = ALIGNING.steps,
    clip: Annotated[float, Option(help="PPO: a chance changes by this share at most.")] = ALIGNING.clip,
    value_weight: Annotated[float, Option(help="PPO: of the value's loss.")] = ALIGNING.value_weight,
    discount: Annotated[float, Option(help="PPO: what a reward counts a token earlier.")] = ALIGNING.discount,
    trace: Annotated[float, Option(help="PPO: GAE's lambda.")] = ALIGNING.trace,
    kl: Annotated[float, Option(help="PPO: what a nat of KL costs at first, and at least.")] = ALIGNING.kl,
    target_kl: Annotated[float, Option(help="PPO: nats of KL a text, to which that price leads.")] = ALIGNING.target_kl,
    kl_gain: Annotated[float, Option(help="PPO: how fast the price follows; 0: it stays.")] = ALIGNING.kl_gain,
    beta: Annotated[float, Option(help="direct: how much it holds to where it began.")] = ALIGNING.beta,
    epochs: Annotated[float, Option(help="direct: times all pairs are read.")] = ALIGNING.epochs,
    longest: Annotated[int, Option(help="direct: pieces of a row that are read.")] = ALIGNING.longest,
    ends: Annotated[
        bool, Option("--ends/--break-off", help="direct: texts are whole, or break off somewhere.")
    ] = ALIGNING.ends,
    batch: Annotated[int, Option(help="Texts a step, or pairs.")] = ALIGNING.batch,
    rate: Annotated[float, Option(help="The highest learning rate; 0: by the model's width.")] = ALIGNING.rate,
    warmup: Annotated[float, Option(help="Share of the steps over which it rises.")] = ALIGNING.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = ALIGNING.weight_decay,
    precision: Precision = "",
    evaluate_every: Annotated[int, Option(help="Steps; 0: ten times in all.")] = ALIGNING.evaluate_every,
    save_every: Annotated[int, Option(help="Steps between checkpoints; 0: ten in all.")] = ALIGNING.save_every,
    report_every: Annotated[int, Option(help="Steps between reports.")] = ALIGNING.report_every,
    seed: Annotated[int, Option(help="Of everything random.")] = ALIGNING.seed,
    header: Header = None,
    skip_bad: SkipBad = 0,
    encoding: Encoding = "utf-8",
    allow_changed_data: ChangedData = False,
) -> None:
    """Teach a language model what is preferred."""
    from regard.commands.align import align as run

    run(
        model, prompts=prompts, out=out, allow_changed_data=allow_changed_data, objective=objective,
        train=train or "", dev=dev or "", reward=reward or "", most=most, texts=texts, passes=passes, steps=steps,
        clip=clip, value_weight=value_weight, discount=discount, trace=trace, kl=kl, target_kl=target_kl,
        kl_gain=kl_gain, beta=beta, epochs=epochs, longest=longest, ends=ends, batch=batch, rate=rate, warmup=warmup,
        weight_decay=weight_decay, precision=precision, evaluate_every=evaluate_every, save_every=save_every,
        report_every=report_every, seed=seed, reading=reading(header=header, skip_bad=skip_bad, encoding=encoding),
    )  # fmt: skip
