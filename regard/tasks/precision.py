"""In which precision a loaded model computes, once it is used and no longer trained."""

from __future__ import annotations

from typing import Any

from regard.errors import UsageProblem
from regard.layers.lowered import Precision, lowered, unsaved
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer


def in_precision(found: Any, precision: Precision) -> Any:
    """What was loaded, to be used in this precision: on a CPU that is the precision of its large products, on a GPU of
    all that it computes, and of what writes there a copy."""
    device = next(found.model.parameters()).device
    if precision == "float32":
        return found
    if device.type == "cpu":
        lowered(found.model, precision)
    elif precision == "int8":
        raise UsageProblem(f"int8 is for a CPU, and the model is on {device}; choose bf16, or the device cpu")
    elif isinstance(found, Translator | Writer):
        found.precision = precision
    elif isinstance(found.reader if isinstance(found, Finetuned) else found, Reader):
        unsaved(found.model.bfloat16(), precision)
    else:
        raise UsageProblem(f"on {device}, pictures and sound are read in float32; leave out the precision")
    return found
