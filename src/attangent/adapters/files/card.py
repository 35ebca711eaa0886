"""The model card of an adapter: text that a hub shows beside the files."""

from typing import Any

from attangent._version import __version__

_TEXT = """---
library_name: attangent
base_model: {base}
tags:
- ntk-attention
- prefix-tuning
- adapter
---

# NTK-Attention adapter for {base}

A trained prefix of unbounded length at constant cost: {count} numbers in {layers} attention layers
(features `{features}`, units `{units}`). The base model's weights are not part of it.

```python
import attangent
from transformers import {auto}

model = {auto}.from_pretrained("{base}")
attangent.load_adapter(model, "PATH_OR_HUB_ID")
```

Saved by attangent {version}. Tell readers here what it was trained on and how well it does.
"""


def model_card(base: str, auto: str, config: Any, layers: int, count: int) -> str:
    """The text for an adapter with this config, base model, and number of layers and numbers."""
    return _TEXT.format(
        base=base or "unknown",
        auto=auto,
        features=config.features,
        units=config.resolved_units,
        layers=layers,
        count=f"{count:,}",
        version=__version__,
    )
