"""Pictures as they come: whole or broken, small or huge, in every mode; each read rightly or refused by name."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images import decoded, files_below, in_channels, read_picture
from regard.errors import Problem

COLOURS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)  # two by two


def saved(image: Image.Image, format: str = "PNG", **settings) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **settings)
    return file.getvalue()


def noise(side: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3)).astype(np.uint8))


def test_a_plain_picture_is_read_as_it_is(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(saved(Image.fromarray(COLOURS)))
    assert np.array_equal(read_picture(tmp_path / "a.png"), COLOURS)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.9])
def test_a_truncated_picture_is_named(format, kept):
    whole = saved(noise(), format)
    cut = whole[: int(kept * len(whole)) if kept < 1 else kept]
    with pytest.raises(Problem, match=r"cat\.png cannot be read as a picture .*again"):
        decoded(cut, "cat.png")


@pytest.mark.parametrize("content", [b"not a picture", b"<svg></svg>", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\0" * 100])
def test_what_is_no_picture_is_named(content):
    with pytest.raises(Problem, match=r"x\.jpg cannot be read as a picture"):
        decoded(content, "x.jpg")


def test_a_missing_picture_is_named(tmp_path):
    with pytest.raises(Problem, match=r"none\.png cannot be read \(No such file"):
        read_picture(tmp_path / "none.png")


def test_one_pixel_is_a_picture():
    assert decoded(saved(Image.new("RGB", (1, 1), (1, 2, 3))), "x").tolist() == [[[1, 2, 3]]]


def bomb(side: int) -> bytes:
    """The header of a picture of this side, which has few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_000, 30_000])
def test_a_huge_picture_is_refused_before_it_is_unfolded(side):
    with pytest.raises(Problem, match=r"huge\.png.*make it smaller"):
        decoded(bomb(side), "huge.png")


def test_the_limit_of_pixels_can_be_set():
    with pytest.raises(Problem, match="40 x 40 pixels, more than the 1,000 that are read"):
        decoded(saved(noise()), "x", limit=1000)


def test_inks_are_mixed():
    found = decoded(saved(Image.fromarray(COLOURS).convert("CMYK"), "TIFF"), "x")
    assert np.abs(found.astype(int) - COLOURS).max() <= 1


def test_a_palette_is_looked_up():
    assert np.array_equal(decoded(saved(Image.fromarray(COLOURS).quantize(4)), "x"), COLOURS)


def test_sixteen_bits_become_eight():
    wide = np.array([[0, 255], [256, 65535]], np.uint16)
    found = decoded(saved(Image.fromarray(wide)), "x")
    assert found[..., 0].tolist() == [[0, 0], [1, 255]] and np.array_equal(found[..., 0], found[..., 2])


def test_fractions_are_refused():
    with pytest.raises(Problem, match="holds fractions"):
        decoded(saved(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF"), "x")


def test_of_an_animation_the_first_picture_is_read():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    found = decoded(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), "x")
    assert found.shape == (4, 4, 3) and found[0, 0].tolist() == [255, 0, 0]


def test_the_extension_may_be_wrong(tmp_path):
    (tmp_path / "really.jpg").write_bytes(saved(Image.fromarray(COLOURS), "PNG"))
    assert np.array_equal(read_picture(tmp_path / "really.jpg"), COLOURS)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_stands_upright(orientation):
    lying = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40)
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = decoded(saved(lying, "PNG", exif=exif), "x")
    assert found.shape[:2] == ((2, 3) if orientation < 5 else (3, 2))
    corner = {1: 0, 2: 80, 3: 200, 4: 120, 5: 0, 6: 120, 7: 200, 8: 80}[orientation]
    assert found[0, 0, 0] == corner


def test_what_can_be_seen_through_lies_on_white():
    clear = np.concatenate([COLOURS, np.array([[[0], [255]], [[128], [255]]], np.uint8)], -1)
    found = decoded(saved(Image.fromarray(clear)), "x")
    assert found[0].tolist() == [[255, 255, 255], [0, 255, 0]] and found[1, 0].tolist() == [127, 127, 255]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I;16", "I"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_has_as_many_channels_as_are_wanted(mode, channels):
    from regard.data.images import pixels_of

    found = pixels_of(Image.new(mode, (3, 2)), "x", channels)
    assert found.shape == (2, 3, channels) and found.dtype == np.uint8


def test_channels_can_be_changed():
    assert in_channels(COLOURS, 1)[..., 0].tolist() == [[76, 150], [29, 255]]
    assert in_channels(np.full((2, 2, 1), 7, np.uint8), 3).tolist() == [[[7] * 3] * 2] * 2


def test_the_files_of_a_folder(tmp_path):
    for name in ("b/2.PNG", "a/1.jpg", ".hidden/3.png", "a/.4.png", "a/notes.txt", "5.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)] == ["5.webp", "a/1.jpg", "b/2.PNG"]


@pytest.mark.parametrize("channels", [1, 3])
def test_other_colour_spaces_are_read(channels):
    assert decoded(saved(Image.new("LAB", (3, 2)), "TIFF"), "lab.tif", channels).shape == (2, 3, channels)
