"""The standard transformer of the paper's deeper experiments (Section 4), on prompts and queries."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attangent._core.arrays import fitted
from attangent._core.checks import check_memory, check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent._core.random import generator
from attangent.icl.dictionary import IN_DOMAIN, Dictionary, Tasks, as_labels
from attangent.icl.rules import RidgeLimit


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of the transformer; the defaults are the paper's.

    Attributes:
        layers: Number of layers.
        d_model: Width of the residual stream, a multiple of `heads`.
        d_ff: Width of the feed-forward layers.
        heads: Attention heads per layer.
    """

    layers: int = 4
    d_model: int = 256
    d_ff: int = 512
    heads: int = 8

    def __post_init__(self) -> None:
        for name in ("layers", "d_model", "d_ff", "heads"):
            check_size(name, getattr(self, name))
        if self.d_model % self.heads:
            raise AttangentError(f"d_model is {self.d_model}, expected a multiple of heads={self.heads}")

    def check_memory(self, d: int) -> None:
        """Raise an error if the weights for tokens of d numbers do not fit into memory."""
        check_memory("the embedding", 4, d=d + 1, d_model=self.d_model)
        each = 4 * self.d_model + 2 * self.d_ff
        check_memory("the layers", 4, layers=self.layers, d_model=self.d_model, weights_for_each=each)

    def operations(self, K: int, N: int) -> float:
        """Count the operations of one forward pass over a prompt: one per product, 20 per exponential.

        The products do not depend on the number of heads; the K N softmax entries per head do.
        """
        projections = 2 * self.d_model**2 * (2 * K + 2 * N) + 4 * K * N * self.d_model
        feed_forward = 4 * K * self.d_model * self.d_ff
        return float(self.layers * (projections + feed_forward + 20 * self.heads * K * N))


