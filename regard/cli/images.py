"""The command that learns to label pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.options import ChangedData, Header, Label, Precision, Settings, reading
from regard.cli.training import Launching, train_app
from regard.commands.picture_settings import PICTURES, Crop, Distillation
from regard.training.settings import Schedule

AUGMENT = PICTURES.augment


@train_app.command("image")
def train_image(
    data: Annotated[
        list[Path],
        Argument(help="A folder of classes, a table of paths and labels, IDX files, or an archive: FILE.tar/train."),
    ],
    dev: Annotated[Path | None, Option(help="To choose the best weights by; by default a tenth is held out.")] = None,
    test: Annotated[Path | None, Option(help="Scored at the end.")] = None,
    model: Annotated[str, Option(help="A preset; or a folder or a name on the hub, to go on from.")] = "vit-cifar",
    out: Annotated[Path | None, Option(help="The run's folder; the same again goes on with it.")] = None,
    cache: Annotated[Path | None, Option(help="Where decoded pictures go, for other runs to use too.")] = None,
    text: Annotated[str | None, Option(metavar="COLUMN", help="Of a table, the column of paths.")] = None,
    label: Label = None,
    header: Header = None,
    teacher: Annotated[Path | None, Option(help="The folder of a model that labels these pictures.")] = None,
    distillation: Annotated[
        Distillation, Option(help="Learn the teacher's best label, or how likely it finds each.")
    ] = PICTURES.distillation,
    teacher_weight: Annotated[
        float | None, Option(help="Of what it says; by default 0.5 of hard, 0.1 of soft.")
    ] = PICTURES.teacher_weight,
    temperature: Annotated[float, Option(help="By which a soft teacher is softened.")] = PICTURES.temperature,
    flip: Annotated[bool, Option(help="Exchange left and right at random.")] = AUGMENT.flip,
    crop: Annotated[Crop, Option(help="none, padded or resized; by default as large as the pictures.")] = AUGMENT.crop,
    degrees: Annotated[float, Option(help="Turn and slant by up to.")] = AUGMENT.degrees,
    recolour: Annotated[float, Option(help="Brightness, contrast, colour, sharpness, by up to.")] = AUGMENT.recolour,
    changed: Annotated[
        float, Option(help="How often a picture is turned, and how often recoloured.")
    ] = AUGMENT.changed,
    one_of_many: Annotated[
        float, Option(help="How often one change of many, of any strength, is made (TrivialAugment).")
    ] = AUGMENT.one_of_many,
    reach: Annotated[float, Option(help="Of how far that one may turn, slant and move a picture.")] = AUGMENT.reach,
    erase: Annotated[float, Option(help="How often a rectangle is erased.")] = AUGMENT.erase,
    blend: Annotated[float, Option(help="Mixup's strength; 0: none.")] = AUGMENT.blend,
    cut: Annotated[float, Option(help="CutMix's strength; 0: none.")] = AUGMENT.cut,
    mixed: Annotated[float, Option(help="How often pictures are mixed.")] = AUGMENT.mixed,
    smoothing: Annotated[float, Option(help="Label smoothing.")] = PICTURES.smoothing,
    epochs: Annotated[float, Option(help="Times all is read; 0: 100 from nothing, 5 to go on.")] = PICTURES.epochs,
    batch: Annotated[int, Option(help="Pictures a step.")] = PICTURES.batch,
    rate: Annotated[float, Option(help="The highest learning rate; 0: by where it begins.")] = PICTURES.rate,
    schedule: Annotated[Schedule, Option(help="How it falls after warm-up.")] = PICTURES.schedule,
    warmup: Annotated[float, Option(help="Share of the steps over which it rises.")] = PICTURES.warmup,
    weight_decay: Annotated[float, Option(help="AdamW's decay of matrices.")] = PICTURES.weight_decay,
    evaluations: Annotated[int, Option(help="How often dev is looked at.")] = PICTURES.evaluations,
    precision: Precision = "",
    launch: Launching = PICTURES.launch,
    seed: Annotated[int, Option(help="Of everything random.")] = PICTURES.seed,
    settings: Settings = None,
    allow_changed_data: ChangedData = False,
) -> None:
    """Train a model that labels pictures."""
    from regard.commands.train import train as run

    augment = {
        "flip": flip, "crop": crop, "degrees": degrees, "recolour": recolour, "changed": changed,
        "one_of_many": one_of_many, "reach": reach, "erase": erase, "blend": blend, "cut": cut, "mixed": mixed,
    }  # fmt: skip
    files = {"dev": str(dev or ""), "test": str(test or ""), "teacher": str(teacher or "")}
    run(
        "image", model=model, out=out, set=tuple(settings or ()), allow_changed_data=allow_changed_data, cache=cache,
        train=[str(path) for path in data], **files, reading=reading(text, label=label, header=header),
        augment=augment, smoothing=smoothing, distillation=distillation, teacher_weight=teacher_weight,
        temperature=temperature, epochs=epochs, batch=batch, rate=rate, schedule=schedule, warmup=warmup,
        weight_decay=weight_decay, evaluations=evaluations, precision=precision, launch=launch, seed=seed,
    )  # fmt: skip
