"""The page's modules as one script: each after those it imports, without the lines that import and export.

A page opened from a file may not import modules, so a file has to hold them as one.  What cannot be joined line by line
is refused; the page's modules are written so that they can."""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from regard.errors import Problem

IMPORT = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "(\.{1,2}/[\w./-]+\.js)";')
DECLARED = re.compile(r"(?P<export>export )?(?:(?:async )?function\*? ?|const |let |var |class )(?P<name>[\w$]+)?")
OUTSIDE = re.compile(r"\bimport(?:\s*\(|\.meta\b)|^\s*(?:import|export)\b")  # what only a module of its own can do
CLOSING = re.compile(r"</script|<!--", re.IGNORECASE)  # what would end a script in the midst of it


@dataclass(frozen=True)
class Module:
    path: Path
    text: str  # without its imports, and without the word export
    imports: dict[Path, list[str]]
    names: list[str]  # all that is declared outside functions
    exports: list[str]


def joined(main: Path) -> str:
    """A module and all that it imports, as one script in which every name is unique."""
    modules = gathered(main.resolve())
    try:
        order = list(TopologicalSorter({path: one.imports for path, one in modules.items()}).static_order())
    except CycleError as error:
        raise Problem(
            f"{main}: modules import each other: {' -> '.join(path.name for path in error.args[1])}"
        ) from None
    owner: dict[str, Path] = {}
    for path in order:
        for name in modules[path].names:
            if name in owner:
                raise Problem(f"{path}: {name} is declared in {owner[name].name} too: give one another name")
            owner[name] = path
        for other, names in modules[path].imports.items():
            if missing := [name for name in names if name not in modules[other].exports]:
                raise Problem(f"{path}: {other.name} does not export {', '.join(missing)}")
    return "\n".join(modules[path].text for path in order)


def gathered(main: Path) -> dict[Path, Module]:
    modules: dict[Path, Module] = {}
    waiting = [main]
    while waiting:
        path = waiting.pop()
        if path not in modules:
            modules[path] = read_module(path, main.parent)
            waiting += modules[path].imports
    return modules


def read_module(path: Path, root: Path) -> Module:
    imports: dict[Path, list[str]] = {}
    names, exports, lines = [], [], []
    for number, line in enumerate(read_part(path, root).split("\n"), 1):
        if found := IMPORT.fullmatch(line.rstrip()):
            imports.setdefault((path.parent / found[2]).resolve(), []).extend(found[1].split(", "))
            continue
        if found := DECLARED.match(line):
            if found["name"] is None:  # several at once, whose names are not read here
                raise Problem(f"{path}, line {number}: declare one name a line outside functions: {line.strip()!r}")
            names.append(found["name"])
            exports += [found["name"]] if found["export"] else []
            line = line.removeprefix("export ")
        if OUTSIDE.search(line) or CLOSING.search(line):
            raise Problem(f"{path}, line {number}: this cannot be joined into one script: {line.strip()!r}")
        lines.append(line)
    return Module(path, "\n".join(lines), imports, names, exports)


def read_part(path: Path, root: Path) -> str:
    """A text file of the page, with plain line ends, since browsers hash them so."""
    if not path.is_relative_to(root):
        raise Problem(f"{path} is imported by the page and lies outside of {root}")
    try:
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path}, a part of the page, cannot be read ({error}): install regard again") from None
