"""The model card of an adapter: text that a hub shows beside the files."""

from pathlib import Path
from typing import Any

from attangent._version import __version__

_MARK = "---\nlibrary_name: attangent\n"
_TEXT = (
    _MARK
    + """\
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
)


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


def is_our_card(path: Path) -> bool:
    """Whether a card may be written here: there is none, or one that begins as ours do."""
    if not path.is_file():
        return not (path.exists() or path.is_symlink())
    with path.open("rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()
