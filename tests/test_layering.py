"""The order of the parts, read from the imports themselves; and what the library never imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "regard"
FILES = sorted(ROOT.rglob("*.py"))

# each part may import those before it; parts of one line lie side by side, and see each other from left to right
LINES = [
    "errors device rows config recording box",
    "attention",
    "layers",
    "checkpoints",
    "models",
    "text data",
    "objectives decoding tasks",
    "training",
    "viewer server",
    "commands",
    "cli __main__",
]
ORDER = " ".join(LINES).split()

NEVER = {"transformers", "datasets", "evaluate", "pickle", "cPickle", "dill", "shelve", "marshal"}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[str]:
    """Dotted names of all that is imported anywhere in a file, functions included."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_part_imports_only_what_lies_before_it(path):
    part = part_of(path)
    if part == "__init__":
        return  # the front door fetches from everywhere, when asked
    assert part in ORDER, f"give {part} a place in ORDER"
    ours = {name.split(".")[1] for name in imports(ast.parse(path.read_text())) if name.startswith("regard.")}
    later = sorted(other for other in ours & set(ORDER) if ORDER.index(other) > ORDER.index(part))
    assert not later, f"{path.relative_to(ROOT)} imports {', '.join(later)}, which lies after {part}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_unsafe_or_foreign_is_imported(path):
    tree = ast.parse(path.read_text())
    assert not NEVER & {name.split(".")[0] for name in imports(tree)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = ast.unparse(call.func)
        assert called not in ("eval", "exec", "torch.save"), f"line {call.lineno}: {called}"
        if called == "torch.load":
            safe = [ast.unparse(word.value) for word in call.keywords if word.arg == "weights_only"]
            assert safe == ["True"], f"line {call.lineno}: torch.load without weights_only=True"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_config_is_small_enough_to_read(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
            fields = [line for line in node.body if isinstance(line, ast.AnnAssign) and not nests(line)]
            assert len(fields) <= 12, f"{node.name} has {len(fields)} fields: let some form a config of their own"


def nests(field: ast.AnnAssign) -> bool:
    return "Config" in ast.unparse(field.annotation)


@pytest.mark.parametrize("module", ["regard", "regard.cli", "regard.config"])
def test_the_front_door_does_not_wait_for_torch(module):
    slow = "{'torch', 'numpy', 'tokenizers', 'matplotlib', 'sklearn', 'sacrebleu'}"
    code = f"import sys, {module}; print(sorted({slow} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
