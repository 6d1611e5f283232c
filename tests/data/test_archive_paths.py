"""Archives are read as streams and never unpacked, so no name in one leads anywhere on the disk."""

import io
import tarfile

import numpy as np
import pytest

from regard.data.galleries import read_gallery
from regard.errors import Problem


def picture() -> bytes:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    file = io.BytesIO()
    image.fromarray(np.full((2, 2, 3), 9, np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_names_and_links_that_lead_out_write_and_read_nothing(tmp_path):
    content, outside = picture(), tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(b"secret")
    path = tmp_path / "inside" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for name in ("good/a.png", "../outside/b.png", f"{outside}/c.png", "good/../../outside/d.png"):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("good/e.png")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside / "secret.png")
        archive.addfile(link)
    try:
        found = read_gallery(path)
    except Problem as problem:
        assert str(path) in str(problem)
    else:
        assert all(found.read(number).max() == 9 for number in range(len(found)))
    assert [one.name for one in outside.iterdir()] == ["secret.png"] and [*path.parent.iterdir()] == [path]
