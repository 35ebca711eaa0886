"""The words of adapter files."""

CONFIG, WEIGHTS, CARD = "adapter_config.json", "adapter_model.safetensors", "README.md"
FORMAT = "attangent adapter 1"
PEFT_TYPE = "ATTANGENT_NTK"
ROOT = "base_model.model."
"""What tensor names in adapter files begin with."""
TENSOR = ROOT + "{layer}.attangent_prefix.states.{tensor}"
"""The name of a state's tensor, that of peft for a slot's states."""
