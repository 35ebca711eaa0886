"""A tuned model from its folder, ready to answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._core.display import brief, facts_html, table_html
from attangent._core.errors import AttangentError
from attangent._core.gate import checked
from attangent._core.plots import bars, finished, in_style, one_panel
from attangent._core.settings import read_json
from attangent.adapters.files.format import CONFIG, WEIGHTS
from attangent.adapters.hub import fetch_folder
from attangent.tuning.folders.description import FILE, Description, read_description
from attangent.tuning.frozen_adapter import with_beside
from attangent.tuning.loading import load_model, load_tokenizer, pad_with
from attangent.tuning.methods.registry import TECHNIQUES
from attangent.tuning.pooling import use_mean_pooling
from attangent.tuning.precision import quantise
from attangent.tuning.tasks import NEEDS, TaskKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DRAWN = 20


@dataclass(frozen=True, repr=False)
class Tuned:
    """A model with what was tuned on it, its tokenizer (None for images) and what its folder says."""

    model: Any
    tokenizer: Any
    description: Description

    def __repr__(self) -> str:
        about = self.description
        return brief(self, base=about.base_model, kind=about.kind, method=about.method, labels=about.labels)

    def _repr_html_(self) -> str:
        about = self.description
        facts = {"base model": about.base_model, "task": about.kind, "method": about.method}
        if about.labels:
            facts["labels"] = ", ".join(about.labels)
        return facts_html("Tuned model", facts, ["predict(texts) answers; pipeline() is transformers' own"])

    @property
    def labels(self) -> tuple[str, ...]:
        return self.description.labels

    def predict(self, texts: Sequence[Any], batch: int = 32) -> "list[Any]":
        """A `Prediction` for each text (a tuple of texts where rows had several columns); for regression an
        `Estimate`."""
        from attangent.tuning.folders.predicting import predict

        return predict(self, texts, batch)

    def pipeline(self, **named: Any) -> Any:
        """transformers' pipeline with this model and tokenizer; `named` is handed to it.

        Refused for images and numbers, of which a pipeline does not know how they were scaled.
        """
        from transformers import pipeline

        tasks: dict[str, Any] = {"classification": "text-classification", "causal-lm": "text-generation"}
        kind = self.description.kind
        if kind not in tasks:
            raise AttangentError(f"there is no pipeline for {kind} here; use predict")
        named = {"trust_remote_code": False} | named
        return pipeline(tasks[kind], model=self.model, tokenizer=self.tokenizer, **named)


@dataclass(frozen=True)
class Estimate:
    """The number that a regression gives for a row, in the units of the training file."""

    value: float


@dataclass(frozen=True)
class Prediction:
    """The likeliest label, and every label's probability."""

    label: str
    probabilities: dict[str, float]

    def _repr_html_(self) -> str:
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        return table_html(self.label, ("label", "probability"), ranked)

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the probability of each label; also to a file, where one is named."""
        ranked = dict(sorted(self.probabilities.items(), key=lambda item: -item[1])[:_MOST_DRAWN])
        figure, axes = one_panel((6.0, 1.0 + 0.35 * len(ranked)))
        bars(axes, ranked, "probability", self.label)
        return finished(figure, path)

    @property
    def probability(self) -> float:
        return self.probabilities[self.label]


@checked
def load_tuned(folder: str | PathLike[str], model: str | None = None) -> Tuned:
    """The model and tokenizer that `attangent tune` saved, from a run's folder, the weights' own, or the hub.

    `model` is where the base model is now, if it has moved since.

        tuned = attangent.load_tuned("run")
        tuned.predict(["Where is my parcel?"])[0].label
        tuned.pipeline()("Where is my parcel?")         # as a pipeline of transformers
    """
    place = place_of(_local(folder))
    found = description_of(place)
    technique, kind = TECHNIQUES[found.method], found.kind
    base = technique.source(model or found.base_model, place)
    revision = found.revision if base == found.base_model else None
    network = load_model(base, kind, found.labels, revision=revision)
    network = with_beside(quantise(network, found.quantised), found.beside)
    if found.pooling == "mean":
        use_mean_pooling(network)
    tokenizer = None
    if kind != "image-classification":
        tokenizer = load_tokenizer(place if (place / "tokenizer_config.json").is_file() else base)
        pad_with(network, tokenizer)
    return Tuned(technique.load(network, place).eval(), tokenizer, found)


def description_of(folder: Path) -> Description:
    """What a tuned folder says of itself; nothing is loaded."""
    place = place_of(folder)
    return read_description(place) if (place / FILE).is_file() else _older(place)


def _local(folder: str | PathLike[str]) -> Path:
    """The folder itself, or what the hub has under its name where there is no such folder."""
    name = str(folder)
    if Path(folder).exists() or name.count("/") != 1 or name[:1] in "./~":
        return Path(folder)
    return fetch_folder(name, FILE)


def place_of(folder: Path) -> Path:
    """The folder that holds the weights: this one, or the only one below it that a run wrote."""
    if not folder.is_dir():
        raise AttangentError(f"there is no folder {folder}; give one that `attangent tune` wrote")
    if any((folder / name).is_file() for name in (FILE, CONFIG, "config.json")):
        return folder
    below = [path for name in ("adapter", "model") for path in (folder / name,) if path.is_dir()]
    seeds = sorted(path for path in folder.glob("seed-*") if path.is_dir())
    if below:
        return below[0]
    if len(seeds) == 1:
        return place_of(seeds[0])
    more = f"; choose one of {', '.join(path.name for path in seeds[:4])}" if seeds else ""
    raise AttangentError(f"{folder} holds no tuned model, expected what `attangent tune` writes{more}")


def is_tuned(folder: Path) -> bool:
    """Whether `attangent tune` wrote this folder."""
    try:
        place = place_of(folder)
    except AttangentError:
        return False
    return (place / FILE).is_file() or (place.parent / "settings.json").is_file()


def _older(place: Path) -> Description:
    """What the settings beside the weights say; versions before 0.2 did not keep the labels' names."""
    settings = place.parent / "settings.json"
    if not settings.is_file():
        raise AttangentError(f"{place} has no {FILE}: load it with attangent.load_adapter or peft")
    try:
        content = read_json(settings)
        kind: TaskKind = "image-classification" if Path(content["train"]).is_dir() else content["task"]
        count = _label_count(place) if NEEDS[kind].classifier else 0
        labels = tuple(f"LABEL_{number}" for number in range(count))
        return Description(
            content["model"], kind, content["method"]["name"], labels, max_tokens=content["max_tokens"]
        )
    except (KeyError, TypeError) as error:
        raise AttangentError(f"{settings} cannot be understood: {error!r}") from None


def _label_count(place: Path) -> int:
    """How many classes the saved classifier tells apart."""
    from safetensors import SafetensorError, safe_open

    path = next((place / name for name in (WEIGHTS, "model.safetensors") if (place / name).is_file()), None)
    if path is None:
        raise AttangentError(f"{place} has no {WEIGHTS}")
    ends = (
        "classifier.weight",
        "score.weight",
        "classifier.out_proj.weight",
        "classifier.modules_to_save.weight",
    )
    try:
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                if key.endswith(ends):
                    return int(file.get_slice(key).get_shape()[0])
    except SafetensorError as error:
        raise AttangentError(f"{path} is not a safetensors file: {error}") from None
    raise AttangentError(f"{path} holds no classifier")
