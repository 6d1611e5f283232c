"""How a command's process holds memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED_AGAIN = """
import resource, torch
{}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([faults() for _ in range(5)][-1])
"""
KEEP = "from regard.cli.memory import keep_freed_memory; keep_freed_memory()"


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries hold memory in their own ways")
def test_what_is_freed_is_not_asked_of_the_system_again():
    """Pages that come anew when as much is asked for again as was freed: 64 MB have 16,384 of them."""
    plain, kept = (
        int(subprocess.run([sys.executable, "-c", ASKED_AGAIN.format(how)], capture_output=True, check=True).stdout)
        for how in ("", KEEP)
    )
    assert kept < 1000 < plain
