"""Singular values of attention weights: of q, k, v, o as they stand, or of q times k in each head."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.stages.spectra.named import named_projections
from attangent.stages.spectra.weights import PARTS, AttentionWeights, Projection, attention_weights

TARGETS = (*PARTS, "qk")


@dataclass(frozen=True)
class Change:
    """All singular values before, and Frobenius norms before, after and of the difference as written."""

    values: Tensor
    norm_before: float
    norm_after: float
    difference: float


@dataclass(frozen=True)
class Matrix:
    """A whole projection x W + b: the spectrum is that of W; b is left alone.

    `values` are in float64, largest first; `keep` leaves those where a mask is true, says what it changed.
    """

    layer: int
    module: str
    target: str
    projection: Projection
    head: int | None = None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.projection.tensors

    @property
    def count(self) -> int:
        return min(self.projection.weight.shape)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its module's weight."""
        return self.projection.weight.numel() == self.projection.module.weight.numel()

    def values(self) -> Tensor:
        return torch.linalg.svdvals(self.projection.weight.double())

    def keep(self, kept: Tensor) -> Change:
        weight = self.projection.weight
        before = weight.double()
        U, S, Vh = torch.linalg.svd(before, full_matrices=False)
        weight.copy_((U[:, kept] * S[kept]) @ Vh[kept])
        after = weight.double()
        return Change(S, before.norm().item(), after.norm().item(), (after - before).norm().item())


@dataclass(frozen=True)
class HeadProduct:
    """What the scores of one head depend on: (x W_q + b_q)(y W_k + b_k)' = [x 1] M [y 1]'.

    M = A B' with A = [W_q; b_q] and B = [W_k; b_k], (inputs + 1, head size). With M = U S V', A <- U_r U_r' A
    turns M into U_r S_r V_r' and leaves B, which other heads may share, and the basis of the head, in which
    rotary positions turn, as they were. Where positions rotate or norms follow, M is the product before them.
    """

    layer: int
    module: str
    block: AttentionWeights
    head: int
    target: str = "qk"

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.block.projections["q"].tensors

    @property
    def count(self) -> int:
        return min(min(self._with_bias(part).shape) for part in "qk")

    def values(self) -> Tensor:
        return _product_svd(self._with_bias("q"), self._with_bias("k"))[1]

    def keep(self, kept: Tensor) -> Change:
        A, B = self._with_bias("q"), self._with_bias("k")
        U, S = _product_svd(A, B)
        weight, bias = self.block.head("q", self.head)
        projected = U[:, kept] @ (U[:, kept].T @ A)
        weight.copy_(projected[: len(weight)])
        if bias is not None:
            bias.copy_(projected[-1])
        after = self._with_bias("q")
        return Change(S, _norm(A, B), _norm(after, B), _norm(after - A, B))

    def _with_bias(self, part: str) -> Tensor:
        """Weight with its bias as a last row, of zeros where only the other of q and k has one."""
        weight, bias = self.block.head(part, self.head)
        rows = weight.double()
        if all(self.block.projections[part].bias is None for part in "qk"):
            return rows
        return torch.cat([rows, rows.new_zeros(1, rows.shape[1]) if bias is None else bias.double()[None]])


def _product_svd(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Left vectors and singular values of A B' through the small factors of A and B."""
    Q, R = torch.linalg.qr(A)
    _, T = torch.linalg.qr(B)
    U, S, _ = torch.linalg.svd(R @ T.T, full_matrices=False)
    return Q @ U, S


def _norm(A: Tensor, B: Tensor) -> float:
    """Frobenius norm of A B'."""
    return ((A.T @ A) * (B.T @ B)).sum().clamp_min(0).sqrt().item()


Spectral = Matrix | HeadProduct


def spectral_parts(
    model: nn.Module, targets: Iterable[str], layers: Iterable[int] | None = None
) -> list[Spectral]:
    """What `targets` name in these layers: q, k, v, o, the product qk of each head, or weights by name."""
    wanted = (targets,) if isinstance(targets, str) else tuple(targets)
    if not wanted or not all(isinstance(name, str) and name for name in wanted):
        raise AttangentError(
            f"targets are {wanted}, expected one or more of {', '.join(TARGETS)}, mlp, or names of modules"
        )
    if len(set(wanted)) < len(wanted):
        raise AttangentError(f"targets are {wanted}, expected each one once")
    chosen = None if layers is None else [*layers]
    of_attention = [target for target in wanted if target in TARGETS]
    parts: list[Spectral] = []
    for target in wanted:
        if target not in TARGETS:
            named = named_projections(model, target, chosen)
            parts += [Matrix(layer, module, target, found) for layer, module, found in named]
    for block in attention_weights(model, chosen) if of_attention else ():
        for target in of_attention:
            if target == "qk":
                parts += [HeadProduct(block.layer, block.name, block, head) for head in range(block.heads)]
            else:
                parts.append(Matrix(block.layer, block.name, target, block.projections[target]))
    return parts


@torch.no_grad()
def spectrum(
    model: nn.Module, targets: Iterable[str] = PARTS, layers: Iterable[int] | None = None
) -> pd.DataFrame:
    """Singular values of the model's attention weights, one row a value.

    Columns: layer, module, target, head (of qk, else empty), index (0 is the largest), value.
    `plot_spectrum(frame, path)` draws them.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
    >>> spectrum(model).groupby("target").value.count().to_dict()
    {'k': 8, 'o': 8, 'q': 8, 'v': 8}
    """
    return pd.concat(
        [_rows(part, part.values()) for part in spectral_parts(model, targets, layers)], ignore_index=True
    )


def _rows(part: Spectral, values: Tensor) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "layer": part.layer,
            "module": part.module,
            "target": part.target,
            "head": pd.array([part.head] * len(values), dtype="Int64"),
            "index": range(len(values)),
            "value": values.cpu().numpy(),
        }
    )
