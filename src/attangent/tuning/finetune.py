"""Tune a model on files: read, encode, adapt, train, score, save. What `attangent tune` calls.

Runs unchanged on one process or under `torchrun` and `accelerate launch`, as transformers' Trainer does.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent.adapters.files.save import save_adapter
from attangent.tuning.data.images import EncodedImages, Pixels, read_images
from attangent.tuning.data.math import problem_of
from attangent.tuning.data.text import parsed_records, read_task
from attangent.tuning.encoding import Completion, Padding, encode_completions, encode_task, stack
from attangent.tuning.loading import load_model, load_tokenizer, model_limit, pad_with, preprocessor_of
from attangent.tuning.methods import Kind, Method, adapt
from attangent.tuning.processes import is_first_process
from attangent.tuning.training import (
    Collate,
    Job,
    Training,
    drop_checkpoints,
    score,
    train,
    write_json,
)

CALIBRATION = 96  # examples on which units are measured


@dataclass(frozen=True)
class Tuning:
    """A model, its data, the method and the training.

    train, evaluate: .jsonl or .csv files, or folders with a folder of images a class.
    task: `classification` or `causal-lm`; images are always classified.
    max_tokens: of each text feature (classification, cut there) or of the whole (causal-lm, more is refused).
    """

    model: str
    train: Path
    evaluate: Path
    task: Kind = "classification"
    layout: str | None = None
    max_tokens: int = 128
    method: Method = field(default_factory=Method)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.task not in ("classification", "causal-lm"):
            raise AttangentError(f"task is {self.task!r}, expected classification or causal-lm")
        check_size("max_tokens", self.max_tokens)
        for path in (self.train, self.evaluate):
            if not path.exists():
                raise AttangentError(f"there is no {path}; give a .jsonl or .csv file, or a folder of images")
        if self.train.is_dir() != self.evaluate.is_dir():
            raise AttangentError(
                f"{self.train} and {self.evaluate} are a folder and a file, expected two alike"
            )

    @property
    def kind(self) -> Kind:
        return "image-classification" if self.train.is_dir() else self.task


def finetune(
    tuning: Tuning, out: Path, tell: Callable[[dict[str, Any]], None] = lambda metrics: None, seeds: int = 1
) -> list[dict[str, Any]]:
    """Tune with seeds s, s+1, ... (s that of the training) into `out`/seed-N; the metrics of each.

    A seed that is done is not computed again; one that was cut off goes on from its last checkpoint.
    """
    check_size("seeds", seeds)
    first = tuning.training.seed
    found = []
    for seed in range(first, first + seeds):
        own = replace(tuning, training=replace(tuning.training, seed=seed))
        found.append(_one(own, out / f"seed-{seed}"))
        tell(found[-1])
    return found


def _one(tuning: Tuning, folder: Path) -> dict[str, Any]:
    import json

    settings = _settings(tuning)
    done, described = folder / "metrics.json", folder / "settings.json"
    if described.is_file() and json.loads(described.read_text()) != settings:
        raise AttangentError(f"{folder} holds a run with other settings; give another folder or remove it")
    if done.is_file():
        return json.loads(done.read_text())
    prepared = prepare(tuning)
    folder.mkdir(parents=True, exist_ok=True)
    if is_first_process():
        write_json(described, settings)
    job = Job(prepared.model, tuning.kind, tuning.method.rate, prepared.train, prepared.collate, folder)
    trainer, numbers = train(job, tuning.training)
    metrics = {
        "seed": tuning.training.seed,
        "method": tuning.method.name,
        "learning_rate": tuning.method.rate,
        **{f"eval_{name}": value for name, value in score(trainer, prepared.evaluate, tuning.kind).items()},
        **numbers,
    }
    if trainer.is_world_process_zero():
        _save(prepared, tuning, folder)
        write_json(done, metrics)
        drop_checkpoints(folder)
    trainer.accelerator.wait_for_everyone()
    return metrics


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
    count = min(CALIBRATION, len(rows))
    batches = [
        collate([rows[i] for i in range(start, min(start + 32, count))]) for start in range(0, count, 32)
    ]
    calibration = [{name: value for name, value in batch.items() if name != "labels"} for batch in batches]
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


def read_completions(path: Path) -> list[Completion]:
    """Rows with `prompt` and `completion`, with `text` alone, or problems of GSM8K and MATH."""
    return parsed_records(path, _completion, "at least one text")


def _completion(row: dict[str, Any]) -> Completion:
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return Completion(row["prompt"], row["completion"])
    if isinstance(row.get("text"), str):
        return Completion("", row["text"])
    return problem_of(row).completion()


def _save(prepared: Prepared, tuning: Tuning, folder: Path) -> None:
    if tuning.method.name == "ntk":
        save_adapter(prepared.model, folder / "adapter")
    elif tuning.method.name == "ntk+lora":
        prepared.model.save_pretrained(folder / "lora")
        save_adapter(prepared.model, folder / "adapter")
    else:
        place = "adapter" if tuning.method.name in ("lora", "prefix") else "model"
        prepared.model.save_pretrained(folder / place)
    if prepared.tokenizer is not None and tuning.method.name in ("head", "full"):
        prepared.tokenizer.save_pretrained(folder / "model")


def _settings(tuning: Tuning) -> dict[str, Any]:
    """Plain values that say what was done; they stand beside the metrics."""
    found = asdict(tuning)
    found |= {"train": str(tuning.train), "evaluate": str(tuning.evaluate)}
    found["method"] |= {"ntk": tuning.method.ntk.as_dict(), "learning_rate": tuning.method.rate}
    return found
