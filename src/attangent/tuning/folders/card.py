"""The model card of a tuned folder; its snippet runs as it stands where the folder's name is put in."""

from pathlib import Path
from typing import Any

from attangent._core.files import write_whole
from attangent._version import __version__
from attangent.tuning.folders.description import Description
from attangent.tuning.tasks import NEEDS

_HEAD = "---\nlibrary_name: attangent\n"
_TEXT = (
    _HEAD
    + """\
base_model: {base}
tags:
- ntk-attention
- adapter
---

# {base}, tuned with attangent ({method})

{task}. {numbers}

```python
import attangent

tuned = attangent.load_tuned("{folder}")
{use}
```

`tuned.model` and `tuned.tokenizer` are transformers' own{pipeline}.{warning}

Saved by attangent {version}. Tell readers here what it was trained on.
"""
)
_PREDICT = 'print(tuned.predict(["{example}"]))'
_GENERATE = """inputs = tuned.tokenizer("{example}", return_tensors="pt")
print(tuned.tokenizer.decode(tuned.model.generate(**inputs, max_new_tokens=32)[0]))"""
_IMAGES = 'print(tuned.predict(["{example}"]))'
_MEAN = """

The classifier reads the mean over tokens, as the base model's sentence vectors do. `load_tuned` sees to it;
what loads the weights alone (peft, `from_pretrained`) gives other answers."""


def write_card(place: Path, description: Description, metrics: dict[str, Any]) -> None:
    """Write README.md beside the weights, over the card that came with them."""
    write_whole(place / "README.md", card_text(place, description, metrics))


def card_text(place: Path, description: Description, metrics: dict[str, Any]) -> str:
    """The text of the card; what was measured stands in it."""
    uses = {"causal-lm": _GENERATE, "image-classification": _IMAGES}
    use = uses.get(description.kind, _PREDICT)
    examples = {"image-classification": "IMAGE.png"}
    labels = ", ".join(f'"{label}"' if "," in label else label for label in description.labels)
    needs = NEEDS[description.kind]
    task = f"Tells apart {labels}" if needs.classifier else "Goes on with texts"
    task = "Predicts a number" if needs.values else task
    pipeline = "; `tuned.pipeline()` is a pipeline of transformers with them"
    return _TEXT.format(
        base=description.base_model,
        method=description.method,
        task=task,
        numbers=_numbers(metrics),
        folder=place,
        use=use.format(example=examples.get(description.kind, "Where is my order?")),
        pipeline=pipeline if description.kind in ("classification", "causal-lm") else "",
        warning=_MEAN if description.pooling == "mean" else "",
        version=__version__,
    )


def _numbers(metrics: dict[str, Any]) -> str:
    found = [f"{name[5:]} {value:.4f}" for name, value in metrics.items() if name.startswith("eval_")]
    return f"On the rows it was scored on: {', '.join(found)}." if found else ""
