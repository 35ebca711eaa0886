"""Third-party in-context learners as predictors: scikit-learn regressors and language models."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError

_NUMBER = re.compile(r"^\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def sklearn_predictor(make: Callable[[], Any]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Turn a learner with fit(X, y) and predict(X) into a predictor.

    Args:
        make: Returns a new learner; called once per prompt.

    Returns:
        A predictor for `compare_to_ridge`.

    Raises:
        AttangentError: If `make` is a learner and not a function that returns one.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> predictor = sklearn_predictor(lambda: Ridge(alpha=0.1, fit_intercept=False))
    """
    if not callable(make):
        name = type(make).__name__
        raise AttangentError(f"make is {name}, expected a function that returns one: pass lambda: {name}()")

    def predictor(tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        X = tokens.numpy()
        new = queries.numpy()
        rows = [torch.as_tensor(make().fit(X, row.numpy()).predict(new)) for row in labels]
        return torch.stack(rows).to(torch.float64)

    return predictor


def text_predictor(
    model: Any, tokenizer: Any, digits: int = 1, instruction: str = "", otherwise: float = 0.0
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Turn a causal language model into a predictor that reads a prompt as text and writes the answer.

    A token is written as its coordinates, "x: 0.3, -1.2", its label as "y: 0.8". The model continues "y:"
    greedily, one query at a time; the text that all queries of a prompt share is read once.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        digits: Decimals per number.
        instruction: Text before the examples.
        otherwise: Answer if the model writes no number.

    Returns:
        A predictor for `compare_to_ridge`.

    Example:
        >>> predictor = text_predictor(model=None, tokenizer=None, digits=2)  # pass a real model here
    """

    def write(values: Tensor) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values.tolist())

    def predictor(tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        rows = []
        for row in labels.tolist():
            pairs = zip(tokens, row, strict=True)
            shown = "".join(f"x: {write(token)}\ny: {label:.{digits}f}\n\n" for token, label in pairs)
            texts = [f"{instruction}{shown}x: {write(query)}\ny:" for query in queries]
            answers = continuations(model, tokenizer, texts, digits + 6)
            rows.append([_number(answer, otherwise) for answer in answers])
        return torch.tensor(rows, dtype=labels.dtype)

    return predictor


def _number(text: str, otherwise: float) -> float:
    match = _NUMBER.match(text)
    return float(match.group()) if match else otherwise


@torch.no_grad()
def continuations(model: Any, tokenizer: Any, texts: list[str], max_tokens: int) -> list[str]:
    """Continue each text greedily by at most `max_tokens` tokens; the shared prefix is read once."""
    inputs = [tokenizer(text, return_tensors="pt").to(model.device)["input_ids"] for text in texts]
    shared = _shared_length([ids[0].tolist() for ids in inputs])
    cache = model(inputs[0][:, :shared], use_cache=True).past_key_values if shared else None
    continued = []
    for ids in inputs:
        written = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=deepcopy(cache),  # generate() extends the cache in place
            max_new_tokens=max_tokens,
            do_sample=False,
            pad_token_id=tokenizer.eos_token_id,
        )
        continued.append(tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True))
    return continued


def _shared_length(rows: list[list[int]]) -> int:
    """Return how many leading tokens all rows share, leaving at least one of each to be read."""
    shortest = min(map(len, rows)) - 1
    return next((index for index in range(shortest) if len({row[index] for row in rows}) > 1), shortest)
