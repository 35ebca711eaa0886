"""The two-layer attention models of P5: with the remedies of Section 7.2, and of a scalar output."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.arrays import check_shape, fitted
from attangent._core.checks import (
    check_between,
    check_choice,
    check_memory,
    check_not_negative,
    check_positive,
    check_size,
    check_steps,
)
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.kernels.checks import as_points
from attangent.kernels.data import Init
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import DenseFactor, Tangent, blocks

Optimiser = Literal["descent", "adam", "signs"]


@dataclass(frozen=True)
class Remedies:
    """Additions to f(x) = m^(-1/2) sum_r a_r <softmax(x_d w_r x), x>; without any the model is f itself.

    Attributes:
        train_values: Train a as well as w.
        differential: Use S - lambda S2 with a second softmax S2 and a trained lambda in (0, 1).
        patch: Number of values per token; patches overlap, and scores are inner products with the last one.
        rotary: Multiply scores by cos(rotary (d - k)), as the inner product of rotated pairs.
        recency: Subtract recency * (d - k) from scores, as ALiBi does.
        position_bias: Train a bias per neuron and position.
        residual: Add x_d to the output.

    Example:
        >>> Remedies(patch=4, residual=True).patch
        4
    """

    train_values: bool = False
    differential: bool = False
    patch: int = 1
    rotary: float = 0.0
    recency: float = 0.0
    position_bias: bool = False
    residual: bool = False

    def __post_init__(self) -> None:
        check_size("patch", self.patch)
        check_between("rotary", self.rotary, 0.0, math.pi)
        check_between("recency", self.recency, 0.0, 1e3)


class AttentionModel(nn.Module):
    """f with remedies, in float64; symmetric initialisation in pairs (w, +1), (w, -1), so that f = 0.

    Args:
        d: Length of the input.
        m: Number of neurons, even.
        remedies: Additions to f.
        seed: Seed of the weights.

    Raises:
        AttangentError: If m is odd or a patch is longer than the input.

    Example:
        >>> AttentionModel(4, 8)(torch.ones(2, 4, dtype=torch.float64)).tolist()
        [0.0, 0.0]
    """

    def __init__(self, d: int, m: int, remedies: Remedies | None = None, seed: int = 0):
        super().__init__()
        check_size("d", d, least=2)
        if check_size("m", m, least=2) % 2:
            raise AttangentError(f"m is {m}, expected an even number, because neurons come in pairs")
        self.remedies = remedies or Remedies()
        check_memory("the neurons", m=m, biases=d if self.remedies.position_bias else 1)
        if self.remedies.patch > d:
            raise AttangentError(f"patch is {self.remedies.patch}, expected at most d = {d}")
        half = torch.randn(m // 2, generator=generator(seed, "hidden"), dtype=torch.float64)
        a = torch.ones(m, dtype=torch.float64)
        a[m // 2 :] = -1.0
        self.w = nn.Parameter(half.repeat(2))
        self.a = nn.Parameter(a, requires_grad=self.remedies.train_values)
        if self.remedies.differential:
            other = torch.randn(m // 2, generator=generator(seed, "second"), dtype=torch.float64)
            self.w2 = nn.Parameter(other.repeat(2))
            self.share = nn.Parameter(torch.zeros((), dtype=torch.float64))
        if self.remedies.position_bias:
            self.bias = nn.Parameter(torch.zeros(m, d - self.remedies.patch + 1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Return f(x).

        Args:
            x: (n, d).

        Returns:
            (n,).
        """
        x = fitted("x", x, self.w, "n", "d")
        if x.shape[1] < self.remedies.patch:
            raise AttangentError(
                f"x has {x.shape[1]} columns, expected patch = {self.remedies.patch} or more"
            )
        tokens = x.unfold(1, self.remedies.patch, 1)  # (n, k, patch)
        match = torch.einsum("nkp,np->nk", tokens, tokens[:, -1])
        values = tokens[..., -1]
        means = self._attend(match, values, self.w)
        if self.remedies.differential:
            means = means - torch.sigmoid(self.share) * self._attend(match, values, self.w2)
        answer = means @ self.a / math.sqrt(len(self.a))
        return answer + x[:, -1] if self.remedies.residual else answer

    def _attend(self, match: Tensor, values: Tensor, w: Tensor) -> Tensor:
        """<softmax(scores_r), values> (n, m)."""
        back = torch.arange(match.shape[1] - 1, -1, -1, dtype=match.dtype)
        scores = match[:, None] * w[:, None]  # (n, m, k)
        if self.remedies.rotary:
            scores = scores * torch.cos(self.remedies.rotary * back)
        if self.remedies.recency:
            scores = scores - self.remedies.recency * back
        if self.remedies.position_bias:
            scores = scores + self.bias
        return (torch.softmax(scores, dim=2) * values[:, None]).sum(dim=2)


def train_attention(
    model: AttentionModel,
    x: Tensor,
    y: Tensor,
    steps: int,
    rate: float,
    optimiser: Optimiser = "adam",
    weight_decay: float = 0.0,
) -> list[float]:
    """Train in place on 1/n |f - y|^2 with the full batch.

    Args:
        model: The model.
        x: Inputs (n, d).
        y: Targets (n,).
        steps: Number of steps.
        rate: Learning rate at the start of a cosine schedule.
        optimiser: "descent", "adam", or "signs": descent along the sign of the gradient.
        weight_decay: Weight decay.

    Returns:
        The loss before each step, and at the end.

    Raises:
        AttangentError: If an argument is out of range or shapes do not match.

    Example:
        >>> x = torch.eye(3, dtype=torch.float64)
        >>> losses = train_attention(AttentionModel(3, 8), x, x[:, -1], steps=20, rate=0.1)
        >>> losses[-1] < losses[0]
        True
    """
    check_choice("optimiser", optimiser, get_args(Optimiser))
    check_steps("steps", steps)
    check_positive("rate", rate)
    check_not_negative("weight_decay", weight_decay)
    check_shape("x", x, "n", "d")
    y = fitted("y", y, model.w, len(x))
    parameters = [p for p in model.parameters() if p.requires_grad]
    kind = torch.optim.Adam if optimiser == "adam" else torch.optim.SGD
    stepper = kind(parameters, lr=rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(stepper, steps)
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).square().mean()
        losses.append(loss.item())
        stepper.zero_grad()
        loss.backward()
        if optimiser == "signs":
            for p in parameters:
                p.grad = torch.sign(p.grad) if p.grad is not None else None
        stepper.step()
        schedule.step()
    with torch.no_grad():
        losses.append((model(x) - y).square().mean().item())
    return losses


