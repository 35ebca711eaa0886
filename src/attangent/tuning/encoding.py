"""From texts to the tensors a model trains on, and the collators that pad them to a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.tuning.data.text import TextTask
from attangent.tuning.data.values import ValueTask

Encoded = dict[str, Any]
_CALIBRATION = 96
"""Examples on which units are measured."""


def encode_task(
    task: TextTask | ValueTask, tokenizer: Any, max_tokens: int, model_limit: int | None = None
) -> list[Encoded]:
    """Token ids and labels: the first `max_tokens` tokens of each feature, joined (P1 Appendix B.1)."""
    if max_tokens < 1:
        raise AttangentError(f"max_tokens is {max_tokens}, expected at least 1")
    pieces = [[_cut(text, tokenizer, max_tokens) for text in example.features] for example in task.examples]
    rows = [tokenizer(*_joined(texts, tokenizer)) for texts in pieces]
    for number, row in enumerate(rows, 1):
        if model_limit is not None and len(row["input_ids"]) > model_limit:
            raise AttangentError(
                f"example {number} has {len(row['input_ids'])} tokens with {max_tokens} a feature, the model "
                f"takes {model_limit}; give a smaller max_tokens"
            )
    return [{**row, "labels": example.label} for row, example in zip(rows, task.examples, strict=True)]


def _cut(text: str, tokenizer: Any, max_tokens: int) -> str:
    """The text up to the end of its `max_tokens`-th token."""
    if not tokenizer.is_fast:
        raise AttangentError(f"{type(tokenizer).__name__} has no offsets; give a model with a tokenizer.json")
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
        "offset_mapping"
    ]
    return text if len(offsets) <= max_tokens else text[: offsets[max_tokens - 1][1]]


def _joined(texts: Sequence[str], tokenizer: Any) -> tuple[str, ...]:
    """The features as the tokenizer's text and text pair; lines of one text where it knows no separator."""
    if len(texts) == 1:
        return (texts[0],)
    if tokenizer.sep_token is None:
        return ("\n".join(texts),)
    return texts[0], f" {tokenizer.sep_token} ".join(texts[1:])


def calibration_batches(
    rows: Any, collate: Callable[[Sequence[Encoded]], dict[str, Tensor]], batch: int = 32
) -> list[dict[str, Tensor]]:
    """The first examples as inputs of the model, without labels: what units are measured on."""
    count = min(_CALIBRATION, len(rows))
    parts = [range(start, min(start + batch, count)) for start in range(0, count, batch)]
    batches = [collate([rows[i] for i in part]) for part in parts]
    return [{name: value for name, value in given.items() if name != "labels"} for given in batches]


@dataclass(frozen=True)
class Completion:
    """A prompt and the text that should follow; with an empty prompt the whole text is learnt."""

    prompt: str
    text: str


def encode_completions(
    pairs: Sequence[Completion], tokenizer: Any, max_tokens: int, model_limit: int | None = None
) -> list[Encoded]:
    """Token ids of prompt + text + end; labels are -100 on the prompt, so that only the text is learnt."""
    limit = min(max_tokens, model_limit or max_tokens)
    rows = [_completion(pair, tokenizer) for pair in pairs]
    for number, row in enumerate(rows, 1):
        if len(row["input_ids"]) > limit:
            raise AttangentError(
                f"example {number} has {len(row['input_ids'])} tokens, at most {limit} are allowed; "
                "leave it out or give a larger max_tokens"
            )
    return rows


def _completion(pair: Completion, tokenizer: Any) -> Encoded:
    prompt = tokenizer(pair.prompt)["input_ids"] if pair.prompt else tokenizer("")["input_ids"][:1]
    answer = tokenizer(pair.text, add_special_tokens=False)["input_ids"]
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    if prompt and end and prompt[-1:] == end and len(prompt) > 1:
        prompt = prompt[:-1]
    ids = [*prompt, *answer, *end]
    return {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
        "labels": [-100] * len(prompt) + [*answer, *end],
    }


@dataclass(frozen=True)
class Padding:
    """Pads each field of a batch on the right to the longest row, rounded up to `multiple`."""

    token: int
    multiple: int = 8

    def __call__(self, rows: Sequence[Encoded]) -> dict[str, Tensor]:
        length = max(len(row["attention_mask"]) for row in rows)
        length += -length % self.multiple
        return {name: self._field(name, [row[name] for row in rows], length) for name in rows[0]}

    def _field(self, name: str, values: list[Any], length: int) -> Tensor:
        first = values[0]
        if isinstance(first, int | float):
            return torch.tensor(values)
        if isinstance(first, Tensor):  # hidden states (L, d)
            padded = first.new_zeros(len(values), length, *first.shape[1:])
            for row, value in zip(padded, values, strict=True):
                row[: len(value)] = value
            return padded
        fill = {"input_ids": self.token, "labels": -100}.get(name, 0)
        return torch.tensor([[*value, *[fill] * (length - len(value))] for value in values])


def stack(rows: Sequence[Encoded]) -> dict[str, Tensor]:
    """A batch of rows that all have one shape, as images have."""
    return {name: torch.stack([torch.as_tensor(row[name]) for row in rows]) for name in rows[0]}


def token_counts(rows: Any) -> list[int] | None:
    """How many tokens each row has; None for images, which all have the same."""
    if not len(rows) or "attention_mask" not in rows[0]:
        return None
    return [len(rows[i]["attention_mask"]) for i in range(len(rows))]
