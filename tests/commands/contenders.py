"""Contenders that need no torch.  They are in a module of their own since each is started in a new process."""

import sys


def counting(plan, turns):
    turns.show([[1.0, 2.0], [3.0, plan.rate]])
    for stretch in range(plan.stretches):
        turns.begin()
        turns.end(tokens=10 * (stretch + 1))


def failing(plan, turns):
    sys.exit(3)
