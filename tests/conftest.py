"""For all tests: one thread each, since the tensors are tiny and the processes many."""

import torch

torch.set_num_threads(1)
