"""`regard translate` is a filter: one line in, one line out, whatever the lines are."""

from __future__ import annotations

import json
import signal

import pytest
from toy import WORDS, files_of_at_most, spawn, write

import regard

TEXT = b"a man sees a dog .\n\na big house and a red man .\n"


def lines_of(done) -> list[str]:
    assert done.code == 0, done.err
    assert done.out.endswith("\n")
    return done.out[:-1].split("\n")


def test_it_translates_in_order_and_leaves_empty_lines_empty(call, run_folder):
    first, empty, last = lines_of(call("translate", "--model", run_folder, stdin=TEXT))
    assert empty == "" and {*first.split(), *last.split()} <= set(" ".join(WORDS.values()).split())
    backwards = b"\n".join(reversed(TEXT[:-1].split(b"\n")))
    assert lines_of(call("translate", "--model", run_folder, stdin=backwards)) == [last, empty, first]


def test_a_run_and_its_model_and_a_file_and_stdin_are_the_same(call, run_folder, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    from_stdin = call("translate", "--model", run_folder, stdin=TEXT)
    assert call("translate", "--model", run_folder / "model", "--file", tmp_path / "text").out == from_stdin.out


@pytest.mark.parametrize(
    "text",
    [TEXT.replace(b"\n", b"\r\n"), TEXT[:-1], b"\xef\xbb\xbf" + TEXT],
    ids=["CRLF", "last line not ended", "byte order mark"],
)
def test_how_lines_end_does_not_matter(call, model, text):
    assert call("translate", "--model", model, stdin=text).out == call("translate", "--model", model, stdin=TEXT).out


@pytest.mark.parametrize("text, count", [(b"", 0), (b"\n", 1), (b"\n \t\n\n", 3)])
def test_blank_text_becomes_empty(call, model, text, count):
    done = call("translate", "--model", model, stdin=text)
    assert (done.code, done.out, done.err) == (0, "\n" * count, "")


def test_only_a_newline_breaks_a_line(call, model):
    odd = "a man\u2028sees \x85 a \x0b dog \x0c .\n".encode()
    assert len(lines_of(call("translate", "--model", model, stdin=odd + TEXT))) == 4


def test_the_best_are_printed_with_their_scores(call, model):
    done = call("translate", "--model", model, "--best", 3, "--beam", 4, stdin=TEXT)
    scored = [line.split("\t") for line in lines_of(done)]
    assert [len(fields) for fields in scored] == [6, 2, 6]
    for fields in (scored[0], scored[2]):
        scores = [float(score) for score in fields[::2]]
        assert scores == sorted(scores, reverse=True) and len(set(fields[1::2])) == 3
    one = lines_of(call("translate", "--model", model, "--beam", 4, stdin=TEXT))
    assert one == [fields[1] for fields in scored]


def test_a_beam_of_one_is_greedy(call, model):
    beam = call("translate", "--model", model, "--beam", 1, stdin=TEXT)
    assert beam.out == call("translate", "--model", model, "--sample", "--temperature", 0, stdin=TEXT).out


def test_sampling_repeats_with_its_seed(call, model):
    def drawn(seed):
        return call("translate", "--model", model, "--sample", "--temperature", 2, "--seed", seed, stdin=TEXT * 4).out

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize(
    "options",
    ["--beam 0", "--beam x", "--best 9", "--penalty -1", "--sample --temperature -1", "--sample --top-p 1.5",
     "--sample --top-k 0", "--sample --best 2", "--align alignment.doc", "--align alignment", "--encoding klingon",
     "--device abacus"],
)  # fmt: skip
def test_a_bad_value_is_refused_before_anything_is_translated(call, model, options):
    done = call("translate", "--model", model, *options.split(), stdin=TEXT)
    assert (done.code, done.out) == (2, "") and "Traceback" not in done.err
    assert options.split()[-1] in done.err


def test_what_cannot_be_read_is_named(call, model, tmp_path):
    missing = call("translate", "--model", model, "--file", tmp_path / "missing.en")
    assert missing.code == 1 and "missing.en" in missing.err
    no_model = call("translate", "--model", tmp_path / "nothing", stdin=TEXT)
    assert no_model.code == 1 and "nothing" in no_model.err
    latin = call("translate", "--model", model, stdin=b"a man\na d\xf6g\n")
    assert latin.code == 1 and "standard input, line 2, byte 4: 0xf6" in latin.err and "--encoding" in latin.err
    assert len(lines_of(call("translate", "--model", model, "--encoding", "latin-1", stdin=b"a man\na d\xf6g\n"))) == 2


def test_an_overlong_line_is_cut_and_counted(call, model):
    done = call("translate", "--model", model, "--beam", 1, stdin=b"a dog .\n" + b"man " * 1025 + b"\n")
    assert len(lines_of(done)) == 2
    assert done.err == "warning: lines cut to the first 1024 pieces: 1\n"


# Alignments


def test_alignments_as_text_and_json(call, model, tmp_path):
    text, objects = tmp_path / "new" / "alignment.txt", tmp_path / "alignment.json"
    translated = lines_of(call("translate", "--model", model, "--align", text, stdin=TEXT))
    lines = text.read_text().split("\n")
    assert [len(line.split()) for line in lines[:3]] == [len(line.split()) for line in translated]
    assert lines[1] == lines[3] == ""
    for option in ([], ["--pieces"]):
        call("translate", "--model", model, "--align", objects, *option, stdin=TEXT)
        first, empty, _ = json.loads(objects.read_text())
        assert [word.removeprefix("▁") for word in first["target"]] == translated[0].split()
        assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in first["weights"])
        assert empty["target"] == empty["weights"] == []


