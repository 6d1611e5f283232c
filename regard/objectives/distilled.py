"""Distillation (DistilBERT, Sanh et al. 2019): a student learns what its teacher finds likely, and to think alike."""

from __future__ import annotations

import re
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checkpoints.weights import weights_of
from regard.errors import Problem
from regard.layers.embedding import Embedding
from regard.models.encoder import HeadedEncoder
from regard.objectives.masked import Hiding
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered, counted, rescaled, scores_of, states_of

TAUGHT, MASKED, COSINE = 5.0, 2.0, 1.0  # the weights of the authors' recipe


class Distilled(Objective):
    """Three losses: the teacher's chances at the hidden places against the student's, both softened by a temperature;
    the hidden words themselves; and the angle between their states at every token."""

    def __init__(self, hiding: Hiding, teacher: HeadedEncoder, temperature: float = 2.0):
        super().__init__()
        self.hiding, self.temperature = hiding, temperature
        self._teacher = (teacher.eval(),)  # in a tuple, it is no part of what is trained and saved

    def prepare(self, batch: Batch) -> Batch:
        return self.hiding.hide(batch)

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        places, rows = batch["places"], batch["tokens"].rows
        teacher = self.teacher_of(cast(HeadedEncoder, model))
        states = states_of(model, batch)
        logits = scores_of(model, "masked", states[places], rows, self)
        with torch.no_grad():
            wanted_states = states_of(teacher, batch)
            wanted = scores_of(teacher, "masked", wanted_states[places], rows, self)

        masked = answered(logits, batch["words"])
        taught = divergence(logits, wanted, self.temperature)
        cosine = (1 - F.cosine_similarity(states.float(), wanted_states.float())).sum()
        cosine = rescaled(cosine, counted(states), masked.count)
        loss = TAUGHT * taught + MASKED * masked.loss + COSINE * cosine
        parts = {"taught_loss": taught, "masked_loss": masked.loss, "cosine_loss": cosine}
        parts = {name: part.detach() for name, part in parts.items()}
        return Result(loss, masked.count, {**parts, "masked_right": masked.parts["right"]})

    def teacher_of(self, student: HeadedEncoder) -> HeadedEncoder:
        """The teacher, where the student is; it must have the student's vocabulary and width."""
        (teacher,) = self._teacher
        for what, own, theirs in zip(("vocabulary", "width"), sizes_of(student), sizes_of(teacher), strict=True):
            if own != theirs:
                raise Problem(f"the student's {what} is {own} and its teacher's {theirs}: give a teacher of the same")
        device = student.encoder.embed.tokens.weight.device
        if teacher.encoder.embed.tokens.weight.device != device:
            teacher.to(device)
        return teacher


def sizes_of(model: HeadedEncoder) -> tuple[int, int]:
    config = model.encoder.config
    return config.embedding.vocab, config.width


def divergence(logits: Tensor, wanted: Tensor, temperature: float) -> Tensor:  # (M, V), (M, V) -> ()
    """The Kullback-Leibler divergence of softened chances, summed over places.  Softening by t makes gradients t^2
    times as small, which is made up for."""
    own, theirs = ((scores.float() / temperature).log_softmax(-1) for scores in (logits, wanted))
    return F.kl_div(own, theirs, reduction="sum", log_target=True) * temperature**2


@torch.no_grad()
def layers_from_teacher(student: HeadedEncoder, teacher: HeadedEncoder) -> list[str]:
    """Start a student from its teacher's embedding, heads and some of its layers, wherever shapes agree; the names of
    the tensors for which they do not, or the teacher has none."""
    order = teacher.encoder.stack.order
    taken = [order[layer] for layer in spread(len(student.encoder.stack.blocks), len(order))]
    theirs, left = teacher.state_dict(), []
    for name, tensor in weights_of(student).items():
        source = re.sub(r"(?<=^encoder\.stack\.blocks\.)\d+", lambda number: str(taken[int(number[0])]), name)
        if source in theirs and theirs[source].shape == tensor.shape:
            tensor.copy_(theirs[source])
        else:
            left.append(name)
    if "encoder.embed.positions.weight" not in left:
        add_type(student.encoder.embed, teacher.encoder.embed)
    return left


def add_type(own: Embedding, theirs: Embedding) -> None:
    """To a student that knows no types every token is of the first: its vector goes with that of each place."""
    if own.types is None and own.positions is not None and theirs.types is not None:
        own.positions.weight += theirs.types.weight[0].to(own.positions.weight)


def spread(count: int, layers: int) -> list[int]:
    """So many layers, evenly from the first to the last; 6 of 12 are 0 2 4 7 9 11, those the authors took."""
    return [round(number * (layers - 1) / max(count - 1, 1)) for number in range(count)]
