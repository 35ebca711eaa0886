"""Load a tuned model from its folder and predict with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attangent._core.deprecation import moved_names
from attangent._core.display import brief, facts_html, table_html
from attangent._core.errors import AttangentError
from attangent._core.files import read_json
from attangent._core.plots import bars, finished, in_style, one_panel
from attangent.adapters.files.format import CONFIG, WEIGHTS
from attangent.adapters.hub import fetch_folder
from attangent.tuning.data.images import EncodedImages, ImageTask, Pixels
from attangent.tuning.data.text import TextExample, TextTask
from attangent.tuning.encoding import Padding, encode_task, stack
from attangent.tuning.folders.export import FILE, TunedDescription, base_location, read_tuned_description
from attangent.tuning.loading import load_base, load_tokenizer, model_limit, pad_with, preprocessor_of
from attangent.tuning.methods.registry import technique_named
from attangent.tuning.tasks import NEEDS, TaskKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_BARS = 20
_CLASSIFIER_WEIGHTS = (
    *("classifier.weight", "score.weight"),
    *("classifier.out_proj.weight", "classifier.modules_to_save.weight"),
)


@dataclass(frozen=True)
class ValuePrediction:
    """A predicted number (regression).

    Attributes:
        value: The number, in the units of the training file.
    """

    value: float


@dataclass(frozen=True)
class LabelPrediction:
    """The most likely label and the probability of every label.

    Attributes:
        label: The most likely label.
        probabilities: Probability by label.

    Example:
        >>> LabelPrediction("late", {"late": 0.75, "damaged": 0.25}).probability
        0.75
    """

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """Probability of the most likely label."""
        return self.probabilities[self.label]

    @property
    def ranked(self) -> list[tuple[str, float]]:
        """Labels with their probabilities, the most likely first."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1])

    def _repr_html_(self) -> str:
        return table_html(self.label, ("label", "probability"), self.ranked)

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the probability of each label.

        Args:
            path: Also write the figure to this file.

        Returns:
            The figure.
        """
        ranked = dict(self.ranked[:_MAX_BARS])
        figure, axes = one_panel((6.0, 1.0 + 0.35 * len(ranked)))
        bars(axes, ranked, "probability", self.label)
        return finished(figure, path)


@dataclass(frozen=True, repr=False)
class TunedModel:
    """A tuned model, ready to predict.

    Attributes:
        model: The transformers model with its adapter.
        tokenizer: The tokenizer; None for images.
        description: Content of the folder's tuned.json.
    """

    model: Any
    tokenizer: Any
    description: TunedDescription

    def __repr__(self) -> str:
        about = self.description
        return brief(self, base=about.base_model, kind=about.kind, method=about.method, labels=about.labels)

    def _repr_html_(self) -> str:
        about = self.description
        facts = {"base model": about.base_model, "task": about.kind, "method": about.method}
        if about.labels:
            facts["labels"] = ", ".join(about.labels)
        return facts_html(
            "Tuned model", facts, ["predict(texts) answers; pipeline() is a transformers pipeline"]
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.description.labels

    def predict(self, rows: Sequence[Any], batch: int = 32) -> "list[Any]":
        """Predict the label or the number of each row.

        Args:
            rows: Texts, tuples of texts if the model was tuned on several columns, or image files.
            batch: Rows per forward pass.

        Returns:
            A `LabelPrediction` per row; for regression a `ValuePrediction`.

        Raises:
            AttangentError: If the model generates text, or `rows` is not a list of such rows.

        Example:
            >>> load_tuned("run").predict(["Where is my parcel?"])[0].label  # doctest: +SKIP
            'late'
        """
        if not NEEDS[self.description.kind].classifier:
            raise AttangentError("the model generates text and has no labels; use `attangent generate`.")
        if isinstance(rows, str | PathLike):
            raise AttangentError(f"rows is {str(rows)!r:.60}, expected a list: predict([{str(rows)!r:.30}])")
        encoded, collate = self._encoded(rows)
        device = next(self.model.parameters()).device
        results: list[Any] = []
        for start in range(0, len(encoded), batch):
            inputs = collate([encoded[i] for i in range(start, min(start + batch, len(encoded)))])
            del inputs["labels"]
            with torch.no_grad():
                logits = self.model(**{name: value.to(device) for name, value in inputs.items()}).logits
            results += self._predictions(logits.float())
        return results

    def _encoded(self, rows: Sequence[Any]) -> tuple[Any, Any]:
        if self.description.kind == "image-classification":
            pixels = Pixels.of(self.model.config, preprocessor_of(self.description.base_model))
            images = ImageTask(tuple(map(Path, rows)), (0,) * len(rows), self.labels)
            return EncodedImages(images, pixels), stack
        features = [(text,) if isinstance(text, str) else tuple(text) for text in rows]
        if not features or not all(row and all(isinstance(text, str) for text in row) for row in features):
            raise AttangentError("there is no text to predict for, expected texts or tuples of texts")
        task = TextTask(tuple(TextExample(row, 0) for row in features))  # 0 stands in for the unknown label
        encoded = encode_task(task, self.tokenizer, self.description.max_tokens, model_limit(self.model))
        return encoded, Padding(self.tokenizer.pad_token_id)

    def _predictions(self, logits: torch.Tensor) -> "list[Any]":
        if NEEDS[self.description.kind].values:
            return [ValuePrediction(self.description.units.outside(value)) for (value,) in logits.tolist()]
        predictions = []
        for shares in logits.softmax(-1).tolist():
            by_label = dict(zip(self.labels, shares, strict=True))
            predictions.append(LabelPrediction(max(by_label, key=by_label.__getitem__), by_label))
        return predictions

    def pipeline(self, **options: Any) -> Any:
        """Build a transformers pipeline with this model and tokenizer.

        Args:
            options: Passed on to `transformers.pipeline`.

        Returns:
            The pipeline.

        Raises:
            AttangentError: For images and numbers, whose scaling a pipeline does not know.

        Example:
            >>> load_tuned("run").pipeline()("Where is my parcel?")  # doctest: +SKIP
            [{'label': 'late', 'score': 0.9}]
        """
        from transformers import pipeline

        tasks: dict[str, Any] = {"classification": "text-classification", "causal-lm": "text-generation"}
        kind = self.description.kind
        if kind not in tasks:
            raise AttangentError(f"there is no pipeline for {kind}; use predict.")
        options = {"trust_remote_code": False} | options
        return pipeline(tasks[kind], model=self.model, tokenizer=self.tokenizer, **options)


def load_tuned(folder: str | PathLike[str], model: str | None = None) -> TunedModel:
    """Load the model and tokenizer that `attangent tune` saved.

    Args:
        folder: Folder of a run, of one seed or of the weights, or a Hub id.
        model: New location of the base model, if it has moved.

    Returns:
        The tuned model.

    Raises:
        AttangentError: If the folder was not written by `attangent tune` or is damaged.

    Example:
        >>> tuned = attangent.load_tuned("run")  # doctest: +SKIP
        >>> tuned.predict(["Where is my parcel?"])[0].label  # doctest: +SKIP
        'late'
    """
    weights = weights_folder(_local(folder))
    description = description_of(weights)
    technique = technique_named(description.method)
    location = base_location(description, weights)
    base = technique.source(model or location, weights)
    network = load_base(
        base,
        description.kind,
        description.labels,
        revision=description.revision if base == location else None,
        quantised=description.quantised,
        adapter=description.beside,
        pooling=description.pooling,
    )
    tokenizer = None
    if description.kind != "image-classification":
        tokenizer = load_tokenizer(weights if (weights / "tokenizer_config.json").is_file() else base)
        pad_with(network, tokenizer)
    about = replace(description, base_model=model or location)
    return TunedModel(technique.load(network, weights).eval(), tokenizer, about)


def load_generator(folder: str | PathLike[str], model: str | None = None) -> tuple[Any, Any]:
    """Load the model and tokenizer of a folder that was tuned with `--task causal-lm`.

    If it was tuned on plain prompts, the tokenizer has no chat template.
    """
    kind = description_of(_local(folder)).kind
    if kind != "causal-lm":
        raise AttangentError(f"{folder} was tuned for {kind}; use `attangent predict`.")
    tuned = load_tuned(folder, model)
    if not tuned.description.chat:
        tuned.tokenizer.chat_template = None
    return tuned.model, tuned.tokenizer


def description_of(folder: Path) -> TunedDescription:
    """Read the description of a tuned folder without loading its weights."""
    weights = weights_folder(folder)
    return read_tuned_description(weights) if (weights / FILE).is_file() else _old_description(weights)


def needs_base(folder: Path) -> bool:
    """Return whether a tuned folder holds an adapter, not the complete model."""
    return technique_named(description_of(folder).method).folder != "model"


def is_tuned(folder: Path) -> bool:
    """Return whether `attangent tune` wrote this folder."""
    try:
        weights = weights_folder(folder)
    except AttangentError:
        return False
    return (weights / FILE).is_file() or (weights.parent / "settings.json").is_file()


def _local(folder: str | PathLike[str]) -> Path:
    """Return the folder, or a downloaded one if it is a Hub id."""
    name = str(folder)
    if Path(folder).exists() or name.count("/") != 1 or name[:1] in "./~":
        return Path(folder)
    return fetch_folder(name, FILE)


def weights_folder(folder: Path) -> Path:
    """Return the folder that holds the weights: this one, or the only one of a run in it."""
    if not folder.is_dir():
        raise AttangentError(f"there is no folder {folder}; use one that `attangent tune` wrote.")
    if any((folder / name).is_file() for name in (FILE, CONFIG, "config.json")):
        return folder
    for name in ("adapter", "model"):
        if (folder / name).is_dir():
            return folder / name
    seeds = sorted(path for path in folder.glob("seed-*") if path.is_dir())
    if len(seeds) == 1:
        return weights_folder(seeds[0])
    more = f"; choose one of {', '.join(path.name for path in seeds[:4])}" if seeds else ""
    raise AttangentError(
        f"{folder} holds no tuned model, expected a folder that `attangent tune` wrote{more}"
    )


def _old_description(weights: Path) -> TunedDescription:
    """Build the description from settings.json; versions before 0.2 did not save the labels' names."""
    path = weights.parent / "settings.json"
    if not path.is_file():
        raise AttangentError(f"{weights} has no {FILE}; load it with attangent.load_adapter or peft.")
    try:
        settings = read_json(path)
        kind: TaskKind = "image-classification" if Path(settings["train"]).is_dir() else settings["task"]
        count = _label_count(weights) if NEEDS[kind].classifier else 0
        labels = tuple(f"LABEL_{number}" for number in range(count))
        method = settings["method"]["name"]
        return TunedDescription(settings["model"], kind, method, labels, max_tokens=settings["max_tokens"])
    except (KeyError, TypeError) as error:
        raise AttangentError(f"{path} cannot be understood: {error!r}") from None


def _label_count(weights: Path) -> int:
    """Count the classes of the saved classifier."""
    from safetensors import SafetensorError, safe_open

    files = [weights / name for name in (WEIGHTS, "model.safetensors") if (weights / name).is_file()]
    if not files:
        raise AttangentError(f"{weights} has no {WEIGHTS}")
    try:
        with safe_open(files[0], framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                if key.endswith(_CLASSIFIER_WEIGHTS):
                    return int(file.get_slice(key).get_shape()[0])
    except SafetensorError as error:
        raise AttangentError(f"{files[0]} is not a safetensors file: {error}") from None
    raise AttangentError(f"{files[0]} holds no classifier")


_RENAMED = {"Tuned": "TunedModel", "Prediction": "LabelPrediction", "Estimate": "ValuePrediction"}
__getattr__ = moved_names(__name__, "0.2", {old: f"attangent.tuning:{new}" for old, new in _RENAMED.items()})
