"""The command that hears."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.app import app, default_sigpipe
from regard.cli.options import Device, Json, Model, PrecisionInUse
from regard.commands.predict import as_json


@app.command()
def transcribe(
    files: Annotated[list[Path], Argument(help="Recordings: WAV; others (FLAC, ...) with regard[audio].")],
    model: Model,
    beam: Annotated[int, Option(help="Texts kept at each frame; 1: the likeliest letter of each.", min=1)] = 1,
    language_model: Annotated[
        Path | None, Option(metavar="MODEL", help="A language model that judges the words of a search.")
    ] = None,
    weight: Annotated[float, Option(help="Of what the language model says.")] = 0.5,
    bonus: Annotated[float, Option(help="For each word, with a language model.")] = 1.0,
    words: Annotated[bool, Option("--words", help="Print each word: from which second, to which, the word.")] = False,
    json_: Json = False,
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """Write down what is said in recordings: a line for each, after its name where there are several."""
    from regard.commands.transcribe import transcribe as run
    from regard.decoding.ctc import PrefixBeam

    default_sigpipe()
    how = PrefixBeam(max(beam, 10) if language_model and beam == 1 else beam, weight, bonus)
    found = run(model, files, how, language_model=language_model, device=device, precision=precision)
    for file, transcript in zip(files, found, strict=True):
        if json_:
            print(json.dumps({"file": str(file), **as_json(transcript)}, ensure_ascii=False), flush=True)
        elif words:
            print(
                *(f"{word.start:.2f}\t{word.end:.2f}\t{word.text}" for word in transcript.words), sep="\n", flush=True
            )
        else:
            print(transcript.text if len(files) == 1 else f"{file}\t{transcript.text}", flush=True)
