"""Turn a request into a loaded model and encoded rows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.tuning.data.images import EncodedImages, ImageTask, Pixels, read_images
from attangent.tuning.data.text import (
    Completion,
    TextExample,
    TextTask,
    ValueUnits,
    held_out,
    read_completions,
    read_task,
    read_values,
)
from attangent.tuning.encoding import Collate, Padding, encode_completions, encode_task, stack
from attangent.tuning.loading import (
    UsedPooling,
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
        held: The same rows as they were read.
        facts: Counts of the rows that a user should know: duplicates in both parts, texts that were cut.
        tokenizer: The tokenizer; None for images.
        labels: Names of the classes.
        text_columns: Columns that the texts were read from.
        pooling: Input of the classifier.
        units: Units of the numbers to predict.
        chat: Whether prompts are turns of the tokenizer's chat template.
    """

    model: Any
    kind: TaskKind
    train: Any
    collate: Collate
    class_weights: Float[Tensor, " classes"] | None = None
    evaluate: Any = ()
    held: Any = ()
    facts: Mapping[str, int] = field(default_factory=dict)
    tokenizer: Any = None
    labels: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    pooling: UsedPooling = "first"
    units: ValueUnits = field(default_factory=ValueUnits)
    chat: bool = False


def prepare(request: TuningRequest, hold_out: bool = True) -> PreparedTask:
    """Read and check the data, load the model, and encode the rows; without `hold_out`, train on all."""
    data = _read_rows(request, request.train)
    held = ()
    if hold_out:
        data, held = _split(request, data)
    if request.kind == "image-classification":
        task = _encode_images(request, data, held)
    elif request.kind == "causal-lm":
        task = _encode_completions(request, data, held)
    else:
        task = _encode_texts(request, data, held)
    weights = _class_weights(task) if request.class_weights else None
    return replace(task, class_weights=weights, held=held, facts=_facts(task, data, held))


def check_rows(request: TuningRequest) -> Any:
    """Read the rows to train on and raise what `prepare` would raise for them; no model is loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `prepare` reads them again and warns
        data = _read_rows(request, request.train)
        train, _ = _split(request, data)
    if request.kind == "regression":
        ValueUnits.of(train.targets)
    return data


def _facts(task: PreparedTask, data: Any, held: Any) -> dict[str, int]:
    """Count the rows, those to score on that are also trained on, and the texts that were cut."""
    facts = {"rows_trained": len(data), "rows_scored": len(held)}
    if task.kind == "image-classification":
        return facts
    seen = {_content(row) for row in getattr(data, "examples", data)}
    facts["duplicates"] = sum(_content(row) in seen for row in getattr(held, "examples", held))
    facts["truncated"] = sum(getattr(rows, "truncated", 0) for rows in (task.train, task.evaluate))
    return facts


def _content(row: TextExample | Completion) -> tuple[str, ...]:
    return row.features if isinstance(row, TextExample) else (row.prompt, row.text)


def _split(request: TuningRequest, data: Any) -> tuple[Any, Any]:
    """Return the rows to train on and those to score on, which are read or held out from the former."""
    labels = getattr(data, "labels", ())
    if request.evaluate is not None:
        return data, _read_rows(request, request.evaluate, labels)
    train, held = held_out(data.targets if labels else [0] * len(data), _HELD_OUT, 0, "rows to score on")
    if not held:
        raise AttangentError(
            f"{request.train} has one row per label, so none can be held out to score on; add rows, or "
            "pass other rows with --eval."
        )
    if isinstance(data, list):
        return [data[i] for i in train], [data[i] for i in held]
    return data.take(train), data.take(held)


def _read_rows(request: TuningRequest, path: Path, labels: tuple[str, ...] | None = None) -> Any:
    if request.kind == "image-classification":
        return read_images(path, labels=labels)
    if request.kind == "causal-lm":
        return read_completions(path)
    if request.kind == "regression":
        return read_values(path, request.columns)
    return read_task(path, labels=labels, columns=request.columns)


def _encode_texts(request: TuningRequest, data: TextTask, held: Any) -> PreparedTask:
    units = ValueUnits()
    if request.kind == "regression":
        units = ValueUnits.of(data.targets)
        data = units.scaled(data)
        held = units.scaled(held) if held else held
    tokenizer = load_tokenizer(request.model)
    pooling = resolved_pooling(request.pooling, request.model)
    model = _load(request, data.labels, pooling)
    pad_with(model, tokenizer)
    limits = (request.max_tokens, model_limit(model))
    return PreparedTask(
        model,
        request.kind,
        encode_task(data, tokenizer, *limits),
        Padding(tokenizer.pad_token_id),
        evaluate=encode_task(held, tokenizer, *limits) if held else (),
        tokenizer=tokenizer,
        labels=data.labels,
        text_columns=data.columns,
        pooling=pooling,
        units=units,
    )


def _encode_completions(request: TuningRequest, pairs: list[Completion], held: Any) -> PreparedTask:
    tokenizer = load_tokenizer(request.model)
    model = _load(request)
    chat = bool(getattr(tokenizer, "chat_template", None)) and not request.plain
    limits = (request.max_tokens, model_limit(model), chat)
    rows, others = (encode_completions(part, tokenizer, *limits) for part in (pairs, held))
    collate = Padding(tokenizer.pad_token_id)
    return PreparedTask(model, request.kind, rows, collate, evaluate=others, tokenizer=tokenizer, chat=chat)


def _encode_images(request: TuningRequest, data: ImageTask, held: Any) -> PreparedTask:
    model = _load(request, data.labels)
    pixels = Pixels.of(model.config, preprocessor_of(request.model))
    rows = EncodedImages(data, pixels)
    others = EncodedImages(held, pixels) if held else ()
    return PreparedTask(model, request.kind, rows, stack, evaluate=others, labels=data.labels)


def _load(request: TuningRequest, labels: tuple[str, ...] = (), pooling: str = "first") -> Any:
    options = {"quantised": request.quantised, "pooling": pooling}
    return load_base(request.model, request.kind, labels, seed=request.training.seed, **options)


def _class_weights(task: PreparedTask) -> Float[Tensor, " classes"]:
    """Return n / (classes n_c) for each class c of n_c rows, so that all classes weigh the same."""
    targets = torch.tensor([int(task.train[i]["labels"]) for i in range(len(task.train))])
    counts = torch.bincount(targets, minlength=len(task.labels)).clamp(min=1)
    return len(targets) / (len(task.labels) * counts.float())
