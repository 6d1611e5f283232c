"""A part of a recipe in a process of its own: what it says is kept, and its end is known."""

from subprocess import CalledProcessError

import pytest

from recipes.apart import apart


def test_what_a_part_says_is_added_to_its_log_and_its_failure_is_ours(tmp_path):
    log = tmp_path / "logs" / "wrong.log"
    log.parent.mkdir()
    log.write_text("before\n")
    with pytest.raises(CalledProcessError):
        apart("imdb", tmp_path, "wrong", ["--no-such-option", 3])
    told = log.read_text()
    assert told.startswith("before\n") and "unrecognized arguments: --no-such-option 3" in told
