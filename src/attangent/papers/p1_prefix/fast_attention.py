"""Other attention for the tokens (P1 Corollary J.3): what supplies (output, logsumexp) can take a prefix."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attangent._core.checks import check_memory, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.attention._inputs import check_scale, check_state, check_tokens
from attangent.attention.backends.torch.portable import merge_prefix, merged, token_part
from attangent.attention.features.taylor import Taylor
from attangent.attention.masks import Mask, resolve_mask
from attangent.attention.prefix import Prefix, query_gain


class FastAttention(Protocol):
    """Attention that also tells the logarithm of each query's mass: (B, H, Lq, dv) and (B, H, Lq).

    Gradients reach the state whatever it is, and q, k, v where it is differentiable.
    """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
    ) -> tuple[Tensor, Tensor]: ...


def fast_ntk_attention(
    fast: FastAttention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Prefix,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """NTK-Attention whose token part is computed by `fast`."""
    check_tokens(q, k, v)
    check_state(q, v, state.features.dim, state.features.size, *state.weights())
    scale = check_scale(scale, q.shape[-1])
    output, logsumexp = fast(q, k, v, causal=causal, scale=scale)
    if output.shape != (*q.shape[:3], v.shape[-1]) or logsumexp.shape != q.shape[:3]:
        raise AttangentError(
            f"the token attention gave {tuple(output.shape)} and {tuple(logsumexp.shape)}, expected "
            f"{(*q.shape[:3], v.shape[-1])} and {tuple(q.shape[:3])}"
        )
    return merge_prefix(q, output, logsumexp, state, scale).to(q.dtype)


@dataclass(frozen=True)
class HyperAttention:
    """Keys near a query in full, the rest by uniform samples: O(L (block + samples) d) (Han et al. 2023).

    Queries and keys are ordered by a locality-sensitive hash of `bits` random hyperplanes and cut into
    blocks; a query meets the keys of its own block exactly. The mass and values of all other keys are
    estimated from `samples` keys drawn uniformly: both sums are unbiased, with an error that falls like
    1/sqrt(samples). Causal attention halves the tokens again and again; up to `exact_below` of them are
    computed in full.
    """

    block: int = 64
    samples: int = 64
    bits: int = 8
    seed: int = 0
    exact_below: int = 256

    def __post_init__(self) -> None:
        for name in ("block", "samples", "bits", "exact_below"):
            check_size(name, getattr(self, name))
        if self.bits > 30:
            raise AttangentError(f"bits is {self.bits}, expected at most 30")

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
    ) -> tuple[Tensor, Tensor]:
        k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
        rng = generator(self.seed, "hyper attention")
        attend = self._causal if causal else self._full
        return attend(q, k, v, check_scale(scale, q.shape[-1]), rng)

    def _causal(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        length = q.shape[2]
        if length != k.shape[2] or length <= self.exact_below:
            return token_part(q, k, v, resolve_mask(None, True, q, k), scale)
        half = length // 2
        first = self._causal(q[:, :, :half], k[:, :, :half], v[:, :, :half], scale, rng)
        second = self._causal(q[:, :, half:], k[:, :, half:], v[:, :, half:], scale, rng)
        second = merged(second, self._full(q[:, :, half:], k[:, :, :half], v[:, :, :half], scale, rng))
        return torch.cat([first[0], second[0]], dim=2), torch.cat([first[1], second[1]], dim=2)

    def _full(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        blocks = k.shape[2] // self.block
        if blocks < 2 or q.shape[2] < blocks:
            return token_part(q, k, v, Mask(), scale)
        batch, heads, _, dim = k.shape
        check_memory("sampled keys", batch=batch, heads=heads, samples=self.samples, dim=dim)
        planes = torch.randn(q.shape[-1], self.bits, generator=rng, dtype=torch.float64).to(q)
        q_order, k_order = (_hash(tensor, planes).argsort(dim=-1, stable=True) for tensor in (q, k))
        near = _within_blocks(q, k, v, q_order, k_order, blocks, scale)
        drawn = torch.randint(k.shape[2], (self.samples,), generator=rng).to(q.device)
        far = _sampled(q, k, v, q_order, k_order, blocks, drawn, scale)
        return merged(near, far)


def _hash(x: Tensor, planes: Tensor) -> Tensor:
    """The side of each hyperplane as bits of a Gray code, so that neighbours differ in one plane."""
    sides = (x.detach() @ planes > 0).long()
    binary = sides.cumsum(dim=-1) % 2
    return (binary << torch.arange(planes.shape[1] - 1, -1, -1, device=x.device)).sum(dim=-1)


def _gathered(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(2, order.unsqueeze(-1).expand(*order.shape, x.shape[-1]))


def _block_of(order: Tensor, blocks: int) -> Tensor:
    """The block in which each element lies when the elements stand in this order."""
    width = -(-order.shape[-1] // blocks)
    places = (torch.arange(order.shape[-1], device=order.device) // width).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, places)


def _cut(x: Tensor, blocks: int) -> Tensor:
    """(B, H, L, d) as (B, H, blocks, L/blocks, d), filled up with zeros."""
    width = -(-x.shape[2] // blocks)
    filled = torch.nn.functional.pad(x, (0, 0, 0, blocks * width - x.shape[2]))
    return filled.unflatten(2, (blocks, width))


def _within_blocks(
    q: Tensor, k: Tensor, v: Tensor, q_order: Tensor, k_order: Tensor, blocks: int, scale: float
) -> tuple[Tensor, Tensor]:
    cut_q = _cut(_gathered(q, q_order), blocks)
    cut_k, cut_v = _cut(_gathered(k, k_order), blocks), _cut(_gathered(v, k_order), blocks)
    logits = scale * cut_q @ cut_k.mT
    places = torch.arange(blocks * cut_k.shape[3], device=q.device).view(blocks, 1, -1)
    logits = logits.masked_fill(places >= k.shape[2], torch.finfo(q.dtype).min)
    rows = q.shape[2]
    output = (torch.softmax(logits, dim=-1) @ cut_v).flatten(2, 3)[:, :, :rows]
    lse = torch.logsumexp(logits, dim=-1).flatten(2, 3)[:, :, :rows]
    back = q_order.argsort(dim=-1)
    return _gathered(output, back), lse.gather(2, back)


def _sampled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_order: Tensor,
    k_order: Tensor,
    blocks: int,
    drawn: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor]:
    logits = scale * q @ k[:, :, drawn].mT + torch.log(torch.tensor(k.shape[2] / len(drawn)))
    own = _block_of(q_order, blocks).unsqueeze(-1) == _block_of(k_order, blocks)[:, :, drawn].unsqueeze(-2)
    logits = logits.masked_fill(own, torch.finfo(q.dtype).min)
    return torch.softmax(logits, dim=-1) @ v[:, :, drawn], torch.logsumexp(logits, dim=-1)


@dataclass(frozen=True)
class PolynomialAttention:
    """Every token through Taylor features, O(L r d): the polynomial method (Alman and Song 2023), not causal.

    The tokens are summed as Eq. (7) sums a prefix; use an even order, which keeps every mass positive.
    """

    order: int = 2

    def __post_init__(self) -> None:
        if check_size("order", self.order) % 2:
            raise AttangentError(
                f"order is {self.order}, expected an even one: odd ones can give negative masses"
            )

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
    ) -> tuple[Tensor, Tensor]:
        if causal:
            raise AttangentError("PolynomialAttention sums all tokens at once and cannot be causal")
        k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
        features, scale = Taylor(q.shape[-1], self.order).to(q.device), check_scale(scale, q.shape[-1])
        phi_q, phi_k = features(q * query_gain(scale, q.shape[-1])), features(k)
        mass = phi_q @ phi_k.sum(dim=2).unsqueeze(-1)
        return phi_q @ (phi_k.mT @ v) / mass, mass.squeeze(-1).log()
