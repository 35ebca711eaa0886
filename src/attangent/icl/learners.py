"""Other people's in-context learners as predictors: scikit-learn-like ones, and language models."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

_NUMBER = re.compile(r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def sklearn_predictor(make: Callable[[], Any]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A learner with fit(X, y) and predict(X) as a predictor: `make()` gives a fresh one for each prompt.

    >>> from sklearn.linear_model import Ridge
    >>> predictor = sklearn_predictor(lambda: Ridge(alpha=0.1, fit_intercept=False))
    """

    def predictor(tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        X, new = tokens.numpy(), queries.numpy()
        rows = [torch.as_tensor(make().fit(X, row.numpy()).predict(new)) for row in labels]
        return torch.stack(rows).to(torch.float64)

    return predictor


def text_predictor(
    model: Any, tokenizer: Any, digits: int = 1, instruction: str = "", otherwise: float = 0.0
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A causal language model that reads the prompt as text and writes the answer.

    A token is written as its coordinates with `digits` decimals, "x: 0.3, -1.2", its label as "y: 0.8"; the
    model continues "y:" greedily, one query at a time. `otherwise` stands where it writes no number. What all
    queries of a prompt have in common is read once.
    """

    def write(values: Tensor) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values.tolist())

    def predictor(tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        rows = []
        for row in labels.tolist():
            pairs = zip(tokens, row, strict=True)
            shown = "".join(f"x: {write(token)}\ny: {label:.{digits}f}\n\n" for token, label in pairs)
            texts = [f"{instruction}{shown}x: {write(query)}\ny:" for query in queries]
            said = continuations(model, tokenizer, texts, digits + 6)
            rows.append([_number(text, otherwise) for text in said])
        return torch.tensor(rows, dtype=labels.dtype)

    return predictor


def _number(text: str, otherwise: float) -> float:
    found = _NUMBER.match(text)
    return float(found.group()) if found else otherwise


@torch.no_grad()
def continuations(model: Any, tokenizer: Any, texts: list[str], most: int) -> list[str]:
    """What the model writes greedily after each text, at most so many tokens; a common start is read once."""
    given = [tokenizer(text, return_tensors="pt").to(model.device)["input_ids"] for text in texts]
    shared = _common([ids[0].tolist() for ids in given])
    cache = model(given[0][:, :shared], use_cache=True).past_key_values if shared else None
    said = []
    for ids in given:
        written = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=deepcopy(cache),
            max_new_tokens=most,
            do_sample=False,
            pad_token_id=tokenizer.eos_token_id,
        )
        said.append(tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True))
    return said


def _common(rows: list[list[int]]) -> int:
    """How many numbers all rows begin with alike; the last of each row does not count."""
    shortest = min(map(len, rows)) - 1
    return next((place for place in range(shortest) if len({row[place] for row in rows}) > 1), shortest)
