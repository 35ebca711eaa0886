"""Turn a request into a loaded model and encoded rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.tuning.data.images import EncodedImages, Pixels, read_images
from attangent.tuning.data.text import (
    TextTask,
    ValueUnits,
    held_out,
    read_completions,
    read_task,
    read_values,
    text_columns,
)
from attangent.tuning.encoding import Collate, Padding, encode_completions, encode_task, stack
from attangent.tuning.loading import (
    load_base,
    load_tokenizer,
    model_limit,
    pad_with,
    preprocessor_of,
    resolved_pooling,
)
from attangent.tuning.request import TuningRequest
from attangent.tuning.tasks import TaskKind

# Fraction of the training rows to score on if the request has no other rows.
_HELD_OUT = 0.2


@dataclass(frozen=True)
class PreparedTask:
    """A loaded model with encoded rows, from which any method can start.

    Attributes:
        model: The transformers model.
        kind: The kind of task.
        train: Encoded rows to train on.
        collate: Turns rows into a batch.
        class_weights: One weight per class in the loss; None weighs all rows the same.
        evaluate: Encoded rows to score on.
        tokenizer: The tokenizer; None for images.
        labels: Names of the classes.
        text_columns: Columns that the texts were read from.
        pooling: What the classifier reads.
        units: Units of the numbers to predict.
    """

    model: Any
    kind: TaskKind
    train: Any
    collate: Collate
    class_weights: Float[Tensor, " classes"] | None = None
    evaluate: Any = ()
    tokenizer: Any = None
    labels: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    pooling: Literal["first", "mean"] = "first"
    units: ValueUnits = field(default_factory=ValueUnits)


def prepare(request: TuningRequest) -> PreparedTask:
    """Read and check the data, load the model, and encode the rows."""
    if request.kind == "image-classification":
        task = _prepare_images(request)
    elif request.kind == "causal-lm":
        task = _prepare_completions(request)
    else:
        task = _prepare_texts(request)
    return replace(task, class_weights=_class_weights(task)) if request.class_weights else task


def _prepare_texts(request: TuningRequest) -> PreparedTask:
    data, held = _read_texts(request)
    units = ValueUnits()
    if request.kind == "regression":
        units = ValueUnits.of(data.targets)
        data = units.scaled(data)
        held = units.scaled(held)
    tokenizer = load_tokenizer(request.model)
    pooling = resolved_pooling(request.pooling, request.model)
    model = _load(request, data.labels, pooling)
    pad_with(model, tokenizer)
    rows, others = (
        encode_task(part, tokenizer, request.max_tokens, model_limit(model)) for part in (data, held)
    )
    return PreparedTask(
        model,
        request.kind,
        rows,
        Padding(tokenizer.pad_token_id),
        evaluate=others,
        tokenizer=tokenizer,
        labels=data.labels,
        text_columns=text_columns(request.train, request.columns),
        pooling=pooling,
        units=units,
    )


def _read_texts(request: TuningRequest) -> tuple[TextTask, TextTask]:
    if request.kind == "regression":
        data = read_values(request.train, request.columns)
        if request.evaluate is None:
            return _split(request, data, [0] * len(data))
        return data, read_values(request.evaluate, request.columns)
    data = read_task(request.train, columns=request.columns)
    if request.evaluate is None:
        return _split(request, data, data.targets)
    return data, read_task(request.evaluate, labels=data.labels, columns=request.columns)


def _prepare_completions(request: TuningRequest) -> PreparedTask:
    pairs = read_completions(request.train)
    if request.evaluate is None:
        chosen, scored = _split_indices(request, [0] * len(pairs))
        held = [pairs[i] for i in scored]
        pairs = [pairs[i] for i in chosen]
    else:
        held = read_completions(request.evaluate)
    tokenizer = load_tokenizer(request.model)
    model = _load(request)
    rows, others = (
        encode_completions(part, tokenizer, request.max_tokens, model_limit(model)) for part in (pairs, held)
    )
    collate = Padding(tokenizer.pad_token_id)
    return PreparedTask(model, request.kind, rows, collate, evaluate=others, tokenizer=tokenizer)


def _prepare_images(request: TuningRequest) -> PreparedTask:
    data = read_images(request.train)
    if request.evaluate is None:
        data, held = _split(request, data, data.targets)
    else:
        held = read_images(request.evaluate, labels=data.labels)
    model = _load(request, data.labels)
    pixels = Pixels.of(model.config, preprocessor_of(request.model))
    rows, others = (EncodedImages(part, pixels) for part in (data, held))
    return PreparedTask(model, request.kind, rows, stack, evaluate=others, labels=data.labels)


def _load(request: TuningRequest, labels: tuple[str, ...] = (), pooling: str = "first") -> Any:
    options = {"quantised": request.quantised, "adapter": request.beside, "pooling": pooling}
    return load_base(request.model, request.kind, labels, seed=request.training.seed, **options)


def _split(request: TuningRequest, data: Any, targets: Sequence[float]) -> tuple[Any, Any]:
    train, held = _split_indices(request, targets)
    return data.take(train), data.take(held)


def _split_indices(request: TuningRequest, targets: Sequence[float]) -> tuple[list[int], list[int]]:
    """Return the indices of the rows to train on and of those to score on."""
    train, held = held_out(targets, _HELD_OUT, 0, "rows to score on")
    if not held:
        raise AttangentError(
            f"{request.train} has one row per label, so none can be held out to score on; add rows, or "
            "pass other rows with --eval."
        )
    return train, held


def _class_weights(task: PreparedTask) -> Float[Tensor, " classes"]:
    """Return n / (classes n_c) for each class c of n_c rows, so that all classes weigh the same."""
    targets = torch.tensor([int(task.train[i]["labels"]) for i in range(len(task.train))])
    counts = torch.bincount(targets, minlength=len(task.labels)).clamp(min=1)
    return len(targets) / (len(task.labels) * counts.float())