def attention(X: Tensor, W: Tensor, V: Tensor) -> Tensor:
    """S X V with S = softmax(X W X') by rows; X (L, d), W (d, d), V (d, d)."""
    return torch.softmax(X @ W @ X.T, dim=1) @ X @ V


def printed_gradient(X: Tensor, W: Tensor, V: Tensor, G: Tensor) -> Tensor:
    """X'(S * (G V'X' - (Attn * G) 1)) X for the upstream gradient G (L, d)."""
    S = torch.softmax(X @ W @ X.T, dim=1)
    values = X @ V
    rows = ((S @ values) * G).sum(dim=1, keepdim=True)
    return X.T @ (S * (G @ values.T - rows)) @ X


def local_change(X: Tensor, W: Tensor, V: Tensor, G: Tensor, rate: float) -> Tensor:
    """Return the change (L,) of each diagonal score (X W X')_ii after one step of descent in W."""
    step = -rate * X @ printed_gradient(X, W, V, G) @ X.T
    return step.diagonal()


_ATTENTION_ENTRIES = 2**19


class ScalarAttention(TwoLayerNetwork):
    """f(x) = m^(-1/2) sum_r a_r <softmax(x_d w_r x), x> for x in R^d, w and a in R^m (P5 Section 4.2).

    df(x)/dw_r = m^(-1/2) a_r x_d Var_{S_r}(x) with S_r = softmax(x_d w_r x) (Lemma E.5), so that
    H = J J' = (1/m) sum_r x_id Var x_jd Var (Definition F.2). W is (1, m); outputs are (n, 1).

    Args:
        d: Length of a series.
        m: Number of neurons.
        sigma: Standard deviation of the initial weights.
        init: `symmetric` (the network starts at zero; m must be even) or `independent`.
        seed: Seed of the weights.
        dtype: Precision of weights and results.

    Example:
        >>> ScalarAttention(d=8, m=32).kernel(torch.randn(4, 8)).shape
        torch.Size([4, 4])
    """

    def __init__(
        self,
        d: int,
        m: int,
        sigma: float = 1.0,
        init: Init = "symmetric",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ):
        self.d_in = check_size("d", d)
        self.d_out = 1
        self.m = m
        self.sigma = sigma
        self._draw(1, 1, init, seed, dtype)

    @property
    def width(self) -> float:
        """1: the kernel is J J'."""
        return 1.0

    def attention(self, X: Any) -> Float[Tensor, "n m d"]:
        """Compute S (n, m, d), the attention of each neuron over the coordinates of each point."""
        return self._gate(as_points("X", X, self.d_in, self.W)).attention(slice(0, self.m))

    def _gate(self, X: Tensor) -> "VarianceGate":
        return VarianceGate(X, self.W, 1 / math.sqrt(self.m))

    def _tangent(self, X: Tensor) -> Tangent:
        gate = self._gate(X)
        outputs = gate.means(slice(0, self.m)) @ self.a.T / math.sqrt(self.m)
        return Tangent(outputs, torch.ones_like(X[:, :1]), gate, DenseFactor(self.a), self.m, self.width)


@dataclass(frozen=True)
class VarianceGate:
    """P[i, r] = scale x_id Var_{S_ir}(x_i) with S_ir = softmax(x_id w_r x_i) over the coordinates of x_i."""

    X: Float[Tensor, "n d"]
    w: Float[Tensor, "1 m"]
    scale: float

    def __call__(self, block: slice) -> Tensor:
        return torch.cat([self._variance(piece) for piece in self._small_blocks(block)], dim=1)

    def means(self, block: slice) -> Float[Tensor, "n block"]:
        """Compute <S_ir, x_i> (n, block)."""
        return torch.cat([self._mean(self.attention(piece)) for piece in self._small_blocks(block)], dim=1)

    def _small_blocks(self, block: slice) -> Iterator[slice]:
        """Yield blocks whose attention (n, block, d) stays small."""
        start, stop, _ = block.indices(self.w.shape[1])
        for piece in blocks(stop - start, max(1, _ATTENTION_ENTRIES // self.X.numel())):
            yield slice(start + piece.start, start + piece.stop)

    def _variance(self, block: slice) -> Tensor:
        S = self.attention(block)
        # E[(x - E x)^2] and not E[x^2] - (E x)^2, which loses all digits when the attention saturates.
        spread = self.X[:, None, :] - self._mean(S)[:, :, None]
        return self.scale * self.X[:, -1:] * torch.einsum("irk,irk->ir", S, spread.square_())

    def _mean(self, S: Tensor) -> Tensor:
        return torch.einsum("irk,ik->ir", S, self.X)

    def attention(self, block: slice) -> Float[Tensor, "n block d"]:
        """Compute S (n, block, d)."""
        logits = (self.X[:, -1:] * self.w[:, block])[:, :, None] * self.X[:, None, :]
        return torch.softmax(logits, dim=2)
