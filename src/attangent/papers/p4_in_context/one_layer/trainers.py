"""The ways to train behind `OneLayerAttention.fit`, by name.

| method   | for        | what it does                                                           |
|----------|------------|------------------------------------------------------------------------|
| `solve`  | H >= N     | leaves Q, solves for w exactly: one batched QR                         |
| `varpro` | any H      | w solved exactly at every step, Q by L-BFGS on what is left            |
| `gd`     | the theory | gradient descent with two rates (Eq. 10)                               |
| `adam`   | the paper  | Adam on the population loss, or on sampled prompts as in Section 4     |
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from attangent._core.errors import AttangentError
from attangent.papers.p4_in_context.one_layer.adam import Adam
from attangent.papers.p4_in_context.one_layer.descent import GradientDescent
from attangent.papers.p4_in_context.one_layer.solve import Solve
from attangent.papers.p4_in_context.one_layer.training import Trainer
from attangent.papers.p4_in_context.one_layer.varpro import VariableProjection

TRAINERS: dict[str, type] = {
    "solve": Solve,
    "varpro": VariableProjection,
    "gd": GradientDescent,
    "adam": Adam,
}


def trainer(method: str, options: Mapping[str, Any]) -> Trainer:
    """The trainer of this name with these options."""
    if method not in TRAINERS:
        raise AttangentError(f"method is {method!r}, expected one of {', '.join(TRAINERS)}")
    known = [field.name for field in fields(TRAINERS[method])]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise AttangentError(
            f"method {method!r} has no option {', '.join(unknown)}; it takes {', '.join(known) or 'none'}"
        )
    return TRAINERS[method](**options)
