"""NTK-Attention on Hugging Face models: a frozen model with a trainable prefix of unbounded length."""

from importlib import import_module
from typing import Any

from attangent._core.errors import CalibrationWarning
from attangent.adapters.attaching import attach, detach
from attangent.adapters.calibration import calibrate
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.save import load_adapter, save_adapter
from attangent.adapters.hub import push_to_hub
from attangent.adapters.layers import attention_layers
from attangent.adapters.record import activate, active_adapters, delete, disabled, states_of
from attangent.adapters.rows import batch

__all__ = [
    "CalibrationWarning",
    "NTKConfig",
    "activate",
    "active_adapters",
    "attach",
    "attention_layers",
    "batch",
    "calibrate",
    "delete",
    "detach",
    "disabled",
    "load_adapter",
    "push_to_hub",
    "save_adapter",
    "states_of",
]


def __getattr__(name: str) -> Any:
    if name == "peft":  # imported on first use, because it imports peft
        return import_module("attangent.adapters.peft")
    raise AttributeError(f"module 'attangent.adapters' has no attribute {name!r}")
