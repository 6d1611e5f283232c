"""What the server keeps is bounded: kernels of products, and what a mixed load leaves behind."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys

import pytest

from regard.box import boxes
from regard.server import memory

PRODUCTS = """
import re, sys
from regard.server.memory import bound_native_memory
if sys.argv[1] == "bounded":
    bound_native_memory()
import torch
from regard.layers.packed import packed

def resident():
    return int(re.findall(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[0]) / 1000

layer = torch.nn.Linear(256, 256).requires_grad_(False)
with torch.inference_mode(), packed("cpu"):
    for tokens in range(2, 450):
        if tokens == 50:
            before = resident()
        layer(torch.zeros(tokens, 256))
print(resident() - before)
"""
on_linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")


def growth(how: str) -> float:
    """MB that products of 400 new shapes leave behind in a process of their own."""
    environment = {name: value for name, value in os.environ.items() if name not in memory.KERNEL_CACHES}
    command = [sys.executable, "-c", PRODUCTS, how]
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment | {"OMP_NUM_THREADS": "1"}
    )
    return float(told.stdout)


@on_linux
def test_74_kernels_of_many_shapes_are_not_kept_for_ever():
    """Texts of all lengths once cost half a megabyte for each length, in two caches of 1,024 each."""
    assert growth("bounded") < 60


@on_linux
@pytest.mark.slow
def test_74_without_the_bound_products_of_many_shapes_fill_the_memory():
    """Should this fail, the libraries have bounds of their own, and ours can go."""
    assert growth("unbounded") > 100


def test_what_the_environment_sets_stays(monkeypatch):
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "")
    monkeypatch.delenv("LRU_CACHE_CAPACITY")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
    memory.bound_native_memory()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
    assert os.environ["LRU_CACHE_CAPACITY"] == memory.KERNEL_CACHES["LRU_CACHE_CAPACITY"]


def test_a_c_library_without_such_functions_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory, "c_function", lambda name: None)
    for name in (*memory.KERNEL_CACHES, "MALLOC_ARENA_MAX"):
        monkeypatch.setenv(name, "1")
        monkeypatch.delenv(name)
    memory.bound_native_memory()
    asyncio.run(asyncio.wait_for(memory.trim_heaps(lambda: 1), 5))


def test_free_memory_is_returned_while_requests_come(monkeypatch):
    trims, requests = [], iter(range(10**6))
    monkeypatch.setattr(memory, "c_function", lambda name: trims.append)
    monkeypatch.setattr(memory, "TRIM_SECONDS", 0.001)

    async def until_twice() -> None:
        trimming = asyncio.ensure_future(memory.trim_heaps(lambda: next(requests)))
        while len(trims) < 2:
            await asyncio.sleep(0.001)
        trimming.cancel()

    asyncio.run(asyncio.wait_for(until_twice(), 10))


@on_linux
@pytest.mark.slow
@pytest.mark.skipif(not boxes(), reason="the package has no models")
def test_74_memory_stays_flat_under_mixed_requests():
    from benchmarks.server_memory import measure, serving

    options = argparse.Namespace(requests=2000, clients=8, samples=40, longest=150, only="", seed=1)
    with serving([]) as (port, process):
        samples = asyncio.run(measure(port, process, options))
    assert set(samples.statuses) <= {0, 200, 400, 404, 422} and samples.statuses[200] > 1400
    assert samples.growth < 100, samples.memory
    assert max(samples.threads) <= min(samples.threads[samples.warm :]) + 4
    assert max(samples.handles[samples.warm :]) < 60
