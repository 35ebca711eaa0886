"""Rules that an in-context learner may follow: (dictionary, labels (count, N)) -> answers (count, K - N)."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attangent.icl.dictionary import Dictionary
from attangent.icl.ridge import RidgeLimit

Rule = Callable[[Dictionary, Tensor], Tensor]


def ridge(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Ridge regression on the representations with the ridge m tau."""
    return RidgeLimit(dictionary).predict(labels)[:, dictionary.N :]


def ridge_on_tokens(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Ridge regression on the tokens with the ridge that the variance of the labels implies."""
    tokens = dictionary.tokens
    # Labels of variance |v|^2 s^2 with s^2 = mean |z|^2 / mean |v|^2 and noise of variance m tau imply the
    # ridge m tau / s^2. If the representations are the tokens, this is `ridge`.
    alpha = dictionary.ridge * float(tokens.square().sum() / dictionary.features.square().sum())
    on_tokens = replace(dictionary, features=tokens)
    return RidgeLimit(on_tokens, alpha=alpha).predict(labels)[:, dictionary.N :]


def least_squares(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Least squares on the tokens, of minimum norm if there are more coordinates than tokens."""
    shown, queries = _shown_and_queries(dictionary)
    return labels @ torch.linalg.pinv(shown).T @ queries.T


def descent(steps: int) -> Rule:
    """Gradient descent on |V w - y|^2 / 2 over the tokens from w = 0, at the rate 1 / lambda_max(V V')."""

    def rule(dictionary: Dictionary, labels: Tensor) -> Tensor:
        shown, queries = _shown_and_queries(dictionary)
        rate = 1 / torch.linalg.matrix_norm(shown, 2).square()
        w = labels.new_zeros(len(labels), shown.shape[1])
        for _ in range(steps):
            w = w - rate * (w @ shown.T - labels) @ shown
        return w @ queries.T

    return rule


def kernel_ridge(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Kernel ridge on the tokens: exp(-|v - v'|^2 / median), ridge m tau relative to the labels' variance."""
    tokens = dictionary.tokens
    squares = torch.cdist(tokens[: dictionary.N], tokens).square()
    kernel = torch.exp(-squares / squares[squares > 0].median())
    noise = dictionary.ridge / dictionary.Z.square().sum(dim=0).mean()
    shown = kernel[:, : dictionary.N] + noise * torch.eye(dictionary.N, dtype=torch.float64)
    return labels @ torch.linalg.lstsq(shown, kernel[:, dictionary.N :]).solution


def neighbours(count: int) -> Rule:
    """The mean label of the `count` tokens nearest to the query, or of all if the prompt is shorter."""

    def rule(dictionary: Dictionary, labels: Tensor) -> Tensor:
        shown, queries = _shown_and_queries(dictionary)
        nearest = torch.cdist(queries, shown).topk(min(count, len(shown)), largest=False).indices
        return labels[:, nearest].mean(dim=-1)

    return rule


nearest_neighbour = neighbours(1)


def trees(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """A forest of 20 regression trees on the tokens, fitted to each prompt."""
    from sklearn.ensemble import RandomForestRegressor

    shown, queries = (tokens.numpy() for tokens in _shown_and_queries(dictionary))
    forest = RandomForestRegressor(20, random_state=0)
    answers = [torch.from_numpy(forest.fit(shown, row.numpy()).predict(queries)) for row in labels]
    return torch.stack(answers)


def mean(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """The mean label of the prompt, whatever the query."""
    return labels.mean(dim=1, keepdim=True).expand(-1, dictionary.K - dictionary.N)


def zero(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """0, whatever the prompt."""
    return labels.new_zeros(len(labels), dictionary.K - dictionary.N)


def _shown_and_queries(dictionary: Dictionary) -> tuple[Tensor, Tensor]:
    """Split the tokens into those of the prompt and the queries."""
    return dictionary.tokens[: dictionary.N], dictionary.tokens[dictionary.N :]


RULES: dict[str, Rule] = {
    "ridge": ridge,
    "ridge on tokens": ridge_on_tokens,
    "least squares": least_squares,
    "descent, 1 step": descent(1),
    "descent, 10 steps": descent(10),
    "descent, 100 steps": descent(100),
    "kernel ridge": kernel_ridge,
    "nearest neighbour": nearest_neighbour,
    "3 nearest": neighbours(3),
    "5 nearest": neighbours(5),
    "trees": trees,
    "mean label": mean,
    "zero": zero,
}
