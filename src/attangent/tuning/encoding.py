"""Tokenised examples, and the collators that pad them to a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.tuning.data.text import Completion, TextTask

Encoded = dict[str, Any]
Collate = Callable[[Sequence[Encoded]], dict[str, Tensor]]
# Number of examples on which units are measured.
_CALIBRATION = 96


class EncodedTexts(list[Encoded]):
    """Encoded rows, with the number of those whose text was cut."""

    truncated = 0


def encode_task(
    task: TextTask, tokenizer: Any, max_tokens: int, model_limit: int | None = None
) -> EncodedTexts:
    """Tokenise examples: the first `max_tokens` tokens of each feature, joined (P1 Appendix B.1)."""
    check_size("max_tokens", max_tokens)
    pieces = [
        [_truncated(text, tokenizer, max_tokens) for text in example.features] for example in task.examples
    ]
    rows = [tokenizer(*_joined(texts, tokenizer)) for texts in pieces]
    for number, row in enumerate(rows, 1):
        if model_limit is not None and len(row["input_ids"]) > model_limit:
            raise AttangentError(
                f"example {number} has {len(row['input_ids'])} tokens with {max_tokens} per feature, the "
                f"model takes {model_limit}; use a smaller max_tokens."
            )
    targets = task.targets
    encoded = EncodedTexts({**row, "labels": label} for row, label in zip(rows, targets, strict=True))
    encoded.truncated = sum(
        tuple(texts) != example.features for texts, example in zip(pieces, task.examples, strict=True)
    )
    return encoded


def _truncated(text: str, tokenizer: Any, max_tokens: int) -> str:
    """Return the text up to the end of its `max_tokens`-th token."""
    if not tokenizer.is_fast:
        raise AttangentError(f"{type(tokenizer).__name__} has no offsets; use a model with a tokenizer.json.")
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(text, **options)["offset_mapping"]
    return text if len(offsets) <= max_tokens else text[: offsets[max_tokens - 1][1]]


def _joined(texts: Sequence[str], tokenizer: Any) -> tuple[str, ...]:
    """Return the features as the tokenizer's text and text pair, or as lines if it has no separator."""
    if len(texts) == 1:
        return (texts[0],)
    if tokenizer.sep_token is None:
        return ("\n".join(texts),)
    return texts[0], f" {tokenizer.sep_token} ".join(texts[1:])


def calibration_batches(rows: Any, collate: Collate, batch: int = 32) -> list[dict[str, Tensor]]:
    """Return the first examples as model inputs without labels, to measure units on."""
    count = min(_CALIBRATION, len(rows))
    ranges = [range(start, min(start + batch, count)) for start in range(0, count, batch)]
    batches = [collate([rows[i] for i in indices]) for indices in ranges]
    return [{name: value for name, value in inputs.items() if name != "labels"} for inputs in batches]


def encode_completions(
    pairs: Sequence[Completion],
    tokenizer: Any,
    max_tokens: int,
    model_limit: int | None = None,
    chat: bool = False,
) -> list[Encoded]:
    """Tokenise prompt + text + end; labels are -100 on the prompt, so that the model learns only the text.

    If `chat`, a prompt is the user's turn in the tokenizer's chat template.
    """
    limit = min(max_tokens, model_limit or max_tokens)
    rows = [_completion(pair, tokenizer, chat) for pair in pairs]
    for number, row in enumerate(rows, 1):
        if len(row["input_ids"]) > limit:
            raise AttangentError(
                f"example {number} has {len(row['input_ids'])} tokens, at most {limit} are allowed; remove "
                "it or use a larger max_tokens."
            )
    return rows


def _completion(pair: Completion, tokenizer: Any, chat: bool) -> Encoded:
    prompt = prompt_ids(pair.prompt, tokenizer, chat)
    text = pair.text.lstrip() if chat and pair.prompt else pair.text
    answer = tokenizer(text, add_special_tokens=False)["input_ids"]
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    ids = [*prompt, *answer, *end]
    labels = [-100] * len(prompt) + [*answer, *end]
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}


def prompt_ids(prompt: str, tokenizer: Any, chat: bool) -> list[int]:
    """Return the tokens in front of a completion: the prompt, as the user's turn of a chat if `chat`."""
    if not prompt:
        return tokenizer("")["input_ids"][:1]
    if chat:
        turn = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = tokenizer(prompt)["input_ids"]
    ends = len(ids) > 1 and ids[-1] == tokenizer.eos_token_id  # some tokenizers end every text
    return ids[:-1] if ends else ids


@dataclass(frozen=True)
class Padding:
    """Pad each field of a batch on the right to the longest row, rounded up to `multiple`."""

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
    """Collate rows that all have the same shape, such as images."""
    return {name: torch.stack([torch.as_tensor(row[name]) for row in rows]) for name in rows[0]}


def token_counts(rows: Any) -> list[int] | None:
    """Count the tokens of each row; None for images."""
    if not len(rows) or "attention_mask" not in rows[0]:
        return None
    return [len(rows[i]["attention_mask"]) for i in range(len(rows))]
