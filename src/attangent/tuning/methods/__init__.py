"""The ways to tune a model: NTK-Attention, and its rivals from peft and transformers under one roof.

A method is one object in a file of its own: how it is added to a model, sized, given a rate and saved.
A new one is such a file and a line in `registry`.
"""

from attangent.tuning.methods.classifier import is_head, trained_sizes
from attangent.tuning.methods.defaults import Default, default_for
from attangent.tuning.methods.lora import lora_targets
from attangent.tuning.methods.settings import DEFAULT, Method, adapt

__all__ = [
    "DEFAULT",
    "Default",
    "Method",
    "adapt",
    "default_for",
    "is_head",
    "lora_targets",
    "trained_sizes",
]
