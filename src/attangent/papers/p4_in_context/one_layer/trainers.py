"""Ways to train `OneLayerAttention`, by the name that `fit` takes.

| method   | use it for | what it does                                                          |
|----------|------------|-----------------------------------------------------------------------|
| `solve`  | H >= N     | keep Q and solve for w exactly: one batched QR                        |
| `varpro` | any H      | solve for w exactly at every step, move Q by L-BFGS                   |
| `gd`     | the theory | gradient descent with two rates (Eq. 10)                              |
| `adam`   | the paper  | Adam on the population loss, or on sampled prompts as in Section 4    |
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attangent._core.checks import check_choice, check_not_negative, check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent._core.random import generator
from attangent.icl.dictionary import IN_DOMAIN, Dictionary, Tasks
from attangent.papers.p4_in_context.one_layer.training import (
    OneLayerTrainer,
    Recorder,
    TrainingRun,
    Watch,
    gradient,
    logit_gradient,
    logit_scale,
    mixture,
    show_gap,
    softmax_vectors,
)

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention


class _Enough(Exception):
    """Ends the search from within."""


@dataclass(frozen=True)
class _Stepwise:
    """Options of all trainers that take steps."""

    steps: int = 1000
    target: float = 0.0
    patience: int | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        check_not_negative("target", self.target)


@dataclass(frozen=True)
class VariableProjection(_Stepwise):
    """Minimises g(Q) = min over w of the gap; by the envelope theorem its gradient is dL/dQ at that w.

    It works for any number of heads and is meant for H < N, where `solve` cannot reach the limit.
    """

    memory: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("memory", self.memory)

    def train(self, model: "OneLayerAttention") -> TrainingRun:
        projected = Projected(model, Coordinates(model.dictionary))
        recorder = Recorder("varpro", self.target, self.patience)
        with Bars(self.quiet) as bars, suppress(_Enough):
            if not recorder.note(0, model.gap()):
                self._search(projected, recorder, bars)
        projected.install(model)
        return recorder.result("stalled" if recorder.last_step < self.steps else "steps")

    def _search(self, projected: "Projected", recorder: Recorder, bars: Bars) -> None:
        P = projected.best.clone()
        optimizer = torch.optim.LBFGS(
            [P],
            max_iter=self.steps,
            max_eval=self.steps,
            history_size=self.memory,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def evaluate() -> float:
            gap, P.grad = projected.value_and_gradient(P)
            projected.accept(P, gap)
            show_gap(bars, "varpro", recorder.last_step + 1, self.steps, gap)
            if recorder.note(recorder.last_step + 1, projected.best_gap) or recorder.last_step >= self.steps:
                raise _Enough
            return gap

        optimizer.step(evaluate)


class Coordinates:
    """Q enters only through V'Q. With V = U s W' the coordinates are P = diag(s) U'Q (H, r, d), so that the
    logits are W P X and a step in P is a step in V'Q.
    """

    def __init__(self, dictionary: Dictionary):
        V = dictionary.tokens[: dictionary.N].T
        U, s, Wh = torch.linalg.svd(V, full_matrices=False)
        kept = s > s[0] * max(V.shape) * torch.finfo(s.dtype).eps
        self.U = U[:, kept]
        self.s = s[kept]
        self.W = Wh[kept].T
        self.dictionary = dictionary

    def of(self, Q: Tensor) -> Tensor:
        return self.s[:, None] * (self.U.T @ Q)

    def back(self, P: Tensor, Q: Tensor) -> Tensor:
        """The Q nearest to the one given whose coordinates are P."""
        return Q + (self.U / self.s) @ (P - self.of(Q))

    def attention(self, P: Tensor) -> Tensor:
        return torch.softmax(self.W @ P @ self.dictionary.tokens.T, dim=1)

    def pull(self, logits: Tensor) -> Tensor:
        """The gradient in P from the gradient in the logits."""
        return self.W.T @ logits @ self.dictionary.tokens


class Projected:
    """The gap as a function of P alone, with the best w at every P."""

    def __init__(self, model: "OneLayerAttention", coordinates: Coordinates):
        dictionary = model.dictionary
        self.coordinates = coordinates
        self.K = dictionary.K
        self.Z_bar = dictionary.Z_bar
        self.A = model.limit.A
        self.wanted = self.Z_bar @ self.A
        self.best = coordinates.of(model.Q)
        self.best_gap = model.gap()

    def weights(self, S: Tensor) -> Tensor:
        """w (H, K) of least |B_k w_k - Zbar A_k| for each k."""
        return least_squares(self.Z_bar @ S.permute(2, 1, 0), self.wanted)

    def value_and_gradient(self, P: Tensor) -> tuple[float, Tensor]:
        S = self.coordinates.attention(P)
        w = self.weights(S)
        D = self.Z_bar @ (mixture(S, w) - self.A)
        logits, _ = logit_gradient(S, w, self.Z_bar @ D)
        return (D.square().sum() / (2 * self.K)).item(), self.coordinates.pull(logits)

    def accept(self, P: Tensor, gap: float) -> None:
        """Keep the best point seen."""
        if gap < self.best_gap:
            self.best = P.clone()
            self.best_gap = gap

    def install(self, model: "OneLayerAttention") -> None:
        """Give the model the best point and its w."""
        model.Q = self.coordinates.back(self.best, model.Q)
        model.w = self.weights(self.coordinates.attention(self.best))


def least_squares(B: Tensor, wanted: Tensor) -> Tensor:
    """x (H, K) of least |B_k x_k - wanted_k| and then least norm, for B (K, N, H) and wanted (N, K)."""
    columns = wanted.T[:, :, None]  # (K, N, 1)
    if B.shape[-2] > B.shape[-1]:
        O, R = torch.linalg.qr(B)
        x = torch.linalg.solve_triangular(R, O.mT @ columns, upper=True)
    else:
        O, R = torch.linalg.qr(B.mT)
        x = O @ torch.linalg.solve_triangular(R.mT, columns, upper=False)
    return x[:, :, 0].T.contiguous()


Gradients = Callable[[], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Solve:
    """w_k of least norm with C_k w_k = A_k, for every k at once; Q does not change."""

    def train(self, model: "OneLayerAttention") -> TrainingRun:
        N = model.dictionary.N
        if model.heads < N:
            raise AttangentError(
                f"method 'solve' needs at least N={N} heads (got {model.heads}); "
                "use more heads or method='varpro'"
            )
        recorder = Recorder("solve", target=0.0)
        recorder.note(0, model.gap())
        model.w = least_squares(model.attention().permute(2, 1, 0), model.limit.A)
        recorder.note(1, model.gap())
        return recorder.result("solved")


@dataclass(frozen=True)
class GradientDescent(_Stepwise):
    """Q -= rate_Q dL/dQ and w -= rate_w dL/dw.

    Without rates, `practical_rates` chooses them. The rates of the theory come from the certificate:
    `fit("gd", rate_Q=c.rate_Q, rate_w=c.rate_w)`.
    """

    rate_Q: float | None = None
    rate_w: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rate_Q", "rate_w"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if (self.rate_Q is None) != (self.rate_w is None):
            raise AttangentError(f"rate_Q is {self.rate_Q} and rate_w is {self.rate_w}; pass both or neither")

    def train(self, model: "OneLayerAttention") -> TrainingRun:
        rate_Q, rate_w = self._rates(model)
        dictionary = model.dictionary
        A = model.limit.A
        M = model.dictionary.M
        recorder = Recorder("gd", self.target, self.patience)
        with Bars(self.quiet) as bars:
            for step in range(self.steps + 1):
                S = softmax_vectors(dictionary, model.Q)
                D = mixture(S, model.w) - A
                G = M @ D
                gap = (D * G).sum().item() / (2 * dictionary.K)
                if recorder.note(step, gap) or step == self.steps:
                    break
                dQ, dw = gradient(dictionary, S, model.w, G)
                model.Q = model.Q - rate_Q * dQ
                model.w = model.w - rate_w * dw
                show_gap(bars, "gd", step + 1, self.steps, gap)
        return recorder.result()

    def _rates(self, model: "OneLayerAttention") -> tuple[float, float]:
        if self.rate_Q is None or self.rate_w is None:
            return practical_rates(model)
        return self.rate_Q, self.rate_w


def practical_rates(model: "OneLayerAttention") -> tuple[float, float]:
    """rate_w at half of `weight_rate_limit`; rate_Q the same for tokens of norm one.

    The curvature in Q grows with |v_n|^2 |v_k|^2, the square of the logits' scale, so rate_Q falls with it.
    """
    rate_w = weight_rate_limit(model) / 2
    return rate_w / logit_scale(model.dictionary) ** 2, rate_w


def weight_rate_limit(model: "OneLayerAttention") -> float:
    """2K / max_k |B_k|^2: above it descent in w alone diverges, for any Q held fixed."""
    B = model.dictionary.Z_bar @ model.attention().permute(2, 1, 0)
    return 2 * model.dictionary.K / torch.linalg.matrix_norm(B, 2).square().max().item()


@dataclass(frozen=True)
class AdamTrainer(_Stepwise):
    """Adam with exact gradients, on the population loss or on a fixed pool of sampled prompts.

    Attributes:
        prompts: Size of the pool, drawn once and visited in batches; None trains on the population loss.
        record_every: Steps between two records of the gap and of the watched quantities.
    """

    rate: float = 1e-2
    prompts: int | None = None
    batch: int = 256
    tasks: Tasks = IN_DOMAIN
    record_every: int = 10
    watch: Watch = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch", "record_every"):
            check_steps(name, getattr(self, name), least=1)
        check_positive("rate", self.rate)
        if self.prompts is not None:
            check_size("prompts", self.prompts)

    def train(self, model: "OneLayerAttention") -> TrainingRun:
        gradients = self._gradients(model)
        optimizer = torch.optim.Adam([model.Q, model.w], lr=self.rate)
        recorder = Recorder("adam", self.target, self.patience, self.watch)
        with Bars(self.quiet) as bars:
            for step in range(self.steps + 1):
                noted = step % self.record_every == 0 or step == self.steps
                if (noted and recorder.note(step, model.gap(), model)) or step == self.steps:
                    break
                model.Q.grad, model.w.grad = gradients()
                optimizer.step()
                show_gap(bars, "adam", step + 1, self.steps, recorder.last)
        model.Q.grad = model.w.grad = None
        return recorder.result()

    def _gradients(self, model: "OneLayerAttention") -> Gradients:
        if self.prompts is None:
            return model.gradient
        rng = generator(self.seed, "icl training prompts")
        batches = _batches(model.dictionary.draw(self.prompts, self.tasks, rng).labels, self.batch, rng)
        return lambda: model.sampled_gradient(next(batches))


def _batches(labels: Tensor, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Yield the rows in batches, reshuffled on every pass."""
    while True:
        for rows in torch.randperm(len(labels), generator=rng).split(size):
            yield labels[rows]


TRAINERS: dict[str, type] = {
    "solve": Solve,
    "varpro": VariableProjection,
    "gd": GradientDescent,
    "adam": AdamTrainer,
}


def trainer(method: str, options: Mapping[str, Any]) -> OneLayerTrainer:
    """Return the trainer `method` with `options`.

    Raises:
        AttangentError: The method is unknown or has no such option.
    """
    check_choice("method", method, tuple(TRAINERS))
    known = [field.name for field in fields(TRAINERS[method])]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise AttangentError(
            f"method {method!r} has no option {', '.join(unknown)}; it takes {', '.join(known) or 'none'}"
        )
    return TRAINERS[method](**options)
