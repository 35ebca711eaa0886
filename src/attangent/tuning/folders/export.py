"""A tuned folder made complete: weights, labels, tokenizer, how inputs are read, a card."""

import json
from pathlib import Path
from typing import Any

from attangent._core.files import write_json
from attangent.adapters.files.format import CONFIG
from attangent.tuning.folders.card import write_card
from attangent.tuning.folders.description import Description
from attangent.tuning.methods.ntk import LORA
from attangent.tuning.prepared import Ground
from attangent.tuning.request import Tuning


def complete(folder: Path, model: Any, ground: Ground, tuning: Tuning, metrics: dict[str, Any]) -> None:
    """Write the weights below a run's folder, with all that loading them needs."""
    place = folder / tuning.method.technique.place
    tuning.method.technique.save(model, place)
    if ground.tokenizer is not None:
        ground.tokenizer.save_pretrained(place)
    described = _described(model, ground, tuning)
    _mark_pooling(place, described)
    write_card(place, described, metrics)
    described.write(place)


def _described(model: Any, ground: Ground, tuning: Tuning) -> Description:
    base = tuning.model
    return Description(
        base_model=str(Path(base).resolve()) if Path(base).is_dir() else base,
        kind=tuning.kind,
        method=tuning.method.name,
        labels=ground.labels,
        revision=getattr(model.config, "_commit_hash", None),
        pooling=ground.pooling,
        max_tokens=tuning.max_tokens,
        layout=tuning.layout,
        text_columns=ground.text_columns,
        centre=ground.units.centre,
        scale=ground.units.scale,
        quantised=tuning.quantised,
        beside=None if tuning.beside is None else str(tuning.beside.resolve()),
    )


def _mark_pooling(place: Path, described: Description) -> None:
    """Say in the adapter's config that means are read, so that nobody loads it unawares."""
    for path in (place / CONFIG, place / LORA / CONFIG):
        if described.pooling == "mean" and path.is_file():
            write_json(path, json.loads(path.read_text()) | {"pooling": "mean"})
