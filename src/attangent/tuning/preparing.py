"""From the settings of a run to a model with its method and encoded data."""

from dataclasses import dataclass
from typing import Any

from attangent.tuning.data.completions import read_completions
from attangent.tuning.data.images import EncodedImages, Pixels, read_images
from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, calibration_batches, encode_completions, encode_task, stack
from attangent.tuning.loading import load_model, load_tokenizer, model_limit, pad_with, preprocessor_of
from attangent.tuning.methods import adapt
from attangent.tuning.request import Tuning
from attangent.tuning.training import Collate


@dataclass(frozen=True)
class Prepared:
    """An adapted model with encoded data."""

    model: Any
    tokenizer: Any
    collate: Collate
    train: Any
    evaluate: Any


def prepare(tuning: Tuning) -> Prepared:
    """Read and check everything, load the model, encode, adapt."""
    readers = {"classification": _texts, "causal-lm": _completions, "image-classification": _images}
    model, tokenizer, collate, rows, held = readers[tuning.kind](tuning)
    calibration = calibration_batches(rows, collate)
    adapted = adapt(model, tuning.method, tuning.kind, tuning.training.seed, calibration)
    return Prepared(adapted, tokenizer, collate, rows, held)


def _texts(tuning: Tuning) -> tuple[Any, ...]:
    data = read_task(tuning.train, layout=tuning.layout)
    held = read_task(tuning.evaluate, layout=tuning.layout, labels=data.labels)
    tokenizer = load_tokenizer(tuning.model)
    model = load_model(tuning.model, tuning.kind, data.labels, tuning.training.seed)
    pad_with(model, tokenizer)
    rows, others = (
        encode_task(task, tokenizer, tuning.max_tokens, model_limit(model)) for task in (data, held)
    )
    return model, tokenizer, Padding(tokenizer.pad_token_id), rows, others


def _completions(tuning: Tuning) -> tuple[Any, ...]:
    pairs = [read_completions(path) for path in (tuning.train, tuning.evaluate)]
    tokenizer = load_tokenizer(tuning.model)
    model = load_model(tuning.model, tuning.kind)
    rows, held = (
        encode_completions(part, tokenizer, tuning.max_tokens, model_limit(model)) for part in pairs
    )
    return model, tokenizer, Padding(tokenizer.pad_token_id), rows, held


def _images(tuning: Tuning) -> tuple[Any, ...]:
    data = read_images(tuning.train)
    held = read_images(tuning.evaluate, labels=data.labels)
    model = load_model(tuning.model, tuning.kind, data.labels, tuning.training.seed)
    pixels = Pixels.of(model.config, preprocessor_of(tuning.model))
    return model, None, stack, EncodedImages(data, pixels), EncodedImages(held, pixels)
