"""One call of a layer's attention, as transformers hands it over: read here once, used by all that listen."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attangent.attention import Prefix, ntk_attention
from attangent.attention.backends.portable import token_part
from attangent.attention.masks import Mask, resolve_mask


class AttentionCall(NamedTuple):
    """q (B, H, L, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, dv), and what a query may see.

    `mask` and `causal` are as transformers gave them, `visible` says what they mean. `bias` is added to the
    logits (T5's positions). `layer` is the layer's name where whoever listens has asked for it.
    """

    layer: str
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    causal: bool
    scale: float
    softcap: float | None = None
    dropout: float = 0.0
    bias: Tensor | None = None

    @classmethod
    def of(
        cls,
        module: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        options: dict[str, Any],
        layer: str = "",
    ) -> "AttentionCall":
        """The call with the arguments that transformers gives to an attention function."""
        get = options.get
        causal = get("is_causal")
        if causal is None:
            causal = getattr(module, "is_causal", True)
        scale = get("scaling") or q.shape[-1] ** -0.5
        dropout = get("dropout") or 0.0
        return cls(layer, q, k, v, mask, causal, scale, get("softcap"), dropout, get("position_bias"))

    def visible(self) -> tuple[Tensor | None, bool]:
        """(mask, causal) as transformers' sdpa attention understands its arguments, the bias in the mask."""
        mask, bias = self.mask, self.bias
        rows, columns = self.q.shape[2], self.k.shape[2]
        causal = bool(self.causal) and rows > 1 and mask is None
        if causal and (rows != columns or bias is not None):
            mask, causal = torch.ones(rows, columns, dtype=torch.bool, device=self.q.device).tril(), False
        if bias is None:
            return mask, causal
        if mask is None:
            return bias, causal
        if mask.dtype == torch.bool:
            return torch.where(mask, bias, torch.finfo(bias.dtype).min), causal
        return bias + mask, causal

    def within(self, seen: Tensor) -> "AttentionCall":
        """The call with queries that see no more than `seen` (B, 1, L, Lk) says."""
        mask, causal = self.visible()
        seen = seen.to(self.q.device)
        if causal:
            seen = seen.tril()
        if mask is None:
            mask = seen
        elif mask.dtype == torch.bool:
            mask = mask & seen
        else:
            mask = torch.where(seen, mask, torch.finfo(mask.dtype).min)
        return self._replace(mask=mask, causal=False, bias=None)

    def with_prefix(self, prefix: Prefix) -> Tensor:
        """Attention with the prefix in front of the tokens: (B, H, L, dv)."""
        mask, causal = self.visible()
        out = ntk_attention(
            self.q,
            self.k,
            self.v,
            prefix,
            mask=mask,
            causal=causal,
            scale=self.scale,
            dropout=self.dropout,
            softcap=self.softcap,
        )
        return self.without_blind(out)

    def without_blind(self, out: Tensor) -> Tensor:
        """The output without gradients through queries that see no token.

        These are padding in front of a text. What such a query gets is the prefix alone, whose gradient has
        no bound where the prefix has next to no mass, and it says nothing of the text.
        """
        mask = self.mask
        if mask is None or not out.requires_grad or mask.shape[-2] == 1:
            return out
        seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        seen = seen.any(dim=-1, keepdim=True)
        if not torch.compiler.is_compiling() and bool(seen.all()):
            return out
        return torch.where(seen, out, out.detach())

    def tokens(self) -> tuple[Tensor, Tensor]:
        """Attention over the tokens alone, without dropout: output (B, H, L, dv), logsumexp (B, H, L)."""
        return token_part(self.q, self.k, self.v, self._resolved(), self.scale, softcap=self.softcap)

    def logsumexp(self) -> Tensor:
        """The logarithm of each query's mass over the tokens, (B, H, L)."""
        return self._replace(v=self.v[..., :1]).tokens()[1]

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The logits of these queries on these keys, as the layer computes them."""
        raw = (queries * self.scale) @ keys.mT
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)

    def real_tokens(self) -> tuple[Tensor, Tensor]:
        """Which queries (B, L) and keys (B, Lk) are not padding: a key is padding if no query may see it.

        Queries of a layer that attends to itself are real with their keys; other queries are all taken.
        """
        seen, _ = self._replace(bias=None).visible()
        batch, rows, columns, device = self.q.shape[0], self.q.shape[2], self.k.shape[2], self.q.device
        keys = torch.ones(batch, columns, dtype=torch.bool, device=device)
        if seen is not None:
            seen = seen if seen.dtype == torch.bool else seen > torch.finfo(seen.dtype).min / 2
            seen = seen[(None,) * (4 - seen.ndim)]
            keys = seen.any(dim=-2).any(dim=1).expand(batch, columns)
        queries = keys if rows == columns else torch.ones(batch, rows, dtype=torch.bool, device=device)
        return queries, keys

    def _resolved(self) -> Mask:
        return resolve_mask(*self.visible(), self.q, self.k)