def test_alignments_as_pictures(call, model, tmp_path):
    several = call("translate", "--model", model, "--align", tmp_path / "all.png", "--pieces", stdin=TEXT)
    assert several.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all-1.png", "all-3.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
    call("translate", "--model", model, "--align", tmp_path / "one.svg", stdin=b"a man sees a dog .\n")
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_a_full_disk_is_told_and_what_was_there_is_kept(call, model, tmp_path):
    alignment = write(tmp_path / "alignment.json", ["before"])
    with files_of_at_most(100):
        done = call("translate", "--model", model, "--align", alignment, stdin=TEXT)
    assert done.code == 1 and "alignment.json could not be written" in done.err
    assert alignment.read_text() == "before\n" and len(list(tmp_path.iterdir())) == 1


# As a process among others


def test_lines_stream(model):
    """What is read is translated before there is more, so that a stream of any length needs bounded memory."""
    with spawn("translate", "--model", model, "--beam", 1, bufsize=0) as process:
        process.stdin.write(b"a man sees a dog .\n" * 1500)
        process.stdin.flush()
        first = process.stdout.readline()
        out, err = process.communicate(b"a man sees a dog .\n" * 1500, timeout=280)
    assert process.returncode == 0, err
    assert out == first * 2999 and len(first) > 5


def test_a_reader_that_has_enough_ends_it_quietly(model):
    with spawn("translate", "--model", model, "--beam", 1) as process:
        process.stdin.write(b"a man sees a dog .\n" * 1024)
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"a man sees a dog .\n" * 1024)
        process.stdin.close()
        assert process.wait(timeout=280) in (-signal.SIGPIPE, 141)
        assert process.stderr.read() == b""


def test_a_full_disk_below_stdout_is_told(model):
    with open("/dev/full", "wb") as full, spawn("translate", "--model", model, stdout=full) as process:
        _, err = process.communicate(TEXT, timeout=280)
    assert process.returncode == 1
    assert err.startswith(b"regard: ") and b"No space left" in err and err.count(b"\n") == 1


# From Python


def test_the_function_is_the_command(call, model):
    found = list(regard.translate(model, TEXT.decode().split("\n")[:3], regard.Beam(5)))
    assert [best[0].text for best in found] == lines_of(call("translate", "--model", model, stdin=TEXT))
