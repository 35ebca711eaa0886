"""Tuning methods: NTK-Attention, LoRA and other methods of peft, and training the model itself."""

from attangent.tuning.methods.peft_methods import lora_targets
from attangent.tuning.methods.settings import DEFAULT, Method, adapt, default_settings

__all__ = ["DEFAULT", "Method", "adapt", "default_settings", "lora_targets"]
