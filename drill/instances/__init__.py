"""Small instances of the classes that entries take or belong to, by the name of the class."""

from collections.abc import Callable
from typing import Any

from drill.instances import attention, audit, diffusion, forecast, icl, kernels, models, stages
from drill.instances.attention import anchored_state
from drill.instances.audit import audit_run
from drill.instances.diffusion import score_data
from drill.instances.models import attached, attached_twice, language_model, tokenizer
from drill.instances.tables import days, panel, readings, wave

INSTANCES: dict[str, Callable[[], Any]] = {
    name: make
    for room in (attention, kernels, diffusion, icl, forecast, stages, audit, models)
    for name, make in room.INSTANCES.items()
}
__all__ = [
    "INSTANCES",
    "anchored_state",
    "attached",
    "attached_twice",
    "audit_run",
    "days",
    "language_model",
    "panel",
    "readings",
    "score_data",
    "tokenizer",
    "wave",
]
