"""The standard transformer of the paper's deeper experiments (Section 4), on prompts and queries."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attangent._core.arrays import fitted
from attangent._core.checks import check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.progress import Bars
from attangent._core.random import generator
from attangent.icl._inputs import as_labels
from attangent.icl.dictionary import Dictionary
from attangent.icl.ridge import RidgeLimit
from attangent.icl.tasks import IN_DOMAIN, Tasks


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes; the defaults are the paper's (four layers, d_model 256, d_ff 512, eight heads)."""

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
        """Refuse sizes whose weights no memory holds, for tokens of d numbers."""
        check_memory("the embedding", 4, d=d + 1, d_model=self.d_model)
        each = 4 * self.d_model + 2 * self.d_ff
        check_memory("the layers", 4, layers=self.layers, d_model=self.d_model, weights_for_each=each)

    def operations(self, K: int, N: int) -> float:
        """Elementary operations of one forward pass over a prompt: products, and 20 for an exponential.

        The products do not depend on the number of heads, the K N softmax entries of each head do.
        """
        projections = 2 * self.d_model**2 * (2 * K + 2 * N) + 4 * K * N * self.d_model
        feed_forward = 4 * K * self.d_model * self.d_ff
        return float(self.layers * (projections + feed_forward + 20 * self.heads * K * N))


class InContextTransformer(nn.Module):
    """Tokens (v; y) for the prompt and (v; 0) for queries, no positions, post-norm layers, one number out.

    Every token asks; only the prompt's tokens are asked, so that a query's answer does not depend on which
    other queries come with it. Labels enter divided by sqrt(m) and answers leave multiplied by it.
    """

    def __init__(self, d: int, m: int, config: TransformerConfig | None = None, seed: int = 0):
        super().__init__()
        self.config = config or TransformerConfig()
        self.label_scale = math.sqrt(check_size("m", m))
        self.config.check_memory(check_size("d", d))
        self.embed = nn.Linear(d + 1, self.config.d_model)
        self.layers = nn.ModuleList(Layer(self.config) for _ in range(self.config.layers))
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
        """Answers (batch, N + Q) for prompt tokens (N, d) with labels (batch, N), then queries (Q, d)."""
        d, like = self.embed.in_features - 1, self.embed.weight
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
        """(count, K): answers for a dictionary's tokens, given the labels (count, N) of prompts."""
        y = as_labels(labels, dictionary.N)
        with torch.no_grad():
            return self(*_cast(self, dictionary, y)).double()


def _check_reach(**inputs: Tensor) -> None:
    """Refuse numbers whose squares, which the layer norms take, leave the dtype."""
    for name, given in inputs.items():
        largest = given.detach().abs().amax().item() if given.numel() else 0.0
        if largest > 1e-3 * math.sqrt(torch.finfo(given.dtype).max):
            raise AttangentError(
                f"{name} reaches {largest:.3g}, which {given.dtype} cannot square: scale it down"
            )


class Layer(nn.Module):
    """x = norm(x + attention(x, prompt)); x = norm(x + feed-forward(x)), without dropout."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        width = config.d_model
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, config.d_ff), nn.Linear(config.d_ff, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, N: int) -> Tensor:
        prompt = x[:, :N]
        q, k, v = self._split(self.query(x)), self._split(self.key(prompt)), self._split(self.value(prompt))
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
    """Adam on prompts drawn afresh, or from a fixed pool of `prompts` as in the paper."""

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
        """Train in place; `tests` are labels (count, N) of prompts on which the distance to y* is noted."""
        optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, fused=True)
        draw = self._batches(dictionary)
        course = _Course(model, dictionary, tests or {})
        with Bars(quiet) as bars:
            for step in range(self.steps + 1):
                loss = batch_loss(model, dictionary, draw())
                if step % self.record_every == 0 or step == self.steps:
                    course.note(step, loss.item())
                if step < self.steps:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    bars.show("transformer", step + 1, self.steps, note=f"loss {loss.item():.1e}")
        return course.result()

    def _batches(self, dictionary: Dictionary) -> Callable[[], Tensor]:
        rng = generator(self.seed, "icl transformer prompts")
        if self.prompts is None:
            return lambda: dictionary.draw(self.batch, self.tasks, rng).labels
        pool = dictionary.draw(self.prompts, self.tasks, rng).labels
        return lambda: pool[torch.randint(len(pool), (self.batch,), generator=rng)]


def batch_loss(model: InContextTransformer, dictionary: Dictionary, labels: Tensor) -> Tensor:
    """The mean over prompts of (1/2K)|yhat - y|^2."""
    answers = model(*_cast(model, dictionary, labels[:, : dictionary.N]))
    return (answers - labels.to(answers)).square().mean() / 2


class _Course:
    def __init__(self, model: InContextTransformer, dictionary: Dictionary, tests: dict[str, Tensor]):
        self.model, self.dictionary, self.tests = model, dictionary, tests
        limit = RidgeLimit(dictionary)
        self.wanted = {name: limit.predict(labels) for name, labels in tests.items()}
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.inference: dict[str, list[float]] = {name: [] for name in tests}

    def note(self, step: int, loss: float) -> None:
        self.steps.append(step)
        self.losses.append(loss)
        for name, labels in self.tests.items():
            difference = self.model.predict(self.dictionary, labels) - self.wanted[name]
            self.inference[name].append(difference.square().mean().item())

    def result(self) -> TransformerTraining:
        inference = {name: torch.tensor(values) for name, values in self.inference.items()}
        return TransformerTraining(torch.tensor(self.steps), torch.tensor(self.losses), inference)


def _cast(model: nn.Module, dictionary: Dictionary, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Prompt tokens, labels and queries in the model's dtype."""
    like = next(model.parameters())
    tokens = dictionary.tokens.to(like)
    return tokens[: dictionary.N], labels.to(like), tokens[dictionary.N :]
