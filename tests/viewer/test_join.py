"""Modules become one script that does what they did; what cannot be joined so is refused by name and line."""

from __future__ import annotations

import pytest

from regard.errors import Problem
from regard.viewer.join import joined

MODULES = {
    "main.js": """\
import { shown } from "./views/shown.js";
import { twice } from "./sums.js";
shown(twice(2));
""",
    "sums.js": """\
export const two = 2;
export function twice(number) {
  return two * number;
}
""",
    "views/shown.js": """\
import { twice, two } from "../sums.js";
export async function shown(number) {
  return twice(number) + two;
}
class Hidden {}
""",
}


@pytest.fixture
def page(tmp_path):
    (tmp_path / "views").mkdir()
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_module_comes_once_and_after_those_it_imports(page):
    script = joined(page / "main.js")
    assert "import" not in script and "export" not in script
    places = [script.index(text) for text in ("const two = 2;", "async function shown", "shown(twice(2));")]
    assert places == sorted(places)
    assert script.count("function twice") == 1
    assert joined(page / "main.js") == script


@pytest.mark.parametrize(
    "name, line, told",
    [
        ("sums.js", "export default two;", r"sums\.js, line 5: .*export default two"),
        ("sums.js", "export { two };", "export { two }"),
        ("sums.js", 'export { one } from "./one.js";', "cannot be joined"),
        ("sums.js", 'import * as all from "./one.js";', "cannot be joined"),
        ("sums.js", 'import { two as zwei } from "./one.js";', "cannot be joined"),
        ("sums.js", 'import { one } from "https://example.org/one.js";', "cannot be joined"),
        ("sums.js", 'import "./one.js";', "cannot be joined"),
        ("sums.js", "import {", "cannot be joined"),
        ("sums.js", 'const late = () => import("./one.js");', "cannot be joined"),
        ("sums.js", "const here = import.meta.url;", "cannot be joined"),
        ("sums.js", 'const end = "</script>";', "cannot be joined"),
        ("sums.js", "// <!-- not seen", "cannot be joined"),
        ("sums.js", "const { one } = { one: 1 };", "one name a line"),
        ("sums.js", "class Hidden {}", "Hidden is declared in sums.js too"),
        ("sums.js", 'import { one } from "../outside.js";', "lies outside"),
        ("sums.js", 'import { one } from "./one.js";', r"one\.js, a part of the page, cannot be read"),
        ("sums.js", 'import { shown } from "./views/shown.js";', "import each other"),
        ("main.js", 'import { Hidden } from "./views/shown.js";', r"shown\.js does not export Hidden"),
    ],
)
def test_what_cannot_be_joined_is_refused(page, name, line, told):
    with open(page / name, "a") as file:
        file.write(line + "\n")
    with pytest.raises(Problem, match=told):
        joined(page / "main.js")


def test_words_inside_a_line_are_no_imports(page):
    text = 'const told = "export it, or import it";\n// what others import, they export\nconst exported = 1;\n'
    with open(page / "sums.js", "a") as file:
        file.write(text)
    assert text in joined(page / "main.js")
