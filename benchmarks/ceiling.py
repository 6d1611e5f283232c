"""The ceiling of a device: how many operations a second one large product of matrices comes to, in the precision of
training, bf16 on a GPU and float32 on a CPU.

    python -m benchmarks.ceiling --device cuda
"""

from __future__ import annotations

from argparse import ArgumentParser
from statistics import median

from benchmarks.contest import Turns, ready
from benchmarks.plan import Plan

SIZES = {True: 8192, False: 1024}  # of the matrices, on a GPU or not
TIMES, TOGETHER = 15, {True: 20, False: 1}  # so often so many products are timed together


def measure(plan: Plan, turns: Turns) -> None:
    import torch

    torch.set_num_threads(plan.threads)
    size, count = SIZES[plan.on_gpu], TOGETHER[plan.on_gpu]
    kind = torch.bfloat16 if plan.on_gpu else torch.float32
    left, right = (torch.randn(size, size, device=plan.device, dtype=kind) for _ in range(2))
    out, seconds = torch.empty_like(left), []
    for _ in range(TIMES):
        start = turns.now()
        for _ in range(count):
            torch.mm(left, right, out=out)
        seconds.append((turns.now() - start) / count)
    turns.show([[2 * size**3 / median(seconds[1:])]])  # the first is the warm-up


def ceiling(device: str, threads: int) -> float:
    """Operations a second, measured in a process of its own."""
    with ready([("the ceiling", measure, Plan("", "", device, threads, 1, 1, 0))]) as [found]:
        return found.outputs[0][0]


def main() -> None:
    parser = ArgumentParser("python -m benchmarks.ceiling", description="The ceiling of a device.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    asked = parser.parse_args()
    print(f"{ceiling(asked.device, asked.threads) / 1e12:.3f} TFLOP/s")


if __name__ == "__main__":
    main()
