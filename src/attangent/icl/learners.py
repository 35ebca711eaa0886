"""Other people's in-context learners as predictors: scikit-learn-like ones, and language models."""

import re
from collections.abc import Callable
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
    model continues "y:" greedily, one query at a time. `otherwise` stands where it writes no number. Take few
    prompts and queries: each answer is one call of `generate`.
    """

    def write(values: Tensor) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values.tolist())

    def predictor(tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        answers = labels.new_zeros(len(labels), len(queries))
        for prompt, row in enumerate(labels):
            shown = "".join(
                f"x: {write(token)}\ny: {label:.{digits}f}\n\n"
                for token, label in zip(tokens, row.tolist(), strict=True)
            )
            for place, query in enumerate(queries):
                answers[prompt, place] = ask(f"{instruction}{shown}x: {write(query)}\ny:")
        return answers

    @torch.no_grad()
    def ask(text: str) -> float:
        given = tokenizer(text, return_tensors="pt").to(model.device)
        ids = model.generate(
            **given, max_new_tokens=digits + 6, do_sample=False, pad_token_id=tokenizer.eos_token_id
        )
        said = tokenizer.decode(ids[0, given["input_ids"].shape[1] :], skip_special_tokens=True)
        found = _NUMBER.match(said)
        return float(found.group()) if found else otherwise

    return predictor
