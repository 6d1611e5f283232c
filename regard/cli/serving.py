"""The command that serves models."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from typer import Argument, Option

from regard.cli.app import app
from regard.cli.options import Device, PrecisionInUse
from regard.commands.serve import HOST, PORT

KEY = "REGARD_KEY"


@app.command()
def serve(
    models: Annotated[
        list[str] | None,
        Argument(metavar="MODEL", help="FOLDER, NAME=FOLDER, of a translator FOLDER:de-en; by default the box's."),
    ] = None,
    host: Annotated[str, Option(help="The address to listen on; by default only this machine reaches it.")] = HOST,
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free.")] = PORT,
    key: Annotated[str, Option(help=f"What clients must give; better in {KEY}, where others do not see it.")] = "",
    allow_host: Annotated[list[str] | None, Option(metavar="NAME", help="Another name that the server has.")] = None,
    requests: Annotated[int, Option(min=1, help="That may be open; the next is told to come again.")] = 256,
    tokens: Annotated[int, Option(min=1, help="That may wait for a model.")] = 131_072,
    batch: Annotated[int, Option(min=0, help="Tokens computed together; 0: what suits the device.")] = 0,
    deadline: Annotated[float, Option(help="Seconds within which a request must be answered.")] = 60.0,
    grace: Annotated[float, Option(help="Seconds for what was accepted, once the server is told to end.")] = 30.0,
    device: Device = None,
    precision: PrecisionInUse = "float32",
) -> None:
    """Serve models and the page: OpenAI's and LibreTranslate's shapes, and /docs for the rest."""
    from regard.commands.serve import serve as run
    from regard.commands.serve import wants_extra

    wants_extra()
    from regard.server.limits import Limits

    limits = Limits(requests=requests, tokens=tokens, batch=batch, deadline=deadline, grace=grace)
    secret, others = key or os.environ.get(KEY, ""), allow_host or []
    where = models or [], host, port
    if not run(*where, key=secret, allow_hosts=others, device=device, precision=precision, limits=limits):
        raise typer.Exit(1)
