"""One HTML file that shows Looks in any browser, offline: the page's style and script, headers and blocks.

It asks for nothing: its policy lets only its own script and style run, known by their hashes, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.errors import Problem
from regard.viewer.contents import ROUNDED, contents
from regard.viewer.join import joined, read_part
from regard.viewer.view import View

if TYPE_CHECKING:
    from regard.viewer.look import Look

PAGE = Path(__file__).parent / "page"
LIMIT = 32_000_000  # bytes of blocks in a file, and in a notebook's cell
NOTEBOOK_LIMIT = 9_000_000
HEIGHT = 720  # pixels of a notebook's cell
MEGABYTE = 1_000_000
CHARSET = '<meta charset="utf-8">'
SHEET = re.compile(r'[ \t]*<link rel="stylesheet" href="([\w./-]+)" ?/?>\n?')
SCRIPT = re.compile(r'[ \t]*<script type="module" src="([\w./-]+)"></script>\n?')
FETCHED = re.compile(r"\s(?:src|href|srcset|action|data)\s*=(?!\s*[\"'](?:data:|#))", re.IGNORECASE)
UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}  # JSON knows them by number too


def page(looks: Sequence[Look], blocks: Literal["all"] | int = LIMIT, view: View | None = None) -> str:
    """Looks as a page that opens with this view: with all their blocks, or those that fit into so many bytes."""
    view = view or View()
    room = None if blocks == "all" else blocks // max(len(looks), 1)
    headers, data = [], []
    for number, one in enumerate(looks):
        header = one.header()
        kept = contents(header, room, (view.layer or 1) - 1)
        if room is not None and not kept.types:
            raise Problem(
                f"what {one.model} looked at does not fit into {room / MEGABYTE:g} MB, not even one layer; give a "
                "shorter text, or let the page be served, which loads what is looked at: regard look without -o"
            )
        headers.append({**header, "notes": [*header["notes"], *kept.notes]})
        data += [block_element(number, name, one.block(name), kind) for name, kind in kept.types.items()]
    return framed(headers_element(headers, view.hash()) + "".join(data))


def framed(data: str) -> str:
    """The page's own index.html, with its style and script inside, and this data."""
    index = read_part(PAGE / "index.html", PAGE)
    sheets, scripts = SHEET.findall(index), SCRIPT.findall(index)
    bare = SCRIPT.sub("", SHEET.sub("", index))
    if len(scripts) != 1 or any(bare.count(tag) != 1 for tag in (CHARSET, "</head>", "</body>")):
        raise Problem(f"{PAGE / 'index.html'} must have one script, a module, and once {CHARSET}, </head>, </body>")
    if found := FETCHED.search(bare):
        raise Problem(f"{PAGE / 'index.html'}: a page in one file cannot fetch: {found[0].strip()!r}")
    style = "".join(read_part(PAGE.parent / name, PAGE) for name in sheets)  # addresses begin beside the folder
    if found := re.search(r"</style|@import|url\((?!\s*[\"']?data:)", style, re.IGNORECASE):
        raise Problem(f"{PAGE}: a style in one file cannot hold {found[0]!r}")
    script = joined(PAGE.parent / scripts[0])
    policy = f'{CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy_of(script, style)}">'
    before, after = (
        bare.replace(CHARSET, policy).replace("</head>", f"<style>{style}</style>\n</head>").split("</body>")
    )
    return f'{before}{data}<script type="module">{script}</script>\n</body>{after}'


def policy_of(script: str, style: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def headers_element(headers: list[dict[str, Any]], start: str) -> str:
    """JSON without a character that could end the element it lies in; beyond ASCII all is written by number."""
    text = json.dumps(headers, allow_nan=False).translate(UNSAFE)
    return f'<script type="application/json" id="looks" data-start="{html.escape(start)}">{text}</script>\n'


def block_element(number: int, name: str, block: np.ndarray, kind: str) -> str:
    stored = (block * 65535).round() if kind == ROUNDED else block
    text = base64.b64encode(np.ascontiguousarray(stored, dtype=f"<{np.dtype(kind).str[1:]}").tobytes()).decode()
    shape = ",".join(map(str, block.shape))
    identity = html.escape(f"block-{number}-{name}")
    return f'<script type="text/plain" id="{identity}" data-shape="{shape}" data-type="{kind}">{text}</script>\n'


def notebook_cell(looks: Sequence[Look]) -> str:
    """The page in a frame of its own, as notebooks show it: it may run its script, and reach nothing of theirs."""
    try:
        inside = html.escape(page(looks, NOTEBOOK_LIMIT))
    except Problem as problem:  # a cell has no place for a traceback
        return f"<p>{html.escape(str(problem))}</p>"
    title = html.escape(", ".join(one.model for one in looks))
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts" title="{title}" width="100%" height="{HEIGHT}" '
        'frameborder="0"></iframe>'
    )
