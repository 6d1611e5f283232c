"""serve: models and the page over HTTP."""

from __future__ import annotations

import ipaddress
import logging
import re
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.box import boxes
from regard.commands.load import load
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.layers.lowered import Precision
    from regard.server.guard import Guard
    from regard.server.limits import Limits
    from regard.server.shelf import Named, Shelf

HOST, PORT = "127.0.0.1", 8000
TOLD = re.compile(r"(?:.*[-_.])?([a-z]{2})-([a-z]{2})")  # a name that ends in languages, as opus-mt-de-en does
GIVEN = re.compile(r"(?:(?P<name>[^=/]+)=)?(?P<folder>.+?)(?::(?P<source>[a-z]{2,3})-(?P<target>[a-z]{2,3}))?")
LANGUAGES = "regard_languages"  # in the config.json of a translator: from which language, into which


def serve(
    models: Sequence[str] = (),
    host: str = HOST,
    port: int = PORT,
    *,
    key: str = "",
    allow_hosts: Sequence[str] = (),
    device: str | None = None,
    precision: Precision = "float32",
    limits: Limits | None = None,
) -> bool:
    """Serve models until a signal comes: folders, NAME=FOLDER, or of translators FOLDER:de-en; without any, those in
    the box.  Whether all that was accepted was answered."""
    wants_extra()
    from regard.server.app import application
    from regard.server.guard import Doors, is_loopback
    from regard.server.limits import Limits
    from regard.server.memory import bound_native_memory
    from regard.server.running import listening
    from regard.server.shelf import Shelf

    if not (key.isascii() and key.isprintable()) or key != key.strip():
        raise UsageProblem("the key has characters that not every client can send; take letters and digits")
    socket = listening(host, port)
    bound_native_memory()
    shelf = Shelf(named(models or in_the_box(), device, precision), limits or Limits())
    if not key and not is_loopback(host):
        print(f"warning: everyone who reaches {host} can use this server; give it a --key", file=sys.stderr)
    return run(shelf, application(shelf, Doors.of(host, tuple(allow_hosts), key)), socket)


def serve_look(looks: Sequence[Any], host: str = HOST, port: int = PORT, open: bool = True, start: str = "") -> bool:
    """Show looks that are made already on the page, until a signal comes; `start` is what its address ends in."""
    wants_extra()
    from regard.server.app import application
    from regard.server.guard import Doors
    from regard.server.running import listening
    from regard.server.shelf import Shelf

    shelf = Shelf()
    return run(shelf, application(shelf, Doors.of(host), looks), listening(host, port), open, start)


def run(shelf: Shelf, guard: Guard, socket: Any, open: bool = False, start: str = "") -> bool:
    from regard.server.running import Server

    address = address_of(*socket.getsockname()[:2]) + (f"/#{start}" if start else "")

    def ready() -> None:
        print(f"regard is at {address}", flush=True)
        if open:
            webbrowser.open(address)

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    server = Server(guard, ready)
    server.run([socket])
    shelf.close()
    return server.drained


def address_of(host: str, port: int) -> str:
    """Where a browser finds it."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return f"http://localhost:{port}"
    return f"http://[{host}]:{port}" if address.version == 6 else f"http://{host}:{port}"


def wants_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Problem(f"serving needs {error.name}: pip install 'regard[serve]'") from None


def in_the_box() -> list[str]:
    found = [f"{name}={folder}" for name, folder in boxes().items()]
    if not found:
        raise UsageProblem("no model is named; give the folder of one: regard serve FOLDER")
    return found


def named(models: Sequence[str], device: str | None, precision: Precision = "float32") -> list[Named]:
    """Models loaded, each by a name of its own."""
    from regard.server.shelf import Named
    from regard.tasks.translate import Translator

    found: dict[str, Named] = {}
    for given in models:
        name, folder, languages = parsed(given)
        if name in found:
            raise UsageProblem(f"two models are called {name!r}; name one of them otherwise: NAME={folder}")
        model = load(folder, device, precision)
        if languages and not isinstance(model, Translator):
            raise UsageProblem(f"{given}: languages are for translators; leave out :{'-'.join(languages)}")
        if isinstance(model, Translator):
            languages = languages or declared(Path(folder)) or told_by(name)
        found[name] = Named(name, model, languages)
    return list(found.values())


def parsed(given: str) -> tuple[str, str, tuple[str, str] | None]:
    """NAME=FOLDER:de-en, of which only the folder is needed.  A folder that there is keeps its name whole."""
    match = GIVEN.fullmatch(given)
    if Path(given).exists() or match is None:
        return name_of(given), given, None
    folder, pair = match["folder"], (match["source"], match["target"])
    return match["name"] or name_of(folder), folder, pair if pair[0] else None


def name_of(folder: str) -> str:
    path = Path(folder).resolve()
    return path.parent.name if path.name == "model" else path.name


def told_by(name: str) -> tuple[str, str] | None:
    match = TOLD.fullmatch(name)
    return (match[1], match[2]) if match else None


def declared(folder: Path) -> tuple[str, str] | None:
    """The languages that a translator's folder tells."""
    from regard.commands.run_folder import INITIAL, MODEL
    from regard.models.folder import CONFIG, read_json

    places = (folder / place / CONFIG for place in ("", MODEL, INITIAL))
    path = next((path for path in places if path.exists()), None)
    if path is None:
        return None
    _, says = read_json(path)
    languages = says.get(LANGUAGES)
    if isinstance(languages, list) and len(languages) == 2 and all(isinstance(code, str) for code in languages):
        return languages[0], languages[1]
    return None
