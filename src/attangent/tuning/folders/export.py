"""Write a tuned folder: weights, tokenizer, a description of how to load them, and a model card."""

import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._core.checks import check_between, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.files import read_json, settings_of, write_json, write_whole
from attangent._version import __version__
from attangent.adapters.files.format import CONFIG
from attangent.tuning.data.columns import TextColumns
from attangent.tuning.data.text import ValueUnits
from attangent.tuning.loading import Quantised, UsedPooling, silent_transformers
from attangent.tuning.methods.ntk import LORA
from attangent.tuning.methods.peft_methods import refuse_plain_peft
from attangent.tuning.methods.registry import technique_named
from attangent.tuning.tasks import TaskKind

if TYPE_CHECKING:
    from attangent.tuning.prepared import PreparedTask
    from attangent.tuning.request import TuningRequest

FILE = "tuned.json"
FORMAT = "attangent tuned 1"
# A model in the cache of huggingface_hub.
_CACHED = re.compile(r".*/models--(?P<name>[^/]+--[^/]+)/snapshots/(?P<revision>[0-9a-f]{40})")
_LARGEST = 1 << 20


@dataclass(frozen=True)
class TunedDescription:
    """Content of tuned.json: everything needed to load a tuned folder.

    Attributes:
        base_model: Hub id of the base model, or its folder, relative to that of the weights.
        kind: The kind of task.
        method: Name of the method.
        labels: Names of the classes.
        revision: Revision of the base model on the Hub.
        pooling: `mean` or `normalised` if the classifier reads the mean over tokens.
        max_tokens: Maximum number of tokens per text feature or row.
        layout: Row format of earlier versions.
        text_columns: Columns that the texts were read from.
        centre: Added to the scaled model output (regression).
        scale: Factor on the model output (regression).
        quantised: Precision of the frozen weights.
        beside: Folder of a frozen peft adapter that is active with it, as version 0.2 could tune.
        chat: Whether prompts are turns of the tokenizer's chat template (causal-lm).
    """

    base_model: str
    kind: TaskKind
    method: str
    labels: tuple[str, ...] = ()
    revision: str | None = None
    pooling: UsedPooling = "first"
    max_tokens: int = 128
    layout: str | None = None
    text_columns: tuple[str, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    quantised: Quantised | None = None
    beside: str | None = None
    chat: bool = False

    def __post_init__(self) -> None:
        if not self.base_model:
            raise AttangentError("base_model of a tuned model is empty, expected a folder or a Hub id")
        if len(set(self.labels)) < len(self.labels):
            twice = next(label for label in self.labels if self.labels.count(label) > 1)
            raise AttangentError(f"labels has {twice!r:.60} twice, expected a different name per class")
        check_size("max_tokens", self.max_tokens)
        technique_named(self.method)
        check_positive("scale of the values", self.scale)
        check_between("centre of the values", self.centre, -sys.float_info.max, sys.float_info.max)

    @property
    def units(self) -> ValueUnits:
        """Units of the predicted numbers."""
        return ValueUnits(self.centre, self.scale)

    @property
    def columns(self) -> TextColumns | None:
        """The columns to read texts from; None finds them."""
        return TextColumns(self.text_columns) if self.text_columns else None


def read_tuned_description(folder: Path) -> TunedDescription:
    """Read and check the tuned.json of a folder."""
    path = folder / FILE
    content = read_json(path, _LARGEST)
    if content.pop("format", None) != FORMAT:
        raise AttangentError(
            f"{path} does not say {FORMAT!r}; a newer version of attangent may have written it."
        )
    return settings_of(TunedDescription, content, str(path))


def export_model(
    run: Path, model: Any, task: "PreparedTask", request: "TuningRequest", metrics: dict[str, Any]
) -> None:
    """Write the trained weights into a run's folder, with all that loading them needs."""
    technique = request.method.technique
    folder = run / technique.folder
    with silent_transformers():
        technique.save(model, folder)
    if task.tokenizer is not None:
        task.tokenizer.save_pretrained(folder)
    description = _describe(model, task, request, folder)
    for path in (folder / CONFIG, folder / LORA / CONFIG):
        if path.is_file():
            _correct_config(path, description)
    write_whole(folder / "README.md", card_text(folder, description, metrics))
    write_json(folder / FILE, {"format": FORMAT, **asdict(description)})


def _correct_config(path: Path, description: TunedDescription) -> None:
    """Name the base model as the description does, and let nobody load the adapter without its mean."""
    base = {"base_model_name_or_path": description.base_model, "revision": description.revision}
    content = read_json(path)
    write_json(path, content | {name: value for name, value in base.items() if name in content})
    if description.pooling != "first":
        refuse_plain_peft(path, description.pooling)


def _describe(model: Any, task: "PreparedTask", request: "TuningRequest", folder: Path) -> TunedDescription:
    base, revision = _base_of(request.model, folder)
    return TunedDescription(
        base_model=base,
        kind=request.kind,
        method=request.method.name,
        labels=task.labels,
        revision=revision or getattr(model.config, "_commit_hash", None),
        pooling=task.pooling,
        max_tokens=request.max_tokens,
        text_columns=task.text_columns,
        centre=task.units.centre,
        scale=task.units.scale,
        quantised=request.quantised,
        chat=task.chat,
    )


def _base_of(model: str, folder: Path) -> tuple[str, str | None]:
    """Return the Hub id and revision of a model if they are known, else its path relative to the folder."""
    if not Path(model).is_dir():
        return model, None
    path = Path(model).resolve()
    cached = _CACHED.fullmatch(path.as_posix())
    if cached is not None:
        return cached["name"].replace("--", "/", 1), cached["revision"]
    return os.path.relpath(path, folder.resolve()), None


def base_location(description: TunedDescription, folder: Path) -> str:
    """Return the Hub id of the base model, or its path as seen from the current folder."""
    base = description.base_model
    nearby = folder / base
    return str(nearby.resolve()) if not Path(base).is_absolute() and nearby.is_dir() else base


def remove_checkpoints(run: Path) -> None:
    """Remove the files that only an interrupted run needs."""
    for pattern in ("checkpoint-*", "scoring"):
        for path in run.glob(pattern):
            shutil.rmtree(path)


_CARD = """\
---
library_name: attangent
base_model: {base}
tags:
{tags}
---

# {title}

{task}. {scores}

```python
import attangent

tuned = attangent.load_tuned("{folder}")
{use}
```

`tuned.model` and `tuned.tokenizer` are transformers' own{pipeline}.{warning}

Saved by attangent {version}. Tell readers here what it was trained on.
"""
_PREDICT = 'print(tuned.predict(["{example}"]))'
_GENERATE = """inputs = tuned.tokenizer("{example}", return_tensors="pt")
print(tuned.tokenizer.decode(tuned.model.generate(**inputs, max_new_tokens=32)[0]))"""
_MEAN = """

The classifier reads the mean over tokens, like the base model's sentence vectors. Load it with `load_tuned`,
or run `attangent export FOLDER --to transformers` for a model that `from_pretrained` and `pipeline` load."""


def card_text(folder: Path, description: TunedDescription, metrics: dict[str, Any]) -> str:
    """Return the model card, with the scores; its snippet runs once the folder's name is filled in."""
    kind = description.kind
    labels = ", ".join(f'"{label}"' if "," in label else label for label in description.labels)
    tasks = {"regression": "Predicts a number", "causal-lm": "Continues texts"}
    use = _GENERATE if kind == "causal-lm" else _PREDICT
    scores = [f"{name[5:]} {value:.4f}" for name, value in metrics.items() if name.startswith("eval_")]
    pipeline = "; `tuned.pipeline()` is a pipeline of transformers with them"
    return _CARD.format(
        base=description.base_model,
        title=card_title(description),
        tags="\n".join(f"- {tag}" for tag in _tags(description)),
        task=tasks.get(kind, f"Classifies into {labels}"),
        scores=f"On {metrics.get('rows_scored', 'the')} rows that it was scored on: {', '.join(scores)}."
        if scores
        else "",
        folder=folder,
        use=use.format(example="IMAGE.png" if kind == "image-classification" else "Where is my order?"),
        pipeline=pipeline if kind in ("classification", "causal-lm") else "",
        warning="" if description.pooling == "first" else _MEAN,
        version=__version__,
    )


def card_title(description: TunedDescription) -> str:
    """Return the title of a model card, with the base model if it has a Hub id."""
    base = description.base_model
    name = "A model" if base.startswith("..") else base
    return f"{name}, tuned with attangent ({description.method})"


def _tags(description: TunedDescription) -> list[str]:
    """Return the tags of the model card: the task's name on the Hub and the method."""
    tasks = {"classification": "text-classification", "causal-lm": "text-generation"}
    method = "ntk-attention" if description.method.startswith("ntk") else description.method
    return [tasks.get(description.kind, description.kind), method]
