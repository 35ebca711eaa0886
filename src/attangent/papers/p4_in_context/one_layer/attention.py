"""One layer of multi-head softmax attention on a dictionary: its loss, its exact gradients, its training."""

import warnings
from typing import Any

import torch
from torch import Tensor

from attangent._core.arrays import as_double, fitted
from attangent._core.checks import check_memory, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.icl.dictionary import IN_DOMAIN, Dictionary, Tasks, as_labels
from attangent.icl.rules import RidgeLimit, expected_distance
from attangent.papers.p4_in_context.one_layer.certificate import (
    Certificate,
    Health,
    InitialisationWarning,
    certify,
    examine,
)
from attangent.papers.p4_in_context.one_layer.trainers import trainer
from attangent.papers.p4_in_context.one_layer.training import (
    TrainingRun,
    gradient,
    logit_scale,
    mixture,
    softmax_vectors,
)


class OneLayerAttention:
    """yhat_k = <y, sum_h w_hk softmax(V'Q_h v_k)>, H heads with Q_h (d, d) and w_h (K,) (Eq. 5-8).

    Indices: h head, n token of the prompt, k token of the dictionary. S (H, N, K) holds the softmax vectors,
    Ahat (N, K) their mixture sum_h w_hk s^h_k. The loss is the population loss (9); its gap to the infimum
    is tr(D' M D) / 2K with D = Ahat - A and M = Z'Z + m tau I (Lemma 5).

    Q starts Gaussian with the entries' spread chosen so that the logits v_n'Q_h v_k have standard deviation
    `logit_std`; w starts at zero (Proposition 1, Theorem 1).

    Args:
        dictionary: Tokens and features that prompts are drawn from.
        heads: Number of heads H.
        logit_std: Standard deviation of the logits at the start.
        seed: Seed of the draw of Q.

    Warns:
        InitialisationWarning: The softmax is saturated or the heads are numerically dependent.

    Example:
        >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
        >>> model = OneLayerAttention(dictionary, heads=16, seed=0)
        >>> model.fit(method="solve").gap < 1e-18
        True
    """

    def __init__(self, dictionary: Dictionary, heads: int, logit_std: float = 2.0, seed: int = 0):
        self.dictionary = dictionary
        self.heads = check_size("heads", heads)
        self.limit = RidgeLimit(dictionary)
        spread = check_positive("logit_std", logit_std) / logit_scale(dictionary)
        rng = generator(seed, "icl heads")
        d = dictionary.d
        check_memory("the heads", heads=self.heads, d=d, d_again=d)
        check_memory("the values of the heads", heads=self.heads, K=dictionary.K)
        self.Q = spread * torch.randn(heads, d, d, generator=rng, dtype=torch.float64)
        self.w = torch.zeros(heads, dictionary.K, dtype=torch.float64)
        if complaints := self.health().complaints:
            warnings.warn("; ".join(complaints), InitialisationWarning, stacklevel=2)

    def set_parameters(self, Q: Any, w: Any) -> None:
        """Replace Q (H, d, d) and w (H, K).

        Raises:
            AttangentError: A shape differs from the current one.
        """
        Q = as_double("Q", Q)
        w = as_double("w", w)
        for name, value, current in (("Q", Q, self.Q), ("w", w, self.w)):
            if value.shape != current.shape:
                raise AttangentError(
                    f"{name} has shape {tuple(value.shape)}, expected {tuple(current.shape)}"
                )
        self.Q = Q.clone()
        self.w = w.clone()

    def attention(self) -> Tensor:
        """Return S (H, N, K), the softmax over the prompt's tokens per head and token."""
        return softmax_vectors(self.dictionary, self.Q)

    def matrix(self) -> Tensor:
        """Ahat (N, K) of Eq. 35: the model is linear in the labels, yhat = Ahat'y."""
        return mixture(self.attention(), self.w)

    def predict(self, labels: Any) -> Tensor:
        """Return the answers (..., K) for all tokens from the labels (..., N) of prompts."""
        return as_labels(labels, self.dictionary.N) @ self.matrix()

    def answers(self, tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        """Return the answers (count, Q) to the dictionary's queries, for `attangent.icl.predictor_of`.

        Raises:
            AttangentError: The queries are not those of the dictionary.
        """
        if not torch.equal(queries, self.dictionary.tokens[self.dictionary.N :]):
            raise AttangentError(
                "one-layer attention has one weight per token of its dictionary and cannot answer other "
                "queries: compare it on its own dictionary"
            )
        return self.predict(labels)[:, self.dictionary.N :]

    def gap(self) -> float:
        """L(theta) - inf L = tr(D'MD) / 2K."""
        D = self.matrix() - self.limit.A
        return ((D * (self.dictionary.M @ D)).sum() / (2 * self.dictionary.K)).item()

    def loss(self) -> float:
        """The population loss (9), for tasks of mean 0 and variance 1."""
        return self.gap() + self.limit.least_loss

    def inference_loss(self, tasks: Tasks = IN_DOMAIN, tau: float | None = None) -> float:
        """E (1/K)|yhat - y*|^2 over prompts of these tasks; in-domain it is twice the gap."""
        return expected_distance(self.dictionary, self.matrix(), self.limit.A, tasks, tau)

    def gradient(self) -> tuple[Tensor, Tensor]:
        """dL/dQ (H, d, d) and dL/dw (H, K) of the population loss."""
        S = self.attention()
        G = self.dictionary.M @ (mixture(S, self.w) - self.limit.A)
        return gradient(self.dictionary, S, self.w, G)

    def sampled_gradient(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the mean of (1/2K)|yhat - y|^2 over prompts with these labels (count, K)."""
        S = self.attention()
        labels = fitted("labels", labels, self.w, "count", self.dictionary.K)
        shown = labels[:, : self.dictionary.N]
        G = shown.T @ (shown @ mixture(S, self.w) - labels) / len(labels)
        return gradient(self.dictionary, S, self.w, G)

    def health(self) -> Health:
        """Measure how saturated the softmax is, and zeta_0."""
        return examine(self.dictionary, self.attention())

    def certificate(self, **target: float) -> Certificate:
        """Return what Theorems 1 and 2 guarantee for training from here.

        Args:
            **target: `eps`, `delta` and `bound` of Theorem 2.
        """
        return certify(self.dictionary, self.attention(), self.gap(), **target)

    def fit(self, method: str = "solve", **options: Any) -> TrainingRun:
        """Train in place.

        Args:
            method: "solve" or "varpro" (exact in w), "gd" or "adam".
            **options: Options of the trainer; see `trainers`.

        Returns:
            The history of the run.
        """
        return trainer(method, options).train(self)
