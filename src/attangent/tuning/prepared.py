"""From the settings of a run to a model with its method and encoded data."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.tuning.data.completions import read_completions
from attangent.tuning.data.images import EncodedImages, Pixels, read_images
from attangent.tuning.data.splitting import held_out
from attangent.tuning.data.text import read_task, text_columns
from attangent.tuning.data.values import ValueUnits, read_values
from attangent.tuning.encoding import Padding, encode_completions, encode_task, stack
from attangent.tuning.frozen_adapter import with_beside
from attangent.tuning.loading import load_model, load_tokenizer, model_limit, pad_with, preprocessor_of
from attangent.tuning.pooling import resolved_pooling, use_mean_pooling
from attangent.tuning.precision import quantise
from attangent.tuning.request import Tuning
from attangent.tuning.training import Collate

_KEPT = 0.2
"""The share of the training rows to score on where no other rows are given."""


@dataclass(frozen=True)
class Ground:
    """A model as it is loaded, with encoded data: what any method starts from."""

    model: Any
    tokenizer: Any
    collate: Collate
    train: Any
    evaluate: Any
    labels: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    pooling: str = "first"
    units: ValueUnits = field(default_factory=ValueUnits)


def prepare(tuning: Tuning) -> Ground:
    """Read and check everything, load the model, encode."""
    readers = {
        "classification": _texts,
        "regression": _values,
        "causal-lm": _completions,
        "image-classification": _images,
    }
    return readers[tuning.kind](tuning)


def _texts(tuning: Tuning) -> Ground:
    data = read_task(tuning.train, layout=tuning.layout, columns=tuning.columns)
    if tuning.evaluate is None:
        data, held = _parted(tuning, data, [example.label for example in data.examples])
    else:
        held = read_task(tuning.evaluate, layout=tuning.layout, labels=data.labels, columns=tuning.columns)
    return _encoded(tuning, data, held, data.labels)


def _values(tuning: Tuning) -> Ground:
    data = read_values(tuning.train, tuning.columns)
    if tuning.evaluate is None:
        data, held = _parted(tuning, data, [0] * len(data))
    else:
        held = read_values(tuning.evaluate, tuning.columns)
    units = ValueUnits.of(data.values)
    ground = _encoded(tuning, data.in_units(units), held.in_units(units))
    return replace(ground, units=units)


def _encoded(tuning: Tuning, data: Any, held: Any, labels: tuple[str, ...] = ()) -> Ground:
    """The model with its pooling, and texts to train and to score on as tokens."""
    tokenizer = load_tokenizer(tuning.model)
    model = _loaded(tuning, labels)
    pooling = resolved_pooling(tuning.pooling, tuning.model)
    if pooling == "mean":
        use_mean_pooling(model)
    pad_with(model, tokenizer)
    rows, others = (
        encode_task(task, tokenizer, tuning.max_tokens, model_limit(model)) for task in (data, held)
    )
    columns = text_columns(tuning.train, tuning.layout, tuning.columns)
    pad = Padding(tokenizer.pad_token_id)
    return Ground(model, tokenizer, pad, rows, others, labels, columns, pooling)


def _completions(tuning: Tuning) -> Ground:
    pairs = read_completions(tuning.train)
    if tuning.evaluate is None:
        chosen, kept = _kept_to_score(tuning, [0] * len(pairs))
        pairs, held = [pairs[i] for i in chosen], [pairs[i] for i in kept]
    else:
        held = read_completions(tuning.evaluate)
    tokenizer = load_tokenizer(tuning.model)
    model = _loaded(tuning)
    rows, others = (
        encode_completions(part, tokenizer, tuning.max_tokens, model_limit(model)) for part in (pairs, held)
    )
    return Ground(model, tokenizer, Padding(tokenizer.pad_token_id), rows, others)


def _images(tuning: Tuning) -> Ground:
    data = read_images(tuning.train)
    if tuning.evaluate is None:
        data, held = _parted(tuning, data, list(data.targets))
    else:
        held = read_images(tuning.evaluate, labels=data.labels)
    model = _loaded(tuning, data.labels)
    pixels = Pixels.of(model.config, preprocessor_of(tuning.model))
    return Ground(model, None, stack, EncodedImages(data, pixels), EncodedImages(held, pixels), data.labels)


def _loaded(tuning: Tuning, labels: tuple[str, ...] = ()) -> Any:
    model = load_model(tuning.model, tuning.kind, labels, tuning.training.seed)
    return with_beside(quantise(model, tuning.quantised), tuning.beside)


def _parted(tuning: Tuning, data: Any, targets: list[int]) -> tuple[Any, Any]:
    train, kept = _kept_to_score(tuning, targets)
    return data.take(train), data.take(kept)


def _kept_to_score(tuning: Tuning, targets: list[int]) -> tuple[list[int], list[int]]:
    """The places of the rows to train on and of those to score on; refused where there is none to spare."""
    train, kept = held_out(targets, _KEPT, 0, "rows to score on")
    if not kept:
        raise AttangentError(
            f"{tuning.train} has one row for each label, and none can be kept to score on; "
            "give at least two rows of a label, or other rows to score on (--eval)"
        )
    return train, kept


def class_weights(ground: Ground) -> Tensor:
    """n / (classes n_c) for each class c of n_c rows: every class then counts the same in the loss."""
    targets = torch.tensor([int(ground.train[i]["labels"]) for i in range(len(ground.train))])
    counts = torch.bincount(targets, minlength=len(ground.labels)).clamp(min=1)
    return len(targets) / (len(ground.labels) * counts.float())