class InContextTransformer(nn.Module):
    """Tokens (v; y) for the prompt and (v; 0) for queries, no positions, post-norm layers, one number out.

    Every token attends to the prompt's tokens only, so a query's answer does not depend on the other queries.
    Labels are divided by sqrt(m) on the way in, and answers multiplied by it on the way out.

    Args:
        d: Size of a token.
        m: Number of features, which sets the scale of labels.
        config: Sizes; the paper's by default.
        seed: Seed of the weights.
    """

    def __init__(self, d: int, m: int, config: TransformerConfig | None = None, seed: int = 0):
        super().__init__()
        self.config = config or TransformerConfig()
        self.label_scale = math.sqrt(check_size("m", m))
        self.config.check_memory(check_size("d", d))
        self.embed = nn.Linear(d + 1, self.config.d_model)
        self.layers = nn.ModuleList(TransformerLayer(self.config) for _ in range(self.config.layers))
        self.read = nn.Linear(self.config.d_model, 1)
        self._initialise(generator(seed, "icl transformer"))

    def _initialise(self, rng: torch.Generator) -> None:
        """Xavier weights and zero biases, from this generator alone."""
        for name, value in self.named_parameters():
            if value.ndim == 2:
                nn.init.xavier_uniform_(value, generator=rng)
            elif name.endswith("bias"):
                nn.init.zeros_(value)

    def forward(self, tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        """Return answers (batch, N + Q) for prompt tokens (N, d) and then for queries (Q, d)."""
        d = self.embed.in_features - 1
        like = self.embed.weight
        tokens = fitted("tokens", tokens, like, "N", d)
        labels = fitted("labels", labels, like, "batch", len(tokens))
        queries = fitted("queries", queries, like, "Q", d)
        _check_reach(tokens=tokens, labels=labels, queries=queries)
        N = len(tokens)
        shown = F.pad(labels / self.label_scale, (0, len(queries)))  # (batch, N + Q)
        inputs = torch.cat([tokens, queries]).expand(len(labels), -1, -1)
        x = self.embed(torch.cat([inputs, shown[:, :, None]], dim=2))
        for layer in self.layers:
            x = layer(x, N)
        return self.read(x)[:, :, 0] * self.label_scale

    def predict(self, dictionary: Dictionary, labels: Any) -> Tensor:
        """Return answers (count, K) for a dictionary's tokens from the labels (count, N) of prompts."""
        y = as_labels(labels, dictionary.N)
        with torch.no_grad():
            return self(*_cast(self, dictionary, y)).double()

    def answers(self, tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        """Return the answers (count, Q) to queries (Q, d), for `attangent.icl.predictor_of`."""
        like = next(self.parameters())
        with torch.no_grad():
            return self(tokens.to(like), labels.to(like), queries.to(like))[:, len(tokens) :]


def _check_reach(**inputs: Tensor) -> None:
    """Raise an error if the squares that the layer norms take overflow the dtype."""
    for name, values in inputs.items():
        largest = values.detach().abs().amax().item() if values.numel() else 0.0
        if largest > 1e-3 * math.sqrt(torch.finfo(values.dtype).max):
            raise AttangentError(
                f"{name} reaches {largest:.3g}, which {values.dtype} cannot square; scale it down"
            )


class TransformerLayer(nn.Module):
    """x = norm(x + attention(x, prompt)); x = norm(x + feed-forward(x)), without dropout."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        width = config.d_model
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, config.d_ff)
        self.down = nn.Linear(config.d_ff, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, N: int) -> Tensor:
        prompt = x[:, :N]
        q = self._split(self.query(x))
        k = self._split(self.key(prompt))
        v = self._split(self.value(prompt))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(torch.relu(self.up(x))))

    def _split(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to (batch, heads, tokens, width / heads)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class TransformerTraining:
    """Losses along a run: the batch's (1/2K)|yhat - y|^2, and (1/K)|yhat - y*|^2 on each test set."""

    steps: Tensor
    losses: Tensor
    inference: dict[str, Tensor]


@dataclass(frozen=True)
class TransformerTrainer:
    """Adam on sampled prompts.

    Attributes:
        steps: Number of optimiser steps.
        rate: Learning rate.
        batch: Prompts per step.
        prompts: Size of the fixed pool of prompts, as in the paper; None draws new prompts at every step.
        tasks: Distribution of the tasks.
        record_every: Steps between two records of the losses.
        seed: Seed of the prompts.
    """

    steps: int = 1000
    rate: float = 1e-4
    batch: int = 256
    prompts: int | None = 10_000
    tasks: Tasks = IN_DOMAIN
    record_every: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "record_every"):
            check_steps(name, getattr(self, name), least=1)
        check_positive("rate", self.rate)

    def train(
        self,
        model: InContextTransformer,
        dictionary: Dictionary,
        tests: dict[str, Tensor] | None = None,
        quiet: bool = False,
    ) -> TransformerTraining:
        """Train in place.

        Args:
            model: The transformer.
            dictionary: Tokens and features that prompts are drawn from.
            tests: Labels (count, N) of prompts, by name, on which the distance to y* is recorded.
            quiet: Show no progress bar.

        Returns:
            The losses along the run.
        """
        optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, fused=True)
        draw = self._batches(dictionary)
        tests = tests or {}
        limit = RidgeLimit(dictionary)
        wanted = {name: limit.predict(labels) for name, labels in tests.items()}
        records: dict[int, float] = {}
        inference: dict[str, list[float]] = {name: [] for name in tests}
        with Bars(quiet) as bars:
            for step in range(self.steps + 1):
                loss = batch_loss(model, dictionary, draw())
                if step % self.record_every == 0 or step == self.steps:
                    records[step] = loss.item()
                    for name, labels in tests.items():
                        difference = model.predict(dictionary, labels) - wanted[name]
                        inference[name].append(difference.square().mean().item())
                if step < self.steps:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    bars.show("transformer", step + 1, self.steps, note=f"loss {loss.item():.1e}")
        return TransformerTraining(
            steps=torch.tensor(list(records)),
            losses=torch.tensor(list(records.values())),
            inference={name: torch.tensor(values) for name, values in inference.items()},
        )

    def _batches(self, dictionary: Dictionary) -> Callable[[], Tensor]:
        rng = generator(self.seed, "icl transformer prompts")
        if self.prompts is None:
            return lambda: dictionary.draw(self.batch, self.tasks, rng).labels
        pool = dictionary.draw(self.prompts, self.tasks, rng).labels
        return lambda: pool[torch.randint(len(pool), (self.batch,), generator=rng)]


def batch_loss(model: InContextTransformer, dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Return (1/2K)|yhat - y|^2, averaged over prompts."""
    answers = model(*_cast(model, dictionary, labels[:, : dictionary.N]))
    return (answers - labels.to(answers)).square().mean() / 2


def _cast(model: nn.Module, dictionary: Dictionary, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Prompt tokens, labels and queries in the model's dtype."""
    like = next(model.parameters())
    tokens = dictionary.tokens.to(like)
    return tokens[: dictionary.N], labels.to(like), tokens[dictionary.N :]
