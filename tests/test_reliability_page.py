"""docs/reliability.md: each fault stands there once, and each test that it names exists."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/reliability.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", PAGE, re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[[^`]*\])?`")  # ids of parameters may follow


@cache
def functions_of(path: str) -> frozenset[str]:
    """Names of the functions that a test file defines; none where there is no such file."""
    tree = ast.parse((ROOT / path).read_text("utf-8") if (ROOT / path).exists() else "")
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_fault_is_there_once():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 82))


def test_every_row_names_a_test():
    assert not [number for number, *_, shown in ROWS if not NAMED.search(shown)]


def test_every_named_test_exists():
    named = NAMED.findall(PAGE)
    assert len(named) == PAGE.count("::test_")
    assert not {f"{path}::{name}" for path, name in named if name not in functions_of(path)}


def test_what_holds_in_part_is_explained():
    """Each such row, and each fault that does not apply, stands in the last section."""
    explained = {int(number) for number in re.findall(r"^- \*\*(\d+)\*\*:", PAGE, re.MULTILINE)}
    in_part = {int(number) for number, _, done, _ in ROWS if done.startswith(" in part")}
    assert in_part | {20} == explained
